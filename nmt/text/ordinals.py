"""Ordinal numbers in digits, such as 3.ª and 3rd, and how another language writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nmt.text.scripts import primary_subtag
from nmt.text.spans import Span

_NUMBER = "([1-9][0-9]{0,2})"
_ROMANCE = rf"{_NUMBER}(?:\.[ºª]|ª)"
_DOTLESS = re.compile(f"{_NUMBER}[º°]")  # may be a temperature
_NOTHING = re.compile("(?!)")  # never matches


class _Language(NamedTuple):
    read: str  # expression
    write: Callable[[int], str]
    # Where a number with º is an ordinal: after an article, or before a noun.
    articles: str = ""
    nouns: str = ""


def _write_english(number: int) -> str:
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


# Not German, in which "3." is an ordinal at some places only, and would double a full stop.
_LANGUAGES = {
    "en": _Language(rf"{_NUMBER}(?:st|nd|rd|th)", _write_english),
    "es": _Language(
        # Also with a dot: 3er. piso; that of a sentence stays. After a dot, "no" and "da" may be
        # words: 1.no fumar.
        rf"(?:{_ROMANCE}|{_NUMBER}(?:\.?(?:er[oa]?|[rtm][oa]|(?<=2\.)d[oa]|(?<=8\.)v[oa]|(?<=9\.)n[oa])"
        r"|[dvn][oa])(?:\.(?=\s(?-i:[a-zñ])))?)",
        "{}.º".format,
        "el|del|al",
        "año|aniversario|capítulo|ciclo|curso|día|lugar|nivel|piso|premio|puesto|semestre|trimestre",
    ),
    "fr": _Language(
        rf"{_NUMBER}(?:er|re|ère|nde?|(?-i:e)|ème)",
        lambda number: "1er" if number == 1 else f"{number}e",
    ),
    "it": _Language(_ROMANCE, "{}º".format, "il|del|al|nel|dal", "anno|giorno|piano|posto|premio"),
    "pt": _Language(_ROMANCE, "{}º".format, "o|do|ao|no", "andar|ano|dia|lugar|prêmio"),
}


class OrdinalWriter:
    """Finds the ordinals of a language, and writes them in another one.

    Args:
        source: BCP 47 tag of the texts; of languages without an expression, nothing is found.
        target: the same, of their translations.
    """

    def __init__(self, source: str, target: str) -> None:
        codes = primary_subtag(source), primary_subtag(target)
        read, self._target = map(_LANGUAGES.get, codes)
        self._pattern: re.Pattern[str] | None = None
        self._before = self._after = _NOTHING
        if read and self._target and codes[0] != codes[1]:
            expression = rf"(?<![\w.,:/+-]){read.read}(?!\w)"
            self._pattern = re.compile(expression, re.IGNORECASE)
            if read.articles:
                self._before = re.compile(rf"\b(?:{read.articles})\s$", re.IGNORECASE)
                self._after = re.compile(rf"\s(?:{read.nouns})\b", re.IGNORECASE)

    def find(self, text: str) -> Iterator[Span]:
        """Yield the characters [begin, end) of the ordinals of a text, in order."""
        if self._pattern is not None:
            yield from (match.span() for match in self._pattern.finditer(text))

    def write(self, text: str, before: str = "", after: str = "") -> str:
        """Return an ordinal in the other language; other texts stay.

        Args:
            text: a kept span.
            before: the sentence before it, in which it is an ordinal.
            after: the sentence after it.
        """
        match = self._pattern.fullmatch(text.removesuffix(".")) if self._pattern else None
        if match is None and (self._before.search(before) or self._after.match(after)):
            match = _DOTLESS.fullmatch(text)
        if match is None or self._target is None:
            return text
        number = next(group for group in match.groups() if group)
        written = self._target.write(int(number))
        return written.upper() if text.isupper() else written
