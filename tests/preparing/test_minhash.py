"""Similarity is estimated without bias, and similar texts share a band."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from nmt.preparing.minhash import (
    GRAM,
    HASHES,
    band_keys,
    shorten,
    sign,
    similarities,
)


def grams(text: str) -> set[str]:
    text += "\n" * (GRAM - 1)
    return {text[i : i + GRAM] for i in range(len(text) - GRAM + 1)}


def similarity(first: str, second: str) -> float:
    return len(grams(first) & grams(second)) / len(grams(first) | grams(second))


@pytest.fixture(scope="module")
def texts() -> tuple[list[str], list[str], np.ndarray]:
    """Texts, others that were changed in few or many words, and how similar they are."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghíñ中", k=rng.randint(2, 8))) for _ in range(500)]

    def draw_pairs() -> Iterator[tuple[str, str]]:
        for i in range(1200):
            text = rng.choices(words, k=rng.randint(6, 25))
            rate = 0.1 * (i % 8)
            changed = [rng.choice(words) if rng.random() < rate else word for word in text]
            yield " ".join(text), " ".join(changed)

    ones, others = map(list, zip(*draw_pairs(), strict=True))
    return ones, others, np.array([similarity(*pair) for pair in zip(ones, others, strict=True)])


def test_estimates_are_those_of_the_definition(
    texts: tuple[list[str], list[str], np.ndarray],
) -> None:
    ones, others, truth = texts
    estimated = similarities(shorten(sign(ones)), shorten(sign(others)))
    error = estimated - truth
    for low in (0, 0.2, 0.4, 0.6, 0.8):
        near = (truth >= low) & (truth < low + 0.2)
        assert near.sum() > 50
        # The variance of a share of HASHES draws; the mean of its errors is near 0.
        expected = np.sqrt((truth * (1 - truth))[near].mean() / HASHES)
        assert np.std(error[near]) == pytest.approx(expected, rel=0.35, abs=0.01)
        assert abs(error[near].mean()) < 4 * expected / near.sum() ** 0.5 + 0.004
    assert (estimated[truth == 1] == 1).all()


def test_bands_find_what_is_similar(texts: tuple[list[str], list[str], np.ndarray]) -> None:
    ones, others, truth = texts
    shared = (band_keys(sign(ones)) == band_keys(sign(others))).any(axis=0)
    assert shared[truth >= 0.8].mean() > 0.99
    assert shared[truth < 0.2].mean() < 0.1


def test_a_text_is_signed_alike_wherever_it_stands() -> None:
    texts = ["a", "ab", "日本語", "x" * 100_000, "the same sentence", "😀", "tail"]
    batched = sign(texts)
    assert batched.shape == (7, HASHES)
    for text, signature in zip(texts, batched, strict=True):
        np.testing.assert_array_equal(sign([text])[0], signature)
    assert len(np.unique(batched, axis=0)) == 7
