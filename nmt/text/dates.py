"""Dates with the name of a month and ordinals: kept spans that another language writes otherwise.

A date may have two days, as "3 to 7 June", or none.

Formats are the long ones of Unicode's CLDR. Models see few dates of each month, so that short
trainings do not learn them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple

from nmt.text.digits import localize_digits
from nmt.text.ordinals import OrdinalWriter
from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag
from nmt.text.spans import SLOTS, Span, make_overlap_test


class _Language(NamedTuple):
    months: str  # January first
    short_months: str  # expressions of abbreviations
    weekdays: str  # Monday first
    short_weekdays: str  # expressions of abbreviations
    # Expressions of a date with MONTH (SHORT is an abbreviation), YEAR and DAYS: one, or the first
    # and the last of several. RANGE is the same with nothing but a dash between them. An
    # abbreviated weekday may stand before all of it.
    read: tuple[str, ...]
    written: str
    with_year: str
    without_day: str
    with_weekday: str
    to: str  # between the first and the last of several days
    both: str  # between two days
    article: str = ""  # that dates with a day never have
    first: str = "1"  # the first day of a month


_LANGUAGES = {
    "de": _Language(
        months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        short_months="Jan Feb Mär Apr Mai Jun Jul Aug Sept|Sep Okt Nov Dez",
        weekdays="Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        short_weekdays="Mo Di Mi Do Fr Sa So",
        read=(r"DAYS\.\s?MONTH(?:\sYEAR)?", r"MONTH\sYEAR"),
        written="{day}. {month}",
        with_year="{day}. {month} {year}",
        without_day="{month} {year}",
        with_weekday="{weekday}, {date}",
        to="bis",
        both="und",
    ),
    "en": _Language(
        months="January February March April May June "
        "July August September October November December",
        short_months="Jan Feb Mar Apr May Jun Jul Aug Sept|Sep Oct Nov Dec",
        weekdays="Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        short_weekdays="Mon Tues? Wed Thu(?:rs?)? Fri Sat Sun",
        read=(
            r"MONTH\sDAYS(?i:st|nd|rd|th)?,?\sYEAR",
            r"MONTH\sDAYS(?i:st|nd|rd|th)?(?=[.,;:!?)]|$)",
            r"MONTH\sRANGE(?i:st|nd|rd|th)?",  # May 3 and 4 people
            r"DAYS(?i:st|nd|rd|th)?\s(?:of\s)?MONTH,?\sYEAR",
            r"DAYS(?i:st|nd|rd|th)?\sof\sMONTH",
            r"DAYS(?i:st|nd|rd|th)\sMONTH",
            r"DAYS\sMONTH(?<!May)(?<!March)",  # 18 May Apply
            r"MONTH\sYEAR",
            r"SHORT\sDAYS,?\sYEAR",
        ),
        written="{month} {day}",
        with_year="{month} {day}, {year}",
        without_day="{month} {year}",
        with_weekday="{weekday}, {date}",
        to="to",
        both="and",
        article="the",
    ),
    "es": _Language(
        months="enero febrero marzo abril mayo junio "
        "julio agosto septiembre octubre noviembre diciembre",
        short_months="ene feb mar abr may jun jul ago sept|sep|set oct nov dic",
        weekdays="lunes martes miércoles jueves viernes sábado domingo",
        short_weekdays="lun mar mi[eé] jue vie s[aá]b dom",
        read=(
            r"DAYS(?:\.?º|(?:e?r)?o\.?)?\sde\sMONTH(?:\sdel?\sYEAR)?",
            r"MONTH\s(?:del?\s)?YEAR",
        ),
        written="{day} de {month}",
        with_year="{day} de {month} de {year}",
        without_day="{month} de {year}",
        with_weekday="{weekday}, {date}",
        to="al",
        both="y",
    ),
    "fr": _Language(
        months="janvier février mars avril mai juin "
        "juillet août septembre octobre novembre décembre",
        short_months="janv févr|fév mars avr mai juin juil août sept oct nov déc",
        weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
        short_weekdays="lun mar mer jeu ven sam dim",
        read=(r"DAYS(?:er)?\sMONTH(?:\sYEAR)?", r"MONTH\sYEAR"),
        written="{day} {month}",
        with_year="{day} {month} {year}",
        without_day="{month} {year}",
        with_weekday="{weekday} {date}",
        to="au",
        both="et",
        first="1er",
    ),
    "it": _Language(
        months="gennaio febbraio marzo aprile maggio giugno "
        "luglio agosto settembre ottobre novembre dicembre",
        short_months="gen feb mar apr mag giu lug ago sett|set ott nov dic",
        weekdays="lunedì martedì mercoledì giovedì venerdì sabato domenica",
        short_weekdays="lun mar mer gio ven sab dom",
        read=(r"DAYSº?\sMONTH(?:\sYEAR)?", r"MONTH\sYEAR"),
        written="{day} {month}",
        with_year="{day} {month} {year}",
        without_day="{month} {year}",
        with_weekday="{weekday} {date}",
        to="al",
        both="e",
    ),
    "pt": _Language(
        months="janeiro fevereiro março abril maio junho "
        "julho agosto setembro outubro novembro dezembro",
        short_months="jan fev mar abr mai jun jul ago set out nov dez",
        weekdays="segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        short_weekdays="seg ter qua qui sex s[aá]b dom",
        read=(r"DAYS(?:\.?º)?\sde\sMONTH(?:\sde\sYEAR)?", r"MONTH\s(?:de\s)?YEAR"),
        written="{day} de {month}",
        with_year="{day} de {month} de {year}",
        without_day="{month} de {year}",
        with_weekday="{weekday}, {date}",
        to="a",
        both="e",
    ),
}
# Of all languages: only with a year, since "1 set" is tennis.
_SHORT_DATE = r"DAYS\.?[\s/-](?:de\s)?SHORT[\s/-](?:del?\s)?YEAR"
_WEEKDAY = r"(?:WEEKDAY(?:\.,?|,)\s)?"
_PARTS = re.compile("WEEKDAY|DAYS|RANGE|MONTH|SHORT|YEAR")
_VERBS = {"MAY", "MARCH"}  # in a text in capitals
_NUMBER = "(?:0?[1-9]|[12][0-9]|3[01])"
_DAY = f"({_NUMBER})"
_ENDING = "(?:\\.?º|\\.|(?i:st|nd|rd|th|er))?"  # of the first of several days
# Groups of an expression's part, if not one of its name.
_GROUPS = dict.fromkeys(("DAYS", "RANGE"), ("FIRST", "JOINT", "DAY")) | {"SHORT": ("MONTH",)}
_YEAR = "([12][0-9]{3})"
_DASH = re.compile(r"\s?[—–-]\s?")  # between two dates
_ARTICLES = "el|il|le|o|der|den|am|the"  # of a date


class DateWriter:
    """Finds the dates and ordinals of a language, and writes them and numbers in another one.

    Args:
        source: BCP 47 tag of the texts; without a table of its months, nothing is found.
        target: the same, of their translations.
    """

    def __init__(self, source: str, target: str) -> None:
        self._kept: frozenset[str] = frozenset()
        self._ordinals = OrdinalWriter(source, target)
        self._target_language = target
        codes = primary_subtag(source), primary_subtag(target)
        read, self._target = map(_LANGUAGES.get, codes)
        self._months: list[re.Pattern[str]] = []
        self._weekdays: list[re.Pattern[str]] = []
        self._joints: tuple[str, ...] = ()
        self._patterns: list[tuple[re.Pattern[str], list[str]]] = []  # and what their groups are
        self._any: re.Pattern[str] | None = None
        if read is None or self._target is None or codes[0] == codes[1]:
            return
        names, short_names = read.months.split(), read.short_months.split()
        self._months = [
            re.compile(f"{name}|{short}", re.IGNORECASE)
            for name, short in zip(names, short_names, strict=True)
        ]
        # Where months have capitals, words without them are others: may, march.
        flags = re.NOFLAG if names[0][0].isupper() else re.IGNORECASE
        capitals = {name.upper() for name in names} - _VERBS
        months = [*names, *sorted(capitals)]
        month = "|".join(months)
        short = "|".join([*short_names, *map(str.upper, short_names)])
        self._joints = read.to, read.both
        two_days = rf"{_make_first(self._joints)}{_DAY}(?!\d)"
        self._two_days = re.compile(two_days, re.IGNORECASE)
        short_weekdays = read.short_weekdays.split()
        self._weekdays = [re.compile(name, re.IGNORECASE) for name in short_weekdays]
        names_by_part = {
            "MONTH": month,
            "SHORT": short,
            "WEEKDAY": "|".join([*short_weekdays, *map(str.upper, short_weekdays)]),
        }
        patterns = [
            f"{_WEEKDAY}{pattern}" if re.search("DAYS|RANGE", pattern) else pattern
            for pattern in (*read.read, _SHORT_DATE)
        ]
        filled = [_fill(pattern, names_by_part, self._joints) for pattern in patterns]
        self._patterns = [
            (re.compile(expression, flags), _list_groups(pattern))
            for expression, pattern in zip(filled, patterns, strict=True)
        ]
        after_date = "|".join(f"(?<={ending}-)" for ending in (*months, rf"\s{_YEAR}"))
        # Only a hyphen between two dates may touch one: 31 de mayo-3 de junio, May 31-June 3.
        before = rf"(?:(?<![\w.,:/-])|(?=\d)(?:{after_date})|(?<=\d-)(?=[^\W\d]))"
        self._any = re.compile(rf"{before}(?:{'|'.join(filled)})(?!\w)", flags)

    def without(self, kept: frozenset[str]) -> DateWriter:
        """Return a writer that leaves these case-folded texts as they are, in any letter case."""
        writer = copy(self)
        writer._kept = kept
        return writer

    def find(self, text: str) -> list[Span]:
        """Return the characters [begin, end) of the dates and ordinals of a text, in order.

        Two dates with only a dash between them are one.
        """
        dates: list[Span] = []
        for match in self._any.finditer(text) if self._any else ():
            begin, end = match.span()
            days = self._two_days.match(text, begin)
            numbers = _read_numbers(days[0]) if days else []
            if days and numbers != sorted(set(numbers)):  # as in "we are 20 and 3 June"
                begin = days.start(3)
            if dates and _DASH.fullmatch(text, dates[-1][1], begin):
                begin = dates.pop()[0]
            dates.append((begin, end))
        is_date = make_overlap_test(dates)
        return sorted([*dates, *(each for each in self._ordinals.find(text) if not is_date(*each))])

    def write_all(self, source: str, spans: Sequence[str]) -> tuple[str, ...]:
        """Return kept spans with the dates, ordinals and digits of the other language.

        Args:
            source: with slots.
            spans: those of the source, by number of their slot.
        """
        return tuple(
            self.write(span, before, after)
            for slot, span in zip(SLOTS, spans, strict=False)
            for before, _, after in [source.partition(slot)]
        )

    def write(self, date: str, before: str = "", after: str = "") -> str:
        """Return a date, ordinal or number in the other language; other texts, and capitals, stay.

        Args:
            date: a kept span.
            before: the sentence before it, which may tell that a number is an ordinal.
            after: the sentence after it.
        """
        if date.casefold() in self._kept:
            return date
        first, dash, last = self._split_range(date)
        if dash:
            return self.write(first) + dash + self.write(last)
        parts = self._parse(date)
        if parts is None:
            written = self._ordinals.write(date, before, after)
            return localize_digits(written, self._target_language)
        written = self._write(parts)
        return written.upper() if (parts["MONTH"] or "").isupper() else written

    def remove_articles(self, source: str, text: str, spans: Sequence[str]) -> str:
        """Return a translation without the articles before its dates: "on the May 7" is wrong.

        If the source has no article before the date, that of the translation may belong to a noun
        after the date, as in "the May 7 meeting": then it stays.

        Args:
            source: with slots.
            text: its translation, with slots.
            spans: those of the source, by number of their slot.
        """
        article = self._target.article if self._target is not None else ""
        for slot, span in zip(SLOTS, spans, strict=False):
            is_kept = span.casefold() in self._kept
            first, _, _ = self._split_range(span)
            if not article or is_kept or not (self._parse(first) or {}).get("DAY"):
                continue
            has_article = re.search(rf"\b(?:{_ARTICLES})\s{slot}", source, re.IGNORECASE)
            end = "" if has_article else r"(?! [^\W\d_])"
            text = re.sub(rf"\b{article} (?={slot}{end})", "", text, flags=re.IGNORECASE)
        return text

    def _split_range(self, date: str) -> tuple[str, str, str]:
        """Return two dates and the dash between them; of other texts, the text and nothing."""
        first = self._any.match(date) if self._any else None
        dash = _DASH.match(date, first.end()) if first else None
        if dash is None:
            return date, "", ""
        return date[: dash.start()], dash[0], date[dash.end() :]

    def _parse(self, date: str) -> dict[str, str | None] | None:
        """Return the parts of a date in the language of the sources; None if it is none."""
        for pattern, parts in self._patterns:
            if match := pattern.fullmatch(date):
                return dict(zip(parts, match.groups(), strict=True))
        return None

    def _write(self, parts: Mapping[str, str | None]) -> str:
        target = self._target
        assert target is not None  # there are patterns
        month, year, day = parts["MONTH"] or "", parts.get("YEAR"), parts.get("DAY")
        name = target.months.split()[_find_name(self._months, month)]
        if day is None:
            return target.without_day.format(month=name, year=year)
        form = target.written if year is None else target.with_year
        days = _write_day(target, int(day))
        if first := parts.get("FIRST"):
            ending = "." if "{day}." in form else ""
            joints = dict(zip(self._joints, (target.to, target.both), strict=True))
            joint = joints.get((parts["JOINT"] or "").strip(" ,").lower().split(" ")[0])
            firsts = ", ".join(
                f"{_write_day(target, number)}{ending}" for number in _read_numbers(first)
            )
            days = f"{firsts}{f' {joint} ' if joint else '–'}{days}"
        written = form.format(day=days, month=name, year=year)
        if weekday := parts["WEEKDAY"]:
            name = target.weekdays.split()[_find_name(self._weekdays, weekday)]
            return target.with_weekday.format(weekday=name, date=written)
        return written


def is_short_month(word: str, language: str) -> bool:
    """Whether a word in lower case is the abbreviation of a month.

    Args:
        word: without its dot.
        language: BCP 47 tag.
    """
    names = _LANGUAGES.get(primary_subtag(language))
    return names is not None and word in re.split(r"[ |]", names.short_months.lower())


def _find_name(names: Sequence[re.Pattern[str]], text: str) -> int:
    """Return the index of the name that a text is."""
    return next(i for i, name in enumerate(names) if name.fullmatch(text))


def _write_day(language: _Language, day: int) -> str:
    return language.first if day == 1 else str(day)


def _fill(pattern: str, names: Mapping[str, str], joints: Iterable[str]) -> str:
    """Return an expression with groups in place of its parts; before a day, there may be another.

    Args:
        pattern: of `_Language.read`.
        names: expressions of MONTH, SHORT and WEEKDAY.
        joints: words between two days.
    """
    values = {
        "DAYS": f"(?:{_make_first(joints)})?{_DAY}",
        "RANGE": f"(?:{_DAY}{_ENDING}([-–]))?{_DAY}",
        "MONTH": f"({names['MONTH']})",
        "SHORT": rf"({names['SHORT']})\.?",
        "WEEKDAY": f"({names['WEEKDAY']})",
        "YEAR": _YEAR,
    }
    return _PARTS.sub(lambda match: values[match[0]], pattern)


def _make_first(joints: Iterable[str]) -> str:
    """Return the expression of the first of several days, and what joins them to the last."""
    joint = rf",?\s(?:{'|'.join(joints)})(?:\s(?:{_ARTICLES}))?\s"
    firsts = rf"((?:{_NUMBER}{_ENDING},\s){{0,5}}{_NUMBER})"
    return rf"(?<!\d,\s){firsts}{_ENDING}(\s?[-–]\s?|{joint})"


def _read_numbers(days: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", days)))


def _list_groups(pattern: str) -> list[str]:
    """Return what the groups of a filled pattern are."""
    parts = _PARTS.findall(pattern)
    return list(chain.from_iterable(_GROUPS.get(part, (part,)) for part in parts))


NO_DATES = DateWriter(UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)
