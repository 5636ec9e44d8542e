"""Features of sentences and words, with outputs and alignments made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from words_tokenizer import WordsTokenizer

from nmt.data.tokenizer import EOS
from nmt.inference.contract import Hypothesis
from nmt.inference.features import SENTENCE_FEATURES, WORD_FEATURES, Features, extract_features
from nmt.inference.lexicon import Lexicon
from nmt.inference.results import Translation
from nmt.inference.segments import Segment
from nmt.text.spans import SLOTS

PIECES = ("", "", "", "", " hola", " ana", ".", " hello", " there", SLOTS[0], " hi", "s")


class Words(WordsTokenizer):
    """A tokenizer of a few words; each piece but the mark begins with a space."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        spans, begin = [], 0
        for piece in filter(None, PIECES):
            at = text.find(piece.strip(), begin)
            if at >= 0:
                spans.append((at, at + len(piece.strip())))
        return sorted(spans)


class Known:
    """An engine that gives these log-probabilities and this alignment."""

    def __init__(self, log_probs: list[float], weights: list[list[float]]) -> None:
        self.log_probs, self.weights = np.array(log_probs), np.array(weights)

    def score(self, sources: Any, targets: Any) -> list[np.ndarray]:
        return [self.log_probs] * len(sources)

    def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
        return [self.weights] * len(sources)


def measured_by(
    engine: Known, segment: Segment, texts: str, tokens: list[tuple[int, ...]], **options: Any
) -> Features:
    hypotheses = [Hypothesis((*ids, EOS), -1.0 - n, -1.0 - n) for n, ids in enumerate(tokens)]
    translation = Translation(texts, -1.0, -1.0, hypotheses[0].tokens, **options.pop("kept", {}))
    tokenizer: Any = Words(PIECES)
    [[features]] = extract_features(
        engine,  # type: ignore[arg-type]
        tokenizer,
        options.get("lexicon"),
        [segment],
        [hypotheses],
        [[translation]],
    )
    return features


HOLA = Segment(np.array([4, 5, 6]), "hola ana.")  # three tokens and EOS
WEIGHTS = [[0.9, 0.1, 0, 0], [0.1, 0.2, 0.6, 0.1], [0.0, 0.0, 1.0, 0], [0, 0.5, 0, 0.5]]


def test_a_sentence_by_hand() -> None:
    log_probs = [-0.1, -2.0, -0.3, -0.2]
    features = measured_by(Known(log_probs, WEIGHTS), HOLA, "hello there.", [(7, 8, 6), (10, 6)])
    values = dict(zip(SENTENCE_FEATURES, features.sentence, strict=True))
    assert values["mean log-probability"] == pytest.approx(-0.65)
    assert values["mean probability"] == pytest.approx(np.exp(log_probs).mean())
    assert values["least log-probability"] == -2
    assert values["improbable tokens"] == 1 / 4
    assert 0 < values["agreement"] < values["weighted agreement"] < 1
    # The other hypothesis has a probability e times smaller.
    assert values["probability within the beam"] == pytest.approx(-np.log(1 + np.exp(-1)))
    assert values["sharpness of the alignment"] == pytest.approx((0.9 + 0.6 + 1 + 0.5) / 4)
    assert values["coverage"] == pytest.approx((1 + 0.3 + 1) / 3)
    assert values["source tokens"] == pytest.approx(np.log(4))
    assert values["length ratio"] == values["repeated tokens"] == values["lost spans"] == 0
    assert values["characters per source token"] == 9 / 4


def test_what_is_lost_repeated_or_unknown_shows() -> None:
    keys = np.array([2 << 32 | 2, 4 << 32 | 7])
    lexicon = Lexicon(keys, np.array([1.0, 0.5], np.float32))
    engine = Known([-1.0] * 4, WEIGHTS)
    options = {"kept": {"lost_spans": ("12",)}, "lexicon": lexicon}
    features = measured_by(engine, HOLA, "hello hello hello", [(7, 7, 7)], **options)
    values = dict(zip(SENTENCE_FEATURES, features.sentence, strict=True))
    assert values["lost spans"] == 1
    assert values["repeated tokens"] == 1 / 2
    assert values["agreement"] == values["weighted agreement"] == 1  # a single hypothesis
    assert values["translated target tokens"] == pytest.approx(np.log([0.501] * 3 + [1.001]).mean())
    assert values["translated source tokens"] == pytest.approx(
        np.log([0.501, 0.001, 0.001, 1.001]).mean()
    )


def test_words_by_hand() -> None:
    """The case of a translation may differ from the output's."""
    log_probs = [-0.1, -2.0, -0.3, -0.2]
    features = measured_by(Known(log_probs, WEIGHTS), HOLA, "HELLO there.", [(7, 8, 6)])
    assert [(word.begin, word.end) for word in features.words] == [(0, 5), (6, 11), (11, 12)]
    assert [word.sources for word in features.words] == [((0, 4),), ((8, 9),), ((8, 9),)]
    first = dict(zip(WORD_FEATURES, features.words[0].features, strict=False))
    assert first == pytest.approx(
        {
            "log-probability": -0.1,
            "probability": np.exp(-0.1),
            "least log-probability": -0.1,
            "sharpness of the alignment": 0.9,
            "characters": np.log(5),
            "mark": 0,
        }
    )
    assert features.words[2].features[-1] == 1


def test_a_word_of_two_tokens() -> None:
    features = measured_by(Known([-0.1, -2.0, -0.3, -0.2], WEIGHTS), HOLA, "hellos.", [(7, 11, 6)])
    [word, _] = features.words
    values = dict(zip(WORD_FEATURES, word.features, strict=False))
    assert values["log-probability"] == pytest.approx(-1.05)
    assert values["least log-probability"] == -2
    assert values["sharpness of the alignment"] == pytest.approx(0.5)  # of their mean
    assert word.sources == ((0, 4), (8, 9))  # means: 0.5, 0.15 and 0.3


def test_a_kept_span_is_one_word_whether_the_output_has_it_or_not() -> None:
    segment = Segment(np.array([4, 9]), f"hola {SLOTS[0]}", ("a.b@c.es",))
    weights = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    kept = measured_by(Known([-0.1, -0.2, 0], weights), segment, "hello a.b@c.es", [(7, 9)])
    assert [(word.begin, word.end, word.sources) for word in kept.words] == [
        (0, 5, ((0, 4),)),
        (6, 14, ((5, 13),)),
    ]
    lost = measured_by(Known([-0.1, 0], [[1, 0, 0], [0, 0, 1]]), segment, "hello a.b@c.es", [(7,)])
    assert lost.words[0].sources == ((0, 4),)
    assert [word.sources for word in lost.words[1:]] == [((5, 13),)]
    assert all(word.features[0] < -1 for word in lost.words[1:])
