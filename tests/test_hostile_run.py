"""A run folder made to attack: loading it runs nothing and writes nothing. See docs/security.md."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from nmt import Translator
from nmt.errors import UserError
from nmt.formats import keras_file
from nmt.inspect.__main__ import main as inspect
from nmt.runs.checkpoint import read_arrays
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import RunFolder

pytestmark = pytest.mark.xdist_group("tiny run")


class Opens:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (self.path, "w")


@pytest.fixture
def hostile(parrot_run: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(parrot_run, tmp_path / "hostile")))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of who loads it, and stand there."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_paths_in_a_configuration_are_not_written_to(
    hostile: RunFolder, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    config = hostile.config
    data = replace(config.data, rejected_file=str(home / "precious.txt"))
    config = replace(
        config,
        data=data,
        name="../../home/precious",
        cache_dir=str(home / "cache"),
        runs_dir=str(home),
    )
    hostile.write_config(config)
    before = contents(home)
    [text] = Translator.load(hostile.path).translate(["Hoy hace frío."])
    assert text
    assert read_corpus(RunFolder.open(hostile.path), print).train
    for command in (["summary", "--run"], ["verify"]):
        monkeypatch.setattr(sys, "argv", ["nmt.inspect", *command, str(hostile.path)])
        with pytest.raises(SystemExit):
            inspect()
    assert "config.yaml" in capsys.readouterr().out  # verified
    assert contents(home) == before
    assert not [path for path in home.rglob("*") if path.is_dir()]


def test_a_pickle_among_the_weights_is_not_opened(hostile: RunFolder, home: Path) -> None:
    best = hostile.checkpoints.best
    arrays, metadata = read_arrays(best)
    marker = home / "ran"
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    name = sorted(arrays)[0]
    arrays[name] = np.array([Opens(marker)], dtype=object)
    with best.open("wb") as file:
        np.savez(file, **arrays, **{"metadata.json": text})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"best\.npz is damaged: Object arrays cannot be loaded"):
        Translator.load(hostile.path)
    assert not marker.exists()
    with zipfile.ZipFile(best) as archive:  # it would have been
        stored = archive.read(f"{name}.npy")
    pickle.loads(stored[stored.index(b"\x80") :]).item()
    assert marker.exists()


def make_export(run: RunFolder, place: Path) -> None:
    place.mkdir()
    keras_file.write(run.load_model(), run.load_tokenizer(), run.config, place)


def test_a_keras_file_with_code_is_not_loaded(hostile: RunFolder, home: Path) -> None:
    place = home / "export"
    make_export(hostile, place)
    layer = keras.layers.Lambda(lambda x: (open("ran", "w"), x)[1], output_shape=(1,))  # noqa: PTH123, SIM115
    keras.Sequential([keras.Input((1,)), layer]).save(place / keras_file.MODEL_FILE)
    with pytest.raises(UserError, match=r"model\.keras is not a model of this package: it names"):
        keras_file.load(place)
    assert not (home / "ran").exists()


@pytest.mark.parametrize(
    "named",
    [
        {"module": "os", "class_name": "system", "config": {"command": "touch ran"}},
        {"module": "builtins", "class_name": "function", "config": "exec"},
        {"class_name": "__lambda__", "config": {"value": "4wAAAA=="}},
        {"class_name": "Transformer"},
        {"module": "keras.utils", "class_name": "get_file", "config": {}},
    ],
)
def test_a_keras_file_that_names_anything_else_is_not_loaded(
    hostile: RunFolder, home: Path, named: dict[str, Any]
) -> None:
    place = home / "export"
    make_export(hostile, place)
    path = place / keras_file.MODEL_FILE
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    architecture = json.loads(members["config.json"])
    architecture["config"]["dtype"] = {"deep": [named]}
    members["config.json"] = json.dumps(architecture).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(UserError, match="not a model of this package"):
        keras_file.load(place)
    assert not (home / "ran").exists()


@pytest.mark.parametrize("name", ["/dev/zero", "../precious.txt", "link"])
def test_a_manifest_names_nothing_outside(hostile: RunFolder, home: Path, name: str) -> None:
    place = home / "export"
    make_export(hostile, place)
    (place / "link").symlink_to(home / "precious.txt")
    (place / "manifest.json").write_text(json.dumps({"files": {name: "0"}}), encoding="utf-8")
    with pytest.raises(UserError, match="outside of the export"):
        keras_file.load(place)
