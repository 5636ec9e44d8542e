"""Confidence: fitted functions, files, and what pipelines and joiners do with it."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from translator_inputs import DECODING

from nmt import Translator
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.engines import Engines
from nmt.inference.features import SENTENCE_FEATURES, WORD_FEATURES
from nmt.inference.joining import Joiner
from nmt.inference.quality import QUALITY_FILE, StoredQuality, copy_with_words
from nmt.inference.quality_model import Linear, QualityModel, sigmoid
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment
from nmt.text.dates import DateWriter
from nmt.text.spans import SLOTS

pytest_plugins = ("random_translator",)
pytestmark = pytest.mark.xdist_group("translator")

NOTHING = np.zeros(0, np.int32)


def weigh(names: tuple[str, ...], **weights: float) -> Linear:
    """A function of named features, which are neither moved nor scaled."""
    values = tuple(weights.get(name.replace(" ", "_"), 0.0) for name in names)
    return Linear((0.0,) * len(names), (1.0,) * len(names), values, 0.0)


@pytest.fixture
def model() -> QualityModel:
    """Confidence is the mean probability of the tokens."""
    sentence = weigh(SENTENCE_FEATURES, mean_probability=1.0)
    word = weigh(WORD_FEATURES, probability=4.0)
    return QualityModel(sentence, ((0.0, 0.0), (1.0, 1.0)), word)


def test_a_line_is_found_whatever_the_scales() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal([0, 100, -3], [1, 50, 0.01], (4000, 3))
    values = 0.3 * features[:, 0] - 0.004 * features[:, 1] + 0.7
    fitted = Linear.fit(features, values)
    np.testing.assert_allclose(fitted.predict(features), values, atol=0.05)
    # Outliers are clipped.
    far, border = fitted.predict(np.array([[1e9, 100, -3], [4.0, 100, -3]]))
    assert far == pytest.approx(border, abs=0.05)


def test_odds_are_found() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20_000, 2))
    chances = sigmoid(1.5 * features[:, 0] - features[:, 1] - 0.5)
    fitted = Linear.fit_logistic(features, (rng.random(len(chances)) < chances).astype(float))
    np.testing.assert_allclose(sigmoid(fitted.predict(features)), chances, atol=0.04)


def test_labels_that_are_all_alike_and_constant_measures_are_no_fault() -> None:
    features = np.ones((30, 2))
    assert (sigmoid(Linear.fit_logistic(features, np.ones(30)).predict(features)) > 0.9).all()
    np.testing.assert_allclose(Linear.fit(features, np.full(30, 0.4)).predict(features), 0.4)


def test_a_file_keeps_it(tmp_path: Path, model: QualityModel) -> None:
    assert QualityModel.load(tmp_path) is None
    model.save(tmp_path)
    assert QualityModel.load(tmp_path) == model


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", 0), ("curve", 3), ("word", {"weights": [1.0]}), ("sentence", None)],
)
def test_a_file_that_is_none(tmp_path: Path, model: QualityModel, key: str, value: Any) -> None:
    model.save(tmp_path)
    path = tmp_path / QUALITY_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}), encoding="utf-8")
    with pytest.raises(UserError, match="make it again by python"):
        QualityModel.load(tmp_path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be used"):
        QualityModel.load(tmp_path)


def test_a_measure_more_or_less_makes_a_file_outdated(tmp_path: Path, model: QualityModel) -> None:
    replace(model, word=weigh(WORD_FEATURES[1:])).save(tmp_path)
    with pytest.raises(UserError, match="other features"):
        QualityModel.load(tmp_path)


def test_a_run_without_confidence_says_once_how_to_get_it(tmp_path: Path) -> None:
    stored = StoredQuality(tmp_path)
    with pytest.warns(UserWarning, match=rf"nmt\.inspect quality --run {tmp_path}"):
        assert stored.model is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stored.model is None


def test_what_is_copied_is_certain() -> None:
    copied = copy_with_words(Segment(NOTHING, "12 😀", is_copied=True))
    assert (copied.text, copied.confidence) == ("12 😀", 1.0)
    assert [(word.begin, word.end, word.sources) for word in copied.words] == [
        (0, 2, ((0, 2),)),
        (3, 4, ((3, 4),)),
    ]


def test_words_of_a_copy_are_those_of_the_translation() -> None:
    dates = DateWriter("es", "en")
    spans = ("5 de mayo", "A b")
    segment = Segment(NOTHING, f"¿{SLOTS[0]}, {SLOTS[1]}?", spans, is_copied=True, dates=dates)
    copied = copy_with_words(segment, "en")
    assert copied.text == "May 5, A b?"
    assert [
        (copied.text[word.begin : word.end], *(segment.full_text[slice(*s)] for s in word.sources))
        for word in copied.words
    ] == [("May 5", "5 de mayo"), (",", ","), ("A b", "A b"), ("?", "?")]


def test_segments_count_by_their_tokens() -> None:
    long = Translation("It rains.", 0, 0, (5, 6, 2), confidence=0.8, words=(Word(3, 8, 0.7, ()),))
    short = Translation("No.", 0, 0, (7,), confidence=0.4, words=(Word(0, 2, 0.3, ()),))
    copied = Translation("12", 0, 0, (), confidence=1.0)
    [joined] = Joiner("en").join_best([[long], [short], [copied]], 1, [" ", "\n", " ", ""])
    assert joined.text == " It rains.\nNo. 12"
    assert joined.confidence == pytest.approx((3 * 0.8 + 0.4) / 4)
    assert [joined.text[word.begin : word.end] for word in joined.words] == ["rains", "No"]
    [alone] = Joiner("en").join_best([[short]], 1, ["\n", ""])
    assert (alone.confidence, alone.words[0].begin) == (0.4, 1)
    [all_copied] = Joiner("en").join_best([[copied], [copied]], 1, ["", "", ""])
    assert all_copied.confidence == 1.0
    unsure = replace(short, confidence=None)
    [unknown] = Joiner("en").join_best([[long], [unsure]], 1, ["", "", ""])
    assert unknown.confidence is None
    assert Joiner("en").join_best([], 1, [""])[0].confidence is None


def test_a_request_gets_confidence_and_words(translator: Translator, model: QualityModel) -> None:
    stored = StoredQuality()
    stored.__dict__["model"] = model
    sure = Translator(Engines(translator.engine), translator.tokenizer, DECODING, quality=stored)
    text = "Hoy hace frío. 😀\n¿Dónde está?"
    plain = sure.run([text, ""], SearchRequest(n_best=2))
    [described, empty] = sure.run([text, ""], SearchRequest(n_best=2, quality=True))
    assert [each.text for each in described] == [each.text for each in plain[0]]
    assert all(each.confidence is None and each.words == () for each in plain[0])
    for translation in described:
        assert translation.confidence is not None
        assert 0 <= translation.confidence <= 1
        words = [translation.text[word.begin : word.end] for word in translation.words]
        assert "".join(words) == "".join(translation.text.split())
        for word in translation.words:
            assert word.confidence is not None
            assert 0 < word.confidence < 1 or word.confidence == 1
            assert all(text[begin:end].strip() for begin, end in word.sources)
    assert empty[0].words == ()
    # The same words without their confidence, and without a fit.
    unfitted = Translator(Engines(translator.engine), translator.tokenizer, DECODING)
    [aligned, empty] = unfitted.run([text, ""], SearchRequest(n_best=2, words=True))
    for with_words, translation in zip(aligned, described, strict=True):
        words = tuple(replace(word, confidence=None) for word in translation.words)
        assert with_words == replace(translation, confidence=None, words=words)
    assert empty[0].words == ()
    # One segment: its confidence is the mean probability of its tokens.
    [[best]] = sure.run(["Sí."], SearchRequest(quality=True))
    [log_probs] = sure.engine.score(
        sure.tokenizer.encode(["Sí."]), [np.array(best.tokens[:-1], np.int32)]
    )
    assert best.confidence == pytest.approx(float(np.exp(log_probs).mean()), abs=1e-5)


def test_a_translation_without_others_is_no_surer_for_it(
    translator: Translator, model: QualityModel
) -> None:
    sentence = weigh(SENTENCE_FEATURES, agreement=1.0)
    sentence = replace(sentence, means=(0.25,) * len(SENTENCE_FEATURES))
    stored = StoredQuality()
    stored.__dict__["model"] = replace(model, sentence=sentence, curve=((-1.0, 0.0), (1.0, 1.0)))
    sure = Translator(Engines(translator.engine), translator.tokenizer, DECODING, quality=stored)
    [[best]] = sure.run(["Sí."], SearchRequest(quality=True, beam_size=1))
    assert best.confidence == pytest.approx(0.5)
