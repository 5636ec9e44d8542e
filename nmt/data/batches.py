"""Batches as a pure function of (corpus, seed, step), with little padding and few static shapes.

Several pairs share a row, told apart by segment numbers which the attention masks respect, so a
pair's loss does not depend on its neighbours in the row. Rows are filled once; every epoch draws a
new order of rows and of batches. The batch of any step can therefore be made without making the
ones before it, and resuming needs no iterator state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.data.encoded import EncodedCorpus
from nmt.data.tokenizer import BOS, EOS

Batch = dict[str, np.ndarray]


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
    longest = lengths[-1]
    fits = np.flatnonzero(np.maximum(source, target) <= longest)
    # Pairs of equal lengths on both sides are interchangeable: rows are planned over counts.
    counts = np.zeros((longest + 1, longest + 1), np.int64)
    np.add.at(counts, (source[fits], target[fits]), 1)
    order = fits[np.lexsort((fits, target[fits], source[fits]))]
    firsts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts.ravel(), out=firsts[1:])
    taken = np.zeros(counts.size, np.int64)

    packed = []
    for shorter, length in reversed(list(zip([0, *lengths], lengths, strict=False))):
        rows: list[np.ndarray] = []
        while (first := _longest_kind(counts, shorter)) is not None:
            pattern = _fill(counts, first, length)
            kinds, multiplicity = np.unique(pattern, return_counts=True)
            repeats = int((counts.ravel()[kinds] // multiplicity).min())
            flat = counts.reshape(-1)
            for _ in range(repeats):
                members = []
                for kind, times in zip(kinds, multiplicity, strict=True):
                    begin = firsts[kind] + taken[kind]
                    members.append(order[begin : begin + times])
                    taken[kind] += times
                rows.append(np.concatenate(members))
            flat[kinds] -= multiplicity * repeats
        if rows:
            offsets = np.zeros(len(rows) + 1, np.int64)
            np.cumsum([len(row) for row in rows], out=offsets[1:])
            packed.append(Rows(length, np.concatenate(rows), offsets))
    return packed[::-1]


def _longest_kind(counts: np.ndarray, longer_than: int) -> tuple[int, int] | None:
    """Return the (source, target) lengths of the longest pair left with a side of that size."""
    source, target = np.nonzero(counts)
    longest = np.maximum(source, target)
    eligible = longest > longer_than
    if not eligible.any():
        return None
    size = np.where(eligible, (source + target) * 1000 + longest, -1)
    best = int(np.argmax(size))
    return int(source[best]), int(target[best])


def _fill(counts: np.ndarray, first: tuple[int, int], length: int) -> list[int]:
    """Choose kinds of pairs, as flat indices into ``counts``, that fill one row."""
    width = counts.shape[1]
    left = counts.copy()
    room_source, room_target = length, length
    kind = first
    chosen = []
    sources, targets = np.meshgrid(*map(np.arange, counts.shape), indexing="ij")
    while True:
        chosen.append(kind[0] * width + kind[1])
        left[kind] -= 1
        room_source -= kind[0]
        room_target -= kind[1]
        window = left[: room_source + 1, : room_target + 1]
        if not window.any():
            return chosen
        # Large pairs first; among them those that leave both sides equally full.
        source = sources[: window.shape[0], : window.shape[1]]
        target = targets[: window.shape[0], : window.shape[1]]
        imbalance = np.abs((room_source - source) - (room_target - target))
        score = np.where(window > 0, source + target - 2 * imbalance, -(10**9))
        best = int(np.argmax(score))
        kind = (best // window.shape[1], best % window.shape[1])


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
        """Return the batch of the 0-based global ``step``: see `assemble` for what is in it.

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
        """Lay out rows of one shape, with empty rows up to the size of a batch.

        The target is shifted here and nowhere else: ``target`` begins with the begin mark, and
        ``labels`` ends with the end mark.

        Args:
            shape: index into `shapes`.
            rows: int [at most R], which rows.

        Returns:
            int32 arrays [R, L]: ``source``, ``target``, ``labels``; for each side ``_segments``
            (1, 2, … per pair, 0 for padding) and ``_positions`` (from 0 within each pair). Where
            pairs have weights in the loss, float32 [R, L] ``weights`` of the labels.
        """
        packed = self._rows[shape]
        begins, ends = packed.offsets[rows], packed.offsets[rows + 1]
        per_row = ends - begins
        pairs = packed.pairs[_ranges(begins, per_row)]
        row = np.repeat(np.arange(len(rows)), per_row)
        segment = _ranges(np.ones(len(rows), np.int64), per_row)

        size = (self._batch_rows[shape], packed.length)
        batch: Batch = {}
        for side, lengths in (("source", self._source_lengths), ("target", self._target_lengths)):
            length = lengths[pairs]
            # Where each pair begins: its row, plus what stands before it there.
            before = np.cumsum(length) - length
            row_begin = np.repeat(before[np.cumsum(per_row) - per_row], per_row)
            begin = row * packed.length + before - row_begin
            cells = _ranges(begin, length)
            segments, positions = np.zeros(size, np.int32), np.zeros(size, np.int32)
            segments.reshape(-1)[cells] = np.repeat(segment, length)
            positions.reshape(-1)[cells] = _ranges(np.zeros(len(pairs), np.int64), length)
            sequences = getattr(self._corpus, side)
            ids = sequences.ids[_ranges(np.asarray(sequences.offsets[pairs]), length - 1)]
            tokens = np.zeros(size, np.int32)
            tokens.reshape(-1)[_ranges(begin, length - 1)] = ids
            tokens.reshape(-1)[begin + length - 1] = EOS
            batch[f"{side}_segments"] = segments
            batch[f"{side}_positions"] = positions
            if side == "source":
                batch["source"] = tokens
            else:
                batch["labels"] = tokens
                shifted = np.zeros(size, np.int32)
                shifted.reshape(-1)[_ranges(begin + 1, length - 1)] = ids
                shifted.reshape(-1)[begin] = BOS
                batch["target"] = shifted
                if self._corpus.weights is not None:
                    weights = np.zeros(size, np.float32)
                    weights.reshape(-1)[cells] = np.repeat(self._corpus.weights[pairs], length)
                    batch["weights"] = weights
        return batch


def _ranges(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate ``arange(begin, begin + length)`` over all ranges."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begins - (ends - lengths), lengths)
