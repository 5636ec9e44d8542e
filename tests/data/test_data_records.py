"""Rows read from a file are the rows that were packed in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nmt.data.batches import InMemoryBatches, collate
from nmt.data.encoded import EncodedCorpus
from nmt.data.packing import pack
from nmt.data.ragged import RaggedIds
from nmt.data.records import map_records, read_records, type_of_ids, write_records


def corpus_of(pairs: int, largest: int, *, weighed: bool) -> EncodedCorpus:
    rng = np.random.default_rng(7)
    sides = [
        RaggedIds.of([rng.integers(4, largest, rng.integers(0, 30)) for _ in range(pairs)])
        for _ in range(2)
    ]
    weights = rng.random(pairs).astype(np.float32) if weighed else None
    return EncodedCorpus(*sides, weights)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("vocabulary_size", [65_536, 65_537])
def test_batches_are_those_of_memory(tmp_path: Path, vocabulary_size: int, weighed: bool) -> None:
    corpus = corpus_of(300, vocabulary_size, weighed=weighed)
    lengths = [16, 32]
    packed = pack(corpus.source.lengths + 1, corpus.target.lengths + 1, lengths)
    dtype = type_of_ids(vocabulary_size)
    tokens = write_records(tmp_path / "rows.bin", corpus, packed, dtype)

    batches = InMemoryBatches(corpus, row_lengths=lengths, positions=128, seed=0)
    assert tokens == batches.tokens_per_epoch
    assert dtype == (np.uint16 if vocabulary_size == 65_536 else np.int32)
    begins, records = map_records(tmp_path / "rows.bin", sum(map(len, packed)), dtype)
    assert begins[-1] == len(records)
    rng = np.random.default_rng(1)
    first = 0
    for shape, rows in enumerate(packed):
        for _ in range(5):
            chosen = rng.permutation(len(rows))[: batches.shapes[shape][0]]
            cut = [records[begins[first + i] : begins[first + i + 1]] for i in chosen]
            sizes = np.array([len(record) for record in cut])
            parts = read_records(np.concatenate(cut), np.cumsum(sizes) - sizes, has_weights=weighed)
            batch = collate(batches.shapes[shape], parts)
            expected = batches.assemble(shape, chosen)
            assert batch.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(batch[name], array, err_msg=name)
                assert batch[name].dtype == array.dtype
        first += len(rows)


def test_no_row_is_a_file_as_well(tmp_path: Path) -> None:
    empty = corpus_of(0, 100, weighed=False)
    assert write_records(tmp_path / "rows.bin", empty, [], np.uint16) == 0
    begins, records = map_records(tmp_path / "rows.bin", 0, np.uint16)
    assert begins.tolist() == [0]
    assert len(records) == 0
