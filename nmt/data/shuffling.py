"""A shuffle that needs no memory: the new place of each position is computed."""

from __future__ import annotations

import numpy as np

ROUNDS = 8  # four are enough in theory (Luby & Rackoff 1988), for round functions that are random
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd


class Permutation:
    """A random-looking permutation of 0 … size - 1, computed position by position.

    A Feistel network (Luby & Rackoff 1988, How to Construct Pseudorandom Permutations) over pairs
    (left, right) of two nearly equal ranges: each round adds a function of one half to the other,
    which is invertible, so no two positions collide. The ranges are the smallest that hold all
    positions. A result beyond the last position is permuted again until it is in range (Black &
    Rogaway 2002, Ciphers with Arbitrary Finite Domains: cycle walking, and ranges whose sizes are
    not powers of two).

    Args:
        size: number of positions.
        keys: integers of at least 0, which select the permutation.
    """

    def __init__(self, size: int, *keys: int) -> None:
        self.size = size
        side = max(1, round(size**0.5))
        self._sizes = np.uint64(side), np.uint64(-(-size // side))
        self._keys = np.random.SeedSequence([len(keys), *keys]).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the new place of each position: int64, in the same order."""
        permuted = self._permute(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(permuted >= self.size)):
            permuted[outside] = self._permute(permuted[outside])
        return permuted.astype(np.int64)

    def _permute(self, positions: np.ndarray) -> np.ndarray:
        left_size, right_size = self._sizes
        left, right = positions // right_size, positions % right_size
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                left = (left + mix(right, key)) % left_size
            else:
                right = (right + mix(left, key)) % right_size
        return left * right_size + right


def mix(numbers: np.ndarray, key: np.uint64 | int = 0) -> np.ndarray:
    """Return a hash of each number: uint64, without collisions.

    The output function of SplitMix64 (Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Number
    Generators), whose state is the number and the key.
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        state = numbers.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(key)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))
