"""Embeddings that a new run starts from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import PLAIN, transformer

from nmt.data.batches import InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds
from nmt.model import EncoderBlock, FeedForward, Transformer
from nmt.training import initial_embeddings
from nmt.training.initial_embeddings import (
    initialize_embeddings,
    initialize_residual_branches,
    sample_pairs,
)
from nmt.training.process_group import ProcessGroup

SIZES: dict[str, Any] = {
    **{"vocabulary_size": 30, "d_model": 16, "num_heads": 2, "ffn_width": 32},
    **{"encoder_layers": 1, "decoder_layers": 1},
}
RNG = np.random.default_rng(1)
SOURCE = RaggedIds.of([RNG.integers(4, 25, RNG.integers(1, 9)) for _ in range(60)])
TARGET = RaggedIds.of([row + 1 for row in map(SOURCE.__getitem__, range(60))])
PLAN = InMemoryBatches(EncodedCorpus(SOURCE, TARGET), row_lengths=[12, 24], positions=48, seed=1)


@pytest.mark.backend
def test_tokens_of_the_pairs_get_vectors_and_others_keep_theirs(tmp_path: Path) -> None:
    table = transformer(**SIZES).embedding.table
    random, messages = np.asarray(table), list[str]()
    initialize_embeddings(table, PLAN, tmp_path, ProcessGroup(), messages.append)
    [message] = messages
    assert "60 pairs" in message
    changed = (np.asarray(table) != random).any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(changed), np.unique([*SOURCE.ids, *TARGET.ids]))
    lengths = np.linalg.norm(np.asarray(table)[changed], axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(random, axis=1).mean(), rtol=1e-5)
    assert not list(tmp_path.iterdir())


def test_every_process_gets_the_vectors_of_the_main_process(tmp_path: Path) -> None:
    class Group(ProcessGroup):
        def barrier(self) -> None:
            """Let the main process wait here, with its file written, for the other one."""
            if self.is_main_process and not waited:
                waited.append(True)
                others = transformer(**SIZES).embedding.table
                group = Group(process=1, processes=2)
                initialize_embeddings(others, PLAN, tmp_path, group, messages.append)
                tables.append(np.asarray(others))

    tables, waited, messages = list[np.ndarray](), list[bool](), list[str]()
    table = transformer(**SIZES).embedding.table
    initialize_embeddings(table, PLAN, tmp_path, Group(processes=2), messages.append)
    known = np.unique([*SOURCE.ids, *TARGET.ids])
    directions = [
        each / np.linalg.norm(each, axis=1, keepdims=True) for each in (*tables, np.asarray(table))
    ]
    np.testing.assert_allclose(directions[0][known], directions[1][known], rtol=1e-5)
    assert len(messages) == 1
    assert not list(tmp_path.iterdir())


def _read_weights(model: Any) -> dict[str, np.ndarray]:
    return {name: np.array(weight) for name, weight in model.named_weights().items()}


def _find_changed(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> set[str]:
    return {name for name in before if (after[name] != before[name]).any()}


@pytest.mark.backend
def test_branches_start_small_and_cross_attention_adds_what_it_attends_to() -> None:
    model = transformer(**SIZES | {"encoder_layers": 2, "norm": "pre"})
    before = _read_weights(model)
    initialize_residual_branches(model)
    after = _read_weights(model)
    cross = [f"decoder_0/cross_attention/{name}/kernel" for name in ("value", "output")]
    small = [
        *(f"encoder_{i}/self_attention/output/kernel" for i in range(2)),
        "decoder_0/causal_self_attention/output/kernel",
        *(
            f"{block}/feed_forward/outer/kernel"
            for block in ("encoder_0", "encoder_1", "decoder_0")
        ),
    ]
    assert {*cross, *small} == _find_changed(before, after)
    for name in small:  # two branches of each encoder block, three of the decoder's
        np.testing.assert_allclose(after[name], before[name] / 7**0.5, rtol=1e-6)
    memory = RNG.normal(size=(1, 5, 16)).astype(np.float32)
    query = RNG.normal(size=(1, 3, 16)).astype(np.float32)
    layer = model.attention_layers("cross")[0]
    output, weights = map(np.asarray, layer(query, memory, return_weights=True))
    heads = [weights[0, h] @ memory[0, :, 8 * h : 8 * (h + 1)] for h in range(2)]
    np.testing.assert_allclose(output[0], np.concatenate(heads, axis=-1), atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "changed"),
    [
        ({"norm": "post"}, False),
        ({"key_value_heads": 1}, True),
        ({"heads": "own"}, True),
        ({"heads": "pooled"}, True),
        ({"attention_output": False}, True),
    ],
)
def test_cross_attention_that_cannot_be_an_identity_stays(
    sizes: dict[str, Any], changed: bool
) -> None:
    model = transformer(**SIZES | {"norm": "pre"} | sizes)
    before = _read_weights(model)
    initialize_residual_branches(model)
    names = _find_changed(before, _read_weights(model))
    assert bool(names) == changed
    assert not any("cross_attention" in name for name in names)


class Identity(keras.layers.Layer):
    def __init__(self, sizes: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def call(self, x: Any, **arguments: Any) -> Any:
        return x


class Block(EncoderBlock):
    """Attention of another class, and one more feed-forward layer."""

    attention_class = Identity

    def __init__(self, sizes: Any = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.first = FeedForward(self.sizes, name="first", dtype=self.dtype_policy)


class Custom(Transformer):
    encoder_block_class = Block


@pytest.mark.backend
def test_branches_that_a_subclass_adds_start_small_and_those_of_other_classes_stay() -> None:
    model = Custom(**PLAIN | SIZES | {"norm": "pre"})
    before = _read_weights(model)
    initialize_residual_branches(model)
    after = _read_weights(model)
    small = [f"encoder_0/{name}/outer/kernel" for name in ("first", "feed_forward")]
    assert {*small} < _find_changed(before, after)
    for name in small:  # two branches of the encoder's block, three of the decoder's
        np.testing.assert_allclose(after[name], before[name] / 5**0.5, rtol=1e-6)


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


def test_pairs_of_different_lengths_do_not_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [RNG.integers(4, 25, length) for length in [1] * 40 + [20] * 2]
    sides = RaggedIds.of(rows)
    plan = InMemoryBatches(EncodedCorpus(sides, sides), row_lengths=[24], positions=48, seed=1)
    limit = int(1.2 * plan.tokens_per_epoch**2 / plan.pairs)
    monkeypatch.setattr(initial_embeddings, "_MAX_COOCCURRENCES", limit)
    source, target = sample_pairs(plan)
    assert 0 < ((source.lengths + target.lengths) ** 2).sum() <= limit
    assert len(source.ids) == source.lengths.sum()
    assert len(source.lengths) < len(rows)
