"""What tells a good translation from a bad one: features of a sentence and of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.tokenizer import EOS, Tokenizer
from nmt.inference.contract import Engine, Hypothesis
from nmt.inference.lexicon import Lexicon
from nmt.inference.results import Translation
from nmt.inference.segments import Segment
from nmt.inference.word_links import link_words
from nmt.text.spans import Span

# Features of a sentence, in order.
SENTENCE_FEATURES = (
    "mean log-probability",
    "mean probability",
    "least log-probability",
    "improbable tokens",  # share
    "agreement",  # mean chrF2++ with the other hypotheses of the beam, 0 to 1
    "weighted agreement",  # the same, each weighted by its probability
    "probability within the beam",  # log of the share
    "sharpness of the alignment",
    "coverage",  # of source tokens by the alignment
    "translated target tokens",  # by the lexicon, as mean log-probability
    "translated source tokens",
    "source tokens",  # log of the number
    "length ratio",  # log of target tokens per source token
    "difference of the length ratio from 1",
    "repeated tokens",  # share
    "characters per source token",
    "lost spans",
)
OF_BEAM = slice(4, 7)  # those that compare a hypothesis with the others
# Features of a word, in order.
WORD_FEATURES = (
    "log-probability",  # mean of its tokens
    "probability",
    "least log-probability",
    "sharpness of the alignment",
    "characters",  # log of the number
    "mark",  # 1 for a punctuation mark or symbol
    "sentence",  # its confidence
)

_IMPROBABLE = float(np.log(0.3))
_SMOOTHING = 1e-3  # added to probabilities of the lexicon
_MAX_RATIO = 20.0  # of probabilities: another hypothesis may be more probable, but shorter
_INSERTED = (-3.0, 0.05, -3.0, 0.0)  # features of a word that no token wrote


class WordFeatures(NamedTuple):
    """A word of a translation before its confidence is known."""

    begin: int
    end: int
    features: tuple[float, ...]  # all `WORD_FEATURES` but the last
    sources: tuple[Span, ...]  # characters of `Segment.full_text`


class Features(NamedTuple):
    """A translation of a segment with its features."""

    sentence: np.ndarray  # float64, one per `SENTENCE_FEATURES`
    words: list[WordFeatures]


def extract_features(
    engine: Engine,
    tokenizer: Tokenizer,
    lexicon: Lexicon | None,
    segments: Sequence[Segment],
    outputs: Sequence[Sequence[Hypothesis]],
    translations: Sequence[Sequence[Translation]],
) -> list[list[Features]]:
    """Return the features of translations of a batch of segments.

    Args:
        engine: the engine that searched.
        tokenizer: of the run.
        lexicon: of the run; None: its features are 0.
        segments: of similar length.
        outputs: the hypotheses of each, best first, of the whole beam.
        translations: those of the first hypotheses of each.

    Raises:
        UserError: the model has no attention.
    """
    chosen = [
        (segment, hypotheses, number, translation)
        for segment, hypotheses, alternatives in zip(segments, outputs, translations, strict=True)
        for number, translation in enumerate(alternatives)
    ]
    sources = [segment.ids for segment, *_ in chosen]
    targets = [
        np.asarray(hypotheses[number].tokens[:-1], np.int32) for _, hypotheses, number, _ in chosen
    ]
    log_probs = engine.score(sources, targets)
    alignments = engine.align(sources, targets)
    features = (
        Features(
            _extract_sentence_features(
                segment, hypotheses, number, translation, tokenizer, lexicon, values, weights
            ),
            _extract_word_features(segment, translation, tokenizer, values, weights),
        )
        for (segment, hypotheses, number, translation), values, weights in zip(
            chosen, log_probs, alignments, strict=True
        )
    )
    return [[next(features) for _ in alternatives] for alternatives in translations]


def _extract_sentence_features(
    segment: Segment,
    hypotheses: Sequence[Hypothesis],
    number: int,
    translation: Translation,
    tokenizer: Tokenizer,
    lexicon: Lexicon | None,
    log_probs: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the `SENTENCE_FEATURES` of one hypothesis.

    Args:
        segment: the source.
        hypotheses: of the beam.
        number: index of the one to measure.
        translation: the hypothesis as text.
        tokenizer: of the run.
        lexicon: of the run.
        log_probs: [T].
        weights: [T, S], see `Engine.align`.
    """
    source, target = np.append(segment.sentence_ids, EOS), np.asarray(hypotheses[number].tokens)
    weights = weights[:, segment.context_size :]
    probabilities = np.ones((len(target), len(source)))
    if lexicon is not None:
        probabilities = lexicon.probabilities(source, target)
    covered = np.minimum(weights[:-1, :-1].sum(0), 1)
    ratio = float(np.log(len(target) / len(source)))
    return np.array(
        [
            log_probs.mean(),
            np.exp(log_probs).mean(),
            log_probs.min(),
            (log_probs < _IMPROBABLE).mean(),
            *_compare(tokenizer, hypotheses, number),
            weights.max(1).mean(),
            covered.mean() if covered.size else 0.0,
            np.log(probabilities.max(1) + _SMOOTHING).mean(),
            np.log(probabilities.max(0) + _SMOOTHING).mean(),
            np.log(len(source)),
            ratio,
            abs(ratio),
            1 - len(set(target.tolist())) / len(target),
            len(segment.text) / len(source),
            len(translation.lost_spans),
        ]
    )


def _compare(
    tokenizer: Tokenizer, hypotheses: Sequence[Hypothesis], number: int
) -> tuple[float, float, float]:
    """Return how far other hypotheses agree with one, and the log of its share of probability."""
    others = [hypothesis for i, hypothesis in enumerate(hypotheses) if i != number]
    if not others:
        return 1.0, 1.0, 0.0
    from nmt.inference.metrics import sentence_scores  # loads sacreBLEU

    text, *texts = tokenizer.decode([each.tokens for each in (hypotheses[number], *others)])
    agreement = np.array(sentence_scores([text] * len(texts), texts)) / 100
    differences = [other.log_prob - hypotheses[number].log_prob for other in others]
    shares = np.minimum(np.exp(np.minimum(differences, 50)), _MAX_RATIO)
    total = 1 + shares.sum()
    weighted = (1 + (shares * agreement).sum()) / total
    return float(agreement.mean()), float(weighted), float(-np.log(total))


def _extract_word_features(
    segment: Segment,
    translation: Translation,
    tokenizer: Tokenizer,
    log_probs: np.ndarray,
    weights: np.ndarray,
) -> list[WordFeatures]:
    """Return the words of a translation with their features and the source words they come from."""
    words = []
    for word in link_words(segment, translation, tokenizer, weights):
        text = translation.text[word.begin : word.end]
        shape = (float(np.log(len(text))), float(not any(map(str.isalnum, text))))
        features: tuple[float, ...] = _INSERTED
        if word.rows:
            values = log_probs[word.rows]
            sharpness = weights[word.rows].mean(0).max()
            features = values.mean(), np.exp(values).mean(), values.min(), sharpness
            features = tuple(map(float, features))
        words.append(WordFeatures(word.begin, word.end, (*features, *shape), word.sources))
    return words
