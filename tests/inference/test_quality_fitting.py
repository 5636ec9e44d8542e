"""Confidence fitted on pairs of a run, and measured by hand-made numbers."""

from __future__ import annotations

import itertools
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import corpus_lines
from sample_prepared import plan, prepared

from nmt import Translator
from nmt.data.splitting import Pair
from nmt.errors import UserError
from nmt.inference import quality_fitting
from nmt.inference.contract import SearchRequest
from nmt.inference.features import SENTENCE_FEATURES, Features, WordFeatures
from nmt.inference.lexicon import LEXICON_FILE, Lexicon
from nmt.inference.metrics import sentence_scores
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.quality_fitting import (
    MIN_PAIRS,
    ScoredTranslation,
    change_pairs,
    correlate,
    fit_curve,
    fit_quality,
    fit_run,
    rank_words,
    train_lexicon,
    translate_and_score,
)
from nmt.inference.quality_model import QualityModel
from nmt.runs.building import build_model
from nmt.runs.checkpoint import write_arrays
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("exports")


def known_pairs() -> list[Pair]:
    """Short pairs of the corpus; the parrot has memorised some of them."""
    pairs = [Pair(*line.split("\t")[:2]) for line in corpus_lines(160)]
    return [pair for pair in pairs if len(pair.source) < 30]


def test_a_curve_rises_to_the_means() -> None:
    rng = np.random.default_rng(1)
    predictions = rng.normal(size=4000)
    scores = np.clip(sigmoid_of(predictions) + rng.normal(0, 0.3, 4000), 0, 1)
    curve = fit_curve(predictions, scores)
    knots, values = map(np.array, zip(*curve, strict=True))
    assert len(curve) > 20
    assert (np.diff(knots) > 0).all()
    assert (np.diff(values) > 0).all()
    smooth = np.interp(predictions, knots, values)
    assert smooth.mean() == pytest.approx(scores.mean(), abs=0.01)


def sigmoid_of(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def test_a_curve_of_falling_scores_is_flat() -> None:
    predictions = np.arange(200.0)
    [(_, value)] = fit_curve(predictions, 1 - predictions / 200)
    assert value == pytest.approx(0.5025)


def test_correlations_by_hand() -> None:
    values = np.arange(20.0)
    perfect = correlate(values, values**3)
    assert perfect.kendall == perfect.worst_tenth == 1
    assert 0.8 < perfect.pearson < 1
    inverse = correlate(values, -values)
    assert (inverse.pearson, inverse.kendall, inverse.worst_tenth) == pytest.approx((-1, -1, 0))
    # Two of twenty are the worst tenth; the values find one of them.
    scores = values.copy()
    scores[[1, 5]] = scores[[5, 1]]
    assert correlate(values, scores).worst_tenth == 0.5
    # Of the three pairs, one agrees, and two are tied in one of both: 1 / sqrt(2 * 2).
    tied = correlate(np.array([1.0, 1.0, 2.0]), np.array([0.0, 3.0, 3.0]))
    assert tied.kendall == pytest.approx(0.5)
    assert correlate(np.ones(3), np.ones(3)).kendall == 0
    assert correlate(values, np.zeros(20)) == (0.0, 0.0, 1.0)


def test_words_are_ranked_by_hand(model: QualityModel) -> None:
    """By log-probability, one of two pairs of a right and a wrong word is in order."""
    words = [
        WordFeatures(0, 1, (value, 0.0, 0.0, 0.0, 0.0, 0.0), ()) for value in (-1.0, -3.0, -2.0)
    ]
    features = Features(np.zeros(len(SENTENCE_FEATURES)), words)
    ranked = rank_words(model, [ScoredTranslation(features, 0.5, [True, True, False], -1.0, 3)])
    assert ranked["log-probability"] == 0.5
    assert rank_words(model, [ScoredTranslation(features, 0.5, [True] * 3, -1.0, 3)]) == {
        "confidence": 0.5,
        "log-probability": 0.5,
    }


def test_changes_are_drawn_by_the_seed() -> None:
    pairs = known_pairs()
    changed = change_pairs(pairs, random.Random(3))
    assert changed == change_pairs(pairs, random.Random(3))
    assert changed != change_pairs(pairs, random.Random(4))
    assert sum(pair != other for pair, other in zip(pairs, changed, strict=True)) > len(pairs) / 2
    for pair, other in zip(pairs, changed, strict=True):
        assert other.target.startswith(pair.target)  # joined, or the same


def test_changes_leave_tags_where_they_are() -> None:
    pairs = [Pair(f"<2{'en' if i % 2 else 'es'}> {s}", t) for i, (s, t) in enumerate(known_pairs())]
    changed = change_pairs(pairs, random.Random(3), ["<2en>", "<2es>"])
    assert changed != pairs
    for pair, other in zip(pairs, changed, strict=True):
        assert other.source.split(" ")[0] == pair.source.split(" ")[0]
        assert other.source.count("<2") == 1  # also where sentences are joined


@pytest.fixture(scope="module")
def parrot(parrot_run: Path) -> Translator:
    return Translator.load(parrot_run, engine="ctranslate2", unit="line")


@pytest.fixture(scope="module")
def lexicon(parrot: Translator) -> Lexicon:
    sources, targets = (
        tokenizer.encode([pair[side] for pair in known_pairs()])
        for side, tokenizer in enumerate((parrot.tokenizer, parrot.tokenizer.target))
    )
    return Lexicon.train(sources, targets)


@pytest.fixture(scope="module")
def model(parrot: Translator, lexicon: Lexicon) -> QualityModel:
    return fit_quality(parrot, known_pairs(), lexicon)


def test_confidence_tells_what_a_parrot_knows(
    parrot: Translator, model: QualityModel, lexicon: Lexicon
) -> None:
    samples = translate_and_score(parrot, known_pairs(), lexicon)
    assert len(samples) == len(known_pairs())
    confidence = model.score(np.array([sample.features.sentence for sample in samples]))
    scores = np.array([sample.score for sample in samples])
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert correlate(confidence, scores).pearson > 0.6
    assert rank_words(model, samples)["confidence"] > 0.7
    for sample in samples:
        assert len(sample.word_labels) == len(sample.features.words)


def test_translations_in_capitals_are_scored_by_references_in_capitals(parrot: Translator) -> None:
    pairs = [Pair(pair.source.upper(), pair.target) for pair in known_pairs()[:8]]
    samples = translate_and_score(parrot, pairs, None)
    # CTranslate2 searches longer for several translations than for one, and may find a better one.
    request = SearchRequest(n_best=parrot.decoding.beam_size)
    outputs = [best.text for best, *_ in parrot.run([pair.source for pair in pairs], request)]
    assert all(map(str.isupper, outputs))
    expected = sentence_scores(outputs, [pair.target.upper() for pair in pairs])
    assert [100 * sample.score for sample in samples] == pytest.approx(expected)
    assert max(expected) > 50


def test_texts_that_are_too_long_are_left_out_in_silence(
    parrot: Translator, recwarn: pytest.WarningsRecorder
) -> None:
    source, target = known_pairs()[0]
    too_long = Pair(" ".join([source.rstrip(".")] * 40), target)
    assert len(translate_and_score(parrot, [*known_pairs()[:2], too_long], None)) == 2
    assert not recwarn.list


def test_the_same_pairs_and_seed_give_the_same_fit(
    parrot: Translator, model: QualityModel, lexicon: Lexicon, tmp_path: Path
) -> None:
    again = fit_quality(parrot, known_pairs(), lexicon)
    assert again.sentence.weights == pytest.approx(model.sentence.weights, abs=1e-6)
    assert again.word.weights == pytest.approx(model.word.weights, abs=1e-4)


def test_few_pairs_are_refused(parrot: Translator) -> None:
    with pytest.raises(UserError, match=f"needs {MIN_PAIRS} dev pairs that fit into rows, got 3"):
        fit_quality(parrot, known_pairs()[:3], None)


def test_training_leaves_a_lexicon_and_says_why_there_is_no_confidence(
    tiny_run: Path,
) -> None:
    """Sixteen dev pairs are too few."""
    assert (tiny_run / LEXICON_FILE).is_file()
    assert not (tiny_run / QUALITY_FILE).is_file()
    folder = RunFolder.open(tiny_run)
    corpus = read_corpus(folder, lambda line: None)
    lines: list[str] = []
    assert fit_run(folder, corpus, lines.append) is None
    assert lines == ["no confidence: it needs 50 dev pairs or more, got 16"]


def test_a_run_gets_both_files(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality_fitting, "MIN_PAIRS", 10)
    folder = RunFolder(shutil.copytree(tiny_run, tmp_path / "run"))
    (folder.path / LEXICON_FILE).unlink()
    corpus = read_corpus(folder, lambda line: None)
    fitted = fit_run(folder, corpus, pytest.fail, engine="keras")
    assert fitted is not None
    assert QualityModel.load(folder.path) is not None
    loaded = Lexicon.load(folder.path)
    assert loaded is not None
    assert loaded.layer is None  # a decoder of one layer leaves no choice


def test_a_layer_is_chosen_by_the_attention_of_the_pairs_that_fit(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(shutil.copytree(tiny_run, tmp_path / "run"))
    corpus = read_corpus(folder, lambda line: None)
    config = folder.config
    sizes = replace(config.model, decoder_layers=2)
    folder.write_config(
        replace(config, model=sizes, decoding=replace(config.decoding, batch_size=6))
    )
    tokenizer = folder.load_tokenizer()
    untrained = build_model(folder.config, tokenizer.vocabulary_size, precision="float32")
    arrays = {f"model/{name}": array.numpy() for name, array in untrained.named_weights().items()}
    write_arrays(folder.checkpoints.best, arrays, {})
    measured: list[Any] = []

    def measure_layers(*arguments: Any) -> int:
        measured.extend(arguments)
        return 1

    def refuse(*arguments: object) -> None:
        raise UserError("not now")

    monkeypatch.setattr(quality_fitting, "MIN_PAIRS", 10)
    monkeypatch.setattr(quality_fitting, "measure_layers", measure_layers)
    monkeypatch.setattr(quality_fitting, "fit_quality", refuse)
    pairs = corpus.dev
    dev = [*pairs[:3], Pair("casa " * 400, "house"), Pair("casa", "house " * 400), *pairs[3:]]
    lines: list[str] = []
    assert fit_run(folder, replace(corpus, dev=dev), lines.append, engine="keras") is None
    assert lines == ["no confidence: not now"]
    attentions, sources, targets, _ = measured
    for ids, encoder, side in ((sources, tokenizer, 0), (targets, tokenizer.target, 1)):
        expected = encoder.encode([pair[side] for pair in pairs])
        assert [each.tolist() for each in ids] == [each.tolist() for each in expected]
    assert [weights.shape for weights in attentions] == [
        (2, sizes.num_heads, len(target) + 1, len(source) + 1)
        for source, target in zip(sources, targets, strict=True)
    ]
    loaded = Lexicon.load(folder.path)
    assert loaded is not None
    assert loaded.layer == 1


def test_a_prepared_corpus_gives_a_lexicon(tiny_run: Path, tmp_path: Path) -> None:
    """It has the ids of its training pairs only."""
    words = {"rojo": "red", "azul": "blue", "casa": "house", "flor": "flower", "mesa": "table"}
    pairs = [
        (" ".join(chosen), " ".join(words[word] for word in chosen))
        for chosen in itertools.permutations(words, 3)
    ]
    corpus = prepared(plan(tmp_path, pairs, vocabulary_size=300))
    lexicon = train_lexicon(RunFolder.open(tiny_run), corpus)
    tokenizer = corpus.load_tokenizer()
    [sources], [targets] = tokenizer.encode([*words][:1]), tokenizer.target.encode(["red"])
    others = np.concatenate(tokenizer.target.encode([*words.values()][1:]))
    assert (
        lexicon.probabilities(sources, targets).max() > lexicon.probabilities(sources, others).max()
    )


def test_no_words_are_ranked_where_translations_are_empty(model: QualityModel) -> None:
    features = Features(np.zeros(len(SENTENCE_FEATURES)), [])
    assert rank_words(model, [ScoredTranslation(features, 0.0, [], -1.0, 1)]) == {}
