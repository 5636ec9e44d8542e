"""Models that write together: the mean of their log-probabilities, searched as one model is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import pytest
from conftest import RECURRENT, transformer

from nmt import Translator
from nmt.errors import UserError
from nmt.inference.contract import BeamOptions
from nmt.inference.ensemble import Ensemble
from nmt.inference.keras_engine import KerasEngine
from nmt.inference.lexicon import LEXICON_FILE
from nmt.model.contract import Model
from nmt.model.recurrent import Recurrent
from nmt.model.sizes import RecurrentSizes
from nmt.runs.averaging import average
from nmt.runs.folder import RunFolder

VOCABULARY = 14
NOTHING = np.zeros(0, np.int32)
SOURCES = [np.array(ids, np.int32) for ids in ([5, 6, 7, 8], [9, 4], [10, 11, 12])]


def make_model(seed: int, layers: int = 1) -> Model:
    keras.utils.set_random_seed(seed)
    return transformer(
        **{"vocabulary_size": VOCABULARY, "d_model": 12, "num_heads": 3, "ffn_width": 16},
        **{"encoder_layers": layers, "decoder_layers": layers},
    )


def recurrent(seed: int) -> Model:
    keras.utils.set_random_seed(seed)
    return Recurrent(RecurrentSizes(**RECURRENT | {"vocabulary_size": VOCABULARY}), name="other")


def engine(*models: Model) -> KerasEngine:
    return KerasEngine(cast("Model", Ensemble(models)))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@pytest.mark.backend
def test_logits_are_means_of_log_probabilities() -> None:
    models = [make_model(1), make_model(2, layers=2), recurrent(3)]
    batch: dict[str, Any] = {"source": np.array([[5, 6, 2]]), "target": np.array([[1, 7, 8, 9]])}
    log_probs = [log_softmax(keras.ops.convert_to_numpy(model(batch))) for model in models]
    logits = keras.ops.convert_to_numpy(Ensemble(models)(batch))
    np.testing.assert_allclose(logits, np.mean(log_probs, axis=0), atol=1e-5)


@pytest.mark.backend
@pytest.mark.parametrize(
    "beam",
    [
        pytest.param(BeamOptions(1, 0.0), marks=pytest.mark.long),
        pytest.param(BeamOptions(3, 0.6), marks=pytest.mark.long),
        BeamOptions(3, 0.6, coverage_penalty=0.2),
    ],
)
def test_what_is_found_has_the_score_of_its_forced_decoding(beam: BeamOptions) -> None:
    """Of models of several kinds, whose states have several shapes; a recurrent one never grows."""
    ensemble = engine(recurrent(3), make_model(1), make_model(2, layers=2))
    limits = np.array([9, 6, 12], np.int32)
    hypotheses = ensemble.search(SOURCES, limits, beam, NOTHING)
    outputs = [np.array(best[0].tokens[:-1], np.int32) for best in hypotheses]
    for (best, *_), forced in zip(hypotheses, ensemble.score(SOURCES, outputs), strict=True):
        assert best.log_prob == pytest.approx(float(forced.sum()), abs=1e-4)


def test_a_model_twice_is_the_model() -> None:
    model, limits = make_model(1), np.array([8, 8, 8], np.int32)
    single = KerasEngine(model).search(SOURCES, limits, BeamOptions(2, 0.6), NOTHING)
    twice = engine(model, model).search(SOURCES, limits, BeamOptions(2, 0.6), NOTHING)
    assert [best[0].tokens for best in single] == [best[0].tokens for best in twice]
    assert [best[0].log_prob for best in single] == pytest.approx(
        [best[0].log_prob for best in twice], abs=1e-4
    )


def test_attention_is_of_one_model() -> None:
    with pytest.raises(UserError, match="an ensemble has no attention"):
        engine(make_model(1), make_model(2)).attention(SOURCES[:1], SOURCES[:1])


# --- Runs. ----------------------------------------------------------------------------------------


def test_runs_translate_together(parrot_run: Path) -> None:
    log_lines: list[str] = []
    single = Translator.load(parrot_run, engine="keras")
    ensemble = Translator.load([parrot_run, parrot_run], log=log_lines.append)
    assert log_lines == ["engine: Keras, an ensemble of 2 models"]
    assert ensemble.segmenter.max_tokens == single.segmenter.max_tokens
    texts = ["Hoy hace frío.", "¿Dónde está la estación?"]
    assert ensemble.translate(texts) == single.translate(texts)
    with pytest.raises(UserError, match="the engine ctranslate2 holds one run"):
        Translator.load([parrot_run, parrot_run], engine="ctranslate2")


def test_only_runs_of_one_tokenizer_do(parrot_run: Path, tiny_run: Path) -> None:
    with pytest.raises(UserError, match="have different tokenizers"):
        Translator.load([parrot_run, tiny_run])


def test_the_mean_of_runs_is_a_run(tiny_run: Path, tmp_path: Path) -> None:
    run = RunFolder.open(tiny_run)
    steps = run.checkpoints.steps()
    origins = [run.checkpoints.path(steps[-1]), tiny_run]
    averaged = average(origins, tmp_path / "mean")
    assert averaged.path == (tmp_path / "mean").resolve()
    from nmt.runs.building import choose_weights
    from nmt.runs.checkpoint import read_arrays

    last, best = (
        choose_weights(read_arrays(path)[0]) for path in (origins[0], run.checkpoints.best)
    )
    mean = choose_weights(averaged.load_weights()[0])
    for name, array in mean.items():
        np.testing.assert_allclose(array, (last[name] + best[name]) / 2, atol=1e-6)
        assert array.dtype == np.float32
    assert len(Translator.load(averaged.path).translate(["Sí."])) == 1
    for name in ("source_words.tsv", LEXICON_FILE):
        assert (averaged.path / name).read_bytes() == (tiny_run / name).read_bytes()
    with pytest.raises(UserError, match="exists already"):
        average(origins, tmp_path / "mean")
    recomputing = shutil.copytree(tiny_run, tmp_path / "recomputing")
    config = (recomputing / "config.yaml").read_text(encoding="utf-8")
    assert "remat: false" in config
    changed = config.replace("remat: false", "remat: true").partition("\n")[2]
    (recomputing / "config.yaml").write_text(changed, encoding="utf-8")
    assert average([tiny_run, recomputing], tmp_path / "same").path.is_dir()
    (recomputing / "corpus.json").unlink()  # a run that only translates may lack it
    assert not (average([recomputing, tiny_run], tmp_path / "bare").path / "corpus.json").exists()
    with pytest.raises(UserError, match="needs two or more"):
        average(origins[:1], tmp_path / "other")


def test_a_mean_of_different_models_is_refused(
    tiny_run: Path, parrot_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="has another tokenizer"):
        average([tiny_run, parrot_run], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_it_has_no_alignments() -> None:
    ensemble = engine(make_model(1), make_model(2))
    with pytest.raises(UserError, match="alignments need attention"):
        ensemble.align(SOURCES, SOURCES)
