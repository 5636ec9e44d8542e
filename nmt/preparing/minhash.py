"""MinHash: how similar two texts are, told by a few numbers of each.

Broder 1997, On the resemblance and containment of documents. A text is the set of its sequences of
`GRAM` characters; the share of hash functions whose smallest value over two sets is the same is
expected to be their similarity, the size of what they share by that of what they have together
(Jaccard). Texts that agree on all values of a band are looked at closer: of similarity s, that is a
share 1 - (1 - s^4)^16 of them (Leskovec, Rajaraman & Ullman, Mining of Massive Datasets, 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.data.shuffling import mix

GRAM = 4  # characters
BANDS, BAND = 16, 4  # values in a band; of similarity 0.8, 99.98% are looked at, of 0.5, 64%
HASHES = BANDS * BAND
_BLOCK = 1 << 16  # characters worked on at once, to stay in a core's cache

# Random linear maps of 32-bit numbers; odd factors make them permutations.
_GENERATOR = np.random.default_rng(0x6E6D74)
_SHIFTS = _GENERATOR.integers(0, 1 << 32, HASHES, np.uint32)
_FACTORS = _GENERATOR.integers(0, 1 << 32, HASHES, np.uint32) | np.uint32(1)


def sign(texts: Sequence[str]) -> np.ndarray:
    """Return the smallest value of every hash function over each text: uint32 [texts, HASHES].

    Args:
        texts: of at least one character each.
    """
    found = np.empty((len(texts), HASHES), np.uint32)
    first, characters = 0, 0
    for i, text in enumerate(texts):
        characters += len(text)
        if characters >= _BLOCK or i == len(texts) - 1:
            found[first : i + 1] = _sign_block(texts[first : i + 1])
            first, characters = i + 1, 0
    return found


def _sign_block(texts: Sequence[str]) -> np.ndarray:
    """Do so for texts that are joined, each with line feeds behind it: a text of n has n grams."""
    gap = "\n" * (GRAM - 1)
    joined = gap.join(texts) + gap
    signs = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    grams = signs[: len(signs) - GRAM + 1].copy()
    for i in range(1, GRAM):  # 16 bits for each: characters beyond add to the next one
        grams = (grams << np.uint64(16)) + signs[i : len(signs) - GRAM + 1 + i]
    hashes = (mix(grams) >> np.uint64(32)).astype(np.uint32)
    lengths = np.array([len(text) for text in texts])
    begins = np.cumsum(lengths + GRAM - 1) - (lengths + GRAM - 1)
    # Every other piece is what begins in one text and ends in the next.
    pieces = np.stack([begins, begins + lengths], axis=1).reshape(-1)
    if pieces[-1] == len(hashes):
        pieces = pieces[:-1]
    least = np.empty((HASHES, len(texts)), np.uint32)
    mapped = np.empty_like(hashes)
    for i in range(HASHES):
        np.bitwise_xor(hashes, _SHIFTS[i], out=mapped)
        np.multiply(mapped, _FACTORS[i], out=mapped)
        least[i] = np.minimum.reduceat(mapped, pieces)[::2]
    return least.T


def band_keys(signatures: np.ndarray) -> np.ndarray:
    """Return a hash of the values of each band: uint32 [BANDS, texts]."""
    keys = np.zeros((len(signatures), BANDS), np.uint64)
    values = signatures.reshape(len(signatures), BANDS, BAND)
    for i in range(BAND):
        keys = mix(keys ^ values[:, :, i])
    return (keys >> np.uint64(32)).astype(np.uint32).T


def shorten(signatures: np.ndarray) -> np.ndarray:
    """Return a byte of every value, which is enough to compare by: uint8 [texts, HASHES].

    Li & König 2010, b-Bit Minwise Hashing. It is a byte of a hash: the smallest values of long
    texts all begin alike.
    """
    return (signatures * np.uint32(0x9E3779B1) >> np.uint32(24)).astype(np.uint8)


def similarities(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Estimate the similarity of texts from their shortened signatures: float64 [texts].

    Its standard deviation at 0.8 is 0.05. Values that differ share their last byte once in 256.
    """
    chance = 1 / 256
    equal = (one == other).mean(axis=1)
    return (equal - chance) / (1 - chance)
