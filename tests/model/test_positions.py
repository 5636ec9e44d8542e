"""Rotation and biases by distance equal their papers' rules, written out otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray
from test_attention import differentiated
from test_transformer import make

from nmt.model.attention import scaled_dot_product_attention
from nmt.model.masks import causal_mask
from nmt.model.positions import (
    BUCKETS,
    FARTHEST,
    LinearBias,
    PositionEmbedding,
    RelativeBias,
    bucket,
    expand_distance_bias,
    list_distances,
    list_slopes,
    make_distance_bias,
    rotate,
)

pytestmark = pytest.mark.backend

Array = NDArray[Any]

LENGTH, HEADS, WIDTH = 9, 3, 6


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rotated(x: Array, positions: Array | int) -> Array:
    return ops.convert_to_numpy(rotate(ops.convert_to_tensor(x), ops.convert_to_tensor(positions)))


# --- Rotation. ------------------------------------------------------------------------------------


def test_rotation_is_a_product_of_complex_numbers() -> None:
    x = numbers(0, 2, LENGTH, HEADS, WIDTH)
    positions = np.array([0, 1, 2, 3, 5, 8, 100, 1000, 4000], np.int32)
    frequencies = 1 / 10000 ** (np.array([0, 2, 4]) / WIDTH)
    factors = np.exp(1j * positions[:, None] * frequencies)[:, None]  # [L, 1, K / 2]
    turned = (x[..., :3] + 1j * x[..., 3:]) * factors
    actual = rotated(x, positions)
    # In float32 an angle of 4000 is off by 4000 2^-24 = 2e-4.
    np.testing.assert_allclose(actual[..., :3], turned.real, atol=1e-3)
    np.testing.assert_allclose(actual[..., 3:], turned.imag, atol=1e-3)
    near = positions < 10
    np.testing.assert_allclose(actual[:, near, :, 3:], turned.imag[:, near], atol=2e-6)


def test_rotation_keeps_lengths_and_what_stands_first() -> None:
    x = numbers(1, 2, LENGTH, HEADS, WIDTH)
    actual = rotated(x, np.arange(LENGTH, dtype=np.int32))
    np.testing.assert_array_equal(actual[:, 0], x[:, 0])
    assert (np.abs(actual - x)[:, 1:].max((0, 2, 3)) > 0.1).all()
    np.testing.assert_allclose(
        np.linalg.norm(actual, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5
    )


def test_products_of_what_is_rotated_depend_on_distances_alone() -> None:
    query, key = numbers(2, 1, 1, 1, WIDTH), numbers(3, 1, 1, 1, WIDTH)

    def product(query_position: int, key_position: int) -> float:
        return float(
            np.sum(rotated(query, np.int32(query_position)) * rotated(key, np.int32(key_position)))
        )

    for distance in (-4, 0, 3):
        near, far = product(5 + distance, 5), product(70 + distance, 70)
        assert near == pytest.approx(far, abs=1e-4)
    assert abs(product(5, 5) - product(8, 5)) > 0.1
    assert abs(product(2, 5) - product(8, 5)) > 0.1  # before is not after


def test_one_position_for_all_is_that_of_each() -> None:
    x = numbers(4, 2, LENGTH, HEADS, WIDTH)
    single = rotated(x, np.int32(7))
    np.testing.assert_allclose(single, rotated(x, np.full(LENGTH, 7, np.int32)), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rotation_stays_in_its_precision(dtype: str) -> None:
    x = ops.cast(numbers(5, 1, LENGTH, 1, WIDTH), dtype)
    actual = rotate(x, ops.arange(LENGTH, dtype="int32") + 2000)
    assert keras.backend.standardize_dtype(actual.dtype) == dtype
    exact = rotated(
        ops.convert_to_numpy(ops.cast(x, "float32")), np.arange(LENGTH, dtype=np.int32) + 2000
    )
    # Angles are float32: at a position of 2000, bfloat16 would be off by several whole turns.
    np.testing.assert_allclose(ops.convert_to_numpy(ops.cast(actual, "float32")), exact, atol=0.05)


# --- Distances. -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (3, 6), (5, 2)])
def test_what_is_spread_stands_at_its_distance(queries: int, keys: int) -> None:
    distances = ops.convert_to_numpy(list_distances(queries, keys))
    assert distances.dtype == np.int32
    np.testing.assert_array_equal(distances, np.arange(1 - keys, queries))
    actual = ops.convert_to_numpy(
        expand_distance_bias(
            ops.convert_to_tensor(np.stack([distances, 10 * distances])), queries, keys
        )
    )
    expected = np.arange(queries)[:, None] - np.arange(keys)
    np.testing.assert_array_equal(actual, np.stack([expected, 10 * expected]))


def bucket_by_integers(distance: int, causal: bool) -> int:
    """The rule of T5 without a logarithm.

    Of n buckets, n / 2 are for one distance each. Range j = 0, 1, … of the others begins at the
    distance e (F / e)^(j / r), e and r both n / 2: below d where e^r (F / e)^j <= d^r.
    """
    buckets = BUCKETS
    first = 0
    if not causal:
        buckets //= 2
        first = buckets if distance < 0 else 0
        distance = abs(distance)
    distance = max(distance, 0)
    exact = ranges = buckets // 2
    if distance < exact:
        return first + distance
    starts = [
        j for j in range(ranges) if exact**ranges * (FARTHEST // exact) ** j <= distance**ranges
    ]
    return first + exact + starts[-1]


@pytest.mark.parametrize("causal", [False, True])
def test_buckets_follow_the_rule(causal: bool) -> None:
    distances = np.arange(-300, 301, dtype=np.int32)
    actual = ops.convert_to_numpy(bucket(ops.convert_to_tensor(distances), causal=causal))
    assert keras.backend.standardize_dtype(actual.dtype) == "int32"
    expected = [bucket_by_integers(int(distance), causal) for distance in distances]
    np.testing.assert_array_equal(actual, expected)
    assert set(expected) == set(range(BUCKETS)) - (set() if causal else {BUCKETS // 2})


@pytest.mark.parametrize(
    ("causal", "expected"),
    [
        (
            False,  # 8 of one distance, then 8 √2^j: 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5
            {
                **{0: 0, 1: 1, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10, 23: 11, 31: 11},
                **{32: 12, 45: 12, 46: 13, 63: 13, 64: 14, 90: 14, 91: 15, 127: 15, 128: 15},
                **{5000: 15, -1: 17, -7: 23, -8: 24, -16: 26, -64: 30, -128: 31, -5000: 31},
            },
        ),
        (
            True,  # 16 of one distance, then 16 8^(j / 16): 16, 18.2, 20.7, 23.6, 26.9, 30.6, 34.9
            {
                **{-5: 0, -1: 0, 0: 0, 1: 1, 15: 15, 16: 16, 18: 16, 19: 17, 20: 17, 21: 18},
                **{23: 18, 24: 19, 26: 19, 27: 20, 30: 20, 31: 21, 34: 21, 35: 22},
                **{112: 30, 113: 31, 128: 31, 5000: 31},
            },
        ),
    ],
)
def test_buckets_by_hand(causal: bool, expected: dict[int, int]) -> None:
    distances = np.array(list(expected), np.int32)
    actual = ops.convert_to_numpy(bucket(ops.convert_to_tensor(distances), causal=causal))
    assert dict(zip(expected, actual.tolist(), strict=True)) == expected


# --- Biases. --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (4, [2, 4, 6, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (6, [2, 4, 6, 8, 1, 3]),  # of 4 heads, then every second one of 8
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes_by_hand(heads: int, exponents: list[float]) -> None:
    assert list_slopes(heads) == pytest.approx([2.0**-exponent for exponent in exponents])


def test_linear_bias_by_hand() -> None:
    layer = LinearBias(4)
    actual = ops.convert_to_numpy(layer(list_distances(3, 2)))  # -1, 0, 1, 2
    assert layer.weights == []
    expected = [
        [-1 / 4, 0, -1 / 4, -1 / 2],
        [-1 / 16, 0, -1 / 16, -1 / 8],
        [-1 / 64, 0, -1 / 64, -1 / 32],
        [-1 / 256, 0, -1 / 256, -1 / 128],
    ]
    np.testing.assert_array_equal(actual, np.array(expected, np.float32))


@pytest.mark.parametrize("causal", [False, True])
def test_relative_bias_by_hand(causal: bool) -> None:
    layer = RelativeBias(2, causal=causal)
    layer.build()
    assert [tuple(weight.shape) for weight in layer.weights] == [(BUCKETS, 2)]
    # Head 0 has the number of the bucket, head 1 a hundred more.
    layer.table.assign(np.arange(BUCKETS)[:, None] + np.array([0, 100]))
    distances = ops.convert_to_tensor(np.array([-20, -1, 0, 1, 20], np.int32))
    actual = ops.convert_to_numpy(layer(distances))
    expected = [0, 0, 0, 1, 17] if causal else [26, 17, 0, 1, 10]
    np.testing.assert_array_equal(actual, [expected, np.array(expected) + 100])


def test_who_has_a_bias() -> None:
    for kind in ("sinusoidal", "learned", "rotary", "none"):
        assert make_distance_bias(kind, 2, causal=True, name="bias") is None
    relative = make_distance_bias("relative", 2, causal=True, name="bias")
    assert isinstance(relative, RelativeBias)
    assert (relative.num_heads, relative.causal, relative.name) == (2, True, "bias")
    assert isinstance(make_distance_bias("alibi", 2, causal=True, name="bias"), LinearBias)


@pytest.mark.parametrize(
    ("positions", "policy"), [("relative", "mixed_bfloat16"), ("alibi", "mixed_float16")]
)
def test_biases_are_float32_whatever_the_policy(positions: str, policy: str) -> None:
    model = make(positions=positions, dtype=policy, decoder_layers=1)
    for bias in (model.encoder_bias, model.decoder_bias):
        actual = bias(list_distances(300, 300))
        assert keras.backend.standardize_dtype(actual.dtype) == "float32"
    if positions == "alibi":  # the slope of the first of two heads is 1 / 16
        expected = [-299 / 16, -298 / 16]  # which are one number in bfloat16
        np.testing.assert_array_equal(ops.convert_to_numpy(actual)[0, :2], expected)


def test_the_gradient_of_a_bias_adds_up_in_float32() -> None:
    """A number for a distance gets the gradients of T scores, too many for bfloat16 to add up."""
    length = 256
    query, key, value = (numbers(seed, 1, length, 1, 4) for seed in (6, 7, 8))
    bias = 0.1 * numbers(9, 1, 2 * length - 1)
    probe = np.abs(numbers(10, 1, length, 1, 4))

    def gradient(dtype: str) -> Array:
        def output(bias: Any) -> Any:
            narrow = (ops.cast(part, dtype) for part in (query, key, value))
            attended, _ = scaled_dot_product_attention(
                *narrow, causal_mask(length), distance_bias=ops.cast(bias, dtype)
            )
            return ops.cast(attended, "float32")

        return differentiated(output, probe, [])(bias)[1][0]

    exact = gradient("float32")
    # 1% is what rounding the inputs does, depending on the processor. Sums in bfloat16 are 2% off.
    np.testing.assert_allclose(gradient("bfloat16"), exact, atol=0.015 * np.abs(exact).max())


def test_decoders_know_the_past_alone() -> None:
    model = make(positions="relative", decoder_layers=1)
    assert (model.encoder_bias.causal, model.decoder_bias.causal) == (False, True)
    assert model.position_table() is None


@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: RelativeBias(3, causal=True, name="past"),
        lambda: RelativeBias(2, causal=False),
        lambda: LinearBias(6, dtype="float32"),
        lambda: PositionEmbedding("learned", 12, 4),
    ],
    ids=["causal", "relative", "linear", "learned"],
)
def test_layers_of_positions_serialise(make_layer: Callable[[], Any]) -> None:
    layer = make_layer()
    layer.build((None,))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
    assert len(again.weights) == len(layer.weights)
    again.set_weights(layer.get_weights())
    distances = np.array([0, 3, 11], np.int32)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(again(distances)), ops.convert_to_numpy(layer(distances))
    )


def test_other_kinds_of_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one of 'sinusoidal', .*, got 'rotary'"):
        PositionEmbedding("rotary", 12, 4)


def test_far_distances_share_the_last_bucket() -> None:
    """So a model reads longer rows than it was trained on, and the scale of the ranges is right."""
    assert BUCKETS == 32
    last = math.ceil(16 * (FARTHEST / 16) ** (15 / 16))
    distances = np.array([last - 1, last, FARTHEST, 10 * FARTHEST, 2**20], np.int32)
    actual = ops.convert_to_numpy(bucket(ops.convert_to_tensor(distances), causal=True))
    assert actual.tolist() == [30, 31, 31, 31, 31]
