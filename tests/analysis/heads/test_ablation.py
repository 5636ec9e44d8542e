"""A head that is masked is gone, and comes back bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import transformer
from keras import ops

from nmt import Translator
from nmt.analysis.heads.ablation import (
    Ablation,
    Head,
    HeadScores,
    ablate_each,
    list_heads,
    mask_heads,
    measure_quality,
    plan_pruning,
    prune,
)
from nmt.data.splitting import Pair
from nmt.model.attention import scaled_dot_product_attention
from nmt.model.transformer import Transformer

pytest_plugins = ("translators",)
pytestmark = [pytest.mark.xdist_group("tiny run"), pytest.mark.usefixtures("cached_translators")]

PAIRS = [
    Pair("¿Dónde está la estación?", "Where is the station?"),
    Pair("Me gusta el café con leche.", "I like coffee with milk."),
    Pair("Sí.", "Yes."),
]


@pytest.fixture(scope="module")
def model() -> Transformer:
    model = transformer(
        vocabulary_size=20,
        d_model=12,
        num_heads=3,
        ffn_width=16,
        encoder_layers=2,
        decoder_layers=3,
    )
    for number, weight in enumerate(model.weights):  # biases of zero would hide a mistake
        weight.assign(np.random.default_rng(number).standard_normal(weight.shape) * 0.5)
    return model


def layer_of(model: Transformer, head: Head) -> Any:
    return model.attention_layers(head.kind)[head.layer - 1]


def weights_of(model: Transformer) -> list[bytes]:
    return [ops.convert_to_numpy(weight).tobytes() for weight in model.weights]


def test_every_head_is_listed_once(model: Transformer) -> None:
    heads = list_heads(model)
    assert len(heads) == len(set(heads)) == (2 + 3 + 3) * 3
    assert heads[0] == Head("encoder", 1, 1)
    assert heads[-1] == Head("cross", 3, 3)
    layers = {id(layer_of(model, head)) for head in heads}
    assert len(layers) == 2 + 3 + 3
    names = [layer_of(model, head).name for head in (heads[0], heads[6], heads[-1])]
    assert names == ["self_attention", "causal_self_attention", "cross_attention"]


@pytest.mark.backend
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_masked_head_gives_zeros(model: Transformer, kind: str) -> None:
    """As if the head's output were zeroed before the projection; biases of the values included."""
    head = Head(kind, 2, 2)
    layer = layer_of(model, head)
    rng = np.random.default_rng(1)
    x, memory = (rng.standard_normal((2, length, 12)).astype("float32") for length in (5, 7))
    read = memory if kind == "cross" else x
    mask = np.tri(5, dtype=bool)[None, None] if kind == "decoder" else None
    keys, values = layer.project(read)
    query = ops.reshape(layer.query(x), (2, 5, 3, 4))
    outputs, _ = scaled_dot_product_attention(query, keys, values, mask)
    outputs = np.array(ops.convert_to_numpy(outputs))  # [B, T, H, K]
    outputs[:, :, 1] = 0
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.output_projection.weights)
    expected = outputs.reshape(2, 5, 12) @ kernel + bias
    arguments = (x, memory) if kind == "cross" else (x,)
    with mask_heads(model, [head]):
        output = layer(*arguments)
        np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5)
    output = layer(*arguments)
    assert np.abs(ops.convert_to_numpy(output) - expected).max() > 0.01


@pytest.mark.backend
def test_weights_come_back_bit_for_bit_whatever_happens(model: Transformer) -> None:
    before = weights_of(model)
    with mask_heads(model, list_heads(model)):
        assert weights_of(model) != before
        for head in list_heads(model):
            kernel = layer_of(model, head).output_projection.kernel
            assert not ops.convert_to_numpy(kernel).any()
    assert weights_of(model) == before

    def interrupted() -> None:
        with mask_heads(model, [Head("cross", 1, 1), Head("cross", 1, 3), Head("encoder", 1, 1)]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert weights_of(model) == before
    with pytest.raises(IndexError), mask_heads(model, [Head("cross", 1, 1), Head("cross", 9, 1)]):
        pass
    assert weights_of(model) == before


@pytest.mark.long
def test_the_model_is_worse_or_better_without_a_head_and_then_as_before(tiny_run: Path) -> None:
    translator = Translator.load(tiny_run, engine="keras")
    baseline = measure_quality(translator, PAIRS, "en")
    losses = [score.log_prob for score in translator.score(PAIRS)]
    pieces = sum(len(score.pieces) for score in translator.score(PAIRS))
    assert baseline.loss == pytest.approx(-sum(losses) / pieces)
    assert "tok:13a" in baseline.signature
    without = dict(ablate_each(translator, PAIRS, "en"))
    model = translator.keras_engine().model
    assert list(without) == list_heads(model)
    assert len({quality.loss for quality in without.values()} | {baseline.loss}) == len(without) + 1
    assert measure_quality(translator, PAIRS, "en") == baseline
    order = [Head("cross", 1, 2), Head("cross", 1, 1), Head("encoder", 1, 1)]
    curve = dict(prune(translator, PAIRS, "en", order))
    assert list(curve) == [1, 2]
    assert curve[1] == without[order[0]]
    with mask_heads(model, order[:2]):
        assert measure_quality(translator, PAIRS, "en") == curve[2]


def test_pruning_doubles_and_never_takes_all() -> None:
    assert plan_pruning(48) == [1, 2, 4, 8, 16, 32]
    assert plan_pruning(4) == [1, 2]
    assert plan_pruning(1) == []


def test_the_least_important_head_costs_the_least_loss() -> None:
    heads = [Head("cross", 1, number) for number in (1, 2, 3)]
    ablation = Ablation(10, HeadScores(2.0, 30.0, ""))
    for head, loss in zip(heads, (2.5, 1.9, 2.1), strict=True):
        ablation.without[head] = HeadScores(loss, 30.0, "")
    assert ablation.order() == [heads[1], heads[2], heads[0]]
    assert ablation.loss_increase(heads[1]) == pytest.approx(-0.1)
