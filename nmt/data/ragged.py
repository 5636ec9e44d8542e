"""Sequences of token ids of different lengths, in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RaggedIds:
    """Sequences of token ids, one after the other: those of a corpus, or of one side of pairs."""

    ids: np.ndarray  # int [all tokens]
    offsets: np.ndarray  # int64 [sequences + 1], where each sequence begins in `ids`

    @classmethod
    def of(cls, sequences: Sequence[np.ndarray]) -> RaggedIds:
        """Join arrays of ids, as int32."""
        joined = np.concatenate(sequences) if sequences else np.zeros(0)
        return cls.from_lengths(joined.astype(np.int32), [len(ids) for ids in sequences])

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray | Sequence[int]) -> RaggedIds:
        """Divide flat ids into sequences of these lengths."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(ids, offsets)

    @classmethod
    def join(cls, parts: Sequence[RaggedIds]) -> RaggedIds:
        """Return the sequences of at least one part, part after part."""
        ids = np.concatenate([part.ids for part in parts])
        return cls.from_lengths(ids, np.concatenate([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence: int64 [sequences]."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> RaggedIds:
        """Return the sequences with these indices."""
        begins = np.asarray(self.offsets[indices])
        lengths = np.asarray(self.offsets[indices + 1]) - begins
        return RaggedIds.from_lengths(self.ids[concatenate_ranges(begins, lengths)], lengths)

    def slice(self, first: int, last: int) -> RaggedIds:
        """Return the sequences [first, last)."""
        offsets = self.offsets[first : last + 1]
        return RaggedIds(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])


def concatenate_ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(begin, begin + length)`` over all ranges."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begins - (ends - lengths), lengths)
