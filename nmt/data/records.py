"""Rows of a batch on disk: each a record of its own, so that to read a row is to read one slice.

A record is the number of its pairs, their lengths on both sides, their weights if there are any,
and their ids, side by side. All are of one type: uint16, or int32 where a vocabulary is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.data.batches import Side, gather, ranges
from nmt.data.encoded import EncodedCorpus
from nmt.data.packing import Rows


def type_of_ids(vocabulary_size: int) -> type[np.uint16 | np.int32]:
    """Return the smallest type that holds all ids."""
    return np.uint16 if vocabulary_size <= 1 << 16 else np.int32


def write_records(
    path: Path, corpus: EncodedCorpus, packed: Sequence[Rows], dtype: type[np.uint16 | np.int32]
) -> int:
    """Write rows, one length after the other.

    Args:
        path: of the file: int64 [rows + 1], where records begin, in units of ``dtype`` behind that;
            then the records.
        corpus: what the rows are of.
        packed: see `nmt.data.packing.pack`.
        dtype: of the records.

    Returns:
        The number of tokens on both sides, end marks included.
    """
    pairs = np.concatenate([np.zeros(0, np.int64), *(rows.pairs for rows in packed)])
    per_row = np.concatenate([np.zeros(0, np.int64), *(np.diff(one.offsets) for one in packed)])
    sides = [gather(one, pairs) for one in (corpus.source, corpus.target)]
    words = 0 if corpus.weights is None else 4 // np.dtype(dtype).itemsize  # of a weight
    first = np.cumsum(per_row) - per_row  # pair of each row
    tokens = [np.add.reduceat(np.append(side.lengths, 0), first) for side in sides]
    in_row = tokens[0] + tokens[1]
    sizes = 1 + (2 + words) * per_row + in_row
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    records = np.empty(begins[-1], dtype)
    places = _Places(begins[:-1], per_row, words)
    records[begins[:-1]] = per_row
    for i, side in enumerate(sides):
        records[places.lengths(i)] = side.lengths
        records[ranges(places.ids(tokens[0] if i else 0), tokens[i])] = side.ids
    if corpus.weights is not None:
        records[places.weights()] = corpus.weights[pairs].astype(np.float32).view(dtype)
    with path.open("wb") as file:
        file.write(begins.astype("<i8").data)
        file.write(records.data)
    return int(in_row.sum()) + 2 * len(pairs)


def map_records(
    path: Path, rows: int, dtype: type[np.uint16 | np.int32]
) -> tuple[np.ndarray, np.ndarray]:
    """Map a file of records: int64 [rows + 1], where they begin, and the records."""
    whole = np.memmap(path, np.uint8, "r").view(np.ndarray)
    begins = whole[: 8 * (rows + 1)].view("<i8")
    return begins, whole[8 * (rows + 1) :].view(dtype)


def read_records(
    records: np.ndarray, begins: np.ndarray, *, weighed: bool
) -> tuple[np.ndarray, Side, Side, np.ndarray | None]:
    """Take records apart.

    Args:
        records: one behind the other.
        begins: where each begins: int64 [rows].
        weighed: whether they have weights.

    Returns:
        What `nmt.data.batches.lay_out` takes: pairs of each row, int64 [rows]; both sides; weights,
        float32 [pairs], if there are any.
    """
    per_row = records[begins].astype(np.int64)
    words = 4 // records.itemsize if weighed else 0
    places = _Places(begins, per_row, words)
    first = np.cumsum(per_row) - per_row
    lengths = [records[places.lengths(i)].astype(np.int64) for i in (0, 1)]
    tokens = [np.add.reduceat(one, first) for one in lengths]
    source = Side(lengths[0], records[ranges(places.ids(0), tokens[0])])
    target = Side(lengths[1], records[ranges(places.ids(tokens[0]), tokens[1])])
    weights = records[places.weights()].view(np.float32) if weighed else None
    return per_row, source, target, weights


class _Places:
    """Where the parts of records stand.

    Args:
        begins: int64 [rows], of the records.
        per_row: int64 [rows], pairs of each.
        words: that each weight takes.
    """

    def __init__(self, begins: np.ndarray, per_row: np.ndarray, words: int) -> None:
        self._begins, self._per_row, self._words = begins, per_row, words

    def lengths(self, side: int) -> np.ndarray:
        """Of lengths, pair after pair."""
        return ranges(self._begins + 1 + side * self._per_row, self._per_row)

    def weights(self) -> np.ndarray:
        """Of the words of weights, pair after pair."""
        return ranges(self._begins + 1 + 2 * self._per_row, self._words * self._per_row)

    def ids(self, before: np.ndarray | int) -> np.ndarray:
        """Of each row's first id, behind so many others: int64 [rows]."""
        return self._begins + 1 + (2 + self._words) * self._per_row + before
