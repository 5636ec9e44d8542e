"""Why a translation has the words it has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from nmt.analysis.explaining.contributions import Contributions, contribute, make_contributions
from nmt.analysis.explaining.departure import Departure, find_departure
from nmt.analysis.explaining.forced import ForcedScorer
from nmt.analysis.explaining.occlusion import Continuation, Effects, contrast, occlude
from nmt.analysis.explaining.words import (
    TokenWord,
    add_bos,
    choose_word,
    encode_other,
    find_rivals,
    find_tag,
    group_text,
    group_tokens,
    separate,
)
from nmt.analysis.traces.trace import Trace, record
from nmt.data.tokenizer import BOS, EOS, Tokenizer
from nmt.errors import UserError
from nmt.files import replace_non_finite
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.segments import Segment
from nmt.inference.translator import Translator
from nmt.text.spans import show_spans

_FEATURE = "an explanation"  # what needs the Keras engine
MIN_SUPPORT = -0.1  # nats; of the words of real dev pairs, 5% have less: docs/inspecting.md


class Share(NamedTuple):
    """A word of the source or the prefix, and what it has to do with a word of the output."""

    text: str
    # Nats by which log p(written) - log p(other) falls when the word is hidden; NaN: never hidden
    contrast: float
    contribution: float  # by ALTI+, 0 to 1; NaN: no transformer
    support: float  # nats by which log p(written) falls when the word is hidden; NaN: never hidden


class LayerReading(NamedTuple):
    """What a decoder layer would write in the place of a word's first piece: the logit lens."""

    best: str  # the most probable piece
    best_probability: float
    probability: float  # of the written piece
    rank: int  # of the written piece; 1 is the most probable


@dataclass(frozen=True)
class WordExplanation:
    """Why a translation has one word, and not another."""

    word: str
    pieces: tuple[str, ...]
    log_prob: float  # of its pieces given the prefix, summed, in nats
    other: str  # the word that was rejected
    other_pieces: tuple[str, ...]
    other_log_prob: float
    source: tuple[Share, ...]  # by words of the source, tag and EOS included
    tag_words: int  # words of the source, the first ones, that are its tag
    # By words before it, BOS first; then its own pieces, if several
    prefix: tuple[Share, ...]
    all_source: Share  # all words hidden at once, but not EOS: effects do not sum to it
    all_prefix: Share  # the same, but not BOS
    layers: tuple[LayerReading, ...]  # empty: no transformer
    departure: Departure  # where the beam rejected the other word

    @property
    def margin(self) -> float:
        """Nats by which the word is more probable than the other one; negative: it is less so."""
        return self.log_prob - self.other_log_prob

    @property
    def source_share(self) -> float:
        """Contribution of the source, 0 to 1, by ALTI+; the rest is the prefix's."""
        return self.all_source.contribution

    @property
    def support(self) -> float:
        """Nats by which the source raises log p(word): their pointwise mutual information."""
        return self.all_source.support

    @property
    def lacks_support(self) -> bool:
        """Whether the source does not speak for the word: the sign of a hallucination."""
        return self.support < MIN_SUPPORT


@dataclass(frozen=True)
class Explanation:
    """Why a translation has the words it has: displays itself in a notebook."""

    sentence: str
    translation: str
    words: tuple[WordExplanation, ...]  # those that were asked for, in order
    trace: Trace
    reason: str = ""  # why contributions and lens are missing; empty: they are not

    def as_json(self) -> dict[str, Any]:
        """Return every number, for a JSON file."""
        words = []
        for word in self.words:
            shares: dict[str, Any] = {
                side: [share._asdict() for share in getattr(word, side)]
                for side in ("source", "prefix")
            }
            shares |= {side: getattr(word, side)._asdict() for side in ("all_source", "all_prefix")}
            layers = {"layers": [layer._asdict() for layer in word.layers]}
            words.append(asdict(word) | shares | layers | {"margin": word.margin})
        fields = {"sentence": self.sentence, "translation": self.translation, "words": words}
        return replace_non_finite(fields | {"trace": asdict(self.trace), "reason": self.reason})

    def _repr_html_(self) -> str:
        """Return the display in a notebook."""
        from nmt.analysis.explaining.page import describe

        return describe(self)


def explain(
    translator: Translator,
    sentence: str,
    *,
    why: str | None = None,
    not_: str | None = None,
    beam_size: int | None = None,
) -> Explanation:
    """Explain the words of the best translation of a sentence.

    An output that loops is explained as it is, not searched again as `Translator.translate` does.

    Args:
        translator: a translator of a run.
        sentence: a source sentence.
        why: a word of its translation; None: all of them.
        not_: a word that could stand in its place; None: the most probable other one.
        beam_size: hypotheses per position of the search; None is the run's default.

    Raises:
        UserError: the sentence is empty or longer than a segment, the translation has no such word,
            ``not_`` lacks ``why`` or is the word itself, or ``translator`` has no Keras model.
    """
    if not_ is not None and why is None:
        raise UserError(f"give why, the word of the translation that {not_!r} is compared with")
    translator = _check_translator(translator).with_keras_engine(_FEATURE)
    engine, tokenizer = translator.keras_engine(_FEATURE), translator.tokenizer.target
    trace = record(translator, sentence, beam_size=beam_size)
    segment = translator.pipeline.translate_remarks(translator.segmenter.segment_whole(sentence))
    source, tokens = np.append(segment.ids, EOS), trace.tokens(trace.finished[0])
    words = group_tokens(tokenizer, tokens)
    chosen = words if why is None else [_choose_word(words, why, segment.target_spans)]
    scorer = engine.cached(ForcedScorer)
    pairs = _choose_others(partial(scorer.score_next, source), tokenizer, tokens, chosen, not_)
    begins = [tokens[: word.begin] for word in chosen for _ in ("word", "other")]
    continuations = list(map(Continuation, begins, chain.from_iterable(pairs)))
    source_words = _group_source(translator, segment, source)
    read_words = add_bos(words, "".join(tokenizer.pieces([BOS])))
    tag = find_tag(translator.tokenizer, translator.segmenter.tags, source.tolist())
    effects = occlude(
        scorer.score_pieces,
        source,
        [range(word.begin, word.end) for word in source_words],
        [range(word.begin, word.end) for word in read_words],
        continuations,
        kept=tag,
    )
    contributions, reason = _measure_contributions(engine, source, tokens)
    spans, tag_words = segment.target_spans, sum(word.end <= len(tag) for word in source_words)
    view = _View(tokenizer, spans, source_words, tag_words, tokens, read_words, contributions)
    return Explanation(
        sentence,
        trace.texts[0],
        tuple(
            view.explain_word(word, pair, effects[2 * n], effects[2 * n + 1], trace)
            for n, (word, pair) in enumerate(zip(chosen, pairs, strict=True))
        ),
        trace,
        reason,
    )


def _check_translator(translator: Translator) -> Translator:
    """Return a translator, or raise a `UserError` for anything else, such as a path."""
    if not isinstance(translator, Translator):
        raise UserError(
            f"translator={translator!r} is no Translator: pass nmt.Translator.load(...) or "
            "fit(...).translator()"
        )
    return translator


def _choose_word(words: Sequence[TokenWord], why: str, spans: Sequence[str]) -> TokenWord:
    """Return the word that is asked for, by its text with kept spans."""
    shown = [word._replace(text=show_spans(word.text, spans)) for word in words]
    return words[choose_word(shown, why)]


def _measure_contributions(
    engine: KerasEngine, source: np.ndarray, tokens: tuple[int, ...]
) -> tuple[Contributions, str]:
    """Return the contributions to a translation, and why they are missing; "": they are not."""
    measure, reason = None, ""
    try:
        measure = engine.cached(make_contributions)
    except UserError as error:
        reason = str(error)
    return contribute(measure, source, tokens), reason


Pair = tuple[tuple[int, ...], tuple[int, ...]]  # ids of a written and a rejected word


def _choose_others(
    score: Any,
    tokenizer: Tokenizer,
    tokens: tuple[int, ...],
    words: Sequence[TokenWord],
    other: str | None,
) -> list[Pair]:
    """Return the ids of each word, and of the one that it is compared with."""
    written = [tokens[word.begin : word.end] for word in words]
    if other is None:
        return list(zip(written, find_rivals(score, tokenizer, tokens, words), strict=True))
    [word], [ids] = words, written
    before = tokens[: word.begin]
    rejected = encode_other(tokenizer, before, ids, other)
    following = tokens[word.end] if word.end < len(tokens) else EOS
    return [separate(score, before, ids, following, rejected)]


@dataclass(frozen=True)
class _View:
    """What all words of an explanation share."""

    tokenizer: Tokenizer  # of the target
    spans: Sequence[str]  # what the translation has in place of slots
    source_words: Sequence[TokenWord]
    tag_words: int
    tokens: tuple[int, ...]  # of the translation
    read_words: Sequence[TokenWord]  # BOS and the words of the translation: see `add_bos`
    contributions: Contributions

    def explain_word(
        self, word: TokenWord, pair: Pair, written: Effects, other: Effects, trace: Trace
    ) -> WordExplanation:
        """Return the explanation of a word compared with another one."""
        rows = slice(word.begin, word.end)
        source_shares = self.contributions.source[rows].mean(0)
        prefix_shares = self.contributions.prefix[rows].mean(0)
        before = [each for each in self.read_words if each.end <= word.begin + 1]
        # The later pieces of a word read its first ones.
        inside = [TokenWord(f"({word.text})", word.begin + 1, word.end)][
            : word.end > word.begin + 1
        ]
        contrasts = contrast(written, other)
        all_effects = written.all_source.sum(), written.all_prefix.sum()
        return WordExplanation(
            word=self._fill(word.text),
            pieces=self._pieces(pair[0]),
            log_prob=float(written.log_probs.sum()),
            other=self._fill(group_text(self.tokenizer, pair[1])),
            other_pieces=self._pieces(pair[1]),
            other_log_prob=float(other.log_probs.sum()),
            source=self._share(self.source_words, contrasts.source, source_shares, written.source),
            tag_words=self.tag_words,
            prefix=self._share([*before, *inside], contrasts.prefix, prefix_shares, written.prefix),
            all_source=_share_all(contrasts.all_source, source_shares, all_effects[0]),
            all_prefix=_share_all(contrasts.all_prefix, prefix_shares, all_effects[1]),
            layers=self._read_layers(word.begin),
            departure=find_departure(trace, self.tokens[: word.begin], pair[1], other.log_probs),
        )

    def _share(
        self,
        words: Sequence[TokenWord],
        contrasts: np.ndarray,
        contributions: np.ndarray,
        effects: np.ndarray,
    ) -> tuple[Share, ...]:
        """Return the shares of words: contributions are of tokens, the other numbers of words."""
        missing = np.full(len(words) - len(effects), math.nan)  # of a word's own pieces
        by_word = (np.append(numbers, missing) for numbers in (contrasts, effects))
        return tuple(
            Share(
                self._fill(word.text),
                float(difference),
                float(contributions[word.begin : word.end].sum()),
                float(effect),
            )
            for word, difference, effect in zip(words, *by_word, strict=True)
        )

    def _read_layers(self, row: int) -> tuple[LayerReading, ...]:
        view = self.contributions.layers
        return tuple(
            LayerReading(
                self._show([best[row]]), float(highest[row]), float(own[row]), int(rank[row])
            )
            for best, highest, own, rank in zip(*view, strict=True)
        )

    def _show(self, ids: Sequence[int]) -> str:
        return self._fill("".join(self.tokenizer.pieces(ids)))

    def _pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self._fill, self.tokenizer.pieces(ids)))

    def _fill(self, text: str) -> str:
        return show_spans(text, self.spans)


def _group_source(translator: Translator, segment: Segment, ids: np.ndarray) -> list[TokenWord]:
    """Return the words of the source with its kept spans, which may be dates, in place of slots."""
    words = group_tokens(translator.tokenizer, ids.tolist())
    return [word._replace(text=show_spans(word.text, segment.spans)) for word in words]


def _share_all(contrast: float, contributions: np.ndarray, effect: float) -> Share:
    """Return the share of all words of a side."""
    return Share("all", contrast, float(contributions.sum()), float(effect))
