"""The export command: what it refuses, where it writes, what it leaves behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from made_exports import load_run
from processes import printed

from nmt import Translator, export
from nmt.errors import UserError
from nmt.formats import ctranslate2, keras_file, tflite
from nmt.formats.export import export_run
from nmt.inference.contract import SearchRequest
from nmt.inference.features import SENTENCE_FEATURES, WORD_FEATURES
from nmt.inference.lexicon import Lexicon
from nmt.inference.quality_model import Linear, QualityModel
from nmt.inference.results import Translation
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("exports")


@pytest.fixture
def shared_engine(parrot_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let exports share the run's model and its compiled searches; `test_convert` loads its own."""
    engine = load_run(parrot_run).keras_engine()
    monkeypatch.setattr(RunFolder, "load_model", lambda run: engine.model)
    monkeypatch.setattr("nmt.formats.export.KerasEngine", lambda *arguments: engine)


def exported(*arguments: str | Path) -> str:
    return printed(export, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--format keras --run nowhere", "run nowhere does not exist"),
        ("--format savedmodel --run RUN --quantization int8", "ctranslate2 or tflite"),
        ("--format keras --run RUN --output RUN", "exists and is not an export"),
    ],
)
def test_what_is_wrong_is_said(parrot_run: Path, arguments: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        exported(*(str(parrot_run) if word == "RUN" else word for word in arguments.split()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--beam 0", "argument --beam: must be an integer of at least 1, got 0"),
        ("--length-penalty -1", "argument --length-penalty: must be at least 0, got -1"),
        ("--length-penalty nan", "argument --length-penalty: must be at least 0, got nan"),
        ("--run a --run b", "argument --run: takes one run, got a and b"),
    ],
)
def test_invalid_options_are_refused(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        exported("--format", "keras", *arguments.split())
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


@pytest.mark.parametrize("name", ["savedmodel", "tflite"])
def test_a_format_needs_tensorflow(
    name: str, parrot_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(UserError, match=f"{name} needs TensorFlow: unset KERAS_BACKEND=jax"):
        exported("--format", name, "--run", parrot_run)


def test_an_error_is_one_line_and_status_2_without_heavy_imports(tmp_path: Path) -> None:
    script = "import sys; from nmt.export import main\ntry: main()\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "--format", "keras"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: run runs/latest does not exist; train one first: python -m nmt.train\n"
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "nmt" in loaded
    assert not {"keras", "tensorflow", "ctranslate2"} & loaded


@pytest.mark.usefixtures("shared_engine")
def test_default_places_and_manifest(parrot_run: Path) -> None:
    exports = parrot_run / "exports"
    options = ["--run", parrot_run, "--beam", "2", "--length-penalty", "0.3"]
    printed = exported("--format", "ctranslate2", *options)
    assert f"written to {exports / 'ctranslate2'}" in printed
    assert "12 of 12 sample sentences are translated as the run does" in printed
    content = json.loads((exports / "ctranslate2" / "manifest.json").read_text(encoding="utf-8"))
    assert content["format"] == "ctranslate2"
    assert content["quantization"] == "float32"
    assert content["run"] == parrot_run.name
    assert content["check"] == {"sentences": 12, "equal": 12, "different": []}
    assert content["files"].keys() == {
        path.name for path in (exports / "ctranslate2").iterdir() if path.name != "manifest.json"
    }
    assert (content["decoding"]["beam_size"], content["decoding"]["length_penalty"]) == (2, 0.3)
    decoding = ctranslate2.load(exports / "ctranslate2").decoding
    assert (decoding.beam_size, decoding.length_penalty) == (2, 0.3)

    exported("--format", "savedmodel", *options)
    content = json.loads((exports / "savedmodel" / "manifest.json").read_text(encoding="utf-8"))
    assert content["check"] == {"sentences": 12, "equal": 12, "different": []}
    assert "only the first 63 are read" in content["signature"]["inputs"]["text"]


@pytest.mark.usefixtures("shared_engine")
@pytest.mark.parametrize(("name", "module"), [("ctranslate2", ctranslate2), ("keras", keras_file)])
def test_an_export_aligns_words_and_has_confidence_as_the_run(
    parrot_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: ModuleType,
) -> None:
    run = Path(shutil.copytree(parrot_run, tmp_path / "run"))
    source, target = np.array([10, 11, 12]), np.array([13, 14])
    keys = np.array([10 << 32 | 14, 12 << 32 | 13])
    Lexicon(keys, np.array([0.9, 0.9], np.float32), layer=0).save(run)
    sentence, word = (
        Linear.unfitted(np.zeros((1, len(features))))
        for features in (SENTENCE_FEATURES, WORD_FEATURES)
    )
    QualityModel(sentence, ((0.0, 0.7), (1.0, 0.7)), word).save(run)
    monkeypatch.setattr("nmt.formats.export.select_samples", lambda *arguments: [])
    exported("--format", name, "--run", run)
    loaded = module.load(run / "exports" / name)
    engine = Translator.load(run, engine=name).engine
    [alignment] = loaded.engine.align([source], [target])
    np.testing.assert_allclose(alignment, engine.align([source], [target])[0], atol=1e-5)
    assert alignment[:2].argmax(1).tolist() == [2, 0]
    [[translation]] = loaded.run(["Hoy."], SearchRequest(beam_size=1, quality=True))
    assert translation.confidence == pytest.approx(0.7)


@pytest.mark.usefixtures("shared_engine")
def test_litert_is_given_samples_by_the_rules_of_both_languages(
    parrot_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {}

    def translate(folder: Path, texts: list[str], **options: Any) -> list[Translation]:
        settings.update(options)
        return [Translation("", 0.0, 0.0, ())] * len(texts)

    monkeypatch.setattr(tflite, "write", lambda *arguments, **options: None)
    monkeypatch.setattr(tflite, "translate", translate)
    options = ["--format", "tflite", "--quantization", "int8", "--run", parrot_run]
    exported(*options, "--output", tmp_path / "out")
    assert settings["languages"] == ("es", "en")


@pytest.mark.usefixtures("shared_engine")
def test_an_export_that_was_not_compared_says_so(
    parrot_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.formats.export.select_samples", lambda *arguments: [])
    printed = exported("--format", "keras", "--run", parrot_run, "--output", tmp_path / "out")
    assert "no sample sentences: the export was not compared with the run" in printed
    assert " of 0 " not in printed


@pytest.mark.usefixtures("shared_engine")
def test_a_format_that_nothing_writes_is_an_error(parrot_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing writes the format onnx"):
        export_run(RunFolder.open(parrot_run), tmp_path / "out", "onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shared_engine")
def test_an_export_is_replaced_and_nothing_else(parrot_run: Path, tmp_path: Path) -> None:
    place = tmp_path / "shipped"
    options = ["--format", "keras", "--run", parrot_run, "--output", place, "--beam", "1"]
    place.mkdir()
    (place / "mine.txt").touch()
    with pytest.raises(UserError, match="is not an export"):
        exported(*options)
    (place / "mine.txt").unlink()
    exported("--format", "keras", "--run", parrot_run, "--output", place)
    (place / "mine.txt").touch()
    with pytest.raises(UserError, match=r"other files, such as mine\.txt"):
        exported(*options)
    (place / "mine.txt").unlink()
    printed = exported(*options)
    assert "12 of 12 sample sentences are translated as the run does" in printed
    assert keras_file.load(place).decoding.beam_size == 1
    assert [path.name for path in tmp_path.iterdir()] == ["shipped"]


@pytest.mark.usefixtures("shared_engine")
def test_an_interrupted_export_leaves_nothing(
    parrot_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path) -> None:
        assert (folder / "model.keras").is_file()
        raise KeyboardInterrupt

    monkeypatch.setattr(keras_file, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exported("--format", "keras", "--run", parrot_run, "--output", tmp_path / "shipped")
    assert list(tmp_path.iterdir()) == []


def damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the export have other weights than the run."""
    write = ctranslate2.write

    def damaged(model: Any, *arguments: Any) -> None:
        for block in model.decoder_blocks:
            kernel = block.cross_attention.output_projection.kernel
            kernel.assign(-kernel)
        write(model, *arguments)
        for block in model.decoder_blocks:
            kernel = block.cross_attention.output_projection.kernel
            kernel.assign(-kernel)

    monkeypatch.setattr(ctranslate2, "write", damaged)


@pytest.mark.usefixtures("shared_engine")
def test_a_wrong_export_is_not_kept(
    parrot_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(monkeypatch)
    place = tmp_path / "shipped"
    options = ["--format", "ctranslate2", "--run", str(parrot_run), "--output", str(place)]
    monkeypatch.setattr(sys, "argv", ["nmt-export", *options])
    with pytest.raises(SystemExit) as stopped:
        export.main()
    assert stopped.value.code == 1
    printed = capsys.readouterr()
    assert "differs (weights): " in printed.out
    assert "of 12 sample sentences, such as" in printed.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("shared_engine")
def test_a_quantized_export_may_differ_and_says_so(
    parrot_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(monkeypatch)
    printed = exported("--format", "ctranslate2", "--quantization", "int8", "--run", parrot_run)
    place = parrot_run / "exports" / "ctranslate2_int8"
    content = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
    check = content["check"]
    assert content["quantization"] == "int8"
    assert check["equal"] < check["sentences"] == 12
    assert len(check["different"]) == 12 - check["equal"]
    assert printed.count("differs (weights)") == len(check["different"])
