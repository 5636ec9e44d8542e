"""What batches of the service compute: segments, options of their search, and the work of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nmt.inference.contract import SearchRequest
from nmt.serving.limits import ALTERNATIVES_WORK, ATTENTION_WORK, QUALITY_WORK, WORDS_WORK

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.segments import Segment


class SearchItem(NamedTuple):
    """A segment of a request."""

    segment: Segment
    attends: bool = False  # whether attention is computed once it has been translated


class SearchOptions(NamedTuple):
    """What batches compute for segments; equal options share batches."""

    request: SearchRequest = SearchRequest()  # of translations: beam and penalty are resolved
    alternatives: int = 0  # next words after the prefix, in place of translations

    @property
    def search_work(self) -> int:
        """Work per token of searching, and of searching again for a lacking term."""
        if self.alternatives:
            return ALTERNATIVES_WORK
        beam = self.request.beam_size
        assert beam is not None, "its defaults are resolved"
        return beam if self.request.glossary is None else 2 * beam + WORDS_WORK

    @property
    def quality_work(self) -> int:
        """Work per token of computing confidence, or of aligning words."""
        work = QUALITY_WORK if self.request.quality else WORDS_WORK * self.request.words
        return work * self.request.n_best


def count_work(item: SearchItem, options: SearchOptions) -> int:
    """Return the work of an item: none if it is copied."""
    weight = options.search_work + options.quality_work + ATTENTION_WORK * item.attends
    return item.segment.searched_tokens * weight
