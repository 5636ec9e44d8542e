"""A warning about texts with words that a model has not learned, as of another language."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from nmt.data.languages import describe_language
from nmt.text.cleaning import clean_input
from nmt.text.scripts import UNKNOWN_LANGUAGE, primary_subtag
from nmt.text.source_words import CASED_WORD, MIN_MODELED
from nmt.text.spans import make_kept_test

if TYPE_CHECKING:  # loads NumPy
    from nmt.inference.segmenting import Segmenter

_WORD = re.compile(CASED_WORD)
_RARE = 3  # occurrences: words of another language, in a few sources, have fewer
_MIN_WORDS = 4  # rare ones: fewer may be names
_ENOUGH = 10_000  # words, after which no more are counted


class RareWords:
    """Counts the words of texts, and those that training sources hardly have.

    Args:
        segmenter: knows the language and, if the run stores them, the words of training sources.
    """

    def __init__(self, segmenter: Segmenter) -> None:
        counts = segmenter.words.counts if segmenter.words is not None else {}
        self._counts = counts if len(counts) >= MIN_MODELED else {}
        self._language = segmenter.language
        self.rare = 0
        self.total = 0

    def watch(self, chunks: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        """Yield chunks of texts, and count their words."""
        for chunk in chunks:
            self.add(chunk)
            yield chunk

    def add(self, texts: Iterable[str]) -> None:
        """Count the words of texts, but for those of kept spans, and of scripts without case.

        Training sources have no counts of the latter.
        """
        for text in map(clean_input, texts):
            if not self._counts or self.total >= _ENOUGH:
                return
            is_kept = make_kept_test(text)
            for match in _WORD.finditer(text):
                word = match[0].lower()
                if word != word.upper() and not is_kept(*match.span()):
                    self.total += 1
                    self.rare += self._counts.get(word, 0) < _RARE

    def warn(self) -> None:
        """Print on standard error how many words are rare, if these are at least half of them."""
        if self.rare >= _MIN_WORDS and 2 * self.rare >= self.total:
            name = describe_language(primary_subtag(self._language))
            language = "" if self._language == UNKNOWN_LANGUAGE else f", {name}"
            print(
                f"warning: {self.rare:,} of {self.total:,} words hardly occur in the training "
                f"sources: is the text in the run's source language{language}?",
                file=sys.stderr,
            )
