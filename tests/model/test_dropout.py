"""Dropout is a function of its key: the same bits on every backend, and no pattern in them."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from nmt.model.dropout import FULL_SHARE, DropoutKey, _mix, dropout, fold, uniform

pytestmark = pytest.mark.backend

Array = NDArray[Any]

LOW = 0xFFFFFFFF
GOLDEN = 0x9E3779B9


def mix(x: int) -> int:
    """The hash lowbias32 in Python's own integers."""
    x ^= x >> 16
    x = x * 0x7FEB352D & LOW
    x ^= x >> 15
    x = x * 0x846CA68B & LOW
    return x ^ x >> 16


def folded(key: int, *places: int) -> int:
    for index in places:
        key = mix(key + (index + 1) * GOLDEN & LOW)
    return key


def keeps_by_hand(size: int, rate: float, key: int) -> list[bool]:
    """Which of ``size`` elements survive: those whose 32 bits reach the share ``rate``."""
    return [mix(i + key & LOW) >= round(rate * 2**32) for i in range(size)]


def uint32(value: int) -> Any:
    return ops.convert_to_tensor(value, dtype="uint32")


def mask(key: Any, rate: float = 0.5, shape: tuple[int, ...] = (1 << 17,)) -> Array:
    """Return which elements `dropout` keeps, as 0 and 1."""
    ones = ops.ones(shape, "float32")
    return (ops.convert_to_numpy(dropout(ones, rate, key)) > 0).astype(np.float64)


def correlation(left: Array, right: Array) -> float:
    return float(np.corrcoef(left, right)[0, 1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        # 1: no bit above the 15th: 0x7FEB352D. >> 15 is 0xFFD6: 0x7FEBCAFB. Times 0x846CA68B,
        # modulo 2^32: 0x6889F849; xor its upper half 0x6889: 0x688990C0.
        (1, 0x688990C0),
        (2, 0xD1132181),
        (12345, 0x912EFCF7),
        (GOLDEN, 0x01FCE552),
        (LOW, 0x6768824A),
    ],
)
def test_hash_values(value: int, expected: int) -> None:
    assert mix(value) == expected
    assert int(ops.convert_to_numpy(_mix(uint32(value)))) == expected


def test_fold_equals_the_hash_of_key_and_place() -> None:
    keys, places = (0, 1, 7, GOLDEN, LOW), (0, 1, 2, 1000, 2**31 - 1)
    for key, index in itertools.product(keys, places):
        actual = fold(uint32(key), index)
        assert keras.backend.standardize_dtype(actual.dtype) == "uint32"
        assert int(ops.convert_to_numpy(actual)) == folded(key, index)
        # A step or a replica comes as a tensor of whichever integer type.
        for dtype in ("int32", "uint32"):
            as_tensor = fold(uint32(key), ops.convert_to_tensor(index, dtype))
            assert int(ops.convert_to_numpy(as_tensor)) == folded(key, index)


def test_where_dropout_is_off_it_stays_off() -> None:
    assert fold(None, 3) is None


def test_folded_keys_are_different() -> None:
    keys = [
        folded(seed, step, index) for seed in (0, 1) for step in range(50) for index in range(9)
    ]
    assert len(set(keys)) == len(keys)
    some = [(seed, step, index) for seed in (0, 1) for step in (0, 49) for index in (0, 8)]
    for seed, step, index in some:
        actual = fold(fold(uint32(seed), step), index)
        assert int(ops.convert_to_numpy(actual)) == folded(seed, step, index)


def test_uniform_numbers_are_inside_0_and_1_for_every_key() -> None:
    """The upper 24 bits decide: all their values, in order. The last is 0xFFFFFFFF."""
    keys = np.arange(1 << 24, dtype=np.uint32) << 8 | 0xFF
    assert keys[-1] == LOW
    numbers = ops.convert_to_numpy(uniform(ops.convert_to_tensor(keys)))
    assert numbers.dtype == np.float32
    assert 0 < numbers[0] < numbers[-1] < 1
    assert (numbers[1:] >= numbers[:-1]).all()
    # From 1/2 on, float32s are 2^-24 apart: a number is off by half of that at most.
    exact = (np.arange(0, 1 << 24, 255) + 0.5) / (1 << 24)
    assert np.abs(numbers[::255] - exact).max() <= 2.0**-25
    assert np.isfinite(-np.log(-np.log(numbers[[0, -1]]))).all()  # the noise of a draw


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("key", [0, 3, LOW - 2])  # at the last one, the counter wraps around
def test_values_equal_the_reference_on_every_backend(key: int, rate: float) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    actual = ops.convert_to_numpy(dropout(ops.convert_to_tensor(x), rate, uint32(key)))
    survives = np.reshape(keeps_by_hand(x.size, rate, key), x.shape)
    np.testing.assert_array_equal(actual != 0, survives)
    np.testing.assert_allclose(actual, np.where(survives, x / (1 - rate), 0), rtol=1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.9])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_a_share_of_a_rate_is_that_rate(rate: float, share: float) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    key = DropoutKey(uint32(7), uint32(round(share * FULL_SHARE)))
    actual = ops.convert_to_numpy(dropout(ops.convert_to_tensor(x), rate, key))
    survives = np.reshape(keeps_by_hand(x.size, rate * share, 7), x.shape)
    np.testing.assert_array_equal(actual != 0, survives)
    np.testing.assert_allclose(actual, np.where(survives, x / (1 - rate * share), 0), rtol=1e-6)


def test_folding_keeps_the_share() -> None:
    key = fold(DropoutKey(uint32(5), uint32(123)), 4)
    assert isinstance(key, DropoutKey)
    assert int(ops.convert_to_numpy(key.bits)) == folded(5, 4)
    assert int(ops.convert_to_numpy(key.share)) == 123


def test_no_key_or_no_rate_changes_nothing() -> None:
    x = ops.convert_to_tensor(np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32))
    for same in (dropout(x, 0.5, None), dropout(x, 0.0, uint32(1)), dropout(x, 0.0, None)):
        np.testing.assert_array_equal(ops.convert_to_numpy(same), ops.convert_to_numpy(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_dtype_stays_and_the_mask_does_not_depend_on_it(dtype: str) -> None:
    actual = dropout(ops.ones((6, 50), dtype), 0.5, uint32(11))
    assert keras.backend.standardize_dtype(actual.dtype) == dtype
    values = ops.convert_to_numpy(ops.cast(actual, "float32"))
    np.testing.assert_array_equal(values, 2.0 * np.reshape(keeps_by_hand(300, 0.5, 11), (6, 50)))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.8])
def test_share_and_expectation_are_kept(rate: float) -> None:
    """Of n elements n (1 - rate) ± sqrt(n rate (1 - rate)) survive: 4 of these sigmas."""
    for index in range(4):
        key = fold(uint32(1), index)
        survivors = mask(key, rate)
        n = survivors.size
        assert abs(survivors.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / n)
        values = ops.convert_to_numpy(dropout(ops.ones((n,), "float32"), rate, key))
        assert abs(values.mean(dtype=np.float64) - 1) < 4 * np.sqrt(rate / (1 - rate) / n)


def test_every_element_is_dropped_at_the_rate_over_the_steps() -> None:
    """100 elements over 200 steps: each within 4.5 sigma, so no element is always (or never) kept.

    100 normal deviates exceed 4.5 sigma together with a probability of 0.0007.
    """
    rate, steps = 0.3, 200
    counts = sum(mask(fold(uint32(7), step), rate, (100,)) for step in range(steps))
    sigma = np.sqrt(rate * (1 - rate) / steps)
    deviations = (counts / steps - (1 - rate)) / sigma
    assert np.abs(deviations).max() < 4.5
    assert 0.7 < deviations.std() < 1.3  # and they do scatter: 1 ± 0.07 expected


def test_the_same_key_gives_the_same_mask() -> None:
    np.testing.assert_array_equal(mask(uint32(3)), mask(uint32(3)))
    # Shape does not matter to the bits: elements are numbered in row-major order.
    np.testing.assert_array_equal(
        mask(uint32(3), shape=(1 << 9, 1 << 8)).reshape(-1), mask(uint32(3))
    )


def test_masks_belong_to_the_rows_of_the_whole_batch() -> None:
    """A share of the rows, in any order of axes, gets the mask of the full batch."""
    key = DropoutKey(uint32(3), uint32(FULL_SHARE))
    shape = (8, 5, 7)
    full = mask(key, shape=shape)
    np.testing.assert_array_equal(full, mask(uint32(3), shape=shape))
    for first, rows in ((0, 3), (3, 4), (7, 1)):
        part = mask(key.at_row(first), shape=(rows, *shape[1:]))
        np.testing.assert_array_equal(part, full[first : first + rows])
    nested = mask(key.at_row(2).at_row(3), shape=(3, *shape[1:]))
    np.testing.assert_array_equal(nested, full[5:])
    ones = ops.ones((5, 3, 7), "float32")
    turned = ops.convert_to_numpy(dropout(ones, 0.5, key.at_row(4), time_major=True)) > 0
    np.testing.assert_array_equal(turned, full[4:7].transpose(1, 0, 2))
    assert fold(key.at_row(4), 1).first_row == 4


def test_masks_of_different_places_steps_and_seeds_are_unrelated() -> None:
    """Correlations of n independent pairs scatter by 1 / sqrt(n): 5 sigma, also when shifted.

    Places are what a transformer uses: neighbours, neighbours of neighbours, in neighbouring
    steps and under neighbouring seeds.
    """
    places = [(0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 1, 0), (1, 2, 1), (0, 1, 2)]
    keys = [uint32(folded(seed, step, index)) for seed, step, index in places]
    masks = [mask(key) for key in keys]
    n = masks[0].size
    for left, right in itertools.combinations(masks, 2):
        for shift in range(-3, 4):
            assert abs(correlation(left, np.roll(right, shift))) < 5 / np.sqrt(n)


def test_a_mask_is_unrelated_to_itself_shifted() -> None:
    survivors = mask(fold(uint32(5), 0))
    n = survivors.size
    # 256 and 1024: rows of activations under each other.
    for shift in (1, 2, 3, 4, 8, 16, 32, 64, 256, 1024, 1 << 16):
        assert abs(correlation(survivors, np.roll(survivors, shift))) < 5 / np.sqrt(n)


def test_masks_of_neighbouring_model_keys_are_unrelated() -> None:
    """Whoever counts steps in the key itself gets new masks too: places are folded into it."""
    masks = [mask(fold(uint32(key), index)) for key in (100, 101, 102) for index in (0, 1)]
    n = masks[0].size
    for left, right in itertools.combinations(masks, 2):
        for shift in range(-3, 4):
            assert abs(correlation(left, np.roll(right, shift))) < 5 / np.sqrt(n)
