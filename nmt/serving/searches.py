"""What batches of the service compute: segments, options of their search, and the work of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nmt.serving.limits import ALTERNATIVES_WORK, ATTENTION_WORK, QUALITY_WORK, WORDS_WORK

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.segments import Segment
    from nmt.text.terms import Glossary


class SearchItem(NamedTuple):
    """A segment of a request."""

    segment: Segment
    attends: bool = False  # whether attention is computed once it has been translated


class SearchOptions(NamedTuple):
    """Options of a search, without defaults left open; equal ones share batches."""

    beam: int = 1
    length_penalty: float = 0.0
    nbest: int = 1
    quality: bool = False
    words: bool = False
    glossary: Glossary | None = None
    alternatives: int = 0  # next words after the prefix, in place of translations

    @property
    def search_work(self) -> int:
        """Work per token of searching, and of searching again for a lacking term."""
        if self.alternatives:
            return ALTERNATIVES_WORK
        return self.beam if self.glossary is None else 2 * self.beam + WORDS_WORK

    @property
    def quality_work(self) -> int:
        """Work per token of computing confidence, or of aligning words."""
        work = QUALITY_WORK if self.quality else WORDS_WORK * self.words
        return work * self.nbest


def count_work(item: SearchItem, options: SearchOptions) -> int:
    """Return the work of an item: none if it is copied."""
    if item.segment.is_copied:
        return 0
    weight = options.search_work + options.quality_work + ATTENTION_WORK * item.attends
    return len(item.segment.ids) * weight
