"""Dates with the name of a month, which are kept spans, and how another language writes them.

Formats are the long ones of Unicode's CLDR. Models see few dates of each month, so that short
trainings do not learn them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag


class _Language(NamedTuple):
    months: str  # January first
    read: tuple[str, ...]  # expressions of a date; D, M and Y stand for day, month and year
    written: str
    with_year: str


_LANGUAGES = {
    "de": _Language(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        (r"D\.\s?M(?:\sY)?",),
        "{day}. {month}",
        "{day}. {month} {year}",
    ),
    "en": _Language(
        "January February March April May June July August September October November December",
        (r"M\sD(?:st|nd|rd|th)?(?:,?\sY)?", r"D(?:st|nd|rd|th)?\s(?:of\s)?M(?:,?\sY)?"),
        "{month} {day}",
        "{month} {day}, {year}",
    ),
    "es": _Language(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        (r"D(?:\.?º)?\sde\sM(?:\sdel?\sY)?",),
        "{day} de {month}",
        "{day} de {month} de {year}",
    ),
    "fr": _Language(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        (r"D(?:er)?\sM(?:\sY)?",),
        "{day} {month}",
        "{day} {month} {year}",
    ),
    "it": _Language(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre",
        (r"Dº?\sM(?:\sY)?",),
        "{day} {month}",
        "{day} {month} {year}",
    ),
    "pt": _Language(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        (r"D(?:\.?º)?\sde\sM(?:\sde\sY)?",),
        "{day} de {month}",
        "{day} de {month} de {year}",
    ),
}
_DAY = "(0?[1-9]|[12][0-9]|3[01])"
_YEAR = "([12][0-9]{3})"


class DateWriter:
    """Finds the dates of a language, and writes them in another one.

    Args:
        source: BCP 47 tag of the texts; without a table of its months, nothing is found.
        target: the same, of their translations.
    """

    def __init__(self, source: str, target: str) -> None:
        codes = primary_subtag(source), primary_subtag(target)
        read, self._target = map(_LANGUAGES.get, codes)
        self._months: dict[str, int] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []  # and the order of their groups
        self._any: re.Pattern[str] | None = None
        if read is None or self._target is None or codes[0] == codes[1]:
            return
        names = read.months.split()
        self._months = {name.lower(): i for i, name in enumerate(names)}
        # Where months have capitals, words without them are others: may, march.
        flags = re.NOFLAG if names[0][0].isupper() else re.IGNORECASE
        month = "|".join([*names, *map(str.upper, names)])
        filled = [_fill(pattern, month) for pattern in read.read]
        self._patterns = [
            (re.compile(expression, flags), "".join(re.findall("[DMY]", pattern)))
            for expression, pattern in zip(filled, read.read, strict=True)
        ]
        self._any = re.compile(rf"(?<![\w.,:/-])(?:{'|'.join(filled)})(?!\w)", flags)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the characters [begin, end) of the dates of a text, in order."""
        if self._any is not None:
            yield from (match.span() for match in self._any.finditer(text))

    def write(self, date: str) -> str:
        """Return a date in the other language; other texts, and the case of capitals, stay."""
        for pattern, parts in self._patterns:
            if match := pattern.fullmatch(date):
                found = dict(zip(parts, match.groups(), strict=True))
                written = self._write(int(found["D"]), found["M"], found["Y"])
                return written.upper() if found["M"].isupper() else written
        return date

    def _write(self, day: int, month: str, year: str | None) -> str:
        assert self._target is not None  # there are patterns
        name = self._target.months.split()[self._months[month.lower()]]
        form = self._target.written if year is None else self._target.with_year
        return form.format(day=day, month=name, year=year)


def _fill(pattern: str, month: str) -> str:
    """Return an expression with groups in place of D, M and Y."""
    values = {"D": _DAY, "M": f"({month})", "Y": _YEAR}
    return re.sub("[DMY]", lambda match: values[match[0]], pattern)


NO_DATES = DateWriter(UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
