"""Every position once, whatever their number, and no order to be seen in it."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.data.shuffling import Permutation, mix


@pytest.mark.parametrize("size", [*range(1, 70), 97, 100, 255, 256, 257, 1000, 99_991, 100_000])
def test_it_is_a_permutation(size: int) -> None:
    moved = Permutation(size, 1, 2)(np.arange(size))
    assert moved.dtype == np.int64
    np.testing.assert_array_equal(np.sort(moved), np.arange(size))


def test_a_position_alone_goes_where_it_goes_among_others() -> None:
    permutation = Permutation(1_000_003, 7)
    everything = permutation(np.arange(1_000_003))
    some = np.array([0, 1, 999_999, 1_000_002, 17])
    np.testing.assert_array_equal(permutation(some), everything[some])
    for position in some:
        assert permutation(np.array([position]))[0] == everything[position]


def test_it_holds_for_more_positions_than_memory() -> None:
    size = 10**12 + 39
    moved = Permutation(size, 3)(np.arange(size - 100_000, size))
    assert len(np.unique(moved)) == 100_000
    assert 0 <= moved.min() < size * 0.001
    assert size * 0.999 < moved.max() < size


def test_it_looks_random() -> None:
    """Fixed points, neighbours that stay neighbours and correlation are those of chance."""
    size = 20_000
    places = np.arange(size)
    fixed, neighbours = [], []
    for key in range(40):
        moved = Permutation(size, key)(places)
        fixed.append((moved == places).sum())
        neighbours.append((np.abs(np.diff(moved)) == 1).sum())
        assert abs(np.corrcoef(places, moved)[0, 1]) < 5 / size**0.5
    # Both are of Poisson's distribution: of mean 1 and 2, so that the mean of 40 is within 0.8.
    assert np.mean(fixed) == pytest.approx(1, abs=0.8)
    assert np.mean(neighbours) == pytest.approx(2, abs=1.1)


def test_all_orders_of_a_few_occur_about_as_often() -> None:
    places = np.arange(4)
    orders = [tuple(Permutation(4, key)(places)) for key in range(2400)]
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert counts.min() > 50
    assert counts.max() < 170


def test_keys_make_other_permutations() -> None:
    places = np.arange(1000)
    permuted = [Permutation(1000, *keys)(places) for keys in ((1,), (2,), (1, 0), (1, 1), (0, 1))]
    for i, places_of_keys in enumerate(permuted):
        assert all((places_of_keys == other).mean() < 0.02 for other in permuted[:i])


def test_mixing_is_one_to_one_and_even() -> None:
    mixed = mix(np.arange(100_000), 5)
    assert len(np.unique(mixed)) == 100_000
    assert np.mean(mixed / 2.0**64) == pytest.approx(0.5, abs=0.01)
