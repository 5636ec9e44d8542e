"""Batches as a pure function of (corpus, seed, step), with little padding and few static shapes.

Several pairs share a row, told apart by segment numbers which the attention masks respect, so a
pair's loss does not depend on its neighbours in the row. Rows are filled once; every epoch draws a
new order of rows and of batches. The batch of any step can therefore be made without making the
ones before it, and resuming needs no iterator state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.encoded import EncodedCorpus, Sequences
from nmt.data.packing import pack
from nmt.data.tokenizer import BOS, EOS

Batch = dict[str, np.ndarray]


class Batches:
    """The training batches of an encoded corpus.

    Args:
        corpus: what to train on.
        row_lengths: static row lengths; each makes one shape of batch.
        tokens: positions per side in one batch; a batch of rows of length L has tokens // L rows,
            and at least one.
        seed: of the order.

    Attributes:
        skipped: pairs longer than the longest row, left out.
        steps_per_epoch: batches in which every pair occurs once.
        padding: share of positions that hold no token, both sides, over an epoch.
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
        self._source_lengths = np.asarray(corpus.source.lengths) + 1  # end mark
        self._target_lengths = np.asarray(corpus.target.lengths) + 1  # end mark
        self._rows = pack(self._source_lengths, self._target_lengths, row_lengths)
        self._batch_rows = [max(1, tokens // rows.length) for rows in self._rows]
        self._counts = [
            -(-len(rows) // size) for rows, size in zip(self._rows, self._batch_rows, strict=True)
        ]
        self.pairs = sum(len(rows.pairs) for rows in self._rows)
        self.skipped = len(corpus) - self.pairs
        self.steps_per_epoch = sum(self._counts)
        real = sum(
            int(self._source_lengths[rows.pairs].sum() + self._target_lengths[rows.pairs].sum())
            for rows in self._rows
        )
        positions = 2 * sum(
            count * size * rows.length
            for count, size, rows in zip(self._counts, self._batch_rows, self._rows, strict=True)
        )
        self.tokens_per_epoch = real
        self.padding = 1 - real / positions if positions else 0.0
        self._shuffle = (-1, 0)  # the epoch and order of what follows
        self._order: list[tuple[int, np.ndarray]] = []

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(rows, row length) of every shape of batch."""
        return [
            (size, rows.length) for size, rows in zip(self._batch_rows, self._rows, strict=True)
        ]

    def batch(self, step: int, order: int = 0) -> Batch:
        """Return the batch of the 0-based global ``step``: see `lay_out` for what is in it.

        Args:
            step: over all epochs.
            order: each is another one of the same pairs.
        """
        epoch, position = divmod(step, self.steps_per_epoch)
        if (epoch, order) != self._shuffle:
            self._order = self._shuffled(epoch, order)
            self._shuffle = epoch, order
        shape, rows = self._order[position]
        return self.assemble(shape, rows)

    def in_order(self) -> Iterator[Batch]:
        """Yield every pair once, unshuffled: for validation."""
        for shape, rows in enumerate(self._rows):
            yield from (self.assemble(shape, part) for part in self._parts(shape, len(rows)))

    def _parts(self, shape: int, count: int) -> list[np.ndarray]:
        size = self._batch_rows[shape]
        return [np.arange(i, min(i + size, count)) for i in range(0, count, size)]

    def _shuffled(self, epoch: int, order: int) -> list[tuple[int, np.ndarray]]:
        generator = np.random.default_rng([self._seed, epoch, *([order] if order else [])])
        batches = []
        for shape, rows in enumerate(self._rows):
            shuffled = generator.permutation(len(rows))
            batches += [(shape, shuffled[part]) for part in self._parts(shape, len(rows))]
        return [batches[i] for i in generator.permutation(len(batches))]

    def assemble(self, shape: int, rows: np.ndarray) -> Batch:
        """Lay out rows of one shape, with empty rows up to the size of a batch: see `lay_out`.

        Args:
            shape: index into `shapes`.
            rows: int [at most R], which rows.
        """
        packed = self._rows[shape]
        begins, ends = packed.offsets[rows], packed.offsets[rows + 1]
        pairs = packed.pairs[ranges(begins, ends - begins)]
        corpus = self._corpus
        return lay_out(
            self.shapes[shape],
            ends - begins,
            source=_gather(corpus.source, pairs),
            target=_gather(corpus.target, pairs),
            weights=None if corpus.weights is None else corpus.weights[pairs],
        )


class Side(NamedTuple):
    """One side of the pairs of a batch."""

    lengths: np.ndarray  # int64 [pairs], in tokens, without end marks
    ids: np.ndarray  # int [all tokens], pair after pair


def _gather(sequences: Sequences, pairs: np.ndarray) -> Side:
    begins = np.asarray(sequences.offsets[pairs])
    lengths = np.asarray(sequences.offsets[pairs + 1]) - begins
    return Side(lengths, sequences.ids[ranges(begins, lengths)])


def lay_out(
    size: tuple[int, int],
    per_row: np.ndarray,
    *,
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
