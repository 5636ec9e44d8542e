"""Which words of a translation belong to a part of its source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.inference.results import Word
from nmt.text.marked import Mark

# A word belongs to an element if this share of its sources does; less than half, so that elements
# with scattered words cover more words rather than fewer.
_MIN_SHARE = 0.45


class SourceShares:
    """Which characters of the source the words of a translation come from.

    Args:
        words: of the translation.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        spans = [(*span, i) for i, word in enumerate(words) for span in word.sources]
        self._begins, self._ends, self._owners = np.array(spans, np.int64).reshape(-1, 3).T
        self._counts = np.bincount(self._owners, minlength=len(words))
        # A word without sources belongs where its neighbors do.
        known = np.flatnonzero(self._counts)
        numbers = np.arange(len(words))
        self._before = self._after = numbers
        if len(known):
            at = np.searchsorted(known, numbers, "right") - 1
            self._before = known[np.maximum(at, 0)]
            at = np.searchsorted(known, numbers)
            self._after = known[np.minimum(at, len(known) - 1)]

    def score(self, mark: Mark) -> NDArray[np.float64]:
        """Return an element's share of the sources of each word, less `_MIN_SHARE`: [words]."""
        if not len(self._owners):
            return np.zeros(len(self._counts))
        is_inside = (self._begins < mark.end) & (mark.begin < self._ends)
        inside = np.bincount(self._owners, is_inside, len(self._counts))
        shares = inside / np.maximum(self._counts, 1)
        return (shares[self._before] + shares[self._after]) / 2 - _MIN_SHARE

    def find(self, at: int) -> list[int]:
        """Return the words that come from the source word at a character."""
        return self._owners[(self._begins <= at) & (at < self._ends)].tolist()
