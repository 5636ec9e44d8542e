"""Attention scores equal a loop over tokens; masked states have no weight."""

from __future__ import annotations

from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray
from test_attention import differentiated, normal, random_mask, randomised
from test_recurrent_layers import exactly
from test_transformer import compiled

from nmt.model.dropout import fold
from nmt.model.recurrent_attention import RecurrentAttention
from nmt.model.scores import AdditiveScore
from nmt.model.sizes import RecurrentSizes

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, S, D, R = 2, 3, 5, 6, 4
SCORES = ("additive", "dot", "general", "cross")
each_score = pytest.mark.parametrize("score", SCORES)


def sizes_of(score: str, **changes: Any) -> RecurrentSizes:
    sizes: dict[str, Any] = {
        "vocabulary_size": 11,
        "d_model": D,
        "state_width": R,
        "cell": "gru",
        "encoder_layers": 1,
        "decoder_layers": 1,
        "attention": score,
        "num_heads": 2 if score == "cross" else 1,
        "input_feeding": True,
        "bridge": True,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "max_length": 16,
    }
    return RecurrentSizes(**sizes | changes)


@cache
def reading(score: str) -> RecurrentAttention:
    return randomised(RecurrentAttention(sizes_of(score)))


def inputs() -> tuple[Array, Array, Array]:
    """Return states of the decoder, states of the encoder, and a mask; one position sees nothing.

    The states are far apart, so that weights are anything but alike.
    """
    mask = random_mask(3, B, 1, T, S)
    mask[1, 0, 1] = False
    return 3 * normal(1, B, T, R), 3 * normal(2, B, S, R), mask


def read(
    layer: RecurrentAttention, h: Any, states: Any, mask: Any, **arguments: Any
) -> tuple[Any, Any]:
    return layer(h, layer.project(states), mask, **arguments)


def run(layer: RecurrentAttention, *tensors: Any) -> tuple[Array, Array]:
    a, weights = compiled(lambda *tensors: read(layer, *tensors))(*tensors)
    return ops.convert_to_numpy(a), ops.convert_to_numpy(weights)


def part(w: dict[str, Array], name: str) -> dict[str, Array]:
    """Return the weights under one name, by what follows it."""
    return {key.removeprefix(f"{name}/"): a for key, a in w.items() if key.startswith(f"{name}/")}


def score_by_hand(score: str, w: dict[str, Array], h: Array, m: Array, heads: int) -> Array:
    """Return the scores [H] of one state of the decoder [R] and one of the encoder [R]."""
    if score == "additive":
        hidden = np.tanh(h @ w["query/kernel"] + m @ w["key/kernel"])
        return np.array([w["v"] @ hidden])
    if score == "dot":
        return np.array([h @ m]) / np.sqrt(len(h))
    if score == "general":
        return np.array([h @ (m @ w["key/kernel"])]) / np.sqrt(len(h))
    query, key = (
        (x @ w[f"cross_attention/{name}/kernel"] + w[f"cross_attention/{name}/bias"]).reshape(
            heads, -1
        )
        for x, name in ((h, "query"), (m, "key"))
    )
    return (query * key).sum(-1) / np.sqrt(query.shape[-1])


def read_by_hand(
    score: str, w: dict[str, Array], h: Array, states: Array, mask: Array, heads: int
) -> tuple[Array, Array]:
    """Return a [D] and the weights [H, S] of one state [R] of the decoder, in float64."""
    weights = np.zeros((heads, len(states)))
    visible = np.flatnonzero(mask)
    if len(visible):
        scores = np.exp([score_by_hand(score, w, h, states[s], heads) for s in visible])
        weights[:, visible] = (scores / scores.sum(axis=0)).T
    values = states
    if score == "cross":
        values = states @ w["cross_attention/value/kernel"] + w["cross_attention/value/bias"]
    parts = np.split(values, heads, axis=-1)
    context = np.concatenate(
        [expected_weights @ part for expected_weights, part in zip(weights, parts, strict=True)]
    )
    if score == "cross":
        context = context @ w["cross_attention/output/kernel"] + w["cross_attention/output/bias"]
    joined = np.concatenate([context, h]) @ w["combine/kernel"] + w["combine/bias"]
    return np.tanh(joined), weights


@each_score
def test_reading_is_a_loop_over_tokens(score: str) -> None:
    layer, (h, states, mask) = reading(score), inputs()
    a, weights = run(layer, h, states, mask)
    assert weights.dtype == np.float32
    assert weights.std() > 0.1  # or it would not matter which score it is
    for b in range(B):
        for t in range(T):
            row = h[b, t], states[b], mask[b, 0, t], layer.num_heads
            expected, expected_weights = read_by_hand(score, exactly(layer), *row)
            np.testing.assert_allclose(weights[b, :, t], expected_weights, atol=1e-5)
            np.testing.assert_allclose(a[b, t], expected, atol=1e-5)


@each_score
def test_weights_are_shares_of_what_may_be_seen(score: str) -> None:
    h, states, mask = inputs()
    _, weights = run(reading(score), h, states, mask)
    assert not weights[~np.broadcast_to(mask, weights.shape)].any()
    sums = weights.sum(axis=-1)
    expected = np.broadcast_to(mask.any(axis=-1), sums.shape)
    np.testing.assert_allclose(sums, expected, atol=1e-6)


@each_score
def test_every_weight_has_a_gradient(score: str) -> None:
    """Masked states have none, and rows that may see nothing give no NaN."""
    layer, (h, states, mask) = reading(score), inputs()
    visible = mask[:, 0].any(axis=1)
    assert not visible[0].all()
    _, gradients = differentiated(
        lambda h, states: read(layer, h, states, mask)[0],
        normal(4, B, T, D),
        layer.trainable_variables,
    )(h, states)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    state_gradients, weight_gradients = gradients[1], gradients[2:]
    np.testing.assert_array_equal(state_gradients.any(axis=-1), visible)
    names = [weight.path.split("/", 1)[1] for weight in layer.trainable_variables]
    for name, gradient in zip(names, weight_gradients, strict=True):
        # A bias on the keys moves all scores of a query alike.
        assert gradient.any() or name == "cross_attention/key/bias", name


def test_sums_state_the_gradient_that_the_backend_finds() -> None:
    """One position after another, or all at once by automatic differentiation."""
    tensors = normal(1, B, 1, T, R), normal(2, B, 1, S, R), normal(3, R)
    probe = normal(4, B, 1, T, S)
    one_by_one, stated = differentiated(AdditiveScore.scores_by_position, probe, [])(*tensors)
    at_once, automatic = differentiated(AdditiveScore.scores, probe, [])(*tensors)
    np.testing.assert_allclose(one_by_one, at_once, atol=1e-6)
    for left, right in zip(stated, automatic, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-6)


@each_score
def test_a_step_reads_what_a_whole_target_does(score: str) -> None:
    """Hypotheses of a sentence stand where positions of a target do."""
    layer, (h, states, _) = reading(score), inputs()
    mask = random_mask(5, B, 1, 1, S)
    full, weights = run(layer, h, states, mask)

    def step(h: Any, states: Any) -> Any:
        return layer.step(ops.reshape(h, (-1, R)), layer.project(states), mask, T)

    stepped, step_weights = compiled(step)(h, states)
    np.testing.assert_allclose(np.asarray(stepped).reshape(B, T, D), full, atol=1e-6)
    np.testing.assert_allclose(np.asarray(step_weights), weights, atol=1e-6)


def test_cross_is_the_attention_of_the_transformer() -> None:
    layer, (h, states, mask) = reading("cross"), inputs()
    a, weights = run(layer, h, states, mask)
    context, expected = layer.cross(h, states, attention_mask=mask, return_weights=True)
    np.testing.assert_allclose(weights, np.asarray(expected), atol=1e-6)
    joined = layer.combine(np.concatenate([np.asarray(context), h], axis=-1))
    np.testing.assert_allclose(a, np.tanh(np.asarray(joined)), atol=1e-6)


@each_score
def test_parts_of_heads_are_all_that_they_come_through(score: str) -> None:
    layer, (h, states, mask) = randomised(RecurrentAttention(sizes_of(score))), inputs()
    assert layer.num_heads == (2 if score == "cross" else 1)
    before, _ = run(layer, h, states, mask)
    for number in range(layer.num_heads):
        for variable, index in layer.head_weights(number):
            values = np.array(ops.convert_to_numpy(variable))
            assert values[index].any()
            values[index] = 0
            variable.assign(values)
        after, _ = run(layer, h, states, mask)
        assert not np.allclose(before, after, atol=1e-3)
        before = after
    right, _ = run(layer, h, states + 1, mask)  # no head is left
    np.testing.assert_allclose(after, right, atol=1e-6)


def test_dropout_of_weights_is_a_function_of_its_key() -> None:
    layer = randomised(RecurrentAttention(sizes_of("general", attention_dropout=0.5)))
    key = ops.cast(ops.convert_to_tensor(3, dtype="uint32"), "uint32")
    keyed = compiled(lambda key, *tensors: read(layer, *tensors, dropout_key=key))
    left, right, another = (keyed(fold(key, place), *inputs()) for place in (0, 0, 1))
    plain, weights = run(layer, *inputs())
    np.testing.assert_array_equal(np.asarray(left[0]), np.asarray(right[0]))
    assert not np.allclose(np.asarray(left[0]), np.asarray(another[0]), atol=1e-3)
    assert not np.allclose(np.asarray(left[0]), plain, atol=1e-3)
    np.testing.assert_allclose(np.asarray(left[1]), weights, atol=1e-6)  # as they are without


@each_score
def test_scores_run_in_float16(score: str) -> None:
    """Products of states that overflow it are scores like others."""
    layer = randomised(RecurrentAttention(sizes_of(score), dtype="mixed_float16"))
    h, states, mask = inputs()
    a, weights = run(layer, h * 100, states * 100, mask)
    assert a.dtype == np.float16
    assert np.isfinite(a).all()
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(-1)[mask.any(-1).repeat(layer.num_heads, 1)], 1, 1e-3)


@each_score
def test_a_layer_is_rebuilt_from_its_configuration(score: str) -> None:
    layer = RecurrentAttention(sizes_of(score), name="read", dtype="mixed_bfloat16")
    again = RecurrentAttention.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.sizes == layer.sizes
    assert keras.saving.get_registered_object("nmt>Reading") is RecurrentAttention
