"""Which source word each target word was made from, read off cross-attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.analysis.heads.statistics import diagonal, entropy
from nmt.analysis.heads.words import Span, find_words, share_out
from nmt.inference.forcing import count_tokens
from nmt.inference.translator import Translator

Array = NDArray[Any]
Links = frozenset[tuple[int, int]]  # (source word, target word), from 0

_BATCH = 64  # pairs whose attention is in memory at the same time


class Method(NamedTuple):
    """A way to read links off attention weights.

    A target piece has two rows: position t writes it, and position t + 1 reads it. The first row is
    *plain* attention. The second is *shifted*: the decoder knows then which word it looks for
    (Chen et al. 2020, Accurate Word Alignment Induction from Neural Machine Translation).
    """

    layer: int | None  # from 1; None: the mean of all layers
    head: int | None  # from 1; None: the mean of all heads
    shifted: bool

    def __str__(self) -> str:
        layer = "mean of layers" if self.layer is None else f"layer {self.layer}"
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"{layer}, {head}, {'shifted' if self.shifted else 'plain'}"


class Sentences(NamedTuple):
    """Two clean texts that translate each other, and where their words stand."""

    source: str
    target: str
    source_words: Sequence[Span]
    target_words: Sequence[Span]

    @classmethod
    def of(cls, source: str, target: str) -> Sentences:
        """Find the words of two clean texts."""
        return cls(source, target, find_words(source), find_words(target))

    def words(self) -> tuple[list[str], list[str]]:
        """Return the words of both sides."""
        return (
            [self.source[begin:end] for begin, end in self.source_words],
            [self.target[begin:end] for begin, end in self.target_words],
        )


def list_methods(layers: int, heads: int, *, shifted: bool) -> list[Method]:
    """Return the methods for a model: each layer, mean of heads and each head, and all layers."""
    numbers: list[int | None] = [None, *range(1, heads + 1)]
    found = [Method(layer, head, shifted) for layer in range(1, layers + 1) for head in numbers]
    return [*found, Method(None, None, shifted)]


def weigh_words(cross: Array, source: NDArray[np.float64], target: NDArray[np.float64]) -> Array:
    """Turn weights between pieces into weights between words.

    A target word attends to a source word with the sum over the pieces of the source word, and the
    mean over those of the target word.

    Args:
        cross: [layers, H, T, S], end marks included.
        source: [S - 1, source words], see `share_out`.
        target: [T - 1, target words].

    Returns:
        [2, layers, H, target words, source words + 1]: of the rows that write (0) and of those that
        read (1) a target word. The last column is the end mark; every row sums to 1.
    """
    pieces, words = source.shape
    columns = np.zeros((pieces + 1, words + 1))
    columns[:pieces, :words] = source
    columns[pieces, words] = 1
    rows = np.stack([cross[..., :-1, :], cross[..., 1:, :]])  # [2, layers, H, T - 1, S]
    return (target / target.sum(0)).T @ rows @ columns


def align(translator: Translator, pairs: Sequence[Sentences]) -> Iterator[Array | None]:
    """Yield `weigh_words` pair by pair.

    None stands for a pair with nothing to align: a side without words, or with more pieces than the
    model has positions.
    """
    tokenizer = translator.tokenizer
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        lengths = count_tokens(tokenizer, [(pair.source, pair.target) for pair in batch])
        fits = [
            bool(pair.source_words and pair.target_words) and length <= translator.engine.max_length
            for pair, length in zip(batch, lengths, strict=True)
        ]
        chosen = [(pair.source, pair.target) for pair, fit in zip(batch, fits, strict=True) if fit]
        attentions = iter(translator.attentions(chosen))
        for pair, fit in zip(batch, fits, strict=True):
            yield (
                None
                if not fit
                else weigh_words(
                    next(attentions).cross,
                    share_out(tokenizer.spans(pair.source), pair.source_words),
                    share_out(tokenizer.target.spans(pair.target), pair.target_words),
                )
            )


def select(weights: Array, method: Method) -> Array:
    """Return the weights [target words, source words + 1] of one method, out of `weigh_words`."""
    found = weights[int(method.shifted)]  # [layers, H, target words, source words + 1]
    found = found.mean(0) if method.layer is None else found[method.layer - 1]
    return found.mean(0) if method.head is None else found[method.head - 1]


def find_links(weights: Array) -> Links:
    """Link every target word to the source word with the largest weight.

    A word whose largest weight is on the end mark stays without a link.

    Args:
        weights: [target words, source words + 1].
    """
    words = weights.shape[1] - 1
    largest = weights.argmax(1)
    return frozenset((int(s), t) for t, s in enumerate(largest) if s < words)


def link_diagonally(source_words: int, target_words: int) -> Links:
    """Link every target word to the source word at the same relative place."""
    return frozenset((int(s), t) for t, s in enumerate(diagonal(target_words, source_words)))


def format_links(found: Links) -> str:
    """Return links as Pharaoh has them: "0-0 2-1", source before target, in order of the target."""
    return " ".join(f"{s}-{t}" for s, t in sorted(found, key=lambda link: link[::-1]))


def information(weights: Array) -> float:
    """Return the mutual information in nats of target and source word, by their weights.

    The entropy of the mean row less the mean entropy of a row. It is large where every row is sure
    of its word and the rows are sure of different words; a head that always looks at the same place
    has none.

    Args:
        weights: [target words, source words + 1].
    """
    return float(entropy(weights.mean(0)) - entropy(weights).mean())


def choose_most_informative(many: Iterable[Array], candidates: Sequence[Method]) -> Method:
    """Choose the method with the largest mean `information`: needs no alignments by hand.

    Args:
        many: `weigh_words` of some pairs.
        candidates: at least one.
    """
    many = list(many)
    return max(
        candidates,
        key=lambda method: sum(information(select(weights, method)) for weights in many),
    )
