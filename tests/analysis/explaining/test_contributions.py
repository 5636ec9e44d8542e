"""Parts of a sublayer make its output, contributions sum to 1, and the last lens is the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import RECURRENT, transformer
from keras import ops

from nmt.analysis.explaining.contributions import make_contributions
from nmt.analysis.explaining.decomposition import (
    Sublayer,
    decompose_decoder,
    decompose_encoder,
    measure_contributions,
)
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError
from nmt.inference.compiled import compile_with_weights
from nmt.model import Recurrent, Transformer
from nmt.model.positions import list_distances
from nmt.model.sizes import RecurrentSizes
from nmt.model.transformer import make_masks

pytestmark = pytest.mark.backend

VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"norm": "post"},
    "rotary, qk_norm, grouped": {"positions": "rotary", "qk_norm": "self", "key_value_heads": 2},
    "multi-query, own heads": {"key_value_heads": 1, "heads": "own", "qk_norm": True},
    "pooled, post-norm, relative": {"heads": "pooled", "norm": "post", "positions": "relative"},
    "no output, no biases, alibi": {
        **{"attention_output": False, "attention_biases": False, "positions": "alibi"},
        **{"activation": "swiglu", "output_bias": True},
    },
}
SOURCES = [np.array([7, 12, 7, 20, EOS]), np.array([5, 9, EOS])]
TARGETS = [np.array([9, 4, EOS]), np.array([8, 8, 6, 21, EOS])]
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def make(variant: str, **changes: Any) -> Transformer:
    model = transformer(
        **{"vocabulary_size": 30, "d_model": 16, "num_heads": 4, "ffn_width": 24},
        **{"encoder_layers": 2, "decoder_layers": 2} | VARIANTS[variant] | changes,
    )
    for number, weight in enumerate(model.weights):
        values = np.random.default_rng(number).standard_normal(weight.shape)
        is_scale = weight.name in ("gamma", "scale")
        weight.assign(1 + 0.2 * values if is_scale else 0.4 * values)
    return model


def padded(rows: list[np.ndarray]) -> np.ndarray:
    return np.array([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows], np.int32)


def shifted() -> list[np.ndarray]:
    return [np.append(BOS, target[:-1]) for target in TARGETS]


@each_variant
def test_the_parts_make_the_real_output_of_the_sublayer(variant: str) -> None:
    model = make(variant)
    x, memory = np.random.default_rng(0).standard_normal((2, 2, 5, 16)).astype("float32")
    x = x[:, :4]
    source, target = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]]), np.ones((2, 4), np.int32)

    def run(source: Any, target: Any) -> Any:
        mask, target_mask, memory_mask = make_masks(source, target, as_segments=False)
        bias = None
        if model.encoder_bias is not None:
            bias = (
                model.encoder_bias(list_distances(5, 5)),
                model.decoder_bias(list_distances(4, 4)),
            )
        encoder, decoder = model.encoder_blocks[0], model.decoder_blocks[1]
        sublayers = [
            decompose_encoder(encoder, memory, mask, bias and bias[0]),
            decompose_decoder(decoder, x, memory, target_mask, memory_mask, bias and bias[1]),
        ]
        # What the blocks themselves compute, before their feed-forward sublayer.
        states, _ = encoder._attend(
            *(encoder.attention, encoder.attention_norm, memory),
            **{"key": None, "index": 2, "return_weights": False, "attention_mask": mask},
            distance_bias=bias and bias[0],
        )
        within, _ = decoder._attend(
            *(decoder.self_attention, decoder.self_attention_norm, x),
            **{"key": None, "index": 2, "return_weights": False, "attention_mask": target_mask},
            distance_bias=bias and bias[1],
        )
        crossed, _ = decoder._attend(
            *(decoder.cross_attention, decoder.cross_attention_norm, within, memory),
            **{"key": None, "index": 4, "return_weights": False, "attention_mask": memory_mask},
        )
        sums = [ops.sum(layer.parts, axis=2) + layer.constant for layer in sublayers]
        outputs = [layer.output for layer in sublayers]
        return sums, outputs, [states, crossed], [measure_contributions(s) for s in sublayers]

    sums, outputs, real, contributions = compile_with_weights(model, run, (2, 2))(source, target)
    for total, output, expected, shares in zip(sums, outputs, real, contributions, strict=True):
        np.testing.assert_allclose(output, expected, atol=1e-5)
        np.testing.assert_allclose(total, expected, atol=2e-5)
        np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-5)
    assert np.all(contributions[0][0, :4, 4] == 0), "padding contributes"
    later = contributions[1][0, :, 5:][np.triu_indices(4, 1)]
    assert np.all(later == 0), "the future contributes"


@each_variant
def test_contributions_sum_to_one_and_padding_changes_nothing(variant: str) -> None:
    measure = make_contributions(make(variant))
    both = measure(SOURCES, shifted(), TARGETS)
    for number, of_pair in enumerate(both):
        total = of_pair.source.sum(-1) + of_pair.prefix.sum(-1)
        np.testing.assert_allclose(total, 1, atol=1e-4)
        assert of_pair.source.shape == (len(TARGETS[number]), len(SOURCES[number]))
        assert np.all(of_pair.source.sum(-1) > 0.01)
        [alone] = measure(*([rows[number]] for rows in (SOURCES, shifted(), TARGETS)))
        for left, right in zip(of_pair[:2], alone[:2], strict=True):
            np.testing.assert_allclose(left, right, atol=2e-4)


@each_variant
def test_the_lens_of_the_last_layer_is_what_the_model_writes(variant: str) -> None:
    model = make(variant)
    views = [pair.layers for pair in make_contributions(model)(SOURCES, shifted(), TARGETS)]
    run = compile_with_weights(
        model, lambda source, target: model({"source": source, "target": target}), (2, 2)
    )
    logits = run(padded(SOURCES), padded(shifted()))
    for row, (view, target) in enumerate(zip(views, TARGETS, strict=True)):
        real = logits[row, : len(target)].astype(np.float64)
        probabilities = np.exp(real) / np.exp(real).sum(-1, keepdims=True)
        own = probabilities[np.arange(len(target)), target]
        assert view.probability.shape == (2, len(target))
        np.testing.assert_array_equal(view.best[-1], probabilities.argmax(-1))
        np.testing.assert_allclose(view.best_probability[-1], probabilities.max(-1), rtol=1e-3)
        np.testing.assert_allclose(view.probability[-1], own, rtol=1e-3)
        np.testing.assert_array_equal(view.rank[-1], (probabilities > own[:, None]).sum(-1) + 1)
        assert np.all((view.rank == 1) == (view.best == target))


def test_contributions_by_hand() -> None:
    """|y| = 6, less the distances: 6 - 2, 6 - 4 and 6 - 7 < 0."""
    output = np.array([[[1.0, 2.0, 3.0]]], np.float32)
    parts = np.array([[[[1, 2, 1], [0, 0, 2], [-1, 0, 0]]]], np.float32)
    shares = measure_contributions(Sublayer(output, parts, 0.0))
    np.testing.assert_allclose(ops.convert_to_numpy(shares)[0, 0], [4 / 6, 2 / 6, 0], atol=1e-6)
    far = np.array([[[[-1, 2, -3], [2, -4, -6], [0, 0, 0]]]], np.float32)  # none is near
    shares = measure_contributions(Sublayer(output, far, 0.0))
    np.testing.assert_allclose(ops.convert_to_numpy(shares)[0, 0], [1 / 3, 2 / 3, 0], atol=1e-6)


def test_a_recurrent_model_is_refused() -> None:
    model = Recurrent(RecurrentSizes(**RECURRENT))
    with pytest.raises(UserError, match=r"need nmt\.model\.Transformer: this is a Recurrent"):
        make_contributions(model)


def test_a_subclass_may_compute_something_else_and_is_refused() -> None:
    class Other(Transformer): ...

    with pytest.raises(UserError, match="this is a Other model, which they cannot decompose"):
        make_contributions(Other(make("pre-norm").sizes))
