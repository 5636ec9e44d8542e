"""Embeddings that a new run starts from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from conftest import transformer

from nmt.data.batches import Batches
from nmt.data.encoded import EncodedCorpus, Sequences
from nmt.training import initial_embeddings
from nmt.training.initial_embeddings import TABLE, initialize_embeddings, sample_pairs
from nmt.training.process_group import ProcessGroup

SIZES: dict[str, Any] = {
    **{"vocabulary_size": 30, "d_model": 16, "num_heads": 2, "ffn_width": 32},
    **{"encoder_layers": 1, "decoder_layers": 1},
}
RNG = np.random.default_rng(1)
SOURCE = Sequences.of([RNG.integers(4, 25, RNG.integers(1, 9)) for _ in range(60)])
TARGET = Sequences.of([row + 1 for row in map(SOURCE.__getitem__, range(60))])
PLAN = Batches(EncodedCorpus(SOURCE, TARGET), row_lengths=[12, 24], positions=48, seed=1)


@pytest.mark.backend
def test_tokens_of_the_pairs_get_vectors_and_others_keep_theirs() -> None:
    model = transformer(**SIZES)
    before = {name: np.asarray(weight) for name, weight in model.named_weights().items()}
    message = initialize_embeddings(model, PLAN, ProcessGroup())
    assert "60 pairs" in message
    after = {name: np.asarray(weight) for name, weight in model.named_weights().items()}
    table, random = after.pop(TABLE), before.pop(TABLE)
    changed = (table != random).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(changed), np.unique([*SOURCE.ids, *TARGET.ids]))
    lengths = np.linalg.norm(table[changed], axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(random, axis=1).mean(), rtol=1e-3)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])


def test_every_process_gets_the_vectors_of_the_main_process() -> None:
    sent: list[str] = []

    class Group(ProcessGroup):
        def broadcast(self, value: Any) -> Any:
            sent.append(value)
            return sent[0]

    tables = []
    for process in range(2):
        model = transformer(**SIZES)
        initialize_embeddings(model, PLAN, Group(process=process, processes=2))
        tables.append(np.asarray(model.named_weights()[TABLE]))
    assert sent[1] == ""
    known = np.unique([*SOURCE.ids, *TARGET.ids])
    directions = [table / np.linalg.norm(table, axis=1, keepdims=True) for table in tables]
    np.testing.assert_allclose(directions[0][known], directions[1][known], rtol=1e-5)


def test_every_pair_counts_once_or_those_of_some_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = sample_pairs(PLAN)
    rows = np.split(source.ids, np.cumsum(source.lengths)[:-1])
    expected = [SOURCE[i] for i in range(len(SOURCE))]
    assert Counter(map(tuple, rows)) == Counter(map(tuple, expected))
    np.testing.assert_array_equal(target.lengths, source.lengths)
    np.testing.assert_array_equal(target.ids, source.ids + 1)
    monkeypatch.setattr(initial_embeddings, "_MAX_COOCCURRENCES", PLAN.tokens_per_epoch**2 // 180)
    few, _ = sample_pairs(PLAN)
    assert 10 < len(few.lengths) < 30
