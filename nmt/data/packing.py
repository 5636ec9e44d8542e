"""Rows that hold several pairs each: which pairs stand together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Kind = tuple[int, int]  # lengths in tokens of both sides; pairs of one kind are interchangeable


@dataclass(frozen=True)
class Rows:
    """Rows of one length, and which pairs stand in each."""

    length: int  # tokens per side
    pairs: np.ndarray  # int64 [pairs], row by row
    offsets: np.ndarray  # int64 [rows + 1], where each row begins in `pairs`

    def __len__(self) -> int:
        return len(self.offsets) - 1


def pack(source: np.ndarray, target: np.ndarray, row_lengths: Sequence[int]) -> list[Rows]:
    """Fill rows with pairs: best fit, longest first.

    Every pair goes into rows of the smallest length that holds both its sides; rows of longer
    pairs are filled up with shorter ones. Pairs longer than every row are left out.

    Args:
        source: int [pairs], lengths in tokens.
        target: int [pairs], lengths in tokens.
        row_lengths: tokens per side.

    Returns:
        One `Rows` per length that has any, shortest first.
    """
    lengths = sorted(set(row_lengths))
    stock = _Stock(source, target, lengths[-1])
    packed = []
    for shorter, length in reversed(list(zip([0, *lengths], lengths, strict=False))):
        rows, sizes = [], []
        for first in stock.longest_first(shorter):
            pattern = stock.fill(first, length)
            members = stock.take(pattern)
            rows.append(members.reshape(-1))
            sizes.append(np.full(len(members), members.shape[1]))
        if rows:
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes))])
            packed.append(Rows(length, np.concatenate(rows), offsets))
    return packed[::-1]


class _Stock:
    """The pairs that stand in no row yet, counted by kind.

    Args:
        source: int [pairs], lengths in tokens.
        target: int [pairs], lengths in tokens.
        longest: tokens per side; of longer pairs there are none.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, longest: int) -> None:
        fits = np.flatnonzero(np.maximum(source, target) <= longest)
        self._longest = longest
        self._counts = np.zeros((longest + 1, longest + 1), np.int64)
        np.add.at(self._counts, (source[fits], target[fits]), 1)
        self._order = fits[np.lexsort((fits, target[fits], source[fits]))]  # kind by kind
        ends = np.cumsum(self._counts).reshape(self._counts.shape)
        self._next = ends - self._counts  # where the rest of each kind begins in the order
        # A diagonal of the counts has the kinds of one difference, target - source. What is of use
        # to fill a row is the longest of each: [2 * longest + 1, longest + 1], the longest source
        # that is in stock up to each length; -1: none.
        small = np.int16 if longest < np.iinfo(np.int16).max else np.int32
        self._up_to = np.full((2 * longest + 1, longest + 1), -1, small)
        sources, targets = np.nonzero(self._counts)
        self._up_to[targets - sources + longest, sources] = sources
        np.maximum.accumulate(self._up_to, axis=1, out=self._up_to)

    def longest_first(self, longer_than: int) -> Iterator[Kind]:
        """Yield kinds with a side of more tokens, each as long as it is in stock."""
        sources, targets = np.nonzero(self._counts)
        longest = np.maximum(sources, targets)
        size = (sources + targets) * 1000 + longest
        # Stock only falls, so that the longest kind left is never before the last one.
        for i in np.argsort(-size, kind="stable"):
            kind = int(sources[i]), int(targets[i])
            while longest[i] > longer_than and self._counts[kind]:
                yield kind

    def fill(self, first: Kind, length: int) -> dict[Kind, int]:
        """Choose what fills a row of so many tokens, as kinds and how often; ``first`` is in it.

        Large pairs first; among them those that leave both sides equally full: the score of a kind
        is s + t - 2 |(room_s - s) - (room_t - t)|. On a diagonal t - s does not change, nor what is
        behind the 2, so that its longest kind that fits is its best.
        """
        chosen: dict[Kind, int] = {}
        room_source = room_target = length
        kind: Kind | None = first
        while kind is not None:
            chosen[kind] = chosen.get(kind, 0) + 1
            if chosen[kind] == self._counts[kind]:
                # Such a row is made once, so that what is used up here stays so.
                self._run_out(kind)
            room_source -= kind[0]
            room_target -= kind[1]
            kind = self._best(room_source, room_target)
        return chosen

    def _best(self, room_source: int, room_target: int) -> Kind | None:
        """Return the kind in stock that fills this room best; None: none fits."""
        differences = np.arange(-room_source, room_target + 1)
        most = np.minimum(room_source, room_target - differences)
        sources = self._up_to[differences + self._longest, most].astype(np.int64)
        found = np.flatnonzero(sources >= 0)
        if not len(found):
            return None
        sources, differences = sources[found], differences[found]
        unequal = np.abs(differences - (room_target - room_source))
        score = 2 * sources + differences - 2 * unequal
        equal = np.flatnonzero(score == score.max())
        # Of equal ones that with the shortest source, then with the shortest target.
        best = equal[np.argmin(sources[equal])]
        return int(sources[best]), int(sources[best] + differences[best])

    def _run_out(self, kind: Kind) -> None:
        source, target = kind
        diagonal = self._up_to[target - source + self._longest]
        end = int(np.searchsorted(diagonal, source, "right"))
        diagonal[source:end] = diagonal[source - 1] if source else -1

    def take(self, pattern: dict[Kind, int]) -> np.ndarray:
        """Take the pairs of as many rows of a pattern as there are: int64 [rows, pairs]."""
        rows = min(int(self._counts[kind]) // times for kind, times in pattern.items())
        members = []
        for kind, times in sorted(pattern.items()):
            begin = self._next[kind]
            members.append(self._order[begin : begin + rows * times].reshape(rows, times))
            self._next[kind] += rows * times
            self._counts[kind] -= rows * times
            if not self._counts[kind]:
                self._run_out(kind)
        return np.concatenate(members, axis=1)
