"""Dates with the name of a month, which are kept spans, and how another language writes them.

Formats are the long ones of Unicode's CLDR. Models see few dates of each month, so that short
trainings do not learn them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from copy import copy
from typing import NamedTuple

from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag


class _Language(NamedTuple):
    months: str  # January first
    read: tuple[str, ...]  # expressions of a date with DAY, MONTH and YEAR
    written: str
    with_year: str


_LANGUAGES = {
    "de": _Language(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        (r"DAY\.\s?MONTH(?:\sYEAR)?",),
        "{day}. {month}",
        "{day}. {month} {year}",
    ),
    "en": _Language(
        "January February March April May June July August September October November December",
        (
            r"MONTH\sDAY(?:st|nd|rd|th)?(?:,?\sYEAR)?",
            r"DAY(?:st|nd|rd|th)?\s(?:of\s)?MONTH,?\sYEAR",
            r"DAY(?:st|nd|rd|th)?\sof\sMONTH",
            r"DAY(?:st|nd|rd|th)\sMONTH",
            r"DAY\sMONTH(?<!May)(?<!March)",  # 18 May Apply
        ),
        "{month} {day}",
        "{month} {day}, {year}",
    ),
    "es": _Language(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        (r"DAY(?:\.?º)?\sde\sMONTH(?:\sdel?\sYEAR)?",),
        "{day} de {month}",
        "{day} de {month} de {year}",
    ),
    "fr": _Language(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        (r"DAY(?:er)?\sMONTH(?:\sYEAR)?",),
        "{day} {month}",
        "{day} {month} {year}",
    ),
    "it": _Language(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre",
        (r"DAYº?\sMONTH(?:\sYEAR)?",),
        "{day} {month}",
        "{day} {month} {year}",
    ),
    "pt": _Language(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        (r"DAY(?:\.?º)?\sde\sMONTH(?:\sde\sYEAR)?",),
        "{day} de {month}",
        "{day} de {month} de {year}",
    ),
}
_PARTS = re.compile("DAY|MONTH|YEAR")
_VERBS = {"MAY", "MARCH"}  # in a text in capitals
_DAY = "(0?[1-9]|[12][0-9]|3[01])"
_YEAR = "([12][0-9]{3})"


class DateWriter:
    """Finds the dates of a language, and writes them in another one.

    Args:
        source: BCP 47 tag of the texts; without a table of its months, nothing is found.
        target: the same, of their translations.
    """

    def __init__(self, source: str, target: str) -> None:
        self._kept: frozenset[str] = frozenset()
        codes = primary_subtag(source), primary_subtag(target)
        read, self._target = map(_LANGUAGES.get, codes)
        self._months: list[re.Pattern[str]] = []
        self._patterns: list[tuple[re.Pattern[str], list[str]]] = []  # and what their groups are
        self._any: re.Pattern[str] | None = None
        if read is None or self._target is None or codes[0] == codes[1]:
            return
        names = read.months.split()
        self._months = [re.compile(name, re.IGNORECASE) for name in names]
        # Where months have capitals, words without them are others: may, march.
        flags = re.NOFLAG if names[0][0].isupper() else re.IGNORECASE
        capitals = {name.upper() for name in names} - _VERBS
        month = "|".join([*names, *sorted(capitals)])
        filled = [_fill(pattern, month) for pattern in read.read]
        self._patterns = [
            (re.compile(expression, flags), _PARTS.findall(pattern))
            for expression, pattern in zip(filled, read.read, strict=True)
        ]
        self._any = re.compile(rf"(?<![\w.,:/-])(?:{'|'.join(filled)})(?!\w)", flags)

    def without(self, kept: Iterable[str]) -> DateWriter:
        """Return a writer that leaves these texts as they are, in any letter case."""
        writer = copy(self)
        writer._kept = frozenset(map(str.casefold, kept))
        return writer

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the characters [begin, end) of the dates of a text, in order."""
        if self._any is not None:
            yield from (match.span() for match in self._any.finditer(text))

    def write(self, date: str) -> str:
        """Return a date in the other language; other texts, and the case of capitals, stay."""
        for pattern, parts in self._patterns if date.casefold() not in self._kept else ():
            if match := pattern.fullmatch(date):
                found = dict(zip(parts, match.groups(), strict=True))
                written = self._write(int(found["DAY"]), found["MONTH"], found.get("YEAR"))
                return written.upper() if found["MONTH"].isupper() else written
        return date

    def _write(self, day: int, month: str, year: str | None) -> str:
        assert self._target is not None  # there are patterns
        number = next(i for i, name in enumerate(self._months) if name.fullmatch(month))
        name = self._target.months.split()[number]
        form = self._target.written if year is None else self._target.with_year
        return form.format(day=day, month=name, year=year)


def _fill(pattern: str, month: str) -> str:
    """Return an expression with groups in place of its parts."""
    values = {"DAY": _DAY, "MONTH": f"({month})", "YEAR": _YEAR}
    return _PARTS.sub(lambda match: values[match[0]], pattern)


NO_DATES = DateWriter(UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
