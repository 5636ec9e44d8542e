"""Batches as a pure function of (corpus, seed, step), with little padding and few static shapes.

Several pairs are packed into a row. Attention masks separate them by segment ids, so the loss of a
pair does not depend on its neighbours. Rows are packed once; every epoch shuffles rows and batches.
The batch of a step is built without those before it, so resuming needs no iterator state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nmt.data.encoded import EncodedCorpus
from nmt.data.noise import RowNoise
from nmt.data.packing import PackedRows, pack
from nmt.data.ragged import concatenate_ranges
from nmt.data.tokenizer import BOS, EOS

Batch = dict[str, np.ndarray]
# Takes the number of rows in a batch; returns the indices of the rows to build, ascending,
# int64 [at least 1]. Indices beyond the last row give empty rows.
RowSelection = Callable[[int], np.ndarray]


class BatchPlan(ABC):
    """Rows of a few lengths, cut into batches.

    Args:
        rows: row length -> number of rows, shortest first.
        positions: per side in one batch; rows of length L make batches of positions // L rows, and
            at least one.
        pairs: see below.
        skipped: see below.
        tokens_per_epoch: see below.
        noise: changes pairs of the batches of training; None: they stay as they are.

    Attributes:
        shapes: (rows, row length) of every shape of batch.
        pairs: pairs in the rows.
        skipped: pairs left out because they are longer than the longest row.
        steps_per_epoch: batches of an epoch, in which every pair occurs once.
        tokens_per_epoch: tokens on both sides, EOS included.
        padding: share of positions without a token, on both sides, over an epoch.
    """

    def __init__(
        self,
        rows: Mapping[int, int],
        *,
        positions: int,
        pairs: int,
        skipped: int,
        tokens_per_epoch: int,
        noise: RowNoise | None = None,
    ) -> None:
        self._noise = noise
        self._row_counts = list(rows.values())
        self.shapes = [(max(1, positions // length), length) for length in rows]
        counts = [
            -(-count // size)
            for count, (size, _) in zip(self._row_counts, self.shapes, strict=True)
        ]
        self._ends = np.cumsum(counts)  # batches of each shape and all before it
        self.pairs = pairs
        self.skipped = skipped
        self.steps_per_epoch = sum(counts)
        self.tokens_per_epoch = tokens_per_epoch
        epoch_positions = 2 * sum(
            count * size * length for count, (size, length) in zip(counts, self.shapes, strict=True)
        )
        self.padding = 1 - tokens_per_epoch / epoch_positions if epoch_positions else 0.0

    def batch(self, step: int, shuffle: int = 0, selection: RowSelection | None = None) -> Batch:
        """Return the batch of a step: see `collate` for its arrays.

        Args:
            step: from 0, over all epochs.
            shuffle: number of the shuffle; each one orders the same pairs differently.
            selection: which rows of the batch are built; None: all.
        """
        shape_index, rows = self.locate(step, shuffle)
        size = self.shapes[shape_index][0]
        indices = np.arange(size) if selection is None else selection(size)
        filled = indices[indices < len(rows)]
        content = self.read_rows(shape_index, rows[filled])
        length = self.shapes[shape_index][1]
        if self._noise is not None:
            addresses = [(step, shuffle, row) for row in filled.tolist()]
            content = self._noise.change_rows(content, length, addresses)
        return collate((len(indices), length), content)

    @abstractmethod
    def locate(self, step: int, shuffle: int = 0) -> tuple[int, np.ndarray]:
        """Return the shape of the batch of a step (see `batch`), and its rows.

        Returns:
            Index into `shapes`, and indices of rows of that shape: int64 [at most R].
        """

    @abstractmethod
    def read_rows(self, shape_index: int, rows: np.ndarray) -> PackedRows:
        """Return rows of one shape, without noise.

        Args:
            shape_index: index into `shapes`.
            rows: int [at most R], indices of rows.
        """

    def assemble(self, shape_index: int, rows: np.ndarray) -> Batch:
        """Lay out rows of one shape, followed by empty rows, without noise: see `collate`.

        Args:
            shape_index: index into `shapes`.
            rows: int [at most R], indices of rows.
        """
        return collate(self.shapes[shape_index], self.read_rows(shape_index, rows))

    def in_order(self) -> Iterator[Batch]:
        """Yield every pair once, unshuffled: for validation."""
        for number in range(self.steps_per_epoch):
            yield self.assemble(*self.rows_of_batch(number))

    def rows_of_batch(self, number: int) -> tuple[int, np.ndarray]:
        """Return the shape of a batch, by its unshuffled number, and its rows: see `locate`."""
        shape_index = int(np.searchsorted(self._ends, number, "right"))
        before = int(self._ends[shape_index - 1]) if shape_index else 0
        size = self.shapes[shape_index][0]
        first = (number - before) * size
        return shape_index, np.arange(first, min(first + size, self._row_counts[shape_index]))


class InMemoryBatches(BatchPlan):
    """The training batches of an encoded corpus in memory.

    Args:
        corpus: the encoded corpus.
        row_lengths: static row lengths; each gives one shape of batch.
        positions: per side in one batch.
        seed: of the shuffles.
        noise: see `BatchPlan`.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        *,
        row_lengths: Sequence[int],
        positions: int,
        seed: int,
        noise: RowNoise | None = None,
    ) -> None:
        self._corpus = corpus
        self._seed = seed
        source, target = corpus.source.lengths + 1, corpus.target.lengths + 1  # EOS
        self._rows = pack(source, target, row_lengths, leaves_room=noise is not None)
        pairs = sum(len(rows.pairs) for rows in self._rows)
        super().__init__(
            {rows.length: len(rows) for rows in self._rows},
            positions=positions,
            pairs=pairs,
            skipped=len(corpus) - pairs,
            tokens_per_epoch=sum(int((source + target)[rows.pairs].sum()) for rows in self._rows),
            noise=noise,
        )
        self._shuffled_epoch = (-1, 0)  # epoch and shuffle of the batches that follow
        self._shuffled: list[tuple[int, np.ndarray]] = []

    def locate(self, step: int, shuffle: int = 0) -> tuple[int, np.ndarray]:
        """See `BatchPlan.locate`."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if (epoch, shuffle) != self._shuffled_epoch:
            self._shuffled = self._shuffle(epoch, shuffle)
            self._shuffled_epoch = epoch, shuffle
        return self._shuffled[position]

    def _shuffle(self, epoch: int, shuffle: int) -> list[tuple[int, np.ndarray]]:
        generator = np.random.default_rng([self._seed, epoch, *([shuffle] if shuffle else [])])
        permuted = [generator.permutation(len(rows)) for rows in self._rows]
        unshuffled = (self.rows_of_batch(number) for number in range(self.steps_per_epoch))
        batches = [(index, permuted[index][rows]) for index, rows in unshuffled]
        return [batches[i] for i in generator.permutation(len(batches))]

    def read_rows(self, shape_index: int, rows: np.ndarray) -> PackedRows:
        """See `BatchPlan.read_rows`."""
        packed = self._rows[shape_index]
        begins, ends = packed.offsets[rows], packed.offsets[rows + 1]
        pairs = packed.pairs[concatenate_ranges(begins, ends - begins)]
        corpus = self._corpus
        return PackedRows(
            ends - begins,
            corpus.source.take(pairs),
            corpus.target.take(pairs),
            None if corpus.weights is None else corpus.weights[pairs],
        )


def collate(shape: tuple[int, int], rows: PackedRows) -> Batch:
    """Lay out pairs in rows, followed by empty rows.

    The target is shifted here and nowhere else: ``target`` begins with BOS, and
    ``labels`` ends with EOS.

    Args:
        shape: rows R of the batch, and their length L in tokens.
        rows: at most R.

    Returns:
        int32 arrays [R, L]: ``source``, ``target``, ``labels``; for each side ``_segments``
        (1, 2, … per pair, 0 for padding) and ``_positions`` (from 0 within each pair). If pairs
        have weights, also float32 [R, L] ``weights`` of the labels.
    """
    per_row, source, target, weights = rows
    row = np.repeat(np.arange(len(per_row)), per_row)  # [pairs]
    segment = concatenate_ranges(np.ones(len(per_row), np.int64), per_row)  # [pairs]

    def scatter(cells: np.ndarray, values: np.ndarray, dtype: type = np.int32) -> np.ndarray:
        """Return an array [R, L] with values in these cells, and 0 elsewhere."""
        array: np.ndarray = np.zeros(shape, dtype)
        array.reshape(-1)[cells] = values
        return array

    batch: Batch = {}
    for name, side in (("source", source), ("target", target)):
        bare = side.lengths
        length = bare + 1  # with EOS
        before = side.offsets[:-1] + np.arange(len(side))  # tokens of all pairs before each pair
        row_begin = np.repeat(before[np.cumsum(per_row) - per_row], per_row)
        begin = row * shape[1] + before - row_begin  # cell of each pair's first token
        cells = concatenate_ranges(begin, length)
        batch[f"{name}_segments"] = scatter(cells, np.repeat(segment, length))
        batch[f"{name}_positions"] = scatter(
            cells, concatenate_ranges(np.zeros(len(length), np.int64), length)
        )
        tokens = scatter(concatenate_ranges(begin, bare), side.ids)
        tokens.reshape(-1)[begin + bare] = EOS
        if name == "source":
            batch["source"] = tokens
            continue
        batch["labels"] = tokens
        shifted = scatter(concatenate_ranges(begin + 1, bare), side.ids)
        shifted.reshape(-1)[begin] = BOS
        batch["target"] = shifted
        if weights is not None:
            batch["weights"] = scatter(cells, np.repeat(weights, length), np.float32)
    return batch
