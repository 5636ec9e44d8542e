"""The most probable next words after the beginning of a translation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.inference.alignment import map_chars_to_tokens
from nmt.inference.contract import BeamOptions, Engine
from nmt.inference.prefixes import crosses_word, stack_prefixes
from nmt.inference.segment_writing import write_first_letter
from nmt.inference.segments import Segment
from nmt.text.case import apply_case
from nmt.text.spans import show_spans
from nmt.text.words import find_words

CANDIDATES = 16  # next tokens that are completed to words
_LONGEST_WORD = 12  # tokens


class Alternative(NamedTuple):
    """A word that may follow a prefix."""

    text: str
    probability: float  # that the model writes its tokens after the prefix
    prefix: str  # the beginning of the translation with this word


class _Candidate(NamedTuple):
    segment: int  # its number
    tokens: np.ndarray  # int32: the prefix, and the first token of a word; later the whole word
    text: str = ""
    prefix: str = ""  # as `Alternative.prefix`


def find_alternatives(
    engine: Engine, tokenizer: Tokenizer, segments: Sequence[Segment], count: int
) -> list[list[Alternative]]:
    """Return up to ``count`` next words after the prefix of each segment, the best first.

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
    beam_size = min(CANDIDATES, tokenizer.vocabulary_size)
    first_tokens = _find_first_tokens(engine, segments, prefixes, beam_size)
    words = _complete_words(engine, tokenizer, segments, first_tokens)
    if not words:
        return [[] for _ in segments]
    sources = [segments[word.segment].ids for word in words]
    scores = engine.score(sources, [word.tokens for word in words])
    by_word: list[dict[str, Alternative]] = [{} for _ in segments]
    for word, log_probs in zip(words, scores, strict=True):
        begin = len(prefixes[word.segment])
        probability = math.exp(float(log_probs[begin : len(word.tokens)].sum()))
        same = by_word[word.segment].get(word.text)
        probability += 0.0 if same is None else same.probability
        by_word[word.segment][word.text] = Alternative(word.text, probability, word.prefix)
    return [sorted(each.values(), key=lambda word: -word.probability)[:count] for each in by_word]


def _find_first_tokens(
    engine: Engine, segments: Sequence[Segment], prefixes: Sequence[np.ndarray], beam_size: int
) -> list[_Candidate]:
    """Return the ``beam_size`` most probable next tokens after each prefix, without EOS."""
    rows = [
        number
        for number, segment in enumerate(segments)
        if not segment.is_copied and len(prefixes[number]) + 2 < engine.max_length
    ]
    if not rows:
        return []
    outputs = engine.search(
        [segments[i].ids for i in rows],
        np.array([len(prefixes[i]) + 2 for i in rows], np.int32),  # a token and EOS
        BeamOptions(beam_size, length_penalty=0.0, n_best=beam_size),
        stack_prefixes([prefixes[i] for i in rows]),
    )
    return [
        _Candidate(i, np.append(prefixes[i], token).astype(np.int32))
        for i, hypotheses in zip(rows, outputs, strict=True)
        for token in dict.fromkeys(each.tokens[len(prefixes[i])] for each in hypotheses)
        if token != EOS
    ]


def _complete_words(
    engine: Engine,
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    candidates: Sequence[_Candidate],
) -> list[_Candidate]:
    """Return candidates with all tokens of their words, as far as they begin a word."""
    if not candidates:
        return []
    room = [min(len(each.tokens) + _LONGEST_WORD, engine.max_length) for each in candidates]
    outputs = engine.search(
        [segments[each.segment].ids for each in candidates],
        np.array(room, np.int32),
        BeamOptions(1, length_penalty=0.0),
        stack_prefixes([each.tokens for each in candidates]),
    )
    begins = tokenizer.target.decode([each.tokens[:-1] for each in candidates])
    words = []
    for candidate, [hypothesis], begin_text in zip(candidates, outputs, begins, strict=True):
        segment = segments[candidate.segment]
        text, char_to_token = map_chars_to_tokens(tokenizer.target, hypothesis.tokens[:-1])
        end_of_prefix = len(begin_text)
        following = [word for word in find_words(text) if word[0] >= end_of_prefix]
        if not following or crosses_word(text, end_of_prefix):
            continue
        begin, end = following[0]
        tokens = np.asarray(hypothesis.tokens[: char_to_token[end - 1] + 1], np.int32)
        space = " " if end_of_prefix < begin else ""
        shown = show_spans(apply_case(text[begin:end], segment.case), segment.target_spans)
        if not segment.prefix.text:
            shown = write_first_letter(segment, shown, tokenizer)
        prefix = show_spans(segment.prefix.full_text, segment.target_spans) + space + shown
        words.append(candidate._replace(tokens=tokens, text=shown, prefix=prefix))
    return words
