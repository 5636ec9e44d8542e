"""Which source tokens, words and characters a translation comes from. No Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.tokenizer import EOS
from nmt.inference.lexicon import Lexicon
from nmt.text.words import Span, assign_to_words

Array = NDArray[Any]

_DISCOUNT = 0.75  # of source tokens, by the attention that they receive from all positions
_LEAST_ATTENTION = 0.03  # added to attention, so that the lexicon can overrule it ...
_LEAST_PROBABILITY = 1e-3  # ... and to probabilities, so that rare tokens follow attention


class Aligner(NamedTuple):
    """Turns cross-attention, as the mean of the heads of one layer, into an alignment.

    Attributes:
        lexicon: the run's; None: attention decides alone.
    """

    lexicon: Lexicon | None = None

    def choose_layer(self, layers: int) -> int:
        """Return the index of the layer to read, of a decoder with this many.

        Without a measurement it is the last one, or of more than three the one before the last
        (Garg et al. 2019, Jointly Learning to Align and Translate).
        """
        if self.lexicon is not None and self.lexicon.layer is not None:
            return self.lexicon.layer
        return layers - (2 if layers > 3 else 1)

    def align(self, attention: Array, source: np.ndarray, target: np.ndarray) -> Array:
        """Return how much each target token is aligned to each source token.

        Args:
            attention: [T, S], row t of the position that writes target token t.
            source: ids without end mark [S - 1].
            target: ids without end mark [T - 1].

        Returns:
            float32 [T, S]; rows sum to 1.
        """
        # Source tokens that every position attends to, such as the end mark, count less.
        weights = attention / np.maximum(attention.sum(0), 1e-9) ** _DISCOUNT
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-9)
        if self.lexicon is not None:
            known = self.lexicon.weigh(np.append(source, EOS), np.append(target, EOS))
            weights = (weights + _LEAST_ATTENTION) * (known + _LEAST_PROBABILITY)
        return (weights / np.maximum(weights.sum(1, keepdims=True), 1e-9)).astype(np.float32)


def measure_layers(
    attentions: Sequence[Array],
    sources: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    lexicon: Lexicon,
) -> int:
    """Return the index of the decoder layer whose attention agrees best with a lexicon.

    Args:
        attentions: per pair the weights [layers, H, T, S].
        sources: ids of each without end mark.
        targets: ids of each without end mark.
        lexicon: learned from other pairs.
    """
    agreement = np.zeros(len(attentions[0]))
    for attention, source, target in zip(attentions, sources, targets, strict=True):
        known = lexicon.weigh(np.append(source, EOS), np.append(target, EOS))
        agreement += [
            (Aligner().align(weights.mean(0), source, target) * known).sum()
            for weights in attention
        ]
    return int(agreement.argmax())


def weigh_words(weights: Array, source: Array, target: Array) -> Array:
    """Turn weights between tokens into weights between words.

    The weight of a target and a source word is the sum over the tokens of the source word, and the
    mean over the tokens of the target word.

    Args:
        weights: [..., T, S], end marks included.
        source: [S - 1, source words], see `assign_to_words`.
        target: [T - 1, target words].

    Returns:
        [..., target words, source words + 1]: the last column is the end mark; every row sums to 1.
    """
    tokens, words = source.shape
    columns = np.zeros((tokens + 1, words + 1))
    columns[:tokens, :words] = source
    columns[tokens, words] = 1
    return (target / target.sum(0)).T @ weights[..., :-1, :] @ columns


def link_words(
    weights: Array,
    source_tokens: Sequence[Span],
    target_tokens: Sequence[Span],
    source_words: Sequence[Span],
    target_words: Sequence[Span],
) -> list[int | None]:
    """Return for every target word the index of the source word it comes from; None: of none.

    Args:
        weights: [T, S], see `Aligner.align`.
        source_tokens: characters of each source token, without end mark.
        target_tokens: characters of each target token, without end mark.
        source_words: characters of each source word, at least one.
        target_words: characters of each target word, at least one.
    """
    by_word = weigh_words(
        weights,
        assign_to_words(source_tokens, source_words),
        assign_to_words(target_tokens, target_words),
    )
    return [int(word) if word < len(source_words) else None for word in by_word.argmax(1)]
