"""Word alignment: the source word of each target word, read from cross-attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.analysis.heads.statistics import diagonal, entropy
from nmt.inference.alignment import weigh_words
from nmt.inference.forced_decoding import align_pairs, attend_pairs, count_pair_tokens
from nmt.inference.translator import Translator
from nmt.text.spans import Span
from nmt.text.words import assign_to_words, find_words

Links = frozenset[tuple[int, int]]  # (source word, target word), from 0

_BATCH = 64  # pairs whose attention is in memory at once


class Method(NamedTuple):
    """A way to derive links from attention weights.

    A target token has two rows: position t writes it, and position t + 1 reads it. The first row is
    *plain* attention. The second is *shifted*: there the decoder already knows the word
    (Chen et al. 2020, Accurate Word Alignment Induction from Neural Machine Translation).
    """

    layer: int | None  # from 1; None: the mean of all layers
    head: int | None  # from 1; None: the mean of all heads
    shifted: bool

    def __str__(self) -> str:
        layer = "mean of layers" if self.layer is None else f"layer {self.layer}"
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"{layer}, {head}, {'shifted' if self.shifted else 'plain'}"


class SentencePair(NamedTuple):
    """Two clean texts that translate each other, with the spans of their words."""

    source: str
    target: str
    source_words: Sequence[Span]
    target_words: Sequence[Span]

    @classmethod
    def of(cls, source: str, target: str) -> SentencePair:
        """Find the words of two clean texts."""
        return cls(source, target, find_words(source), find_words(target))

    def words(self) -> tuple[list[str], list[str]]:
        """Return the words of both sides."""
        return (
            [self.source[begin:end] for begin, end in self.source_words],
            [self.target[begin:end] for begin, end in self.target_words],
        )


def list_methods(layers: int, heads: int, *, shifted: bool) -> list[Method]:
    """Return the methods of a model: every head and the mean of heads per layer, and all layers."""
    numbers: list[int | None] = [None, *range(1, heads + 1)]
    methods = [Method(layer, head, shifted) for layer in range(1, layers + 1) for head in numbers]
    return [*methods, Method(None, None, shifted)]


def weigh_rows(cross: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the weights between words of both rows of each target token.

    Args:
        cross: [layers, H, T, S], EOS included.
        source: [S - 1, source words], see `assign_to_words`.
        target: [T - 1, target words].

    Returns:
        [2, layers, H, target words, source words + 1]: the rows that write (0) and the rows that
        read (1) a target word. The last column is EOS; every row sums to 1.
    """
    written = weigh_words(cross, source, target)
    # `weigh_words` leaves the last row out: here the first one, which reads BOS.
    read = weigh_words(np.roll(cross, -1, axis=-2), source, target)
    return np.stack([written, read])


def align(translator: Translator, pairs: Sequence[SentencePair]) -> Iterator[np.ndarray | None]:
    """Yield the weights between words by `Engine.align`, pair by pair: see `weigh_words`.

    They are None for a pair that cannot be aligned: one side has no words, or more tokens than the
    model has positions.
    """

    def weigh(fitting: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        size = translator.decoding.batch_size
        return align_pairs(translator.engine, translator.tokenizer, fitting, batch_size=size)

    return _align(translator, pairs, weigh, weigh_words)


def align_heads(
    translator: Translator, pairs: Sequence[SentencePair]
) -> Iterator[np.ndarray | None]:
    """Yield `weigh_rows` of the attention of every head, pair by pair; None as `align`."""

    def weigh(fitting: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        engine, size = translator.keras_engine("attention"), translator.decoding.batch_size
        attentions = attend_pairs(
            engine, translator.tokenizer, fitting, batch_size=size, uses_slots=False
        )
        return [attention.cross for attention in attentions]

    return _align(translator, pairs, weigh, weigh_rows)


def _align(
    translator: Translator,
    pairs: Sequence[SentencePair],
    weigh_tokens: Callable[[Sequence[tuple[str, str]]], list[np.ndarray]],
    to_words: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> Iterator[np.ndarray | None]:
    tokenizer = translator.tokenizer
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        lengths = count_pair_tokens(tokenizer, [(pair.source, pair.target) for pair in batch])
        fits = [
            bool(pair.source_words and pair.target_words) and length <= translator.engine.max_length
            for pair, length in zip(batch, lengths, strict=True)
        ]
        fitting = [(pair.source, pair.target) for pair, fit in zip(batch, fits, strict=True) if fit]
        weights = iter(weigh_tokens(fitting))
        for pair, fit in zip(batch, fits, strict=True):
            yield (
                None
                if not fit
                else to_words(
                    next(weights),
                    assign_to_words(tokenizer.spans(pair.source), pair.source_words),
                    assign_to_words(tokenizer.target.spans(pair.target), pair.target_words),
                )
            )


def select(weights: np.ndarray, method: Method) -> np.ndarray:
    """Return one method's weights [target words, source words + 1] out of `weigh_rows`."""
    layers = weights[int(method.shifted)]  # [layers, H, target words, source words + 1]
    heads = layers.mean(0) if method.layer is None else layers[method.layer - 1]
    return heads.mean(0) if method.head is None else heads[method.head - 1]


def find_links(weights: np.ndarray) -> Links:
    """Link every target word to the source word with the largest weight.

    A word whose largest weight is on EOS gets no link.

    Args:
        weights: [target words, source words + 1].
    """
    words = weights.shape[1] - 1
    largest = weights.argmax(1)
    return frozenset((int(s), t) for t, s in enumerate(largest) if s < words)


def link_diagonally(source_words: int, target_words: int) -> Links:
    """Link every target word to the source word at the same relative position."""
    return frozenset((int(s), t) for t, s in enumerate(diagonal(target_words, source_words)))


def format_links(links: Links) -> str:
    """Return links in Pharaoh format, in the order of target words: "0-0 2-1", source first."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links, key=lambda link: link[::-1]))


def information(weights: np.ndarray) -> float:
    """Return the mutual information of target and source word in nats.

    It is the entropy of the mean row minus the mean entropy of a row: large if every row is sure of
    its word and the rows are sure of different words, 0 for a head that always attends to the same
    position.

    Args:
        weights: [target words, source words + 1].
    """
    return float(entropy(weights.mean(0)) - entropy(weights).mean())


def choose_most_informative(pairs: Iterable[np.ndarray], candidates: Sequence[Method]) -> Method:
    """Return the method with the largest mean `information`; manual alignments are not needed.

    Args:
        pairs: `weigh_rows` of some pairs.
        candidates: at least one method.
    """
    pairs = list(pairs)
    return max(
        candidates,
        key=lambda method: sum(information(select(weights, method)) for weights in pairs),
    )
