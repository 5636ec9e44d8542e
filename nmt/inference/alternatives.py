"""The most probable next words behind the beginning of a translation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.inference.alignment import find_owners
from nmt.inference.contract import BeamOptions, Engine
from nmt.inference.prefixes import crosses_word
from nmt.inference.segments import Segment, show_spans
from nmt.text.case import apply_case
from nmt.text.words import find_words

CANDIDATES = 16  # next tokens that are completed to words
_LONGEST_WORD = 12  # tokens


class Alternative(NamedTuple):
    """A word that may follow a prefix."""

    text: str
    probability: float  # that the model writes its tokens behind the prefix


class _Candidate(NamedTuple):
    segment: int  # its number
    tokens: np.ndarray  # int32: the prefix, and the first token of a word; later the whole word
    text: str = ""


def find_alternatives(
    engine: Engine, tokenizer: Tokenizer, segments: Sequence[Segment], count: int
) -> list[list[Alternative]]:
    """Return up to ``count`` next words behind the prefix of each segment, the best first.

    A beam of `CANDIDATES` takes the most probable next tokens, greedy search completes each to a
    word, and the product of the probabilities of its tokens is that of the word. Ways to write the
    same word are added. Copied segments have no alternatives.

    Args:
        engine: searches and scores.
        tokenizer: of its ids.
        segments: whose prefixes leave room for another token.
        count: alternatives of each segment.
    """
    prefixes = tokenizer.target.encode([segment.prefix.text for segment in segments])
    begun = _begin_words(engine, segments, prefixes)
    words = _complete_words(engine, tokenizer, segments, begun)
    scores = _score(engine, segments, words)
    found: list[defaultdict[str, float]] = [defaultdict(float) for _ in segments]
    for word, log_probs in zip(words, scores, strict=True):
        begin = len(prefixes[word.segment])
        log_prob = float(log_probs[begin : len(word.tokens)].sum())
        found[word.segment][word.text] += math.exp(log_prob)
    return [
        sorted((Alternative(*item) for item in each.items()), key=lambda word: -word.probability)[
            :count
        ]
        for each in found
    ]


def _begin_words(
    engine: Engine, segments: Sequence[Segment], prefixes: Sequence[np.ndarray]
) -> list[_Candidate]:
    """Return the most probable next tokens behind each prefix; the end mark is left out."""
    rows = [
        number
        for number, segment in enumerate(segments)
        if not segment.is_copied and len(prefixes[number]) + 2 < engine.max_length
    ]
    if not rows:
        return []
    outputs = engine.search(
        [segments[i].ids for i in rows],
        np.array([len(prefixes[i]) + 2 for i in rows], np.int32),  # a token and the end mark
        BeamOptions(CANDIDATES, length_penalty=0.0, n_best=CANDIDATES),
        _stack([prefixes[i] for i in rows]),
    )
    return [
        _Candidate(i, np.append(prefixes[i], token).astype(np.int32))
        for i, hypotheses in zip(rows, outputs, strict=True)
        for token in dict.fromkeys(each.tokens[len(prefixes[i])] for each in hypotheses)
        if token != EOS
    ]


def _complete_words(
    engine: Engine, tokenizer: Tokenizer, segments: Sequence[Segment], begun: Sequence[_Candidate]
) -> list[_Candidate]:
    """Return candidates with all tokens of their words, as far as they begin a word."""
    if not begun:
        return []
    room = [min(len(each.tokens) + _LONGEST_WORD, engine.max_length) for each in begun]
    outputs = engine.search(
        [segments[each.segment].ids for each in begun],
        np.array(room, np.int32),
        BeamOptions(1, length_penalty=0.0),
        _stack([each.tokens for each in begun]),
    )
    words = []
    for candidate, [hypothesis] in zip(begun, outputs, strict=True):
        segment = segments[candidate.segment]
        text, owners = find_owners(tokenizer.target, hypothesis.tokens[:-1])
        end_of_prefix = len(segment.prefix.text)
        following = [word for word in find_words(text) if word[0] >= end_of_prefix]
        if not following or crosses_word(text, end_of_prefix):
            continue
        begin, end = following[0]
        tokens = np.asarray(hypothesis.tokens[: owners[end - 1] + 1], np.int32)
        shown = apply_case(show_spans(text[begin:end], segment.spans), segment.case)
        words.append(candidate._replace(tokens=tokens, text=shown))
    return words


def _score(
    engine: Engine, segments: Sequence[Segment], words: Sequence[_Candidate]
) -> list[np.ndarray]:
    if not words:
        return []
    sources = [segments[word.segment].ids for word in words]
    return engine.score(sources, [word.tokens for word in words])


def _stack(sequences: Sequence[np.ndarray]) -> np.ndarray:
    """Return int32 [B, P] of sequences, with -1 after each: see `Engine.search`."""
    stacked = np.full((len(sequences), max(map(len, sequences))), -1, np.int32)
    for row, ids in zip(stacked, sequences, strict=True):
        row[: len(ids)] = ids
    return stacked
