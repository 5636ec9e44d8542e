"""The fastest engine that supports a request, and the Keras engine for the others."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import keras
import pytest

from nmt import Translator
from nmt.errors import UserError
from nmt.formats.weights.converted import CONVERTED_FILE
from nmt.inference.contract import SearchRequest
from nmt.inference.keras_engine import KerasEngine
from nmt.runs.checkpoint import read_arrays, write_arrays
from nmt.runs.folder import RunFolder

pytestmark = [
    pytest.mark.xdist_group("exports"),
    pytest.mark.filterwarnings("ignore:a text of:UserWarning"),
]


def known_sentences(run: Path) -> list[str]:
    """Return what a run knows by heart: of other sentences, two hypotheses can be nearly equal."""
    table = next((run / "samples").iterdir()).read_text(encoding="utf-8")
    return [row.split("\t")[0] for row in table.splitlines()[1:]]


@pytest.fixture(scope="module")
def fast(parrot_run: Path) -> Translator:
    """A translator that loads and compiles the model itself once."""
    return Translator.load(parrot_run)


def test_auto_is_ctranslate2_and_loads_the_model_when_it_is_needed(
    parrot_run: Path, fast: Translator
) -> None:
    log_lines: list[str] = []
    translator = Translator.load(parrot_run, log=log_lines.append)
    assert log_lines == [f"engine: CTranslate2, float32, {translator.engine.workers} threads"]
    assert translator.engine.keras_engine is None
    assert (parrot_run / "checkpoints" / CONVERTED_FILE).is_file()
    with_keras = fast.with_keras_engine()
    assert isinstance(with_keras.engine, KerasEngine)
    assert with_keras.engine is fast.keras_engine()
    assert with_keras.segmenter.max_tokens == translator.segmenter.max_tokens
    texts = [*known_sentences(parrot_run), ""]
    for fast_output, keras_output in zip(
        translator.hypotheses(texts), with_keras.hypotheses(texts), strict=True
    ):
        assert fast_output[0].text == keras_output[0].text
        assert fast_output[0].log_prob == pytest.approx(keras_output[0].log_prob, abs=1e-3)


def test_texts_are_translated_whole_as_far_as_the_model_goes(parrot_run: Path) -> None:
    config = RunFolder.open(parrot_run).config
    translator = Translator.load(parrot_run, whole=True)
    assert translator.segmenter.max_tokens == config.model.max_length - 1
    assert translator.with_keras_engine().segmenter.max_tokens == translator.segmenter.max_tokens
    assert Translator.load(parrot_run).segmenter.max_tokens == max(config.training.row_lengths) - 1


@pytest.mark.parametrize("beam", [1, 4])
def test_both_engines_give_the_same(parrot_run: Path, fast: Translator, beam: int) -> None:
    with_keras = fast.with_keras_engine()
    lines = known_sentences(parrot_run)
    first_word = with_keras.translate(lines[:1])[0].split()[0]
    for request, texts in (
        (SearchRequest(beam), lines),
        (SearchRequest(beam, 0.0), lines),
        (SearchRequest(beam, 1.0), lines),
        (SearchRequest(beam, prefix=first_word), lines[:1]),
    ):
        for fast_output, keras_output in zip(
            fast.run(texts, request), with_keras.run(texts, request), strict=True
        ):
            assert fast_output[0].tokens == keras_output[0].tokens
            assert fast_output[0].log_prob == pytest.approx(keras_output[0].log_prob, abs=1e-3)
            assert fast_output[0].score == pytest.approx(keras_output[0].score, abs=1e-3)
    pairs = [(line, "It is cold today.") for line in lines]
    for fast_output, keras_output in zip(fast.score(pairs), with_keras.score(pairs), strict=True):
        assert fast_output.pieces == keras_output.pieces
        assert fast_output.log_probs == pytest.approx(keras_output.log_probs, abs=1e-3)


def test_the_model_itself_where_it_is_asked_for(parrot_run: Path) -> None:
    log_lines: list[str] = []
    translator = Translator.load(parrot_run, engine="keras", log=log_lines.append)
    assert log_lines == ["engine: Keras"]
    assert translator.with_keras_engine() is translator


def test_ctranslate2_alone_gives_nothing_else(parrot_run: Path) -> None:
    translator = Translator.load(parrot_run, engine="ctranslate2", quantization="int8")
    assert translator.translate(["Hoy hace frío."])
    with pytest.raises(UserError, match=r"^sampling needs the Keras engine"):
        translator.samples(["Hoy hace frío."], 2)


def test_where_keras_runs_on_another_backend_that_searches(
    parrot_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_lines: list[str] = []
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with monkeypatch.context() as patch:
        patch.setattr(
            "nmt.runs.folder.RunFolder.load_model", lambda self: pytest.fail("is loaded", False)
        )
        with pytest.raises(pytest.fail.Exception):
            Translator.load(parrot_run, log=log_lines.append)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "keras")
        patch.setenv("KERAS_BACKEND", "tensorflow")
        Translator.load(parrot_run, log=log_lines.append)
    assert log_lines[0] == "engine: Keras, since Keras runs on jax"
    assert log_lines[1].startswith("engine: CTranslate2")


def test_a_quantization_that_is_not_followed_is_refused(
    parrot_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "^quantization int8 is for the engine ctranslate2, and .*: leave it out$"
    for run, engine in ((parrot_run, "keras"), ([parrot_run, parrot_run], "auto")):
        with pytest.raises(UserError, match=message):
            Translator.load(run, engine=engine, quantization="int8")
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(UserError, match=message):
        Translator.load(parrot_run, quantization="int8")


def test_what_cannot_be_held_is_left_to_the_model(parrot_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(parrot_run, tmp_path / "run")
    best = run / "checkpoints" / "best.npz"
    best.rename(best.with_name("step_00000100.npz"))
    log_lines: list[str] = []
    assert Translator.load(run, log=log_lines.append).engine.keras_engine is not None
    assert log_lines == ["engine: Keras: the run has no best weights yet"]
    with pytest.raises(UserError, match="has no best weights yet"):
        Translator.load(run, engine="ctranslate2")


def test_attention_never_comes_from_other_weights_than_translations(
    parrot_run: Path, tmp_path: Path
) -> None:
    """As training replaces them while a service runs."""
    run = shutil.copytree(parrot_run, tmp_path / "run")
    translator = Translator.load(run)
    best = run / "checkpoints" / "best.npz"
    arrays, metadata = read_arrays(best)
    write_arrays(best, {name: -array for name, array in arrays.items()}, metadata)
    with pytest.raises(UserError, match=r"best\.npz has changed since the run was loaded: load it"):
        translator.attention("Hoy hace frío.")
    write_arrays(best, arrays, metadata)
    assert translator.attention("Hoy hace frío.").cross.size


def test_an_unknown_engine(parrot_run: Path) -> None:
    with pytest.raises(
        UserError, match="unknown engine 'fast'; choose from: auto, keras, ctranslate2"
    ):
        Translator.load(parrot_run, engine="fast")


def test_an_unknown_quantization_or_unit(parrot_run: Path) -> None:
    message = "unknown quantization 'int4'; choose from: float32, int8"
    with pytest.raises(UserError, match=message):
        Translator.load(parrot_run, quantization="int4")
    with pytest.raises(UserError, match="unknown unit 'word'; choose from: sentence, line"):
        Translator.load(parrot_run, unit="word")


def test_no_run_at_all_is_refused() -> None:
    with pytest.raises(UserError, match="give at least one run"):
        Translator.load([])
