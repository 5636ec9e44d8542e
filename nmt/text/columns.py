"""Columns of a line that are made of spaces, as in tables of plain text, and fields of a form."""

from __future__ import annotations

import re

from nmt.text.final_marks import STOPS
from nmt.text.scripts import CAPITALS
from nmt.text.spans import Span

GAP = 4  # spaces that may separate two columns
_WIDE_GAP = 6  # spaces that separate the only two
# Dots lead to the number of a page.
_GAP = re.compile(rf"(?<=[^\s.!?…])[ \u00a0]{{{GAP},}}(?=\S)|(?<=[^\s.])\s?\.{{4,}}\s?(?=\d+$)")
# The same in a line that has such columns.
_ANY_GAP = re.compile(rf"(?<=\S)[ \u00a0]{{2,}}(?=\S)|{_GAP.pattern}")

# The label of a field is up to three words. Two spaces come before it, or a single one after a
# number, a date, a time or a line to write on.
_FIELD = rf"[{CAPITALS}][\w.'’-]*+(?: [\w.'’-]++){{0,2}} ?:(?=[\s_]|$)"
_VALUE = r"[\d_]{1,200}+(?:[:/.,-][\d_]{1,200}+){0,5}+"
_BEFORE_FIELD = re.compile(
    rf"(?:(?<!\d): ?{_VALUE}(?: {_VALUE})?+(?P<after_value>[ \u00a0]+)|(?<=\S)[ \u00a0]{{2,}}+)"
    rf"(?={_FIELD})"
)


def find_gaps(line: str) -> list[Span]:
    """Return the characters [begin, end) between the columns of a line; none if it is a sentence.

    Args:
        line: without white space around it.
    """
    if line.endswith(tuple(STOPS)):
        return []
    gaps = _find_matches(_GAP, line)
    are_wide = (end - begin >= _WIDE_GAP or "." in line[begin:end] for begin, end in gaps)
    return _find_matches(_ANY_GAP, line) if len(gaps) > 1 or any(are_wide) else []


def _find_matches(pattern: re.Pattern[str], line: str) -> list[Span]:
    """Return the matches but those before a small letter: such spaces belong to justified text."""
    matches = pattern.finditer(line)
    return [match.span() for match in matches if not line[match.end()].islower()]


def find_fields(line: str) -> list[Span]:
    """Return the characters [begin, end) between the fields of a form: "Edad: 30 Sexo: __".

    Args:
        line: without white space around it.
    """
    first = line.find(":")
    if first < 0:
        return []
    matches = _BEFORE_FIELD.finditer(line, first)
    return [match.span("after_value" if match["after_value"] else 0) for match in matches]
