"""Rows of several pairs, and how pairs are packed into them: best fit first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt.data.ragged import RaggedIds


@dataclass(frozen=True)
class RowPlan:
    """Which pairs each row of one length holds."""

    length: int  # tokens per side
    pairs: np.ndarray  # int64 [pairs], indices of pairs, row by row
    offsets: np.ndarray  # int64 [rows + 1], where each row begins in `pairs`

    def __len__(self) -> int:
        return len(self.offsets) - 1


class PackedRows(NamedTuple):
    """The pairs of some rows, row after row."""

    per_row: np.ndarray  # int64 [rows], pairs in each
    source: RaggedIds
    target: RaggedIds
    weights: np.ndarray | None  # float32 [pairs], in the loss; None: all are 1


def pack(
    source: np.ndarray,
    target: np.ndarray,
    row_lengths: Sequence[int],
    *,
    leaves_room: bool = False,
) -> list[RowPlan]:
    """Pack pairs into rows: best fit, longest first.

    Every pair goes into a row of the smallest length that holds both its sides; what room is left
    in longer rows is filled with shorter pairs. Pairs longer than every row are left out.

    Args:
        source: int [pairs], lengths in tokens, EOS included.
        target: int [pairs], lengths in tokens, EOS included.
        row_lengths: tokens per side.
        leaves_room: leave room for changes that lengthen pairs: a token for every other pair.

    Returns:
        One `RowPlan` per length that has rows, shortest first.
    """
    lengths = sorted(set(row_lengths))
    if leaves_room:
        source, target = (
            np.where(side < lengths[-1], side + np.arange(len(side)) % 2, side)
            for side in (source, target)
        )
    stock = _Stock(source, target, lengths[-1])
    packed = []
    for shorter, length in reversed(list(zip([0, *lengths], lengths, strict=False))):
        rows, sizes = [], []
        for first in stock.longest_first(shorter):
            row_template = stock.fill(first, length)
            members = stock.take(row_template)
            rows.append(members.reshape(-1))
            sizes.append(np.full(len(members), members.shape[1]))
        if rows:
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes))])
            packed.append(RowPlan(length, np.concatenate(rows), offsets))
    return packed[::-1]


class _Stock:
    """The pairs that are in no row yet, counted by shape.

    A shape is a combination of (source, target) lengths, identified by its index. Memory grows with
    the number of shapes, not with the lengths.

    Args:
        source: int [pairs], lengths in tokens, EOS included.
        target: int [pairs], lengths in tokens, EOS included.
        longest: tokens per side; longer pairs are left out.
    """

    def __init__(self, source: np.ndarray, target: np.ndarray, longest: int) -> None:
        fits = np.flatnonzero(np.maximum(source, target) <= longest)
        order = np.lexsort((fits, target[fits], source[fits]))
        self._order = fits[order]  # shape by shape
        codes = source[self._order].astype(np.int64) * (longest + 1) + target[self._order]
        shapes, self._next, self._counts = np.unique(codes, return_index=True, return_counts=True)
        self._sources, self._targets = np.divmod(shapes, longest + 1)
        # Shapes of equal difference target - source form a diagonal; on each diagonal, the longest
        # shape that fits fills a row best. Ranks 1, 2, … order the shapes by diagonal, then length.
        differences = self._targets - self._sources
        by_diagonal = np.lexsort((self._sources, differences))
        self._ranks = np.empty_like(by_diagonal)  # rank of each shape
        self._ranks[by_diagonal] = np.arange(1, len(shapes) + 1)
        self._shapes = np.concatenate([[-1], by_diagonal])  # shape of each rank
        self._differences, begins = np.unique(differences[by_diagonal], return_index=True)
        self._begins = begins + 1  # first rank of each diagonal
        self._width = longest + 1
        self._codes = differences[by_diagonal] * self._width + self._sources[by_diagonal]
        # For each rank, the nearest rank at or before it whose shape is in stock; 0: none is.
        self._in_stock = np.arange(len(shapes) + 1)

    def longest_first(self, longer_than: int) -> Iterator[int]:
        """Yield shapes with a side longer than this, each again while it is in stock."""
        shapes = np.flatnonzero(self._counts)
        longest = np.maximum(self._sources[shapes], self._targets[shapes])
        size = (self._sources[shapes] + self._targets[shapes]) * 1000 + longest
        # Stock only shrinks, so the longest shape left never precedes the current one.
        for i in np.argsort(-size, kind="stable"):
            while longest[i] > longer_than and self._counts[shapes[i]]:
                yield int(shapes[i])

    def fill(self, first: int, length: int) -> dict[int, int]:
        """Return the template of a row of ``length`` tokens with ``first``: shape -> count.

        Large pairs come first, and among them those that leave both sides equally full: the score
        of a shape is s + t - 2 |(room_s - s) - (room_t - t)|. The last term is constant on a
        diagonal, so the longest shape that fits is the best of its diagonal.
        """
        row_template: dict[int, int] = {}
        room_source = room_target = length
        shape: int | None = first
        while shape is not None:
            row_template[shape] = row_template.get(shape, 0) + 1
            if row_template[shape] == self._counts[shape]:
                self._run_out(shape)  # for good: this template uses up the shape in one row
            room_source -= int(self._sources[shape])
            room_target -= int(self._targets[shape])
            shape = self._best(room_source, room_target)
        return row_template

    def _best(self, room_source: int, room_target: int) -> int | None:
        """Return the shape in stock that fills this room best; None if none fits."""
        first, end = np.searchsorted(self._differences, (-room_source, room_target + 1))
        differences = self._differences[first:end]
        max_sources = np.minimum(room_source, room_target - differences)
        ranks = self._in_stock[
            np.searchsorted(self._codes, differences * self._width + max_sources, "right")
        ]
        fitting = np.flatnonzero(ranks >= self._begins[first:end])  # on the same diagonal
        if not len(fitting):
            return None
        shapes = self._shapes[ranks[fitting]]
        sources, differences = self._sources[shapes], differences[fitting]
        unequal = np.abs(differences - (room_target - room_source))
        score = 2 * sources + differences - 2 * unequal
        best = np.flatnonzero(score == score.max())
        # Ties: the shortest source, then the shortest target.
        return int(shapes[best[np.argmin(sources[best])]])

    def _run_out(self, shape: int) -> None:
        rank = self._ranks[shape]
        if self._in_stock[rank] == rank:
            end = np.searchsorted(self._in_stock, rank, "right")
            self._in_stock[rank:end] = self._in_stock[rank - 1]

    def take(self, row_template: dict[int, int]) -> np.ndarray:
        """Remove the pairs of all rows of this template; return them: int64 [rows, pairs]."""
        rows = min(int(self._counts[shape]) // times for shape, times in row_template.items())
        members = []
        for shape, times in sorted(row_template.items()):
            begin = self._next[shape]
            members.append(self._order[begin : begin + rows * times].reshape(rows, times))
            self._next[shape] += rows * times
            self._counts[shape] -= rows * times
            if not self._counts[shape]:
                self._run_out(shape)
        return np.concatenate(members, axis=1)
