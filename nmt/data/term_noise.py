"""Training sources in which translations replace words, as with a glossary."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import Tokenizer
from nmt.text.annotations import annotate
from nmt.text.words import Span, assign_to_words, find_words

WeighTokens = Callable[[np.ndarray, np.ndarray], NDArray[np.float64]]

_MOST = 2  # words of a sentence that are annotated
_LEAST = 0.05  # probability of a translation, below which words are not linked
_MIN_LETTERS = 3


class TermAnnotator:
    """Replaces words of a source by the words of the target that translate them.

    Args:
        tokenizer: of both sides.
        weigh: returns how probably each target token translates each source token, [T, S].
    """

    def __init__(self, tokenizer: Tokenizer, weigh: WeighTokens) -> None:
        self._tokenizer, self._weigh = tokenizer, weigh

    def annotate(self, source: str, target: str, draw: random.Random) -> str:
        """Return a source with one or two annotations; without any if no words are linked."""
        links = self.link_words(source, target)
        chosen = draw.sample(links, min(len(links), draw.randint(1, _MOST)))
        return annotate(source, sorted(chosen))[0]

    def link_words(self, source: str, target: str) -> list[tuple[int, int, str]]:
        """Return the characters [begin, end) of each linked source word, and its translation.

        Words are linked if each is the most probable counterpart of the other.
        """
        [source_ids] = self._tokenizer.encode([source])
        [target_ids] = self._tokenizer.target.encode([target])
        source_words, target_words = find_words(source), find_words(target)
        if not source_words or not target_words:
            return []
        columns = _share(self._tokenizer, source, source_words)
        rows = _share(self._tokenizer.target, target, target_words)
        if (len(rows), len(columns)) != (len(target_ids), len(source_ids)):
            return []
        weights = rows.T @ self._weigh(source_ids, target_ids) @ columns  # [T words, S words]
        links: list[tuple[int, int, str]] = []
        for number, (begin, end) in enumerate(source_words):
            row = int(weights[:, number].argmax())
            word = target[slice(*target_words[row])]
            is_mutual = int(weights[row].argmax()) == number and weights[row, number] >= _LEAST
            if is_mutual and _is_term(source[begin:end]) and _is_term(word):
                links.append((begin, end, word))
        return links


def _share(tokenizer: Tokenizer, text: str, words: list[Span]) -> NDArray[Any]:
    """Return the share of each token in each word: [tokens, words]; columns sum to 1."""
    shares = assign_to_words(tokenizer.spans(text), words)
    return shares / np.maximum(shares.sum(0), 1e-9)


def _is_term(word: str) -> bool:
    return len(word) >= _MIN_LETTERS and word.isalpha()
