"""Recurrent layers equal a loop over tokens and Keras's own, and state their gradients rightly."""

from __future__ import annotations

from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from numpy.typing import NDArray
from test_attention import differentiated, normal, randomised
from test_transformer import compiled

from nmt.model import loops, recurrent_layers
from nmt.model.recurrent_layers import (
    BidirectionalLayer,
    RecurrentLayer,
    find_starts,
    make_carry_mask,
)

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, M, R = 2, 5, 3, 4
SEGMENTS = np.array([[1, 1, 2, 2, 2], [1, 2, 2, 3, 0]], np.int32)  # 0: padding
each_cell = pytest.mark.parametrize("cell", ["gru", "lstm"])
each_way = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])


def automatically(compute: Any, *arguments: Any) -> Any:
    """Stand for `call_with_gradient`: leave gradients to the backend."""
    return compute(*arguments)[0]


@cache
def layer_of(cell: str) -> RecurrentLayer:
    return randomised(RecurrentLayer(M, R, cell))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def step_by_hand(
    cell: str, w: dict[str, Array], x: Array, states: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Return the next state of one row: ``x`` [M], states [R] each, in float64."""
    x = x @ w["inputs/kernel"] + w["inputs/bias"]
    u = states[0] @ w["recurrent/kernel"] + w.get("recurrent/bias", 0.0)
    if cell == "gru":
        (x_z, x_r, x_n), (u_z, u_r, u_n) = np.split(x, 3), np.split(u, 3)
        z, r = sigmoid(x_z + u_z), sigmoid(x_r + u_r)
        return ((1 - z) * np.tanh(x_n + r * u_n) + z * states[0],)
    i, f, g, o = np.split(x + u, 4)
    c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def run_by_hand(
    cell: str,
    w: dict[str, Array],
    x: Array,
    segments: Array,
    initial: Array | None = None,
    *,
    reverse: bool = False,
) -> Array:
    """Return the outputs [L, R] of one row ``x`` [L, M], whose state begins anew with segments."""
    outputs = np.zeros((len(x), len(w["recurrent/kernel"])))
    states: tuple[Array, ...] = ()
    before = None
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        if segments[t] != before:
            blank = np.zeros(outputs.shape[1]) if initial is None else initial[t]
            states = (blank,) * (1 if cell == "gru" else 2)
        states = step_by_hand(cell, w, x[t], states)
        outputs[t], before = states[0], segments[t]
    return outputs


def exactly(layer: Any) -> dict[str, Array]:
    """Return the weights by their path inside the layer, in float64."""
    return {
        weight.path.split("/", 1)[1]: np.float64(keras.ops.convert_to_numpy(weight))
        for weight in layer.weights
    }


def initial_states() -> Array:
    """Return what segments begin with [T, B, R], zero elsewhere."""
    starts = keras.ops.convert_to_numpy(find_starts(SEGMENTS)).T[..., None]
    return normal(7, T, B, R) * starts


def test_segments_begin_where_their_number_changes() -> None:
    starts = keras.ops.convert_to_numpy(find_starts(SEGMENTS))
    assert starts.astype(int).tolist() == [[1, 0, 1, 0, 0], [1, 1, 0, 1, 1]]
    ends = keras.ops.convert_to_numpy(find_starts(SEGMENTS, reverse=True))
    assert ends.astype(int).tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 1, 1]]
    carry_mask = keras.ops.convert_to_numpy(make_carry_mask(SEGMENTS, "float32"))
    np.testing.assert_array_equal(carry_mask[..., 0].T, 1 - starts)


@each_cell
@each_way
def test_a_layer_is_a_loop_over_tokens(cell: str, reverse: bool) -> None:
    layer, x = layer_of(cell), normal(1, T, B, M)
    keep = make_carry_mask(SEGMENTS, "float32", reverse=reverse)
    initial: Any = () if reverse else initial_states()
    run = compiled(lambda x, keep, initial: layer(x, keep, initial, reverse=reverse))
    outputs = keras.ops.convert_to_numpy(run(x, keep, initial))
    for b in range(B):
        row_initial = None if reverse else initial[:, b]
        expected = run_by_hand(
            cell, exactly(layer), x[:, b], SEGMENTS[b], row_initial, reverse=reverse
        )
        np.testing.assert_allclose(outputs[:, b], expected, atol=1e-6)


@each_cell
def test_a_layer_is_that_of_keras(cell: str) -> None:
    """With the same weights, in the same order of gates."""
    layer = layer_of(cell)
    twin = keras.layers.GRU if cell == "gru" else keras.layers.LSTM
    right = twin(R, return_sequences=True)
    right.build((None, None, M))
    arrays = exactly(layer)
    bias = arrays["inputs/bias"]
    if cell == "gru":
        bias = np.stack([bias, arrays["recurrent/bias"]])
    right.set_weights([arrays["inputs/kernel"], arrays["recurrent/kernel"], bias])
    x = normal(2, T, B, M)
    everywhere = make_carry_mask(np.ones((B, T), np.int32), "float32")
    actual = compiled(lambda x: layer(x, everywhere))(x)
    expected = compiled(right)(x.transpose(1, 0, 2))
    np.testing.assert_allclose(
        np.asarray(actual).transpose(1, 0, 2), np.asarray(expected), atol=1e-6
    )


@each_cell
@pytest.mark.parametrize("has_initial", [False, True])
def test_stated_gradients_are_the_automatic_ones(
    cell: str, has_initial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, probe, reverse = layer_of(cell), normal(3, T, B, R), not has_initial
    keep = make_carry_mask(SEGMENTS, "float32", reverse=reverse)

    def run(x: Any, initial: Any) -> Any:
        return layer(x, keep, initial if has_initial else (), reverse=reverse)

    tensors = normal(1, T, B, M), initial_states()
    output, stated = differentiated(run, probe, layer.trainable_variables)(*tensors)
    monkeypatch.setattr(recurrent_layers, "call_with_gradient", automatically)
    same, automatic = differentiated(run, probe, layer.trainable_variables)(*tensors)
    np.testing.assert_allclose(output, same, atol=1e-6)
    # Initial states are zero where no segment starts: gradients there do not matter.
    stated[1], automatic[1] = (
        gradients[1] * (tensors[1] != 0) for gradients in (stated, automatic)
    )
    for left, right in zip(stated, automatic, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-6)
    assert has_initial == stated[1].any()
    assert all(gradient.any() for gradient in (stated[0], *stated[2:]))


@each_cell
def test_one_step_is_a_row_of_one_token(cell: str) -> None:
    layer, x = layer_of(cell), normal(4, B, M)
    states = tuple(normal(5 + i, B, R) for i in range(1 if cell == "gru" else 2))
    actual = layer.step(x, states)
    for b in range(B):
        expected = step_by_hand(cell, exactly(layer), x[b], tuple(state[b] for state in states))
        for left, right in zip(actual, expected, strict=True):
            np.testing.assert_allclose(np.asarray(left)[b], right, atol=1e-6)


def test_both_directions_stand_side_by_side() -> None:
    layer, x = randomised(BidirectionalLayer(M, 2 * R, "gru")), normal(6, T, B, M)
    outputs = np.asarray(compiled(layer)(x, SEGMENTS))
    weights = exactly(layer)
    for b in range(B):
        for half, name in enumerate(("forwards", "backwards")):
            w = {key.split("/", 1)[1]: a for key, a in weights.items() if key.startswith(name)}
            expected = run_by_hand("gru", w, x[:, b], SEGMENTS[b], reverse=bool(half))
            np.testing.assert_allclose(
                outputs[:, b, half * R : (half + 1) * R], expected, atol=1e-6
            )


def test_a_cell_begins_by_remembering() -> None:
    layer = RecurrentLayer(M, R, "lstm")
    layer.build()
    assert np.asarray(layer.inputs.bias).tolist() == [0] * R + [1] * R + [0] * 2 * R
    kernel = np.asarray(layer.recurrent.kernel)
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(R), atol=1e-6)


@pytest.mark.parametrize("kind", [RecurrentLayer, BidirectionalLayer])
def test_layers_are_rebuilt_from_their_configuration(kind: Any) -> None:
    layer = kind(M, 2 * R, "lstm", name="read", dtype="mixed_bfloat16")
    again = kind.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.dtype_policy.name == "mixed_bfloat16"
    for left in (layer, again):
        left.build()
    shapes = [[tuple(weight.shape) for weight in left.weights] for left in (layer, again)]
    assert shapes[0] == shapes[1]


def test_what_stands_before_the_first_is_nothing() -> None:
    x = np.array([[1.0], [2.0], [3.0]], np.float32)
    assert np.asarray(loops.shift(x)).ravel().tolist() == [0, 1, 2]
    assert np.asarray(loops.shift(x, reverse=True)).ravel().tolist() == [2, 3, 0]
