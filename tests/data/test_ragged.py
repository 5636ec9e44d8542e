"""Sequences of ids in one flat array."""

from __future__ import annotations

import numpy as np

from nmt.data.ragged import RaggedIds


def listed(sequences: RaggedIds) -> list[list[int]]:
    return [sequences[i].tolist() for i in range(len(sequences))]


def test_sequences() -> None:
    sequences = RaggedIds.of([np.array([7, 8, 9]), np.array([], np.int32), np.array([5])])
    assert sequences.ids.tolist() == [7, 8, 9, 5]
    assert sequences.ids.dtype == np.int32
    assert sequences.offsets.tolist() == [0, 3, 3, 4]
    assert len(sequences) == 3
    assert [sequences[i].tolist() for i in range(3)] == [[7, 8, 9], [], [5]]
    assert sequences.lengths.tolist() == [3, 0, 1]


def test_no_sequences() -> None:
    sequences = RaggedIds.of([])
    assert len(sequences) == 0
    assert sequences.lengths.tolist() == []
    assert sequences.ids.dtype == np.int32
    assert len(RaggedIds.from_lengths(np.zeros(0, np.int32), [])) == 0


def test_flat_ids_are_divided_by_lengths() -> None:
    ids = np.array([7, 8, 9, 5], np.uint16)
    sequences = RaggedIds.from_lengths(ids, np.array([3, 0, 1]))
    assert listed(sequences) == [[7, 8, 9], [], [5]]
    assert sequences.ids is ids
    assert sequences.offsets.dtype == np.int64


def test_parts_are_taken_and_joined() -> None:
    sequences = RaggedIds.of([np.array(ids, int) for ids in ([7, 8], [], [5], [6, 4, 3])])
    assert listed(sequences.take(np.array([3, 0, 1, 3]))) == [[6, 4, 3], [7, 8], [], [6, 4, 3]]
    assert listed(sequences.take(np.array([], int))) == []
    part = sequences.slice(1, 3)
    assert listed(part) == [[], [5]]
    assert part.ids.tolist() == [5]
    assert part.offsets.tolist() == [0, 0, 1]
    assert listed(sequences.slice(2, 9)) == [[5], [6, 4, 3]]
    assert listed(sequences.slice(1, 1)) == []
    joined = RaggedIds.join([part, sequences.slice(0, 1), sequences.slice(3, 4)])
    assert listed(joined) == [[], [5], [7, 8], [6, 4, 3]]
    assert joined.lengths.tolist() == [0, 1, 2, 3]
