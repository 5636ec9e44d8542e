"""A shuffle that needs no memory: where each position goes is computed, and never written down."""

from __future__ import annotations

import numpy as np

ROUNDS = 8  # four are enough in theory (Luby & Rackoff 1988), for round functions that are random
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd


class Permutation:
    """A random-looking permutation of 0 … size - 1, computed position by position.

    A Feistel network (Luby & Rackoff 1988, How to Construct Pseudorandom Permutations) over pairs
    (left, right) of two nearly equal ranges: each round adds a function of one half to the other,
    which can be undone, so that no two positions ever meet. The ranges are the smallest that hold
    all positions; what falls behind the last position goes around once more, until it is within
    (Black & Rogaway 2002, Ciphers with Arbitrary Finite Domains: cycle walking, and the network
    over ranges that are no powers of two).

    Args:
        size: positions.
        keys: at least 0; another one gives another permutation.
    """

    def __init__(self, size: int, *keys: int) -> None:
        self.size = size
        side = max(1, round(size**0.5))
        self._sizes = np.uint64(side), np.uint64(-(-size // side))
        self._keys = np.random.SeedSequence([len(keys), *keys]).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return where each position goes: int64, in the same order."""
        moved = self._pass(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(moved >= self.size)):
            moved[outside] = self._pass(moved[outside])
        return moved.astype(np.int64)

    def _pass(self, positions: np.ndarray) -> np.ndarray:
        (of_left, of_right), other = self._sizes, 1
        left, right = positions // of_right, positions % of_right
        for key in self._keys:
            if other:
                left = (left + mix(right, key)) % of_left
            else:
                right = (right + mix(left, key)) % of_right
            other = 1 - other
        return left * of_right + right


def mix(numbers: np.ndarray, key: np.uint64 | int = 0) -> np.ndarray:
    """Return a hash of each number: uint64, one to one.

    The output function of SplitMix64 (Steele, Lea & Flood 2014, Fast Splittable Pseudorandom Number
    Generators), whose state is the number and the key.
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        state = numbers.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(key)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))
