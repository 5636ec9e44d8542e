"""What is left open is settled once, and what was done is what ``config.yaml`` says."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from conftest import tiny_overrides
from rich.console import Console
from sample_configs import LANGUAGES, changed, configured

from nmt.config import Config, files
from nmt.config.schema import flatten
from nmt.data.corpus import load_corpus
from nmt.data.splitting import Pair
from nmt.runs.resuming import compose_config
from nmt.startup.devices import Gpu
from nmt.training import defaults, job
from nmt.training.defaults import (
    RECURRENT_SHARE,
    SMALL_CORPUS,
    SPANISH_PROBES,
    START_SHARE,
    default_dropout,
    default_learning_rate,
    default_probes,
    resolve_config,
    resolve_parallel_parts,
    resolve_precision,
)
from nmt.training.trainer_state import TrainerState

A100, T4 = Gpu("A100", (8, 0)), Gpu("T4", (7, 5))
OPEN = {
    "model.dropout": None,
    "training.learning_rate": None,
    "training.precision": "auto",
    "training.parallel_parts": None,
    "training.update_tokens": None,
    "training.jit_compile": "auto",
    "training.probes": None,
}
SETTLED = {
    "model.dropout": 0.25,
    "training.learning_rate": 0.125,
    "training.precision": "mixed_float16",
    "training.parallel_parts": 3,
    "training.update_tokens": 512,
    "training.jit_compile": "off",
    "training.probes": ["Hola."],
}


def with_devices(
    monkeypatch: pytest.MonkeyPatch, *devices: Gpu, backend: str = "tensorflow"
) -> None:
    monkeypatch.setattr(defaults, "gpus", lambda: list(devices))
    monkeypatch.setattr(keras.config, "backend", lambda: backend)


def values(config: Config, *keys: str) -> dict[str, Any]:
    flat = dict(flatten(config))
    return {key: flat[key] for key in keys}


def test_small_corpora_get_more_dropout() -> None:
    assert default_dropout(1_000) > default_dropout(100_000) > 0
    assert default_dropout(SMALL_CORPUS - 1) > default_dropout(SMALL_CORPUS)


DEV = [Pair(text * number, "x") for number in (3, 1, 8, 2, 9) for text in ("a", "b")]


@pytest.mark.parametrize(
    ("overrides", "probes"),
    [
        (["data=phrasebook"], list(SPANISH_PROBES)),
        (["data=phrasebook", "data.reverse=true"], ["aa", "bbb"]),
        (["data=tatoeba"], ["aa", "bbb"]),
        (["data=files", "data.train=a", *LANGUAGES], ["aa", "bbb"]),
    ],
)
def test_probes_are_sentences_of_the_corpus(overrides: list[str], probes: list[str]) -> None:
    data = configured(*overrides).data
    assert default_probes(data, DEV) == default_probes(data, DEV[::-1]) == probes


def test_few_dev_sentences_are_enough_for_probes() -> None:
    data = configured("data=tatoeba").data
    assert default_probes(data, DEV[:1] * 5) == ["aaa"]
    assert default_probes(data, []) == []


def test_the_peak_rate_falls_with_the_width() -> None:
    assert default_learning_rate(128) == pytest.approx(2e-3)
    assert default_learning_rate(512) == pytest.approx(default_learning_rate(128) / 4)


@pytest.mark.parametrize(
    ("devices", "precision"),
    [
        ((), "float32"),
        ((A100,), "mixed_bfloat16"),
        ((T4,), "mixed_float16"),
        ((A100, T4), "mixed_float16"),
        ((Gpu("another make", (0, 0)),), "mixed_float16"),
    ],
)
def test_precision_is_what_all_devices_are_good_at(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[Gpu, ...], precision: str
) -> None:
    with_devices(monkeypatch, *devices)
    assert resolve_precision("auto") == precision
    assert resolve_precision("float32") == "float32"
    assert resolve_precision("mixed_bfloat16") == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("devices", "backend", "count", "positions", "parts"),
    [
        ((), "tensorflow", 1, 4096, 1),
        ((), "tensorflow", 2, 4096, 2),
        ((), "tensorflow", 6, 4096, 6),
        ((), "tensorflow", 96, 4096, 8),
        ((), "tensorflow", 6, 512, 4),
        ((), "tensorflow", 6, 64, 1),
        ((A100,), "tensorflow", 6, 4096, 1),
        ((), "jax", 6, 4096, 1),
        ((A100,), "jax", 6, 4096, 1),
    ],
)
def test_only_tensorflow_on_a_cpu_works_on_parts_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
    devices: tuple[Gpu, ...],
    backend: str,
    count: int,
    positions: int,
    parts: int,
) -> None:
    with_devices(monkeypatch, *devices, backend=backend)
    monkeypatch.setattr(defaults, "cores", lambda: count)
    assert resolve_parallel_parts(None, positions) == parts
    assert resolve_parallel_parts(4, positions) == 4


@pytest.mark.parametrize(
    ("override", "share"),
    [
        ("training.evaluation_share=0.2", 0.2),
        ("training.deterministic=true", None),
        ("training.stop_behind=0.5", None),
    ],
)
def test_where_runs_are_compared_they_evaluate_at_the_same_updates(
    override: str, share: float | None
) -> None:
    assert resolve_config(configured(override), 200).training.evaluation_share == share


def test_everything_that_is_open_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    with_devices(monkeypatch)
    monkeypatch.setattr(defaults, "cores", lambda: 2)
    given = changed(configured("model=tiny"), OPEN)
    before = copy.deepcopy(given)
    finished = resolve_config(given, 200)
    assert given == before
    assert values(finished, *OPEN) == {
        "model.dropout": default_dropout(200),
        "training.learning_rate": default_learning_rate(64),
        "training.precision": "float32",
        "training.parallel_parts": 2,
        "training.update_tokens": 512,
        "training.jit_compile": "on",
        "training.probes": list(SPANISH_PROBES),
    }
    assert changed(finished, OPEN) == given  # nothing else is touched
    open_still = {key for key, value in flatten(finished) if value == "auto"}
    assert open_still == {"training.devices"}  # another machine may have others


@pytest.mark.parametrize(
    ("overrides", "share"),
    [
        (["model=tiny"], 1),
        (["model=rnn", "model.d_model=64"], RECURRENT_SHARE),
        (["model=tiny", "training.start_from=a", "training.new_vocabulary=false"], START_SHARE),
        (["model=tiny", "training.start_from=a", "training.new_vocabulary=true"], 1),
        # Adapters begin as nothing, and are trained as what is drawn at random.
        (["model=tiny", "training.start_from=runs/general", "model.lora_rank=4"], 1),
    ],
)
def test_the_rate_depends_on_where_training_begins_and_on_what(
    monkeypatch: pytest.MonkeyPatch, overrides: list[str], share: float
) -> None:
    with_devices(monkeypatch)
    rate = resolve_config(configured(*overrides), 200).training.learning_rate
    assert rate == pytest.approx(share * default_learning_rate(64))


def test_what_is_settled_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with_devices(monkeypatch, A100)
    settled = changed(configured("model=tiny"), SETTLED)
    assert resolve_config(settled, 200) == settled
    opened = resolve_config(changed(settled, OPEN), 200_000)
    with_devices(monkeypatch)
    assert resolve_config(opened, 200) == opened


def test_what_was_left_open_is_written_down_as_it_was_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_console: Console
) -> None:
    """And a resumed run does the same, on whatever machine."""
    ran: list[Config] = []

    def make_trainer(config: Config, *_: Any) -> Any:
        ran.append(config)
        trainer = SimpleNamespace(train=lambda: False, stop_signal=2)
        return SimpleNamespace(state=TrainerState()), trainer

    monkeypatch.setattr("nmt.training.assembly.make_trainer", make_trainer)
    with_devices(monkeypatch)
    given = changed(compose_config(tiny_overrides(tmp_path)), OPEN)
    before = copy.deepcopy(given)
    run = job.train(given, quiet_console)
    assert given == before  # nobody else's either
    written = files.load(run.path / "config.yaml")
    corpus = load_corpus(given.data, cache_dir=tmp_path)
    assert written == ran[0] == resolve_config(given, 168, corpus.dev)
    assert written.training.probes == default_probes(given.data, corpus.dev)
    assert set(written.training.probes) <= {pair.source for pair in corpus.dev}
    assert written.training.learning_rate == pytest.approx(default_learning_rate(64))
    assert written.model.dropout == default_dropout(168)

    with_devices(monkeypatch, A100)
    (run.path / "checkpoints").mkdir()
    (run.path / "checkpoints" / "step_00000001.npz").touch()
    again = compose_config([f"training.resume={run.path}", "training.max_steps=99"])
    assert job.train(again, quiet_console).path == run.path
    training = replace(written.training, max_steps=99)
    assert files.load(run.path / "config.yaml") == replace(written, training=training)
    training = replace(training, resume=str(run.path))
    assert ran[1] == replace(written, training=training)


def test_without_a_dev_split_training_sentences_are_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_console: Console
) -> None:
    def make_trainer(*_: Any) -> Any:
        trainer = SimpleNamespace(train=lambda: False, stop_signal=2)
        return SimpleNamespace(state=TrainerState()), trainer

    monkeypatch.setattr("nmt.training.assembly.make_trainer", make_trainer)
    overrides = [*tiny_overrides(tmp_path), "training.probes=null", "data.dev=0", "data.test=0"]
    given = compose_config(overrides)
    run = job.train(given, quiet_console)
    train = load_corpus(given.data, cache_dir=tmp_path).train
    probes = files.load(run.path / "config.yaml").training.probes
    assert probes is not None
    assert len(probes) == 2
    assert set(probes) <= {pair.source for pair in train}
