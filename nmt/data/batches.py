"""Batches as a pure function of (corpus, seed, step), with little padding and few static shapes.

Several pairs share a row, told apart by segment numbers which the attention masks respect, so a
pair's loss does not depend on its neighbours in the row. Rows are filled once; every epoch draws a
new order of rows and of batches. The batch of any step can therefore be made without making the
ones before it, and resuming needs no iterator state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.encoded import EncodedCorpus, Sequences
from nmt.data.packing import pack
from nmt.data.tokenizer import BOS, EOS

Batch = dict[str, np.ndarray]
# From the number of rows in a batch: the indices of those to build, ascending, int64 [at least 1].
# Indices beyond the last row give empty rows.
RowSelection = Callable[[int], np.ndarray]


class BatchPlan(ABC):
    """Rows of a few lengths, cut into batches.

    Args:
        rows: how many there are of each length, shortest first.
        tokens: positions per side in one batch; a batch of rows of length L has tokens // L rows,
            and at least one.
        pairs: in the rows.
        skipped: see below.
        tokens_per_epoch: see below.

    Attributes:
        pairs: that stand in a row.
        skipped: pairs longer than the longest row, left out.
        steps_per_epoch: batches in which every pair occurs once.
        tokens_per_epoch: on both sides, end marks included.
        padding: share of positions that hold no token, both sides, over an epoch.
    """

    def __init__(
        self,
        rows: Mapping[int, int],
        *,
        tokens: int,
        pairs: int,
        skipped: int,
        tokens_per_epoch: int,
    ) -> None:
        self._row_counts = list(rows.values())
        # (rows, row length) of every shape of batch.
        self.shapes = [(max(1, tokens // length), length) for length in rows]
        counts = [
            -(-count // size)
            for count, (size, _) in zip(self._row_counts, self.shapes, strict=True)
        ]
        self._ends = np.cumsum(counts)  # of the batches of each shape
        self.pairs = pairs
        self.skipped = skipped
        self.steps_per_epoch = sum(counts)
        self.tokens_per_epoch = tokens_per_epoch
        positions = 2 * sum(
            count * size * length for count, (size, length) in zip(counts, self.shapes, strict=True)
        )
        self.padding = 1 - tokens_per_epoch / positions if positions else 0.0

    def batch(self, step: int, order: int = 0, selection: RowSelection | None = None) -> Batch:
        """Return the batch of the 0-based global ``step``: see `lay_out` for what is in it.

        Args:
            step: over all epochs.
            order: each is another one of the same pairs.
            selection: of a batch's rows, which ones are laid out; None: all.
        """
        shape, rows = self.draw(step, order)
        if selection is None:
            return self.assemble(shape, rows)
        chosen = selection(self.shapes[shape][0])
        return self.assemble(shape, rows[chosen[chosen < len(rows)]], len(chosen))

    @abstractmethod
    def draw(self, step: int, order: int = 0) -> tuple[int, np.ndarray]:
        """Return the shape of a batch, index into `shapes`, and its rows: int64 [at most R].

        Args:
            step: as in `batch`.
            order: as in `batch`.
        """

    @abstractmethod
    def assemble(self, shape: int, rows: np.ndarray, size: int | None = None) -> Batch:
        """Lay out rows of one shape, with empty rows behind them: see `lay_out`.

        Args:
            shape: index into `shapes`.
            rows: int [at most size], which rows.
            size: rows with the empty ones; None: those of a batch, R.
        """

    def size_of(self, shape: int, rows: int | None = None) -> tuple[int, int]:
        """Return (rows, row length) of a batch of a shape, or of so many rows."""
        usual, length = self.shapes[shape]
        return usual if rows is None else rows, length

    def in_order(self) -> Iterator[Batch]:
        """Yield every pair once, unshuffled: for validation."""
        for number in range(self.steps_per_epoch):
            yield self.assemble(*self.part(number))

    def part(self, number: int) -> tuple[int, np.ndarray]:
        """Return the shape of a batch, by its number in order, and its rows: int64 [at most R]."""
        shape = int(np.searchsorted(self._ends, number, "right"))
        before = int(self._ends[shape - 1]) if shape else 0
        size = self.shapes[shape][0]
        first = (number - before) * size
        return shape, np.arange(first, min(first + size, self._row_counts[shape]))


class Batches(BatchPlan):
    """The training batches of an encoded corpus in memory.

    Args:
        corpus: what to train on.
        row_lengths: static row lengths; each makes one shape of batch.
        tokens: positions per side in one batch.
        seed: of the order.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        row_lengths: Sequence[int],
        tokens: int,
        seed: int,
    ) -> None:
        self._corpus = corpus
        self._seed = seed
        source, target = corpus.source.lengths + 1, corpus.target.lengths + 1  # end marks
        self._rows = pack(source, target, row_lengths)
        pairs = sum(len(rows.pairs) for rows in self._rows)
        super().__init__(
            {rows.length: len(rows) for rows in self._rows},
            tokens=tokens,
            pairs=pairs,
            skipped=len(corpus) - pairs,
            tokens_per_epoch=sum(int((source + target)[rows.pairs].sum()) for rows in self._rows),
        )
        self._shuffle = (-1, 0)  # the epoch and order of what follows
        self._order: list[tuple[int, np.ndarray]] = []

    def draw(self, step: int, order: int = 0) -> tuple[int, np.ndarray]:
        """Return the shape of the batch of a step, and its rows: see `BatchPlan.draw`."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if (epoch, order) != self._shuffle:
            self._order = self._shuffled(epoch, order)
            self._shuffle = epoch, order
        return self._order[position]

    def _shuffled(self, epoch: int, order: int) -> list[tuple[int, np.ndarray]]:
        generator = np.random.default_rng([self._seed, epoch, *([order] if order else [])])
        moved = [generator.permutation(len(rows)) for rows in self._rows]
        parts = (self.part(number) for number in range(self.steps_per_epoch))
        batches = [(shape, moved[shape][rows]) for shape, rows in parts]
        return [batches[i] for i in generator.permutation(len(batches))]

    def assemble(self, shape: int, rows: np.ndarray, size: int | None = None) -> Batch:
        """Lay out rows of one shape: see `BatchPlan.assemble`."""
        packed = self._rows[shape]
        begins, ends = packed.offsets[rows], packed.offsets[rows + 1]
        pairs = packed.pairs[ranges(begins, ends - begins)]
        corpus = self._corpus
        return lay_out(
            self.size_of(shape, size),
            ends - begins,
            gather(corpus.source, pairs),
            gather(corpus.target, pairs),
            None if corpus.weights is None else corpus.weights[pairs],
        )


class Side(NamedTuple):
    """One side of the pairs of a batch."""

    lengths: np.ndarray  # int64 [pairs], in tokens, without end marks
    ids: np.ndarray  # int [all tokens], pair after pair


def gather(sequences: Sequences, pairs: np.ndarray) -> Side:
    """Return one side of some pairs of an encoded corpus, one after the other."""
    begins = np.asarray(sequences.offsets[pairs])
    lengths = np.asarray(sequences.offsets[pairs + 1]) - begins
    return Side(lengths, sequences.ids[ranges(begins, lengths)])


def lay_out(
    size: tuple[int, int],
    per_row: np.ndarray,
    source: Side,
    target: Side,
    weights: np.ndarray | None = None,
) -> Batch:
    """Lay out pairs in rows, with empty rows up to the size of a batch.

    The target is shifted here and nowhere else: ``target`` begins with the begin mark, and
    ``labels`` ends with the end mark.

    Args:
        size: rows of a batch R, and their length L in tokens.
        per_row: int [at most R], pairs in each row.
        source: of the pairs, row after row.
        target: of the same pairs.
        weights: float32 [pairs], in the loss; None: all are 1.

    Returns:
        int32 arrays [R, L]: ``source``, ``target``, ``labels``; for each side ``_segments``
        (1, 2, … per pair, 0 for padding) and ``_positions`` (from 0 within each pair). Where
        pairs have weights in the loss, float32 [R, L] ``weights`` of the labels.
    """
    row = np.repeat(np.arange(len(per_row)), per_row)
    segment = ranges(np.ones(len(per_row), np.int64), per_row)

    batch: Batch = {}
    for side, (bare, ids) in (("source", source), ("target", target)):
        length = bare + 1  # with the end mark
        # Where each pair begins: its row, plus what stands before it there.
        before = np.cumsum(length) - length
        row_begin = np.repeat(before[np.cumsum(per_row) - per_row], per_row)
        begin = row * size[1] + before - row_begin
        cells = ranges(begin, length)
        segments, positions = np.zeros(size, np.int32), np.zeros(size, np.int32)
        segments.reshape(-1)[cells] = np.repeat(segment, length)
        positions.reshape(-1)[cells] = ranges(np.zeros(len(length), np.int64), length)
        tokens = np.zeros(size, np.int32)
        tokens.reshape(-1)[ranges(begin, bare)] = ids
        tokens.reshape(-1)[begin + bare] = EOS
        batch[f"{side}_segments"] = segments
        batch[f"{side}_positions"] = positions
        if side == "source":
            batch["source"] = tokens
        else:
            batch["labels"] = tokens
            shifted = np.zeros(size, np.int32)
            shifted.reshape(-1)[ranges(begin + 1, bare)] = ids
            shifted.reshape(-1)[begin] = BOS
            batch["target"] = shifted
            if weights is not None:
                weighed = np.zeros(size, np.float32)
                weighed.reshape(-1)[cells] = np.repeat(weights, length)
                batch["weights"] = weighed
    return batch


def ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(begin, begin + length)`` over all ranges."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begins - (ends - lengths), lengths)
