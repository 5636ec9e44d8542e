"""Whether the confidence of words is their probability of being right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console

from nmt.data.splitting import sample_evenly
from nmt.inference.contract import SearchRequest
from nmt.inference.evaluation import run_with_progress
from nmt.inference.translator import Translator
from nmt.inference.word_links import make_word_test

_SENTENCES = 500  # at most
_BINS = 10


class Bin(NamedTuple):
    """Words of similar confidence."""

    lowest: float
    highest: float
    words: int
    confidence: float  # mean
    right: float  # share that the references have


class Reliability(NamedTuple):
    """Confidence of words against whether the references have them."""

    sentences: int
    words: int
    bins: list[Bin]

    @property
    def calibration_error(self) -> float:
        """The expected calibration error (Naeini et al. 2015), 0 to 1."""
        gaps = (each.words * abs(each.confidence - each.right) for each in self.bins)
        return sum(gaps) / max(self.words, 1)


def measure_reliability(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    request: SearchRequest,
    console: Console,
) -> Reliability:
    """Translate a sample with confidence, and compare the confidence of words with references.

    Args:
        translator: of a run that has confidence.
        sources: as the run reads them.
        references: one per source.
        request: of translations with confidence.
        console: shows a progress bar.
    """
    sample = sample_evenly(list(zip(sources, references, strict=True)), _SENTENCES)
    translations = run_with_progress(
        lambda chunks: translator.stream(chunks, request),
        [source for source, _ in sample],
        "measuring confidence",
        console,
    )
    words = []
    for (_, reference), [best, *_] in zip(sample, translations, strict=True):
        is_right = make_word_test(reference)
        words += [
            (word.confidence, is_right(best.text[word.begin : word.end]))
            for word in best.words
            if word.confidence is not None
        ]
    return Reliability(len(sample), len(words), make_bins(words))


def make_bins(words: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Return bins of equal width for (confidence, is right); empty ones are left out."""
    if not words:
        return []
    confidence, right = (np.array(side, float) for side in zip(*words, strict=True))
    numbers = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    return [
        Bin(
            number / _BINS,
            (number + 1) / _BINS,
            int((numbers == number).sum()),
            float(confidence[numbers == number].mean()),
            float(right[numbers == number].mean()),
        )
        for number in range(_BINS)
        if (numbers == number).any()
    ]
