"""Omissions and additions: words of a source or of a translation that are linked to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console

from nmt.analysis.heads.alignment import SentencePair, align, find_links
from nmt.inference.translator import Translator
from nmt.startup.progress import track
from nmt.text.cleaning import clean_input


class Coverage(NamedTuple):
    """What translations leave out and add; arrays are by sentence [N]."""

    omitted: np.ndarray  # source content words that no word of the translation is linked to
    content: np.ndarray  # source content words
    added: np.ndarray  # words of the translation that are linked to no source word
    written: np.ndarray  # words of the translation
    examples: Sequence[tuple[int, tuple[str, ...], tuple[str, ...]]]  # index, omitted, added words

    @property
    def omission_rate(self) -> float:
        """The share of source content words that are left out."""
        return float(self.omitted.sum() / max(self.content.sum(), 1))

    @property
    def addition_rate(self) -> float:
        """The share of words of the translations that are added."""
        return float(self.added.sum() / max(self.written.sum(), 1))


def measure_coverage(
    translator: Translator,
    sources: Sequence[str],
    outputs: Sequence[str],
    function_words: frozenset[str],
    console: Console,
) -> Coverage:
    """Align translations with their sources by one run, and count words without a link.

    Args:
        translator: the run that aligns; the same one for all systems, so that they are comparable.
        sources: N sentences.
        outputs: their translations.
        function_words: source words that count as no content, in lower case.
        console: shows a progress bar.
    """
    pairs = [
        SentencePair.of(clean_input(source), clean_input(output))
        for source, output in zip(sources, outputs, strict=True)
    ]
    counts = np.zeros((4, len(pairs)), int)
    examples = []
    weighed = track(align(translator, pairs), len(pairs), "aligning", console)
    for index, (pair, weights) in enumerate(zip(pairs, weighed, strict=True)):
        links = frozenset() if weights is None else find_links(weights)
        if weights is None and pair.target_words:
            continue  # too long for the model, or a source without words
        source_words, target_words = pair.words()
        linked = [{link[side] for link in links} for side in range(2)]
        content = [
            i
            for i, word in enumerate(source_words)
            if _is_word(word) and word.lower() not in function_words
        ]
        written = [t for t, word in enumerate(target_words) if _is_word(word)]
        omitted = [source_words[i] for i in content if i not in linked[0]]
        added = [target_words[t] for t in written if t not in linked[1]]
        counts[:, index] = len(omitted), len(content), len(added), len(written)
        if omitted or added:
            examples.append((index, tuple(omitted), tuple(added)))
    omitted_count, content_count, added_count, written_count = counts
    return Coverage(omitted_count, content_count, added_count, written_count, examples)


def _is_word(word: str) -> bool:
    return any(map(str.isalnum, word))
