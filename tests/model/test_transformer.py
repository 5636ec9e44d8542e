"""The transformer equals a NumPy transcription of it, and keeps its invariants."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from conftest import PLAIN, transformer
from keras import ops
from numpy.typing import NDArray

from nmt.model.attention_roles import CausalSelfAttention, CrossAttention, SelfAttention
from nmt.model.blocks import DecoderBlock, EncoderBlock, FeedForward
from nmt.model.encoder_decoder import PAD
from nmt.model.layers import TokenEmbedding
from nmt.model.positions import PositionEmbedding
from nmt.model.sinusoids import sinusoids
from nmt.model.sizes import TransformerSizes
from nmt.model.transformer import Transformer

pytestmark = pytest.mark.backend

Array = NDArray[Any]

TINY: dict[str, Any] = PLAIN | {
    "vocabulary_size": 11,
    "d_model": 8,
    "num_heads": 2,
    "ffn_width": 12,
    "encoder_layers": 1,
    "decoder_layers": 2,
}
# Everything that has a choice, chosen differently.
OTHER = {
    "norm": "post",
    "positions": "learned",
    "activation": "swiglu",
    "attention_kernel": "fused",
    "encoder_layers": 2,
    "decoder_layers": 1,
}

# Operation by operation, JAX compiles anew for every shape: nearly all tests share these.
SOURCE = np.array([[4, 5, 6, 7, 8, 9], [10, 3, 4, 2, PAD, PAD]], np.int32)  # S = 6
TARGET = np.array([[1, 7, 5, 9], [1, 4, PAD, PAD]], np.int32)  # T = 4
INPUTS = {"source": SOURCE, "target": TARGET}
FULL = {  # without padding
    "source": np.array([[4, 5, 6, 7, 8, 9], [10, 3, 4, 2, 7, 7]], np.int32),
    "target": np.array([[1, 7, 5, 9], [1, 4, 10, 2]], np.int32),
}


def randomised(layer: Any, seed: int = 0) -> Any:
    """Give every weight random values: kernels and biases around 0, scales around 1."""
    for number, weight in enumerate(layer.weights):
        values = np.random.default_rng(1000 * seed + number).standard_normal(weight.shape)
        weight.assign(1 + 0.2 * values if weight.name == "gamma" else 0.4 * values)
    return layer


@cache
def made(changes: frozenset[tuple[str, Any]]) -> Transformer:
    return randomised(transformer(**TINY | dict(changes)))


def make(**changes: Any) -> Transformer:
    """Return a model with random weights: the same one for the same changes, so do not alter it."""
    return made(frozenset(changes.items()))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on JAX; on TensorFlow, a few eager calls are faster."""
    if keras.config.backend() == "tensorflow":
        return function
    import jax

    return jax.jit(function)


@cache
def stepper(model: Transformer) -> Callable[..., Any]:
    """Return a model's step, compiled once for all who pass equal shapes."""
    return compiled(model.step)


def logits_of(model: Transformer, inputs: dict[str, Array], **arguments: Any) -> Array:
    return ops.convert_to_numpy(model(inputs, **arguments))


def logits_and_gradients(
    model: Transformer, inputs: dict[str, Array], probe: Array, **arguments: Any
) -> tuple[Array, list[Array]]:
    """Return the logits, and the gradients of sum(logits * probe) for every weight."""
    variables = model.trainable_variables
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            logits = model(inputs, **arguments)
            scalar = ops.sum(logits * probe)
        actual = tape.gradient(scalar, [variable.value for variable in variables])
        gradients = [tf.convert_to_tensor(gradient) for gradient in actual]
    else:
        import jax

        def pure(values: list[Any]) -> Any:
            mapping = list(zip(variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                logits = model(inputs, **arguments)
                return ops.sum(logits * probe), logits

        values = [variable.value for variable in variables]
        gradients, logits = jax.jit(jax.grad(pure, has_aux=True))(values)
    return ops.convert_to_numpy(logits), [ops.convert_to_numpy(g) for g in gradients]


# --- The transcription, in float64. ---------------------------------------------------------------


def normalised(x: Array, w: dict[str, Array], name: str, epsilon: float = 1e-6) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * w[f"{name}/gamma"] + w[f"{name}/beta"]


def dense(x: Array, w: dict[str, Array], name: str) -> Array:
    return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]


def attention(x: Array, memory: Array, mask: Array, w: dict[str, Array], name: str) -> Array:
    """One sentence: x [T, D], memory [S, D], mask [T, S]; every query sees something."""
    query, key, value = (
        dense(of, w, f"{name}/{part}")
        for of, part in ((x, "query"), (memory, "key"), (memory, "value"))
    )
    heads = TINY["num_heads"]
    width = x.shape[-1] // heads
    merged = []
    for part in (slice(h * width, (h + 1) * width) for h in range(heads)):
        scores = query[:, part] @ key[:, part].T / math.sqrt(width)
        shares = np.exp(np.where(mask, scores, -np.inf))
        merged.append(shares / shares.sum(-1, keepdims=True) @ value[:, part])
    return dense(np.concatenate(merged, -1), w, f"{name}/output")


def feed_forward(x: Array, w: dict[str, Array], name: str, activation: str) -> Array:
    hidden = dense(x, w, f"{name}/inner")
    if activation in ("relu", "relu2"):
        hidden = np.maximum(hidden, 0) ** (2 if activation == "relu2" else 1)
    elif activation == "gelu":  # its tanh approximation, Keras's default
        cubic = math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)
        hidden = hidden * 0.5 * (1 + np.tanh(cubic))
    elif activation == "silu":
        hidden = hidden / (1 + np.exp(-hidden))
    else:
        gate = dense(x, w, f"{name}/gate")
        hidden = gate / (1 + np.exp(-gate)) * hidden
    return dense(hidden, w, f"{name}/outer")


def transcription(model: Transformer, source: Array, target: Array, **config: Any) -> Array:
    """Return the logits [T, V] of one sentence pair without padding."""
    w = {n: np.float64(ops.convert_to_numpy(v)) for n, v in model.named_weights().items()}
    pre = config["norm"] == "pre"
    width = TINY["d_model"]

    def embedded(ids: Array) -> Array:
        if config["positions"] == "learned":
            places = w["positions/table"][: len(ids)]
        else:
            order = list(range(width))
            if config["positions"] == "sinusoidal_halves":
                order = order[::2] + order[1::2]
            places = np.array([[angle(p, i, width) for i in order] for p in range(len(ids))])
        return w["embedding/table"][ids] * math.sqrt(width) + places

    epsilon = config.get("norm_epsilon", 1e-6)

    def residual(x: Array, norm: str, branch: Callable[[Array], Array]) -> Array:
        if pre:
            return x + branch(normalised(x, w, norm, epsilon))
        return normalised(x + branch(x), w, norm, epsilon)

    def feeding(x: Array, block: str) -> Array:
        return residual(
            x,
            f"{block}/feed_forward_norm",
            lambda y: feed_forward(y, w, f"{block}/feed_forward", config["activation"]),
        )

    memory = embedded(source)
    everything = np.ones((len(source), len(source)), bool)
    for number in range(config["encoder_layers"]):
        block = f"encoder_{number}"
        self_name = f"{block}/self_attention"
        memory = residual(
            memory, f"{self_name}_norm", lambda y, n=self_name: attention(y, y, everything, w, n)
        )
        memory = feeding(memory, block)
    memory = normalised(memory, w, "encoder_norm", epsilon) if pre else memory

    x = embedded(target)
    causal = np.tril(np.ones((len(target), len(target)), bool))
    across = np.ones((len(target), len(source)), bool)
    for number in range(config["decoder_layers"]):
        block = f"decoder_{number}"
        self_name, cross_name = f"{block}/causal_self_attention", f"{block}/cross_attention"
        x = residual(x, f"{self_name}_norm", lambda y, n=self_name: attention(y, y, causal, w, n))
        x = residual(
            x, f"{cross_name}_norm", lambda y, n=cross_name: attention(y, memory, across, w, n)
        )
        x = feeding(x, block)
    x = normalised(x, w, "decoder_norm", epsilon) if pre else x
    return x @ w["embedding/table"].T + w.get("embedding/bias", 0)


def angle(position: int, dimension: int, width: int) -> float:
    """Vaswani et al. 2017, section 3.5: PE(pos, 2i) and PE(pos, 2i + 1)."""
    i, odd = divmod(dimension, 2)
    inner = position / 10000 ** (2 * i / width)
    return math.cos(inner) if odd else math.sin(inner)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    ("positions", "activation"),
    [("sinusoidal", "relu"), ("learned", "gelu"), ("sinusoidal", "swiglu"), ("learned", "relu2")],
)
def test_logits_equal_the_transcription(norm: str, positions: str, activation: str) -> None:
    changes = {"norm": norm, "positions": positions, "activation": activation}
    config = TINY | changes
    model = make(**changes)
    actual = logits_of(model, FULL)
    assert actual.shape == (2, 4, 11)
    for logits, source, target in zip(actual, FULL["source"], FULL["target"], strict=True):
        expected = transcription(model, source, target, **config)
        assert np.abs(expected).max() > 0.5
        np.testing.assert_allclose(logits, expected, atol=2e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_logits_of_a_marian_model_equal_the_transcription(norm: str) -> None:
    changes = {"norm": norm, "positions": "sinusoidal_halves", "activation": "silu"}
    changes |= {"output_bias": True, "norm_epsilon": 0.01}
    model = make(**changes)
    assert "embedding/bias" in model.named_weights()
    actual = logits_of(model, FULL)
    for logits, source, target in zip(actual, FULL["source"], FULL["target"], strict=True):
        expected = transcription(model, source, target, **TINY | changes)
        np.testing.assert_allclose(logits, expected, atol=2e-5)
    assert model.count_params() == make(norm=norm).count_params() + 11
    assert sum(part.parameters for part in model.sizes.costs.list_parts()) == model.count_params()


# --- Parts. ---------------------------------------------------------------------------------------


def test_sinusoids_follow_the_paper() -> None:
    table = sinusoids(40, 6)
    assert table.dtype == np.float32
    expected = [[angle(position, i, 6) for i in range(6)] for position in range(40)]
    np.testing.assert_allclose(table, expected, atol=1e-6)
    np.testing.assert_allclose(table[0], [0, 1, 0, 1, 0, 1])
    # Position 1: wavelengths 2 pi, 2 pi 10000^(1/3) and 2 pi 10000^(2/3).
    np.testing.assert_allclose(
        table[1], [0.841471, 0.540302, 0.046399, 0.998923, 0.002154, 0.999998], atol=1e-6
    )


def test_sinusoids_in_halves_are_the_same_numbers() -> None:
    table = sinusoids(40, 6)
    np.testing.assert_array_equal(
        sinusoids(40, 6, halves=True), np.concatenate([table[:, ::2], table[:, 1::2]], axis=1)
    )


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_rows_of_their_table(kind: str) -> None:
    layer = PositionEmbedding(kind, 10, 6)
    layer.build()
    assert len(layer.weights) == (1 if kind == "learned" else 0)
    table = ops.convert_to_numpy(ops.convert_to_tensor(layer.table))
    assert table.shape == (10, 6)
    positions = np.array([[0, 1, 2], [9, 0, 4]])
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(positions)), table[positions])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_rows_longer_than_the_positions_are_refused(positions: str) -> None:
    model = transformer(**TINY | {"positions": positions})
    longest = model.sizes.max_length
    ids = np.ones((1, longest + 1), np.int32)
    with pytest.raises(ValueError, match=f"rows of {longest + 1} tokens exceed model.max_length"):
        model({"source": ids, "target": ids[:, :2]})


def test_the_token_table_reads_and_writes() -> None:
    layer = TokenEmbedding(5, 4)
    layer.build()
    randomised(layer)
    table = ops.convert_to_numpy(layer.table)
    ids = np.array([[0, 4, 2]])
    np.testing.assert_allclose(ops.convert_to_numpy(layer(ids)), 2.0 * table[ids], atol=1e-6)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(ops.convert_to_numpy(layer.logits(x)), x @ table.T, atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_logits_are_added_up_in_float32_whatever_they_are_made_of(precision: str) -> None:
    layer = TokenEmbedding(50, 16, dtype=f"mixed_{precision}")
    layer.build()
    randomised(layer)
    x = np.random.default_rng(0).standard_normal((2, 3, 16)).astype(np.float32)
    half = ops.cast(x, precision)
    logits = layer.logits(half)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    exact, table = (
        ops.convert_to_numpy(ops.cast(ops.cast(left, precision), "float32")).astype(np.float64)
        for left in (half, layer.table)
    )
    np.testing.assert_allclose(ops.convert_to_numpy(logits), exact @ table.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_parameter_count_has_a_closed_form(norm: str, activation: str, positions: str) -> None:
    model = make(norm=norm, activation=activation, positions=positions)
    d, f, v, length = 8, 12, 11, 16
    attention_size = 4 * (d * d + d)
    matrices = 3 if activation == "swiglu" else 2
    feed_forward_size = matrices * d * f + (matrices - 1) * f + d
    norm_size = 2 * d
    expected = v * d
    expected += attention_size + feed_forward_size + 2 * norm_size  # of one encoder block
    expected += 2 * (2 * attention_size + feed_forward_size + 3 * norm_size)
    expected += 2 * norm_size if norm == "pre" else 0
    expected += length * d if positions == "learned" else 0
    assert model.count_params() == expected


def test_weights_have_names_of_their_own() -> None:
    model, right = transformer(**TINY), transformer(name="another", **TINY)
    names = model.named_weights()
    assert len(names) == len(model.weights)
    assert list(names) == list(right.named_weights())
    assert {"embedding/table", "decoder_norm/gamma", "encoder_0/self_attention/key/bias"} <= set(
        names
    )
    assert names["decoder_0/feed_forward/inner/kernel"].shape == (8, 12)


def test_layers_of_attention_are_found_by_kind() -> None:
    model = make()
    actual = {kind.name: model.attention_layers(kind.name) for kind in model.attention_kinds}
    assert {name: list(map(type, layers)) for name, layers in actual.items()} == {
        "encoder": [SelfAttention],
        "decoder": [CausalSelfAttention] * 2,
        "cross": [CrossAttention] * 2,
    }
    with pytest.raises(KeyError):
        model.attention_layers("crosss")


# --- Invariants. ----------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_a_prediction_does_not_see_what_follows(changes: dict[str, Any]) -> None:
    model = make(**changes)
    logits = logits_of(model, FULL)
    for position in range(1, 4):
        target = FULL["target"].copy()
        target[:, position] = 3
        right = logits_of(model, FULL | {"target": target})
        np.testing.assert_allclose(right[:, :position], logits[:, :position], atol=1e-6)
        assert (np.abs(right - logits)[:, position:].max(-1) > 1e-3).all()


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_every_source_token_reaches_every_prediction(changes: dict[str, Any]) -> None:
    model = make(**changes)
    logits = logits_of(model, INPUTS)
    for position in range(SOURCE.shape[1]):
        changed = SOURCE.copy()
        changed[0, position] = 1
        right = logits_of(model, {"source": changed, "target": TARGET})
        assert (np.abs(right - logits)[0].max(-1) > 1e-4).all()
        np.testing.assert_allclose(right[1], logits[1], atol=1e-6)  # nor the other sentence


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_padding_changes_nothing(changes: dict[str, Any]) -> None:
    model = make(**changes)
    logits = logits_of(model, INPUTS)
    assert np.isfinite(logits).all()
    # The second pair without the padding that the first one makes it have.
    forward = compiled(lambda source, target: model({"source": source, "target": target}))
    single = ops.convert_to_numpy(forward(SOURCE[1:, :4], TARGET[1:, :2]))
    np.testing.assert_allclose(single[0], logits[1, :2], atol=1e-5)


def test_ids_under_padding_segments_change_nothing() -> None:
    model = make()
    segments = {
        "source_segments": (SOURCE != PAD).astype(np.int32),
        "target_segments": (TARGET != PAD).astype(np.int32),
    }
    logits = logits_of(model, INPUTS | segments)
    np.testing.assert_allclose(logits, logits_of(model, INPUTS), atol=1e-6)  # the same, spelt out
    filled = {
        "source": np.where(SOURCE == PAD, 9, SOURCE),
        "target": np.where(TARGET == PAD, 8, TARGET),
    }
    right = logits_of(model, filled | segments)
    np.testing.assert_allclose(right[TARGET != PAD], logits[TARGET != PAD], atol=1e-6)


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_packed_rows_equal_separate_rows(changes: dict[str, Any]) -> None:
    """Two rows of two pairs each, and the same four pairs one by row."""
    model = make(**changes)
    rows = [
        [([4, 5, 2], [1, 6, 7]), ([8, 2], [1])],  # 5 of 6 source and 4 of 4 target positions
        [([9, 10], [1]), ([3, 7, 6, 2], [1, 5])],  # 6 of 6 and 3 of 4
    ]

    def packed(rows: list[Any]) -> dict[str, Array]:
        actual = {}
        for side, (name, length) in enumerate((("source", 6), ("target", 4))):
            ids, segments, positions = (np.zeros((len(rows), length), np.int32) for _ in range(3))
            for row, pairs in enumerate(rows):
                at = 0
                for number, pair in enumerate(pairs, start=1):
                    here = slice(at, at + len(pair[side]))
                    ids[row, here], segments[row, here] = pair[side], number
                    positions[row, here] = range(len(pair[side]))
                    at = here.stop
            actual |= {name: ids, f"{name}_segments": segments, f"{name}_positions": positions}
        return actual

    packed_logits = logits_of(model, packed(rows))
    for number in range(2):
        pairs = [row[number] for row in rows]
        plain = packed([[pair] for pair in pairs])
        single = logits_of(model, {"source": plain["source"], "target": plain["target"]})
        for row, (_, target) in enumerate(pairs):
            at = 0 if number == 0 else len(rows[row][0][1])
            actual = packed_logits[row, at : at + len(target)]
            np.testing.assert_allclose(actual, single[row, : len(target)], atol=1e-5)


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_the_fused_kernel_gives_the_same_logits(changes: dict[str, Any]) -> None:
    explicit = make(**changes | {"attention_kernel": "explicit"})
    fused = make(**changes | {"attention_kernel": "fused"})
    np.testing.assert_allclose(logits_of(fused, INPUTS), logits_of(explicit, INPUTS), atol=1e-5)


@pytest.mark.parametrize("hypotheses", [1, 3])
@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_cached_decoding_equals_uncached(changes: dict[str, Any], hypotheses: int) -> None:
    model = make(**changes)
    length = 4
    target = np.random.default_rng(2).integers(1, 11, (2, hypotheses, length)).astype(np.int32)
    expected = np.stack(
        [logits_of(model, {"source": SOURCE, "target": target[:, n]}) for n in range(hypotheses)],
        axis=1,
    )  # [B, n, T, V]

    # Where it grows, JAX compiles another step: there, that of several hypotheses alone grows.
    grows = hypotheses > 1 or keras.config.backend() == "tensorflow"
    room = length - 1 if grows else length
    state = model.start(SOURCE, beam_size=hypotheses, max_length=room, track_coverage=True)
    assert state.cache[0].keys.shape == (2, 2, 4, room * hypotheses)
    assert state.memory[0].values.shape == (2, 2, SOURCE.shape[1], 4)
    for index in range(length):
        if index == room:
            state = model.grow(state, 3)
        logits, state = stepper(model)(
            target[:, :, index], ops.convert_to_tensor(index, "int32"), state
        )
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
        np.testing.assert_allclose(
            ops.convert_to_numpy(logits), expected[:, :, index], atol=1e-5, err_msg=str(index)
        )


def test_hypotheses_that_change_places_keep_their_past() -> None:
    """Two prefixes cross over and one of them splits; logits are those of the whole prefixes."""
    model = make()
    tokens = np.array([[3, 4, 5], [6, 7, 8]], np.int32)  # [B, k], the same at every step
    parents = np.array([[[2, 0, 0], [1, 1, 0]], [[1, 2, 1], [0, 2, 2]]], np.int32)
    state = model.start(SOURCE, beam_size=3, max_length=3, track_coverage=True)
    prefixes = [[[int(token)] for token in row] for row in tokens]
    for index in range(3):
        logits, state = stepper(model)(tokens, ops.convert_to_tensor(index, "int32"), state)
        target = np.zeros((2, 3, TARGET.shape[1]), np.int32)  # [B, k, T]
        target[:, :, : index + 1] = prefixes
        for place in range(3):
            inputs = {"source": SOURCE, "target": target[:, place]}
            full, weights = model(inputs, return_attention=True)
            np.testing.assert_allclose(
                ops.convert_to_numpy(logits)[:, place],
                ops.convert_to_numpy(full)[:, index],
                atol=1e-5,
            )
            cross = ops.convert_to_numpy(weights["cross"][-1])[:, :, : index + 1]
            received = cross.mean(1).sum(1)  # [B, S]
            np.testing.assert_allclose(
                ops.convert_to_numpy(state.coverage)[:, place], received, atol=1e-5
            )
        if index < 2:
            state = model.reorder(state, parents[index])
            prefixes = [
                [[*row[parent], int(token)] for parent, token in zip(chosen, news, strict=True)]
                for row, chosen, news in zip(prefixes, parents[index], tokens, strict=True)
            ]


@pytest.mark.parametrize("changes", [{}, OTHER, {"remat": True}], ids=["default", "other", "remat"])
def test_attention_weights_come_with_the_same_logits(changes: dict[str, Any]) -> None:
    model = make(**changes)
    logits, weights = model(INPUTS, return_attention=True)
    np.testing.assert_allclose(ops.convert_to_numpy(logits), logits_of(model, INPUTS), atol=1e-5)
    config = TINY | changes
    reads, writes = SOURCE != PAD, TARGET != PAD
    causal = np.tril(np.ones((4, 4), bool))
    for actual, layers, allowed in (
        (weights["encoder"], config["encoder_layers"], reads[:, :, None] & reads[:, None]),
        (
            weights["decoder"],
            config["decoder_layers"],
            writes[:, :, None] & writes[:, None] & causal,
        ),
        (weights["cross"], config["decoder_layers"], writes[:, :, None] & reads[:, None]),
    ):
        assert len(actual) == layers
        for layer in actual:
            shares = ops.convert_to_numpy(layer)
            assert shares.dtype == np.float32
            where = np.broadcast_to(allowed[:, None], (2, 2, *allowed.shape[1:]))
            assert shares.shape == where.shape
            np.testing.assert_array_equal(shares > 0, where)
            np.testing.assert_allclose(shares.sum(-1), where.any(-1), atol=1e-6)


# --- Dropout, rematerialisation, precision. -------------------------------------------------------

DROPPING = {"dropout": 0.2, "attention_dropout": 0.2, "ffn_dropout": 0.2}


def test_dropout_is_a_function_of_its_key() -> None:
    model = make(**DROPPING)
    key, right = ops.convert_to_tensor(1, "uint32"), ops.convert_to_tensor(2, "uint32")
    logits = logits_of(model, INPUTS, dropout_key=key)
    np.testing.assert_array_equal(logits, logits_of(model, INPUTS, dropout_key=key))
    assert np.abs(logits - logits_of(model, INPUTS, dropout_key=right)).max() > 1e-2
    # Without a key there is no dropout, whatever the rates.
    np.testing.assert_array_equal(logits_of(model, INPUTS), logits_of(make(), INPUTS))


@pytest.mark.parametrize("rate", sorted(DROPPING))
def test_each_rate_drops_something_of_its_own(rate: str) -> None:
    model = make(**{rate: 0.5})
    key = ops.convert_to_tensor(3, "uint32")
    dropped = logits_of(model, INPUTS, dropout_key=key)
    assert np.abs(dropped - logits_of(model, INPUTS)).max() > 1e-2
    all_of_them = logits_of(make(**dict.fromkeys(DROPPING, 0.5)), INPUTS, dropout_key=key)
    assert np.abs(dropped - all_of_them).max() > 1e-2


def test_rematerialisation_changes_neither_outputs_nor_gradients() -> None:
    """With dropout on: the masks of the second forward pass must be those of the first."""
    probe = np.random.default_rng(3).standard_normal((2, 4, 11)).astype(np.float32)
    actual = [
        logits_and_gradients(
            make(**DROPPING, decoder_layers=1, remat=remat),
            INPUTS,
            probe,
            dropout_key=ops.convert_to_tensor(4, "uint32"),
        )
        for remat in (False, True)
    ]
    (plain, expected), (rematerialised, gradients) = actual
    np.testing.assert_allclose(rematerialised, plain, atol=1e-6)
    assert len(gradients) == len(expected) > 40
    for left, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5, rtol=1e-5)
    assert sum(np.abs(g).max() > 1e-3 for g in expected) > 0.8 * len(expected)


@pytest.mark.parametrize(("policy", "digits"), [("mixed_bfloat16", 8), ("mixed_float16", 11)])
def test_mixed_precision(policy: str, digits: int) -> None:
    """Weights and logits are float32; logits agree with float32 to the digits of the narrow type.

    One rounding is off by 2^-digits of a value. Pre-norm logits of this model are sums of 8
    products of about 1 after some 20 roundings: 20 roundings add up to no more than 20 of them.
    """
    model, exact = make(dtype=policy, decoder_layers=1), make(decoder_layers=1)
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert model.compute_dtype == policy.removeprefix("mixed_")
    actual, gradients = logits_and_gradients(model, INPUTS, np.ones((2, 4, 11), np.float32))
    expected = logits_of(exact, INPUTS)
    assert actual.dtype == np.float32
    assert np.isfinite(actual).all()
    tolerance = 20 * 2.0**-digits * np.abs(expected).max()
    np.testing.assert_allclose(actual[TARGET != PAD], expected[TARGET != PAD], atol=tolerance)
    assert (actual != expected).any()  # it did compute in the narrow type
    assert all(gradient.dtype == np.float32 for gradient in gradients)
    assert all(np.isfinite(gradient).all() for gradient in gradients)

    state = compiled(lambda source: model.start(source, beam_size=1, max_length=4))(SOURCE)
    assert keras.backend.standardize_dtype(state.cache[0].keys.dtype) == model.compute_dtype
    for index in range(4):
        tokens = ops.convert_to_tensor(TARGET[:, index : index + 1])
        logits, state = stepper(model)(tokens, ops.convert_to_tensor(index, "int32"), state)
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"
        cached = ops.convert_to_numpy(logits)[0, 0]
        np.testing.assert_allclose(cached, actual[0, index], atol=tolerance)


# --- Configuration and files. ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "d_model=8 is not divisible by num_heads=3"),
        ({"norm": "middle"}, "norm must be one of 'pre', 'post', got 'middle'"),
        (
            {"positions": "round"},
            "positions must be one of 'sinusoidal', .*, got 'round'",
        ),
        (
            {"activation": "tanh"},
            "activation must be one of 'relu', .*, got 'tanh'",
        ),
        (
            {"attention_kernel": "flash"},
            "kernel must be one of 'explicit', .*, got 'flash'",
        ),
    ],
)
def test_impossible_configurations_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerSizes(**TINY | changes)


@pytest.mark.parametrize("name", sorted(TINY))
def test_no_hyperparameter_has_a_hidden_default(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        TransformerSizes(**{key: value for key, value in TINY.items() if key != name})


@pytest.mark.parametrize("changes", [{}, OTHER | {"remat": True}], ids=["default", "other"])
def test_configuration_rebuilds_the_model(changes: dict[str, Any]) -> None:
    model = make(dtype="mixed_bfloat16", name="mine", **changes | DROPPING)
    config = model.get_config()
    assert TINY | changes | DROPPING == {key: config[key] for key in TINY}
    again = Transformer.from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype_policy.name) == ("mine", "mixed_bfloat16")
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]
    in_float32 = Transformer.from_config(config | {"dtype": "float32", "remat": False})
    in_float32.set_weights(model.get_weights())
    expected = logits_of(make(**changes | DROPPING | {"remat": False}), INPUTS)
    np.testing.assert_array_equal(logits_of(in_float32, INPUTS), expected)


@pytest.mark.parametrize("changes", [{}, OTHER], ids=["default", "other"])
def test_a_saved_model_is_the_model(changes: dict[str, Any], tmp_path: Path) -> None:
    model = make(**changes | DROPPING)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is Transformer
    assert again.get_config() == model.get_config()
    assert again is not model
    assert list(again.named_weights()) == list(model.named_weights())
    np.testing.assert_array_equal(logits_of(again, INPUTS), logits_of(model, INPUTS))
    key = ops.convert_to_tensor(6, "uint32")
    np.testing.assert_array_equal(
        logits_of(again, INPUTS, dropout_key=key), logits_of(model, INPUTS, dropout_key=key)
    )

    model.save_weights(tmp_path / "model.weights.h5")
    fresh = randomised(transformer(**TINY | changes | DROPPING), seed=1)
    assert np.abs(logits_of(fresh, INPUTS) - logits_of(model, INPUTS)).max() > 1e-2
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(logits_of(fresh, INPUTS), logits_of(model, INPUTS))


def test_files_keep_their_layout(tmp_path: Path) -> None:
    """Files of version 0.1 must load: a flat configuration, and these names of weights."""
    stored = {
        "class_name": "Transformer",
        "module": "nmt.model.transformer",
        "registered_name": "nmt>Transformer",
        "config": {
            "activation": "relu", "attention_dropout": 0.0, "attention_kernel": "explicit",
            "d_model": 8, "decoder_layers": 2, "dropout": 0.1,
            "dtype": {
                "class_name": "DTypePolicy", "config": {"name": "float32"}, "module": "keras",
                "registered_name": None,
            },
            "encoder_layers": 1, "ffn_dropout": 0.0, "ffn_width": 12, "max_length": 16,
            "name": "transformer", "norm": "pre", "num_heads": 2, "positions": "sinusoidal",
            "remat": False, "trainable": True, "vocabulary_size": 11,
        },
    }  # fmt: skip
    model = keras.saving.deserialize_keras_object(stored)
    assert type(model) is Transformer
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        written = json.loads(file.read("config.json"))
        file.extract("model.weights.h5", tmp_path)
    assert written["config"].items() >= stored["config"].items()
    assert {key: written[key] for key in stored} == stored | {"config": written["config"]}

    def both(*layers: str) -> set[str]:
        return {f"{layer}/vars/{number}" for layer in layers for number in (0, 1)}

    def block(name: str, *attentions: str) -> set[str]:
        parts = ("query", "key", "value", "output_projection")
        layers = [f"{attention}/{part}" for attention in attentions for part in parts]
        layers += [f"{attention}_norm" for attention in attentions]
        layers += ["feed_forward/inner", "feed_forward/outer", "feed_forward_norm"]
        return both(*(f"{name}/{layer}" for layer in layers))

    actual = set()
    with h5py.File(tmp_path / "model.weights.h5") as weights:
        weights.visititems(
            lambda name, item: actual.add(name) if isinstance(item, h5py.Dataset) else None
        )
    assert actual == {"embedding/vars/0"} | both("encoder_norm", "decoder_norm") | block(
        "encoder_blocks/encoder_block", "attention"
    ) | block("decoder_blocks/decoder_block", "self_attention", "cross_attention") | block(
        "decoder_blocks/decoder_block_1", "self_attention", "cross_attention"
    )


def test_a_model_in_a_keras_model_takes_any_length() -> None:
    model = make()
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
    logits = keras.Model(inputs, model(inputs))(INPUTS)
    np.testing.assert_allclose(ops.convert_to_numpy(logits), logits_of(model, INPUTS), atol=1e-5)


BLOCK = TINY | {
    "norm": "post",
    "activation": "swiglu",
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "ffn_dropout": 0.3,
    "attention_kernel": "fused",
}
X = np.random.default_rng(4).standard_normal((2, 4, 8)).astype(np.float32)
MEMORY = np.random.default_rng(5).standard_normal((2, 6, 8)).astype(np.float32)
IDS = np.array([[1, 0, 6, 5], [3, 3, 2, 1]])


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (lambda: TokenEmbedding(7, 8, name="table"), (IDS,)),
        (lambda: PositionEmbedding("learned", 9, 8), (IDS,)),
        (lambda: PositionEmbedding("sinusoidal", 9, 8), (IDS,)),
        (lambda: FeedForward(TransformerSizes(**BLOCK | {"activation": "gelu"})), (X,)),
        (lambda: FeedForward(TransformerSizes(**BLOCK | {"activation": "relu2"})), (X,)),
        (lambda: FeedForward(TransformerSizes(**BLOCK | {"activation": "swiglu"})), (X,)),
        (lambda: EncoderBlock(TransformerSizes(**BLOCK)), (X,)),
        (lambda: DecoderBlock(TransformerSizes(**BLOCK), name="block"), (X, MEMORY)),
        (
            lambda: DecoderBlock(TransformerSizes(**BLOCK | {"norm": "pre", "activation": "relu"})),
            (X, MEMORY),
        ),
    ],
    ids=[
        *("tokens", "learned", "sinusoidal", "gelu", "relu2", "swiglu"),
        *("encoder", "decoder", "pre-decoder"),
    ],
)
def test_every_layer_serialises(layer: Callable[[], Any], inputs: tuple[Array, ...]) -> None:
    original = layer()
    original.build()
    randomised(original)
    stored = keras.saving.serialize_keras_object(original)
    again = keras.saving.deserialize_keras_object(stored)
    assert type(again) is type(original)
    assert again.get_config() == original.get_config()
    assert again.built  # as its original was
    again.set_weights(original.get_weights())

    def outputs(of: Any) -> list[Array]:
        actual = of(*inputs)
        parts = actual if isinstance(actual, tuple) else (actual,)
        return [
            ops.convert_to_numpy(ops.cast(part, "float32")) for part in parts if part is not None
        ]

    for left, right in zip(outputs(again), outputs(original), strict=True):
        np.testing.assert_array_equal(left, right)
