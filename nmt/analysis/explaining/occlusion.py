"""Occlusion: how far words of the source and of the prefix speak for a word.

A word is hidden, the model scores the same pieces again, and the effect of the word is how much
less probable they become (Zeiler & Fergus 2014, "Visualizing and Understanding Convolutional
Networks"; of text, Li, Monroe & Jurafsky 2016, "Understanding Neural Networks through
Representation Erasure"). The effect on log p(written) - log p(other) is a contrastive explanation
(Yin & Neubig 2022, "Interpreting Language Models with Contrastive Explanations").

Effects are finite differences, and do not sum to the whole: of two words that say the same, each
can be hidden without harm. So all words of a side are hidden together, too. Without the whole
source, the effect on log p(written) is the pointwise mutual information of the word and the source,
given the prefix (Fernandes et al. 2021, "Measuring and Increasing Context Usage in Context-Aware
Machine Translation"; against hallucinations, van der Poel et al. 2022, "Mutual Information
Alleviates Hallucinations in Abstractive Summarization").

A hidden word of the source is left out. In a prefix, the unknown token takes its place: a decoder
whose prefix lacks a word writes that word next. Gradient times input, which is cheaper, asks what
happens if an embedding is stretched; a normalised layer hardly notices that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nmt.analysis.explaining.forced import ForcedRow
from nmt.data.tokenizer import BOS, UNK

PieceScorer = Callable[[Sequence[ForcedRow]], list[np.ndarray]]

_Hidden = tuple[str, int]  # a side and the number of its word; -1: all of its words
_NOTHING, _SOURCE, _PREFIX = "", "source", "prefix"
_ALL = -1


class Continuation(NamedTuple):
    """A word that a translation may have after a prefix."""

    prefix: tuple[int, ...]  # ids, without BOS
    tokens: tuple[int, ...]  # ids of the word's pieces


class Effects(NamedTuple):
    """The log-probability of a word's pieces, and how far it falls without other words, in nats."""

    log_probs: np.ndarray  # [pieces], each given the prefix and the pieces before it
    source: np.ndarray  # [source words], summed over the pieces
    prefix: np.ndarray  # [words of the prefix], summed over the pieces
    all_source: np.ndarray  # [pieces]
    all_prefix: np.ndarray  # [pieces]


class Contrasts(NamedTuple):
    """How far log p(written) - log p(other) falls without words, in nats."""

    source: np.ndarray  # [source words]
    prefix: np.ndarray  # [words of the prefix]
    all_source: float
    all_prefix: float


def contrast(written: Effects, other: Effects) -> Contrasts:
    """Return the contrasts of two continuations of a prefix."""
    return Contrasts(
        written.source - other.source,
        written.prefix - other.prefix,
        float(written.all_source.sum() - other.all_source.sum()),
        float(written.all_prefix.sum() - other.all_prefix.sum()),
    )


class _Path(NamedTuple):
    """What the decoder reads to score some continuations, which begin alike."""

    read: tuple[int, ...]
    members: list[int]  # continuations


def occlude(
    score: PieceScorer,
    source: np.ndarray,
    source_words: Sequence[Sequence[int]],
    prefix_words: Sequence[Sequence[int]],
    continuations: Sequence[Continuation],
    *,
    kept: Sequence[int] = (),
) -> list[Effects]:
    """Return the effects of words on each continuation.

    A word's own pieces, which later pieces of it read, stay visible.

    Args:
        score: see `ForcedScorer.score_pieces`.
        source: int [S], EOS included.
        source_words: indices of the tokens of each word.
        prefix_words: of each word that a prefix may have, the indices of its tokens in what the
            decoder reads: 0 is BOS. A word that reaches beyond a prefix is not of it.
        continuations: at least one piece each.
        kept: indices of source tokens besides EOS that stay when the source is hidden.
    """
    without_source = source[sorted({*kept, len(source) - 1})]
    rows: list[ForcedRow] = []
    places: list[tuple[_Hidden, list[int]]] = []
    for path in _share_paths(continuations):
        for hidden, hidden_source, read, members in _list_variants(
            path, source, source_words, without_source, prefix_words, continuations
        ):
            rows.append(_make_row(hidden_source, read, [continuations[i] for i in members]))
            places.append((hidden, members))
    scored: list[dict[_Hidden, np.ndarray]] = [{} for _ in continuations]
    for (hidden, members), values in zip(places, score(rows), strict=True):
        sizes = [len(continuations[i].tokens) for i in members]
        parts = np.split(values, np.cumsum(sizes)[:-1])
        for i, part in zip(members, parts, strict=True):
            scored[i][hidden] = part
    return [_compare(each, len(source_words)) for each in scored]


def _share_paths(continuations: Sequence[Continuation]) -> list[_Path]:
    """Let continuations share a row where one reads what another begins with.

    All words of a translation share one with each other, and with rivals of one piece.
    """
    reads = [(BOS, *prefix, *tokens[:-1]) for prefix, tokens in continuations]
    paths: list[_Path] = []
    for i in sorted(range(len(reads)), key=lambda i: -len(reads[i])):
        read = reads[i]
        shared = (path for path in paths if path.read[: len(read)] == read)
        path = next(shared, None)
        if path is None:
            path = _Path(read, [])
            paths.append(path)
        path.members.append(i)
    return paths


def _list_variants(
    path: _Path,
    source: np.ndarray,
    source_words: Sequence[Sequence[int]],
    without_source: np.ndarray,
    prefix_words: Sequence[Sequence[int]],
    continuations: Sequence[Continuation],
) -> Iterator[tuple[_Hidden, np.ndarray, np.ndarray, list[int]]]:
    """Yield each thing to hide, the source and the read tokens without it, and what to score."""
    read, members = np.array(path.read), path.members
    yield (_NOTHING, 0), source, read, members
    for number, indices in enumerate(source_words):
        yield (_SOURCE, number), np.delete(source, indices), read, members
    yield (_SOURCE, _ALL), without_source, read, members
    ends = {i: 1 + len(continuations[i].prefix) for i in members}  # of prefixes, in `read`
    for number, indices in enumerate(prefix_words):
        after = [i for i in members if max(indices) < ends[i]]
        if after:
            yield (_PREFIX, number), source, _replace(read, indices), after
    for end in sorted({*ends.values()} - {1}):  # an empty prefix hides nothing
        same_end = [i for i in members if ends[i] == end]
        yield (_PREFIX, _ALL), source, _replace(read, range(1, end)), same_end


def _replace(read: np.ndarray, indices: Sequence[int]) -> np.ndarray:
    replaced = read.copy()
    replaced[list(indices)] = UNK
    return replaced


def _make_row(
    source: np.ndarray, read: np.ndarray, continuations: Sequence[Continuation]
) -> ForcedRow:
    positions: list[int] = []
    labels: list[int] = []
    for prefix, tokens in continuations:
        positions += range(len(prefix), len(prefix) + len(tokens))
        labels += tokens
    return ForcedRow(source, read.tolist(), positions, labels)


def _compare(scored: dict[_Hidden, np.ndarray], source_words: int) -> Effects:
    visible = scored[_NOTHING, 0]
    words = sum(side == _PREFIX and number != _ALL for side, number in scored)
    return Effects(
        visible,
        np.array([(visible - scored[_SOURCE, n]).sum() for n in range(source_words)]),
        np.array([(visible - scored[_PREFIX, n]).sum() for n in range(words)]),
        visible - scored[_SOURCE, _ALL],
        visible - scored.get((_PREFIX, _ALL), visible),
    )
