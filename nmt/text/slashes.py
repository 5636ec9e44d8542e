"""Words joined by a slash, such as he/she and niño/a, which training sources hardly have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.text.abbreviations import Replacement
from nmt.text.final_marks import SLASH
from nmt.text.scripts import PLAIN_WORD, primary_subtag
from nmt.text.source_words import SourceWords

_FEWEST = 10  # occurrences of each word: names such as TCP/IP stay
_LONG = 5  # letters of an unknown word that may have another ending


class _Language(NamedTuple):
    both: str  # and
    either: str  # or
    endings: str  # of another gender or number


_LANGUAGES = {
    "de": _Language("und", "oder", "e|en|in|innen|n|r|s"),
    "en": _Language("and", "or", "s|es"),
    "es": _Language("y", "o", "a|as|o|os|e|es|ra|ras"),
    "fr": _Language("et", "ou", "e|es|s|ne|nes|euse|euses|trice|trices"),
    "it": _Language("e", "o", "a|e|i|o"),
    "pt": _Language("e", "ou", "a|as|o|os|e|es|ra|ras"),
}
_JOINED = re.compile(rf"(?<![\w/])({PLAIN_WORD})(/-?)({PLAIN_WORD})(?![\w/])")


class Slashes:
    """Finds slashes that are read as "or", and endings behind a slash, which are not read.

    Args:
        language: BCP 47 tag of the texts.
        words: of the training sources. None: they are not known, so nothing is found.
    """

    def __init__(self, language: str, words: SourceWords | None) -> None:
        self._counts = words.counts if words else {}
        self._language = None
        if words is not None and not words.teaches(SLASH):
            self._language = _LANGUAGES.get(primary_subtag(language))

    def find(self, text: str) -> Iterator[Replacement]:
        """Yield what replaces slashes and endings of a sentence, in order.

        Of "and/or", the "and" is not read.
        """
        if self._language is None or SLASH not in text:
            return
        both, either, endings = self._language
        for match in _JOINED.finditer(text):
            first, _, second = map(str.lower, match.groups())
            if (first, second) == (both, either):
                yield Replacement(match.start(), match.start(3), "")
            elif re.fullmatch(endings, second) and self._may_have_endings(match[1]):
                yield Replacement(match.end(1), match.end(), "")
            elif self._is_known(first) and self._is_known(second):
                yield Replacement(match.start(2), match.end(2), f" {either} ")

    def _may_have_endings(self, word: str) -> bool:
        return self._is_known(word.lower()) or (len(word) >= _LONG and not word.isupper())

    def _is_known(self, word: str) -> bool:
        return len(word) > 1 and self._counts.get(word, 0) >= _FEWEST
