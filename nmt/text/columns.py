"""Columns of a line that are made of spaces, as in tables of plain text."""

from __future__ import annotations

import re

from nmt.text.final_marks import STOPS
from nmt.text.spans import Span

GAP = 4  # spaces that may separate two columns
_WIDE_GAP = 6  # spaces that separate the only two
# Dots lead to the number of a page.
_GAP = re.compile(rf"(?<=[^\s.!?…])[ \u00a0]{{{GAP},}}(?=\S)|(?<=[^\s.])\s?\.{{4,}}\s?(?=\d+$)")
# The same in a line that has such columns.
_ANY_GAP = re.compile(rf"(?<=\S)[ \u00a0]{{2,}}(?=\S)|{_GAP.pattern}")


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
