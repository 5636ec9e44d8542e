"""Packed rows on disk. Each is one record, so that reading a row is reading one slice.

A record holds the number of its pairs, their source lengths, target lengths and optional weights,
then all source ids and all target ids. All are uint16, or int32 if the vocabulary is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.data.encoded import EncodedCorpus
from nmt.data.packing import PackedRows, RowPlan
from nmt.data.ragged import RaggedIds, concatenate_ranges


def type_of_ids(vocabulary_size: int) -> type[np.uint16 | np.int32]:
    """Return the smaller type that holds all ids."""
    return np.uint16 if vocabulary_size <= 1 << 16 else np.int32


def write_records(
    path: Path, corpus: EncodedCorpus, packed: Sequence[RowPlan], dtype: type[np.uint16 | np.int32]
) -> int:
    """Write rows, one row length after the other.

    Args:
        path: of the file. It holds int64 [rows + 1], the begins of records in units of ``dtype``,
            counted from the end of that table; then the records.
        corpus: the encoded corpus.
        packed: its rows, from `nmt.data.packing.pack`.
        dtype: of the records.

    Returns:
        The number of tokens on both sides, EOS included.
    """
    pairs = np.concatenate([np.zeros(0, np.int64), *(rows.pairs for rows in packed)])
    per_row = np.concatenate([np.zeros(0, np.int64), *(np.diff(rows.offsets) for rows in packed)])
    sides = [side.take(pairs) for side in (corpus.source, corpus.target)]
    words = 0 if corpus.weights is None else 4 // np.dtype(dtype).itemsize  # per weight
    first = np.cumsum(per_row) - per_row  # first pair of each row
    tokens = [np.add.reduceat(np.append(side.lengths, 0), first) for side in sides]
    row_tokens = tokens[0] + tokens[1]
    sizes = 1 + (2 + words) * per_row + row_tokens
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    records = np.empty(begins[-1], dtype)
    layout = _RecordLayout(begins[:-1], per_row, words)
    records[begins[:-1]] = per_row
    for i, side in enumerate(sides):
        records[layout.lengths(i)] = side.lengths
        records[concatenate_ranges(layout.ids(tokens[0] if i else 0), tokens[i])] = side.ids
    if corpus.weights is not None:
        records[layout.weights()] = corpus.weights[pairs].astype(np.float32).view(dtype)
    with path.open("wb") as file:
        file.write(begins.astype("<i8").data)
        file.write(records.data)
    return int(row_tokens.sum()) + 2 * len(pairs)


def map_records(
    path: Path, rows: int, dtype: type[np.uint16 | np.int32]
) -> tuple[np.ndarray, np.ndarray]:
    """Map a file of records; return int64 [rows + 1], their begins, and the records."""
    content = np.memmap(path, np.uint8, "r").view(np.ndarray)
    begins = content[: 8 * (rows + 1)].view("<i8")
    return begins, content[8 * (rows + 1) :].view(dtype)


def read_records(records: np.ndarray, begins: np.ndarray, *, has_weights: bool) -> PackedRows:
    """Return the content of records.

    Args:
        records: concatenated records.
        begins: where each begins: int64 [rows].
        has_weights: whether they have weights.
    """
    per_row = records[begins].astype(np.int64)
    words = 4 // records.itemsize if has_weights else 0
    layout = _RecordLayout(begins, per_row, words)
    first = np.cumsum(per_row) - per_row
    lengths = [records[layout.lengths(i)].astype(np.int64) for i in (0, 1)]
    tokens = [np.add.reduceat(side, first) for side in lengths]
    source_ids = records[concatenate_ranges(layout.ids(0), tokens[0])]
    target_ids = records[concatenate_ranges(layout.ids(tokens[0]), tokens[1])]
    weights = records[layout.weights()].view(np.float32) if has_weights else None
    source = RaggedIds.from_lengths(source_ids, lengths[0])
    target = RaggedIds.from_lengths(target_ids, lengths[1])
    return PackedRows(per_row, source, target, weights)


class _RecordLayout:
    """Indices of the fields of records.

    Args:
        begins: int64 [rows], of the records.
        per_row: int64 [rows], pairs of each.
        words: size of a weight, in units of the record's type; 0: no weights.
    """

    def __init__(self, begins: np.ndarray, per_row: np.ndarray, words: int) -> None:
        self._begins, self._per_row, self._words = begins, per_row, words

    def lengths(self, side: int) -> np.ndarray:
        """Return the indices of the lengths of a side, pair after pair."""
        return concatenate_ranges(self._begins + 1 + side * self._per_row, self._per_row)

    def weights(self) -> np.ndarray:
        """Return the indices of the words of weights, pair after pair."""
        return concatenate_ranges(self._begins + 1 + 2 * self._per_row, self._words * self._per_row)

    def ids(self, before: np.ndarray | int) -> np.ndarray:
        """Return where the ids of each row begin, plus ``before``: int64 [rows]."""
        return self._begins + 1 + (2 + self._words) * self._per_row + before
