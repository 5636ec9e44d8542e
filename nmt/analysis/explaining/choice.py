"""Why a given translation has a word behind its beginning, without a search."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nmt.analysis.explaining.contributions import make_contributions
from nmt.analysis.explaining.gradients import Continuation, attribute, make_scorer
from nmt.analysis.explaining.words import TokenWord, find_rivals, group_tokens, separate
from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.segments import Segment, show_spans
from nmt.inference.word_links import find_source_words
from nmt.model.contract import Model
from nmt.text.case import apply_case
from nmt.text.words import Span


class Reason(NamedTuple):
    """A word, and what it has to do with a word of the output: see `Share`."""

    text: str
    contribution: float  # by ALTI+, 0 to 1; NaN: no transformer
    contrast: float  # nats
    span: Span | None = None  # characters of `Segment.written`; None: of the prefix, or a mark


class ChoiceExplanation(NamedTuple):
    """Why a translation has a word and not another one."""

    log_prob: float  # of the word's tokens behind the prefix, in nats
    other: str  # the word that it is held against
    other_log_prob: float
    source: tuple[Reason, ...]  # words of the source, and its other tokens as one
    prefix: tuple[Reason, ...]  # words before it, begin mark first; then its own pieces, if several


class ChoiceExplainer:
    """Explains words of given translations.

    Args:
        model: a Keras model.
        tokenizer: of its ids.

    Attributes:
        reason: why contributions are missing; empty: they are not.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self.reason = ""
        self._measure = None
        try:
            self._measure = make_contributions(model)
        except UserError as error:
            self.reason = str(error)

    def explain(
        self, prefix: Segment, written: Segment, other: Segment | None = None
    ) -> ChoiceExplanation:
        """Explain a word behind a prefix.

        Args:
            prefix: a segment whose `Segment.prefix` ends before the word.
            written: the same segment, whose prefix ends with the word.
            other: the same segment, whose prefix ends with another word; None: the most probable
                other one.

        Raises:
            UserError: both words are the same, or one of them is empty.
        """
        target, model = self._tokenizer.target, self._model
        segments = [prefix, written] + ([] if other is None else [other])
        before, word, *others = map(
            np.ndarray.tolist, target.encode([each.prefix.text for each in segments])
        )
        begin = _count_common(before, word, *others)
        before, ids = tuple(word[:begin]), tuple(word[begin:])
        source = np.append(prefix.ids, EOS)
        score = make_scorer(model, source)
        if others:
            rejected = tuple(others[0][begin:])
        elif ids:
            place = TokenWord(prefix.prefix.written, begin, len(word))
            rejected = find_rivals(score, target, word, [place])[0]
        if not ids or not rejected or ids == rejected:
            raise UserError("the word and the other one must differ, and not be empty")
        following = int(score([word])[0].argmax())
        pair = separate(score, before, ids, following, rejected)
        gradients = attribute(model, source, [Continuation(before, tokens) for tokens in pair])
        contributions = self._contribute(source, word, begin)
        contrasts = (
            gradients[0].source - gradients[1].source,
            gradients[0].prefix - gradients[1].prefix,
        )
        shown = " ".join(each.text for each in group_tokens(target, rejected))
        return ChoiceExplanation(
            float(gradients[0].log_probs.sum()),
            apply_case(show_spans(shown, prefix.spans), prefix.case),
            float(gradients[1].log_probs.sum()),
            self._list_source(prefix, contributions[0], contrasts[0]),
            self._list_prefix(prefix, before, len(ids), contributions[1], contrasts[1]),
        )

    def _contribute(
        self, source: np.ndarray, tokens: list[int], begin: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the contributions to the tokens from ``begin``: of the source [S], the prefix."""
        if self._measure is None:
            return np.full(len(source), math.nan), np.full(len(tokens), math.nan)
        [shares] = self._measure([source], [np.array([BOS, *tokens[:-1]])], [np.array(tokens)])
        return shares.source[begin:].mean(0), shares.prefix[begin:].mean(0)

    def _list_source(
        self, segment: Segment, shares: np.ndarray, contrasts: np.ndarray
    ) -> tuple[Reason, ...]:
        spans, columns = find_source_words(segment, self._tokenizer)
        text = segment.written
        by_word = [row[: len(columns)] @ columns for row in (shares, contrasts)]
        words = [
            Reason(text[span[0] : span[1]], float(share), float(contrast), span)
            for span, share, contrast in zip(spans, *by_word, strict=True)
        ]
        share, contrast = shares.sum() - by_word[0].sum(), contrasts.sum() - by_word[1].sum()
        return *words, Reason("end mark", float(share), float(contrast))

    def _list_prefix(
        self,
        segment: Segment,
        before: tuple[int, ...],
        pieces: int,
        shares: np.ndarray,
        contrasts: np.ndarray,
    ) -> tuple[Reason, ...]:
        # The decoder reads the begin mark first: the tokens of a word are one position later.
        reasons = [Reason("begin mark", float(shares[0]), float(contrasts[0]))]
        for word in group_tokens(self._tokenizer.target, before):
            rows = slice(word.begin + 1, word.end + 1)
            text = apply_case(show_spans(word.text, segment.spans), segment.case)
            reasons.append(Reason(text, float(shares[rows].sum()), float(contrasts[rows].sum())))
        if pieces > 1:
            pieces_share = float(shares[len(before) + 1 :].sum())
            reasons.append(Reason("its own pieces", pieces_share, 0.0))
        return tuple(reasons)


def _count_common(*rows: list[int]) -> int:
    """Return how many ids all rows begin with."""
    count = 0
    for ids in zip(*rows, strict=False):
        if len(set(ids)) > 1:
            break
        count += 1
    return count
