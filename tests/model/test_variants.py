"""Every kind of heads and of positions, as a layer and inside of the model."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray
from test_attention import call, check_gradients, differentiated, normal, random_mask, randomised
from test_transformer import (
    FULL,
    INPUTS,
    SOURCE,
    compiled,
    logits_and_gradients,
    make,
    stepper,
)

from nmt.model.attention import KeyValues
from nmt.model.attention_roles import CausalSelfAttention, CrossAttention, SelfAttention
from nmt.model.encoder_decoder import PAD
from nmt.model.masks import ancestor_mask
from nmt.model.multi_head import MultiHeadAttention
from nmt.model.sizes import AttentionSizes, TransformerSizes
from nmt.model.transformer import Transformer

pytestmark = pytest.mark.backend

Array = NDArray[Any]
Weights = dict[str, Array]  # by their path inside the layer

B, T, S, D, H = 2, 5, 7, 8, 4
ROLES = (SelfAttention, CausalSelfAttention, CrossAttention)
# Options that differ from four heads with one matrix.
VARIANTS: dict[str, dict[str, Any]] = {
    "one": {"num_heads": 1},
    "split": {},
    "own": {"heads": "own"},
    "pooled": {"heads": "pooled"},
    "multi-query": {"key_value_heads": 1},
    "grouped": {"key_value_heads": 2},
    "no biases": {"biases": False},
    "no output": {"output": False},
    "normalised": {"qk_norm": True},
    "rotary": {"rotary": True},
    "own without output": {"heads": "own", "output": False},
    "pooled without output": {"heads": "pooled", "output": False, "biases": False},
    "pooled, normalised": {"heads": "pooled", "qk_norm": True, "rotary": True},
    "own and more": {"heads": "own", "key_value_heads": 2, "qk_norm": True, "rotary": True},
    "grouped and more": {"key_value_heads": 2, "biases": False, "qk_norm": True, "rotary": True},
}
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def sized(variant: str, **changes: Any) -> AttentionSizes:
    return AttentionSizes(**{"d_model": D, "num_heads": H} | VARIANTS[variant] | changes)


@cache
def layer_of(kind: type[MultiHeadAttention], sizes: AttentionSizes) -> MultiHeadAttention:
    """Return a layer with random weights, scales around 1: the same one for the same sizes."""
    layer = randomised(kind(sizes))
    for weight in layer.weights:
        if weight.name == "scale":
            weight.assign(weight + 1)
    return layer


def relative_paths(layer: MultiHeadAttention) -> list[str]:
    return [weight.path.split("/", 1)[1] for weight in layer.weights]


def exact_weights(layer: MultiHeadAttention) -> Weights:
    """Return the weights in float64."""
    arrays = (np.float64(ops.convert_to_numpy(weight)) for weight in layer.weights)
    return dict(zip(relative_paths(layer), arrays, strict=True))


# --- A loop over tokens and heads, in float64. ----------------------------------------------------


def projected(token: Array, w: Weights, name: str, head: int, width: int) -> Array:
    """Return the query, key or value of one head: [D] -> [width]."""
    columns = slice(head * width, (head + 1) * width)
    if f"{name}/head_{head}/kernel" in w:
        name, columns = f"{name}/head_{head}", slice(None)
    bias = w[f"{name}/bias"][columns] if f"{name}/bias" in w else 0.0
    return token @ w[f"{name}/kernel"][:, columns] + bias


def placed(x: Array, w: Weights, norm: str, position: int | None) -> Array:
    """Normalise a query or key [K], if it has a norm, and turn it, if it stands somewhere."""
    if f"{norm}/scale" in w:
        x = x / np.sqrt(np.mean(x**2) + 1e-6) * w[f"{norm}/scale"]
    if position is None:
        return x
    half = len(x) // 2
    turned = (x[:half] + 1j * x[half:]) * np.exp(1j * position / 10000 ** (np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag])


def attend_by_loop(
    sizes: AttentionSizes,
    w: Weights,
    x: Array,
    memory: Array,
    mask: Array,
    distance_bias: Array | None = None,
    without: int | None = None,
) -> tuple[Array, Array]:
    """Attend token by token and head by head.

    Args:
        sizes: of the layer.
        w: its weights, float64.
        x: [B, T, D].
        memory: [B, S, D].
        mask: bool [B, H, T, S].
        distance_bias: [H, T + S - 1].
        without: the head that is left out.

    Returns:
        (output [B, T, D], weights [B, H, T, S]).
    """
    heads, groups, width = sizes.num_heads, sizes.groups, sizes.d_model // sizes.num_heads
    value_width = sizes.d_model if sizes.heads == "pooled" else width
    output = np.zeros(x.shape)
    shares = np.zeros((len(x), heads, x.shape[1], memory.shape[1]))

    def place(index: int) -> int | None:
        return index if sizes.rotary else None

    for b, t in np.ndindex(*x.shape[:2]):
        read = np.zeros((heads, value_width))
        for h in range(heads):
            group = h // (heads // groups)
            query = placed(projected(x[b, t], w, "query", h, width), w, "query_norm", place(t))
            visible = [s for s in range(memory.shape[1]) if mask[b, h, t, s]]
            scores = []
            for s in visible:
                key = projected(memory[b, s], w, "key", group, width)
                score = query @ placed(key, w, "key_norm", place(s)) / np.sqrt(width)
                if distance_bias is not None:
                    score += distance_bias[h, t - s + memory.shape[1] - 1]
                scores.append(score)
            exponentials = np.exp(np.array(scores) - max(scores))
            shares[b, h, t, visible] = exponentials / exponentials.sum()
            for s in visible:
                value = projected(memory[b, s], w, "value", group, value_width)
                read[h] += shares[b, h, t, s] * value
        if without is not None:
            read[without] = 0
        merged = read.sum(0) if sizes.heads == "pooled" else np.concatenate(read)
        if "output/kernel" in w:
            merged = merged @ w["output/kernel"] + w.get("output/bias", 0.0)
        output[b, t] = merged
    return output, shares


@each_variant
def test_outputs_and_weights_equal_a_loop_over_heads(variant: str) -> None:
    x, memory = normal(1, B, T, D), normal(2, B, S, D)
    sizes = sized(variant)
    heads = sizes.num_heads
    causal = np.broadcast_to(np.tril(np.ones((T, T), bool)), (B, heads, T, T))
    bias = normal(5, heads, 2 * T - 1)
    for kind, of, arguments in (
        (SelfAttention, x, {"mask": random_mask(3, B, heads, T, T)}),
        (CausalSelfAttention, x, {"mask": causal, "distance_bias": bias}),
        (CrossAttention, memory, {"mask": random_mask(4, B, heads, T, S)}),
    ):
        layer = layer_of(kind, sizes)
        exact = np.float64(x), np.float64(of)
        expected, shares = attend_by_loop(sizes, exact_weights(layer), *exact, **arguments)
        options: dict[str, Any] = {"distance_bias": arguments.get("distance_bias")}
        options = {key: value for key, value in options.items() if value is not None}
        if kind is not CausalSelfAttention:  # which knows its mask
            options["attention_mask"] = arguments["mask"]
        output, weights = call(layer, x, memory, return_weights=True, **options)
        label = f"{kind.__name__}, {variant}"
        assert np.abs(expected).max() > 0.5
        np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5, err_msg=label)
        np.testing.assert_allclose(ops.convert_to_numpy(weights), shares, atol=2e-6, err_msg=label)
        layer.sizes = dataclasses.replace(sizes, kernel="fused")
        output = call(layer, x, memory, **options)
        layer.sizes = sizes
        np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5, err_msg=label)


@pytest.mark.parametrize(
    ("kind", "kernel", "changes"),
    [
        (CrossAttention, "explicit", {"key_value_heads": 1}),
        (CrossAttention, "explicit", {"heads": "pooled", "output": False}),
        (SelfAttention, "explicit", {"heads": "own", "biases": False, "qk_norm": True}),
        (SelfAttention, "fused", {"key_value_heads": 1, "qk_norm": True, "rotary": True}),
    ],
)
def test_gradients_equal_finite_differences_of_the_loop_over_heads(
    kind: type[MultiHeadAttention], kernel: str, changes: dict[str, Any]
) -> None:
    """Every entry of every gradient, that of the bias of distances included.

    With steps of 1e-5 the differences are good to 1e-9: what remains is float32 rounding.
    """
    sizes = AttentionSizes(4, 2, kernel=kernel, **changes)
    layer = layer_of(kind, sizes)
    x, probe = normal(6, 1, 3, 4), normal(9, 1, 3, 4)
    crosses = kind is CrossAttention
    memory = normal(7, 1, 4, 4) if crosses else x
    mask = random_mask(8, 1, 2, 3, memory.shape[1])
    inputs = (x, memory) if crosses else (x, normal(10, 2, 5))  # or the bias

    def output(x: Any, other: Any) -> Any:
        if crosses:
            return layer(x, other, attention_mask=mask)
        return layer(x, attention_mask=mask, distance_bias=other)

    _, actual = differentiated(output, probe, layer.weights)(*inputs)
    w = exact_weights(layer)
    exact = [np.float64(array) for array in inputs]

    def scalar() -> float:
        memory, bias = (exact[1], None) if crosses else (exact[0], exact[1])
        return float(np.sum(attend_by_loop(sizes, w, exact[0], memory, mask, bias)[0] * probe))

    check_gradients(actual, [*exact, *w.values()], scalar, tolerance=5e-5)


# --- Equivalences. --------------------------------------------------------------------------------


def outputs(layer: MultiHeadAttention, **arguments: Any) -> Array:
    x, memory = normal(11, B, T, D), normal(12, B, S, D)
    return ops.convert_to_numpy(call(layer, x, memory, **arguments))


def test_heads_of_their_own_are_columns_of_one_matrix() -> None:
    """And both are the einsum over kernels [H, D, K]."""
    separate = layer_of(CrossAttention, sized("own"))
    split = CrossAttention(sized("split"))
    split.build()
    kernels: dict[str, Array] = {}
    biases: dict[str, Array] = {}
    for name in ("query", "key", "value"):
        heads = getattr(separate, name).heads
        kernels[name] = np.stack([ops.convert_to_numpy(head.kernel) for head in heads])
        biases[name] = np.stack([ops.convert_to_numpy(head.bias) for head in heads])
        assert kernels[name].shape == (H, D, D // H)
        getattr(split, name).kernel.assign(np.concatenate(kernels[name], axis=1))
        getattr(split, name).bias.assign(np.concatenate(biases[name]))
    split.output_projection.set_weights(separate.output_projection.get_weights())
    actual = outputs(separate)
    np.testing.assert_allclose(outputs(split), actual, atol=1e-6)

    x, memory = normal(11, B, T, D), normal(12, B, S, D)
    query, key, value = (
        np.einsum("bld,hdk->bhlk", of, kernels[name]) + biases[name][:, None]
        for name, of in (("query", x), ("key", memory), ("value", memory))
    )
    scores = np.exp(np.einsum("bhtk,bhsk->bhts", query, key) / np.sqrt(D // H))
    read = np.einsum("bhts,bhsk->bthk", scores / scores.sum(-1, keepdims=True), value)
    kernel, bias = split.output_projection.get_weights()
    expected = np.einsum("bthk,hkd->btd", read, kernel.reshape(H, D // H, D)) + bias
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_pooled_heads_are_added() -> None:
    """The sum over heads of A_h X W_h, after the output projection."""
    layer = layer_of(CrossAttention, sized("pooled"))
    x, memory = normal(11, B, T, D), normal(12, B, S, D)
    output, weights = layer(x, memory, return_weights=True)
    shares = ops.convert_to_numpy(weights)
    kernel, bias = layer.value.get_weights()
    assert kernel.shape == (D, H * D)
    read = 0.0
    for h in range(H):
        part = slice(h * D, (h + 1) * D)
        read = read + shares[:, h] @ (memory @ kernel[:, part] + bias[part])
    kernel, bias = layer.output_projection.get_weights()
    np.testing.assert_allclose(ops.convert_to_numpy(output), read @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_heads_that_share_keys_and_values_are_heads_of_equal_matrices(
    groups: int, kernel: str
) -> None:
    shared = layer_of(CrossAttention, AttentionSizes(D, H, kernel=kernel, key_value_heads=groups))
    full = CrossAttention(AttentionSizes(D, H))
    full.build()

    def repeated(array: Array) -> Array:
        heads = array.reshape(*array.shape[:-1], groups, D // H)
        return np.repeat(heads, H // groups, axis=-2).reshape(*array.shape[:-1], D)

    for name in ("query", "output_projection"):
        getattr(full, name).set_weights(getattr(shared, name).get_weights())
    for name in ("key", "value"):
        arrays = getattr(shared, name).get_weights()
        assert arrays[0].shape == (D, groups * D // H)
        getattr(full, name).set_weights([repeated(array) for array in arrays])
    np.testing.assert_allclose(outputs(shared), outputs(full), atol=1e-6)


# --- Decoding. ------------------------------------------------------------------------------------


@each_variant
def test_steps_with_a_cache_equal_the_whole_sequence_for(variant: str) -> None:
    """Two hypotheses, the second of which reads the sequence backwards; unused slots hold noise."""
    sizes = sized(variant)
    layer = layer_of(CausalSelfAttention, sizes)
    heads, groups = sizes.num_heads, sizes.key_value_heads or sizes.num_heads
    width = D if sizes.heads == "pooled" else D // heads
    x = normal(30, B, T, D)
    both = np.stack([x, x[:, ::-1]], axis=1)  # [B, k, T, D]
    bias = normal(33, heads, 2 * T - 1)
    full = layer(both.reshape(-1, T, D), distance_bias=bias)
    full = ops.convert_to_numpy(full).reshape(both.shape)
    slots = 2 * T
    cache = KeyValues(
        1e3 * normal(31, B, groups, D // heads, slots), 1e3 * normal(32, B, groups, slots, width)
    )
    ancestors = np.full((B, 2, T), -1, np.int32)
    for index in range(T):
        ancestors[:, :, index] = [0, 1]
        output, cache = layer.step(
            ops.convert_to_tensor(both[:, :, index].reshape(-1, D)),
            cache,
            ancestor_mask(ancestors),
            ops.convert_to_tensor(index, "int32"),
            2,
            bias[:, index - np.arange(slots) // 2 + T - 1],
        )
        actual = ops.convert_to_numpy(output).reshape(B, 2, D)
        np.testing.assert_allclose(actual, full[:, :, index], atol=2e-5, err_msg=str(index))
    parallel = KeyValues.from_heads(*layer.project(x))
    assert tuple(parallel.keys.shape) == (B, groups, D // heads, T)
    assert tuple(parallel.values.shape) == (B, groups, T, width)
    for part, expected, axis in zip(cache, parallel, (3, 2), strict=True):
        first_hypothesis = np.take(ops.convert_to_numpy(part), range(0, slots, 2), axis)
        np.testing.assert_allclose(first_hypothesis, ops.convert_to_numpy(expected), atol=1e-5)


@pytest.mark.parametrize("variant", ["one", "pooled", "grouped", "own without output"])
def test_looking_up_what_was_kept_equals_attending(variant: str) -> None:
    """Hypotheses of a sentence look up its memory as the positions of one target do."""
    layer = layer_of(CrossAttention, sized(variant))
    x, memory = normal(34, B, T, D), normal(35, B, S, D)
    mask = random_mask(36, B, 1, 1, S)
    expected, shares = layer(x, memory, attention_mask=mask, return_weights=True)
    output, weights = layer.attend_to_cache(
        ops.convert_to_tensor(x.reshape(-1, D)),
        KeyValues.from_heads(*layer.project(memory)),
        ops.convert_to_tensor(mask),
        T,
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(output).reshape(B, T, D), ops.convert_to_numpy(expected), atol=1e-5
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(weights), ops.convert_to_numpy(shares), atol=1e-6
    )


@each_variant
def test_a_head_without_its_parts_is_left_out(variant: str) -> None:
    sizes = sized(variant)
    layer = layer_of(CrossAttention, sizes)
    exact, original = exact_weights(layer), layer.get_weights()
    x, memory = normal(37, B, T, D), normal(38, B, S, D)
    mask = np.ones((B, sizes.num_heads, T, S), bool)
    full = ops.convert_to_numpy(layer(x, memory))
    for head in range(sizes.num_heads):
        for weight, index in layer.head_weights(head):
            array = ops.convert_to_numpy(weight).copy()
            array[index] = 0
            weight.assign(array)
        actual = ops.convert_to_numpy(layer(x, memory))
        layer.set_weights(original)
        expected, _ = attend_by_loop(sizes, exact, x, memory, mask, without=head)
        np.testing.assert_allclose(actual, expected, atol=1e-5, err_msg=str(head))
        assert np.abs(actual - full).max() > 0.05


# --- Sizes and files. -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "d_model=8 is not divisible by num_heads=3"),
        ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"d_model": 0}, "d_model must be at least 1, got 0"),
        ({"key_value_heads": 0}, "key_value_heads must be at least 1, got 0"),
        ({"key_value_heads": 3}, "num_heads=4 is not divisible by key_value_heads=3"),
        ({"key_value_heads": 8}, "num_heads=4 is not divisible by key_value_heads=8"),
        ({"key_value_heads": 2, "heads": "pooled"}, "key_value_heads=2: heads that share values"),
        ({"key_value_heads": 2, "output": False}, "key_value_heads=2: .* an output projection"),
        ({"heads": "two"}, "heads must be one of 'split', 'own', 'pooled', got 'two'"),
        ({"kernel": "flash"}, "kernel must be one of 'explicit', 'fused', 'chunked', got 'flash'"),
        ({"num_heads": 8, "rotary": True}, "d_model / num_heads must be even for rotary"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout must be in .*, got -0.1"),
    ],
)
def test_impossible_sizes_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionSizes(**{"d_model": D, "num_heads": H} | changes)


POOLED = {"heads": "pooled", "output": False, "biases": False, "kernel": "fused"}
OTHERWISE: tuple[tuple[type[MultiHeadAttention], dict[str, Any]], ...] = (
    (SelfAttention, {"heads": "own", "key_value_heads": 2, "qk_norm": True, "rotary": True}),
    (CausalSelfAttention, {"dropout": 0.1, "biases": False}),
    (CrossAttention, POOLED),
)


def test_every_field_is_stored_with_a_layer() -> None:
    plain = AttentionSizes(D, H)
    different = set()
    fields = {field.name for field in dataclasses.fields(plain)}
    for kind, changes in OTHERWISE:
        sizes = AttentionSizes(D, H, **changes)
        layer = layer_of(kind, sizes)
        stored = keras.saving.serialize_keras_object(layer)
        again = keras.saving.deserialize_keras_object(stored)
        assert type(again) is kind
        assert again.sizes == sizes
        assert again.get_config() == layer.get_config()
        assert relative_paths(again) == relative_paths(layer)
        again.set_weights(layer.get_weights())
        np.testing.assert_array_equal(outputs(again), outputs(layer))
        different |= {name for name in fields if getattr(sizes, name) != getattr(plain, name)}
    assert different == fields - {"d_model", "num_heads"}


# --- In the model. --------------------------------------------------------------------------------

MODELS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"num_heads": 1},
    "learned": {"positions": "learned", "heads": "own", "attention_kernel": "fused"},
    "rotary": {"positions": "rotary", "num_heads": 4, "key_value_heads": 2, "norm": "post"},
    "rotary, own": {"positions": "rotary", "heads": "own", "key_value_heads": 1, "qk_norm": True},
    "relative": {"positions": "relative", "attention_biases": False, "encoder_layers": 2},
    "relative, normalised": {"positions": "relative", "qk_norm": "self"},
    "relative, pooled": {"positions": "relative", "heads": "pooled", "attention_kernel": "fused"},
    "alibi": {"positions": "alibi", "num_heads": 4, "key_value_heads": 1, "decoder_layers": 2},
    "alibi, fused": {"positions": "alibi", "attention_kernel": "fused", "key_value_heads": 1},
    "none": {"positions": "none", "attention_output": False, "qk_norm": True},
}
# Numbers per position, layer and hypothesis: G (K + C), of width 8 and two heads where not told.
CACHED = {
    "sinusoidal": 16,
    "learned": 16,
    "rotary": 8,  # half of the keys and values
    "rotary, own": 8,
    "relative": 16,
    "relative, normalised": 16,
    "relative, pooled": 24,  # values of both heads are as wide as the model
    "alibi": 4,  # a quarter
    "alibi, fused": 8,
    "none": 16,
}
each_model = pytest.mark.parametrize("name", MODELS)
# Their sizes, as `TransformerSizes` names them.
OF_ATTENTION = {
    "heads": "heads",
    "key_value_heads": "key_value_heads",
    "attention_biases": "biases",
    "attention_output": "output",
    "attention_kernel": "kernel",
}


def model_of(name: str, **changes: Any) -> Transformer:
    return make(**{"decoder_layers": 1} | MODELS[name] | changes)


# Rows of a batch that every model reads once, and the tests compare.
Row = list[tuple[list[int], list[int]]]  # the pairs in it
FIRST, SECOND = ([4, 5, 2], [1, 6]), ([8, 2], [1, 3])
WHOLE = (FULL["source"][0].tolist(), FULL["target"][0].tolist())
ROWS: dict[str, Row] = {
    "first": [FIRST],
    "second": [SECOND],
    "first, second": [FIRST, SECOND],
    "second, first": [SECOND, FIRST],
    "second, filled": [SECOND],  # with ids of tokens where padding is
    "whole": [WHOLE],
    "whole, changed": [(WHOLE[0], [*WHOLE[1][:2], 3, WHOLE[1][3]])],
}
ORDER = [0, 4, 2, 3, 1, 5]  # of the tokens of a sentence
HYPOTHESES, STEPS = 3, 3
TOKENS = np.array([[3, 4, 5], [6, 7, 8]], np.int32)  # [B, k], the tokens of every step
# Parents of hypotheses: prefixes cross over and split.
PARENTS = np.array([[[2, 0, 0], [1, 1, 0]], [[1, 2, 1], [0, 2, 2]]], np.int32)


def prefix_rows() -> dict[str, Row]:
    """Return the prefix of each hypothesis, at every step, for both sentences."""
    actual: dict[str, Row] = {}
    prefixes = [[[int(token)] for token in row] for row in TOKENS]
    for index in range(STEPS):
        for sentence, place in np.ndindex(len(TOKENS), HYPOTHESES):
            source = [int(token) for token in SOURCE[sentence] if token != PAD]
            actual[f"prefix {index} {sentence} {place}"] = [(source, prefixes[sentence][place])]
        prefixes = [
            [[*row[parent], int(token)] for parent, token in zip(chosen, news, strict=True)]
            for row, chosen, news in zip(prefixes, PARENTS[index % 2], TOKENS, strict=True)
        ]
    return actual


ROWS |= prefix_rows()


@cache
def batch() -> dict[str, Array]:
    """Return the rows as the model reads them, packed."""
    actual = {}
    for side, (key, length) in enumerate((("source", 6), ("target", 4))):
        ids, segments, positions = (np.zeros((len(ROWS), length), np.int32) for _ in range(3))
        for row, pairs in enumerate(ROWS.values()):
            at = 0
            for number, pair in enumerate(pairs, start=1):
                here = slice(at, at + len(pair[side]))
                ids[row, here], segments[row, here] = pair[side], number
                positions[row, here] = range(len(pair[side]))
                at = here.stop
        filled = list(ROWS).index("second, filled")
        ids[filled] = np.where(segments[filled] == 0, 9, ids[filled])
        actual |= {key: ids, f"{key}_segments": segments, f"{key}_positions": positions}
    return actual


class Answers(NamedTuple):
    """The outputs of a model for the rows, and its initial decoding state for SOURCE."""

    logits: Array  # [rows, T, V]
    weights: dict[str, list[Array]]  # by kind and layer
    logits_beside: Array  # the logits that come with the weights
    memories: Array  # [2, S, D], of a sentence, and with two of its tokens in other places
    state: Any  # of HYPOTHESES each

    def of(self, row: str) -> Array:
        return self.logits[list(ROWS).index(row)]


@cache
def answers(model: Transformer) -> Answers:
    # Where it grows, JAX compiles another step: there, none does.
    room = STEPS - 1 if keras.config.backend() == "tensorflow" else STEPS

    def compute(inputs: dict[str, Any], source: Any, moved: Any) -> tuple[Any, ...]:
        logits, (logits_with_weights, weights) = model(inputs), model(inputs, return_attention=True)
        memories, _ = model.encode(moved, np.ones((1, 1, 1, len(ORDER)), bool))
        state = model.start(source, beam_size=HYPOTHESES, max_length=room)
        return (logits, weights, logits_with_weights, ops.cast(memories, "float32")), state

    actual, state = compiled(compute)(batch(), SOURCE, FULL["source"][0][[range(6), ORDER]])
    return Answers(*keras.tree.map_structure(ops.convert_to_numpy, actual), state)


@each_model
def test_a_model_hands_its_sizes_down(name: str) -> None:
    model = model_of(name)
    for kind in model.attention_kinds:
        for layer in model.attention_layers(kind.name):
            for key, field in OF_ATTENTION.items():
                assert getattr(layer.sizes, field) == getattr(model.sizes, key)
            assert layer.sizes.rotary == (name.startswith("rotary") and not kind.is_cross)
            normalised = (True,) if kind.is_cross else (True, "self")
            assert layer.sizes.qk_norm == (model.sizes.qk_norm in normalised)
    assert (model.positions is not None) == (name in ("sinusoidal", "learned"))
    biased = name.startswith(("relative", "alibi"))
    assert (model.encoder_bias is not None) == (model.decoder_bias is not None) == biased


@each_model
def test_a_row_of_two_pairs_equals_rows_of_one(name: str) -> None:
    actual = answers(model_of(name))
    first, second = actual.of("first")[:2], actual.of("second")[:2]
    for row, parts in (("first, second", (first, second)), ("second, first", (second, first))):
        np.testing.assert_allclose(actual.of(row), np.concatenate(parts), atol=2e-5)
    np.testing.assert_allclose(actual.of("second, filled")[:2], second, atol=1e-6)


@each_model
def test_only_what_follows_a_token_sees_it(name: str) -> None:
    actual = answers(model_of(name))
    full, changed = actual.of("whole"), actual.of("whole, changed")
    np.testing.assert_allclose(changed[:2], full[:2], atol=1e-6)
    assert (np.abs(changed - full)[2:].max(-1) > 1e-3).all()


@each_model
def test_the_order_of_tokens_is_known(name: str) -> None:
    """Swapping two source tokens without positions only swaps their outputs."""
    before, after = answers(model_of(name)).memories
    if name == "none":
        np.testing.assert_allclose(after, before[ORDER], atol=1e-5)
    else:
        assert np.abs(after - before[ORDER]).max() > 1e-2


@each_model
def test_decoding_with_the_cache_equals_decoding_without(name: str) -> None:
    """Hypotheses change places; their logits are those of the whole prefixes."""
    model = model_of(name)
    full = answers(model)
    state = full.state
    room = int(model.capacity(state))
    slots = len(SOURCE) * HYPOTHESES * room
    for kept in state.cache:
        assert sum(int(np.prod(part.shape)) for part in kept) == slots * CACHED[name]
    for index in range(STEPS):
        if index == room:
            state = model.grow(state, 2)
        logits, state = stepper(model)(
            ops.convert_to_tensor(TOKENS), ops.convert_to_tensor(index, "int32"), state
        )
        for (sentence, place), actual in zip(
            np.ndindex(len(SOURCE), HYPOTHESES),
            ops.convert_to_numpy(logits).reshape(-1, model.vocabulary_size),
            strict=True,
        ):
            expected = full.of(f"prefix {index} {sentence} {place}")[index]
            np.testing.assert_allclose(actual, expected, atol=2e-5)
        state = model.reorder(state, PARENTS[index % 2])


@pytest.mark.parametrize("name", ["rotary", "alibi"])
def test_one_hypothesis_is_decoded_with_the_cache(name: str) -> None:
    model = model_of(name)
    source, target = (np.array([side], np.int32) for side in WHOLE)
    state = compiled(lambda ids: model.start(ids, beam_size=1, max_length=4))(source)
    for index, expected in enumerate(answers(model).of("whole")):
        tokens = ops.convert_to_tensor(target[:, index : index + 1])
        logits, state = stepper(model)(tokens, ops.convert_to_tensor(index, "int32"), state)
        np.testing.assert_allclose(ops.convert_to_numpy(logits)[0, 0], expected, atol=2e-5)


@each_model
def test_weights_come_with_the_logits_that_come_without(name: str) -> None:
    model = model_of(name)
    actual = answers(model)
    np.testing.assert_allclose(actual.logits_beside, actual.logits, atol=1e-5)
    reads, writes = batch()["source_segments"], batch()["target_segments"]

    def same(rows: Array, columns: Array) -> Array:
        return (rows[:, :, None] == columns[:, None]) & (columns[:, None] > 0)

    for kind, where in (
        ("encoder", same(reads, reads)),
        ("decoder", same(writes, writes) & np.tril(np.ones((4, 4), bool))),
        ("cross", same(writes, reads)),
    ):
        assert len(actual.weights[kind]) == len(model.attention_layers(kind))
        for shares in actual.weights[kind]:
            assert shares.shape == (len(ROWS), model.sizes.num_heads, *where.shape[1:])
            np.testing.assert_array_equal(shares > 0, np.broadcast_to(where[:, None], shares.shape))
            full = np.broadcast_to(where.any(-1)[:, None], shares.shape[:3])
            np.testing.assert_allclose(shares.sum(-1), full, atol=1e-6)


@pytest.mark.parametrize(("name", "without"), [("rotary, own", 0), ("relative, pooled", 3)])
def test_every_weight_has_a_gradient(name: str, without: int) -> None:
    """Also with rematerialised blocks, whose gradients are the same.

    Biases of keys have none, as they add the same to all scores of a query, unless keys are
    normalised.
    """
    model = model_of(name)
    probe = np.random.default_rng(3).standard_normal((2, 4, 11)).astype(np.float32)
    _, gradients = logits_and_gradients(model, INPUTS, probe)
    actual = dict(zip(model.named_weights(), gradients, strict=True))
    small = {key for key, gradient in actual.items() if np.abs(gradient).max() < 1e-4}
    assert len(small) == without
    assert all("attention/key/" in key and key.endswith("/bias") for key in small)
    if name.startswith("relative"):
        again = model_of(name, remat=True)
        _, gradients = logits_and_gradients(again, INPUTS, probe)
        for key, gradient in zip(actual, gradients, strict=True):
            np.testing.assert_allclose(gradient, actual[key], atol=1e-5, rtol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    ("name", "policy", "digits"),
    [
        ("rotary", "mixed_bfloat16", 8),
        ("relative, pooled", "mixed_float16", 11),
        ("alibi, fused", "mixed_bfloat16", 8),
    ],
)
def test_variants_in_mixed_precision(name: str, policy: str, digits: int) -> None:
    """Near float32, as far as 20 roundings to the digits of the narrow type allow."""
    model = model_of(name, dtype=policy)
    assert {weight.dtype for weight in model.weights} == {"float32"}
    narrow, expected = answers(model), answers(model_of(name)).logits
    assert narrow.logits.dtype == np.float32
    assert np.isfinite(narrow.logits).all()
    where = batch()["target_segments"] > 0
    tolerance = 20 * 2.0**-digits * np.abs(expected).max()
    np.testing.assert_allclose(narrow.logits[where], expected[where], atol=tolerance)
    assert (narrow.logits != expected).any()
    for part in narrow.state.cache[0]:
        assert keras.backend.standardize_dtype(part.dtype) == model.compute_dtype
    logits, _ = stepper(model)(
        ops.convert_to_tensor(TOKENS), ops.convert_to_tensor(0, "int32"), narrow.state
    )
    for (sentence, place), cached in zip(
        np.ndindex(len(SOURCE), HYPOTHESES),
        ops.convert_to_numpy(logits).reshape(-1, model.vocabulary_size),
        strict=True,
    ):
        uncached = narrow.of(f"prefix 0 {sentence} {place}")[0]
        np.testing.assert_allclose(cached, uncached, atol=tolerance)


@pytest.mark.parametrize("name", ["rotary, own", "relative, pooled"])
def test_a_variant_that_is_saved_is_the_variant(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.sizes == model.sizes
    assert list(again.named_weights()) == list(model.named_weights())
    np.testing.assert_array_equal(answers(again).logits, answers(model).logits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": "two"}, "heads must be one of .*, got 'two'"),
        ({"key_value_heads": 3}, "num_heads=2 is not divisible by key_value_heads=3"),
        ({"num_heads": 8, "positions": "rotary"}, "d_model / num_heads must be even for rotary"),
        ({"attention_dropout": 1.5}, r"^attention_dropout must be in .*, got 1.5"),
        ({"attention_kernel": "flash"}, "^attention_kernel must be one of"),
    ],
)
def test_a_model_of_impossible_heads_is_refused(changes: dict[str, Any], message: str) -> None:
    sizes = dataclasses.asdict(model_of("sinusoidal").sizes) | {"num_heads": 2}
    with pytest.raises(ValueError, match=message):
        TransformerSizes(**sizes | changes)
