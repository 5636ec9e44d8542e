"""MinHash: estimates the similarity of two texts from a few numbers of each.

Broder 1997, On the resemblance and containment of documents. A text is represented by the set of
its sequences of `GRAM` characters. The expected share of hash functions with the same smallest
value over two sets is their Jaccard similarity. Texts that agree in all values of a band are
compared: with similarity s, a share 1 - (1 - s^4)^16 of all pairs (Leskovec, Rajaraman & Ullman,
Mining of Massive Datasets, 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.data.shuffling import mix

GRAM = 4  # characters
BANDS, BAND = 16, 4  # number, values in each; compares 99.98% at similarity 0.8, 64% at 0.5
HASHES = BANDS * BAND
_BLOCK = 1 << 16  # characters hashed at a time, which fit into the cache of a core

# Random linear maps of 32-bit numbers; odd factors make them permutations.
_GENERATOR = np.random.default_rng(0x6E6D74)
_SHIFTS = _GENERATOR.integers(0, 1 << 32, HASHES, np.uint32)
_FACTORS = _GENERATOR.integers(0, 1 << 32, HASHES, np.uint32) | np.uint32(1)


def sign(texts: Sequence[str]) -> np.ndarray:
    """Return the smallest value of every hash function over each text: uint32 [texts, HASHES].

    No text may be empty.
    """
    signatures = np.empty((len(texts), HASHES), np.uint32)
    first, characters = 0, 0
    for i, text in enumerate(texts):
        characters += len(text)
        if characters >= _BLOCK or i == len(texts) - 1:
            signatures[first : i + 1] = _sign_block(texts[first : i + 1])
            first, characters = i + 1, 0
    return signatures


def _sign_block(texts: Sequence[str]) -> np.ndarray:
    """Return the signatures of texts, joined with line feeds: n characters give n grams."""
    gap = "\n" * (GRAM - 1)
    joined = gap.join(texts) + gap
    characters = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32).astype(
        np.uint64
    )
    grams = characters[: len(characters) - GRAM + 1].copy()
    for i in range(1, GRAM):  # 16 bits for each; those beyond are added to the next character
        grams = (grams << np.uint64(16)) + characters[i : len(characters) - GRAM + 1 + i]
    hashes = (mix(grams) >> np.uint64(32)).astype(np.uint32)
    lengths = np.array([len(text) for text in texts])
    begins = np.cumsum(lengths + GRAM - 1) - (lengths + GRAM - 1)
    # Every other interval is a gap between two texts, which the result skips.
    intervals = np.stack([begins, begins + lengths], axis=1).reshape(-1)
    if intervals[-1] == len(hashes):
        intervals = intervals[:-1]
    smallest = np.empty((HASHES, len(texts)), np.uint32)
    mapped = np.empty_like(hashes)
    for i in range(HASHES):
        np.bitwise_xor(hashes, _SHIFTS[i], out=mapped)
        np.multiply(mapped, _FACTORS[i], out=mapped)
        smallest[i] = np.minimum.reduceat(mapped, intervals)[::2]
    return smallest.T


def band_keys(signatures: np.ndarray) -> np.ndarray:
    """Return a hash of the values of each band: uint32 [BANDS, texts]."""
    keys = np.zeros((len(signatures), BANDS), np.uint64)
    values = signatures.reshape(len(signatures), BANDS, BAND)
    for i in range(BAND):
        keys = mix(keys ^ values[:, :, i])
    return (keys >> np.uint64(32)).astype(np.uint32).T


def shorten(signatures: np.ndarray) -> np.ndarray:
    """Return one byte of every value, which suffices for comparisons: uint8 [texts, HASHES].

    Li & König 2010, b-Bit Minwise Hashing. It is a byte of a hash of the value, as the smallest
    values of long texts have the same leading bits.
    """
    return (signatures * np.uint32(0x9E3779B1) >> np.uint32(24)).astype(np.uint8)


def similarities(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Estimate the similarity of texts from their shortened signatures: float64 [texts].

    The standard deviation at 0.8 is 0.05.
    """
    chance = 1 / 256  # that the bytes of different values are equal
    equal = (first == second).mean(axis=1)
    return (equal - chance) / (1 - chance)
