"""Abbreviations that training sources hardly have, and the words that a model knows instead.

`abbreviations.tsv` lists them by language, each with a condition, see `_CONDITIONS`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nmt.text.case import LetterCase
from nmt.text.scripts import PLAIN_WORD, primary_subtag
from nmt.text.source_words import SourceWords
from nmt.text.spans import ANY_SLOT, SLOTS, Span

_FILE = Path(__file__).with_name("abbreviations.tsv")
NAME_SLOT, NUMERAL_SLOT = "\ue008\ue009"  # stand for slots of names and of Roman numerals
MIN_COUNT = 10  # occurrences of words that are read; rarer ones are seldom translated well
_RATIO = 5  # times as frequent as the abbreviation are its words, at least
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(PLAIN_WORD)
_BEGINS_NAME = re.compile("[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]")
_NUMERAL = re.compile("[IVXLC]+(?:[-–][IVXLC]+)?")
_FIRST_LETTERS = re.compile(rf"(?<![\w.]){_LETTERS.pattern}")
_NUMBER = rf"(?:\d|{ANY_SLOT})"  # its beginning or end
# a las 8 h, a la 1 h
_AFTER_CLOCK_TIME = rf"(?:(?<=[aà]s {_NUMBER}\s)|(?<=[aà]s {_NUMBER}{{2}}\s)|(?<=a la {_NUMBER}\s))"
# Not of "5 m/s", "2020 l'azienda" and "5 s. siguiente".
_AFTER_UNIT = rf"(?![/^)'’-]|{ANY_SLOT}|\.\s+[a-zà-ÿ])"
# Condition -> expressions before and after an abbreviation. "none" ignores letter case.
_CONDITIONS = {
    "none": ("(?i:", ")"),
    "before a name": (r"(?<![A-Z]\.\s)", rf"(?=\s?(?:[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]|{NAME_SLOT}))"),
    "before a number": ("", rf"(?=\s?{_NUMBER})"),
    "after a word and before a number": (r"(?<=\w )", rf"(?=\s?{_NUMBER})"),
    "before a colon": ("(?i:", r")(?=:)"),
    "after a number": (rf"(?!{_AFTER_CLOCK_TIME})(?<={_NUMBER}\s)", _AFTER_UNIT),
    "after a clock time": (_AFTER_CLOCK_TIME, _AFTER_UNIT),
    "before a Roman numeral": ("", rf"(?=\s?(?:[IVXLC]+\b|{NUMERAL_SLOT}))"),
    # As in messages, without a sign beside it, as Q&A has.
    "in lower case": ("(?<![&/'’-])", r"(?![&/]|[.'’-]\w)"),
}
# After a dot: neither another letter, as of U.S.S.R., nor more dots, unless they end the sentence.
_AFTER_DOT = r"(?!\.(?!\.$)|[^\W\d_](?![^\W\d_]))"
_AFTER_LETTER = r"(?!\w)"


class Abbreviation(NamedTuple):
    """A line of the table."""

    language: str
    short: str
    condition: str  # a key of `_CONDITIONS`
    words: str  # alternatives between |, the best one first; empty: the abbreviation is left out


class Replacement(NamedTuple):
    """Characters [begin, end) of a text, and what a model reads in their place."""

    begin: int
    end: int
    text: str


class Abbreviations:
    """Finds the abbreviations that are read as words.

    Args:
        language: BCP 47 tag of the texts.
        words: of the training sources. None: they are not known, so nothing is found.
    """

    def __init__(self, language: str, words: SourceWords | None) -> None:
        code = primary_subtag(language)
        # First letters in lower case -> abbreviations, the longest first.
        self._entries: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        self._lower_case_only = set[re.Pattern[str]]()
        self._acronyms = set[str]()  # without spaces
        for entry in sorted(_read_table(), key=lambda entry: -len(entry.short)):
            if entry.language != code or words is None:
                continue
            chosen = _choose_words(entry, words)
            if chosen is not None:
                [first, *_] = _LETTERS.findall(entry.short.lower())
                pattern = re.compile(_make_pattern(entry))
                self._entries.setdefault(first, []).append((pattern, chosen))
                if entry.condition == "in lower case":
                    self._lower_case_only.add(pattern)
                if entry.short.isupper():
                    self._acronyms.add("".join(entry.short.split()))

    def find(self, text: str, case: LetterCase = LetterCase.ORDINARY) -> Iterator[Replacement]:
        """Yield the abbreviations of a sentence, in order.

        The dot of one that ends the sentence stays after its words.

        Args:
            text: the sentence.
            case: of the given one; if that was in capitals, lower case tells nothing.
        """
        for begin, end, words in self._match(text, case):
            if not words:
                yield Replacement(begin - 1, end - (end == len(text) and text[-1] == "."), "")
                continue
            if begin == 0 and text[0].isupper():
                words = words[0].upper() + words[1:]
            if text[end - 1] == "." and text.startswith(".", end):  # its dot is one of "..."
                end -= 1
            elif end < len(text) and (
                text[end].isalnum() or text[end] in (*SLOTS, NAME_SLOT, NUMERAL_SLOT)
            ):
                words += " "
            elif end == len(text) and begin > 0 and text[end - 1] == "." != words[-1]:
                words += "."
            yield Replacement(begin, end, words)

    def find_acronyms(self, text: str) -> Iterator[Span]:
        """Yield characters [begin, end) of abbreviations that have capitals in any text: EE. UU."""
        for begin, end, _ in self._match(text):
            if "".join(text[begin:end].split()) in self._acronyms:
                yield begin, end

    def _match(self, text: str, case: LetterCase = LetterCase.ORDINARY) -> Iterator[Replacement]:
        """Yield the abbreviations of a text, in order, and their words in the table."""
        if self._entries.keys().isdisjoint(_LETTERS.findall(text.lower())):
            return  # most texts have none
        done = 0
        for letters in _FIRST_LETTERS.finditer(text):
            if (begin := letters.start()) < done:
                continue
            for pattern, words in self._entries.get(letters[0].lower(), ()):
                if case is LetterCase.UPPER and pattern in self._lower_case_only:
                    continue
                if match := pattern.match(text, begin):
                    done = match.end()
                    yield Replacement(begin, done, words)
                    break


def mark_slots(text: str, spans: Sequence[str]) -> str:
    """Return a text in which other characters replace the slots of names and Roman numerals."""
    kinds = {}
    for slot, span in zip(SLOTS, spans, strict=False):
        if _BEGINS_NAME.match(span):
            kinds[ord(slot)] = NAME_SLOT
        elif _NUMERAL.fullmatch(span):
            kinds[ord(slot)] = NUMERAL_SLOT
    return text.translate(kinds)


@cache
def _read_table() -> tuple[Abbreviation, ...]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file, dialect="excel-tab")
    return tuple(Abbreviation(*row) for row in rows)


def _make_pattern(entry: Abbreviation) -> str:
    """Return the expression of an abbreviation under its condition."""
    before, after = _CONDITIONS[entry.condition]
    short = r"\s?".join(map(re.escape, entry.short.split()))
    if entry.short.endswith("/"):
        short = f"(?i:{short})"  # C/ Mayor
    end = {".": _AFTER_DOT, "/": ""}.get(entry.short[-1], _AFTER_LETTER)
    return before + short + after + end


def _choose_words(entry: Abbreviation, words: SourceWords) -> str | None:
    """Return the best words that training sources have, much more often than the abbreviation.

    How often they have one with single letters is not known: the p of "p." is also that of "p.m.".
    """
    parts = _LETTERS.findall(entry.short)
    has_single = any(len(part) == 1 for part in parts) or entry.short == "No."  # also a word
    count = 0 if has_single else min(words.counts.get(part.lower(), 0) for part in parts)
    min_count = max(MIN_COUNT, _RATIO * count)
    for choice in entry.words.split("|"):
        if all(words.counts.get(word.lower(), 0) >= min_count for word in _WORD.findall(choice)):
            return choice
    return None
