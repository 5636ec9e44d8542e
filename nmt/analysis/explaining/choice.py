"""Why a given translation has a word after its beginning, without a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from nmt.analysis.explaining.contributions import contribute, make_contributions
from nmt.analysis.explaining.forced import ForcedScorer
from nmt.analysis.explaining.occlusion import Continuation, contrast, occlude
from nmt.analysis.explaining.words import (
    TokenWord,
    add_bos,
    find_rivals,
    find_tag,
    forbid,
    group_text,
    group_tokens,
    separate,
)
from nmt.data.tokenizer import EOS, Tokenizer
from nmt.errors import UserError
from nmt.inference.segments import Segment
from nmt.inference.word_links import find_source_words
from nmt.model.contract import Model
from nmt.text.case import apply_case
from nmt.text.spans import Span, show_spans


class Reason(NamedTuple):
    """A word, and what it has to do with a word of the output: see `Share`."""

    text: str
    contribution: float  # by ALTI+, 0 to 1; NaN: no transformer
    contrast: float  # nats; NaN: never hidden
    span: Span | None = None  # characters of `Segment.full_text`; None: not a word of it


class ChoiceExplanation(NamedTuple):
    """Why a translation has a word and not another one."""

    log_prob: float  # of the word's tokens after the prefix, in nats
    other: str  # the word that it is compared with
    other_log_prob: float
    source: tuple[Reason, ...]  # words of the source; its tokens that belong to none; EOS
    prefix: tuple[Reason, ...]  # words before it, BOS first; then its own pieces, if several
    source_contrast: float  # nats, of all words of the source at once
    prefix_contrast: float  # the same of the prefix
    support: float  # nats, see `WordExplanation.support`


class ChoiceExplainer:
    """Explains words of given translations.

    Args:
        model: a Keras model.
        tokenizer: of its ids.
        tags: words that may begin a source, such as ``<2en>``.

    Attributes:
        reason: why contributions are missing; empty: they are not.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, tags: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._tags = tags
        self.reason = ""
        self._scorer = ForcedScorer(model)
        self._measure = None
        try:
            self._measure = make_contributions(model)
        except UserError as error:
            self.reason = str(error)

    def explain(
        self, prefix: Segment, written: Segment, other: Segment | None = None
    ) -> ChoiceExplanation:
        """Explain a word after a prefix.

        Args:
            prefix: a segment whose `Segment.prefix` ends before the word.
            written: the same segment, whose prefix ends with the word.
            other: the same segment, whose prefix ends with another word; None: the most probable
                other one.

        Raises:
            UserError: both words are the same, or one of them is empty.
        """
        target = self._tokenizer.target
        segments = [prefix, written] + ([] if other is None else [other])
        before, word, *others = map(
            np.ndarray.tolist, target.encode([each.prefix.text for each in segments])
        )
        begin = _count_common(before, word, *others)
        before, ids = tuple(word[:begin]), tuple(word[begin:])
        source = np.append(prefix.ids, EOS)
        score = partial(self._scorer.score_next, source)
        if others:
            rejected = tuple(others[0][begin:])
        elif ids:
            place = TokenWord(group_text(target, ids), begin, len(word))
            rejected = find_rivals(score, target, word, [place])[0]
        if not ids or not rejected or ids == rejected:
            raise UserError("the word and the other one must differ, and not be empty")
        # One that does not make it the other word, if that is longer.
        following = int(forbid(score([word])[0], rejected[len(ids) : len(ids) + 1]).argmax())
        pair = separate(score, before, ids, following, rejected)
        spans, columns = find_source_words(prefix, self._tokenizer)
        words = group_tokens(target, before)
        shown = [each._replace(text=_show(prefix, each.text)) for each in words]
        before_words = add_bos(shown, "BOS")
        effects = occlude(
            self._scorer.score_pieces,
            source,
            _list_source_tokens(columns),
            [range(each.begin, each.end) for each in before_words],
            [Continuation(before, tokens) for tokens in pair],
            kept=find_tag(self._tokenizer, self._tags, source.tolist()),
        )
        contrasts = contrast(*effects)
        shares = contribute(self._measure, source, word)
        source_shares, prefix_shares = shares.source[begin:].mean(0), shares.prefix[begin:].mean(0)
        return ChoiceExplanation(
            log_prob=float(effects[0].log_probs.sum()),
            other=_show(prefix, group_text(target, rejected)),
            other_log_prob=float(effects[1].log_probs.sum()),
            source=_list_source(prefix, spans, columns, source_shares, contrasts.source),
            prefix=_list_prefix(before_words, prefix_shares, contrasts.prefix),
            source_contrast=contrasts.all_source,
            prefix_contrast=contrasts.all_prefix,
            support=float(effects[0].all_source.sum()),
        )


def _show(segment: Segment, text: str) -> str:
    """Return a part of the translation as the user sees it."""
    return show_spans(apply_case(text, segment.case), segment.target_spans)


def _list_source_tokens(columns: np.ndarray) -> list[list[int]]:
    """Return the indices of the tokens of each source word, of those of none if any, and of EOS."""
    words: list[list[int]] = [np.flatnonzero(column).tolist() for column in columns.T]
    rest: list[int] = np.flatnonzero(~columns.any(1)).tolist()
    return [*words, *([rest] if rest else []), [len(columns)]]


def _list_source(
    segment: Segment,
    spans: Sequence[Span],
    columns: np.ndarray,
    shares: np.ndarray,
    contrasts: np.ndarray,
) -> tuple[Reason, ...]:
    """Return the words of the source, its tokens that belong to none, and EOS.

    Args:
        segment: the source.
        spans: its words, see `find_source_words`.
        columns: the share of each token that belongs to each word.
        shares: contributions of the tokens and EOS.
        contrasts: of the groups of `_list_source_tokens`.
    """
    text, by_word = segment.full_text, shares[:-1] @ columns
    reasons = [
        Reason(text[span[0] : span[1]], float(share), float(contrast), span)
        for span, share, contrast in zip(spans, by_word, contrasts[: len(spans)], strict=True)
    ]
    is_rest = ~columns.any(1)
    if is_rest.any():
        name = "context" if segment.context_size else "tag"
        name = name if spans else "sentence"  # without words: see `find_source_words`
        reasons.append(Reason(name, float(shares[:-1][is_rest].sum()), float(contrasts[-2])))
    return *reasons, Reason("EOS", float(shares[-1]), float(contrasts[-1]))


def _list_prefix(
    words: Sequence[TokenWord], shares: np.ndarray, contrasts: np.ndarray
) -> tuple[Reason, ...]:
    """Return the words of the prefix, and the word's own pieces, if it reads some."""
    reasons = [
        Reason(word.text, float(shares[word.begin : word.end].sum()), float(contrast))
        for word, contrast in zip(words, contrasts, strict=True)
    ]
    own = shares[words[-1].end :]
    return *reasons, *([Reason("its own pieces", float(own.sum()), math.nan)] if len(own) else [])


def _count_common(*rows: list[int]) -> int:
    """Return how many ids all rows begin with."""
    columns = zip(*rows, strict=False)
    return len(list(takewhile(lambda ids: len(set(ids)) == 1, columns)))
