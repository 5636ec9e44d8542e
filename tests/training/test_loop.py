"""The loop: it resumes bit for bit, stops on request, keeps the best, and ends when told."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt.config import Config
from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.train import train

if keras.config.backend() == "jax":
    from nmt.training.jax_step import JaxStep as BackendStep
else:
    from nmt.training.step import TensorFlowStep as BackendStep  # type: ignore[assignment]

KILLED_AT = 7  # neither an evaluation nor the end


def reported(run: RunFolder) -> list[dict[str, Any]]:
    """Everything reported but times, which no resumed run can repeat."""
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").open(encoding="utf-8")]
    timed = ("seconds", "speed/tokens_per_second")
    return [{key: value for key, value in line.items() if key not in timed} for line in lines]


def final_state(run: RunFolder) -> dict[str, np.ndarray]:
    latest = run.checkpoints.latest()
    assert latest is not None
    return latest[0]


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Send this process a signal while an update runs."""
    update = BackendStep.update

    def arrange(step: int, number: int) -> None:
        def signalling(self: BackendStep, batch: Any, rate: float, current: int, *more: Any) -> Any:
            if current == step:
                os.kill(os.getpid(), number)
            return update(self, batch, rate, current, *more)

        monkeypatch.setattr(BackendStep, "update", signalling)

    return arrange


@pytest.mark.parametrize(
    ("jit", "number"),
    [
        pytest.param("off", signal.SIGTERM, marks=pytest.mark.backend),
        # For TensorFlow: JAX always compiles.
        pytest.param("on", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    tmp_path: Path,
    compose: Callable[..., Config],
    quiet_console: Console,
    stop_at: Callable[[int, int], None],
    jit: str,
    number: int,
) -> None:
    overrides = [
        *tiny_overrides(tmp_path),
        f"training.jit_compile={jit}",
        "training.ema_decay=0.9",
        "training.accumulate=2",
        "data.test=0",
    ]
    train(compose(*overrides, "name=whole"), quiet_console)
    whole = RunFolder.open(tmp_path / "runs" / "latest")

    stop_at(KILLED_AT, number)
    with pytest.raises(SystemExit) as stopped:
        train(compose(*overrides, "name=killed"), quiet_console)
    assert stopped.value.code == 130
    killed = RunFolder.open(tmp_path / "runs" / "latest")
    assert killed.path != whole.path
    assert killed.checkpoints.steps()[-1] == KILLED_AT

    stop_at(-1, number)
    config = killed.config
    config.training.resume = str(killed.path)
    train(config, quiet_console)
    assert reported(killed) == reported(whole)
    expected = final_state(whole)
    for name, array in final_state(killed).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_a_run_that_dies_loses_only_what_follows_its_last_checkpoint(
    tmp_path: Path,
    compose: Callable[..., Config],
    quiet_console: Console,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides = [*tiny_overrides(tmp_path), "data.test=0"]
    train(compose(*overrides, "name=whole"), quiet_console)
    whole = RunFolder.open(tmp_path / "runs" / "latest")
    update = BackendStep.update

    def dying(self: BackendStep, batch: Any, rate: float, step: int, *more: Any) -> Any:
        if step == 9:
            raise MemoryError("as if the power had gone")
        return update(self, batch, rate, step, *more)

    monkeypatch.setattr(BackendStep, "update", dying)
    with pytest.raises(MemoryError):
        train(compose(*overrides, "name=dead"), quiet_console)
    dead = RunFolder.open(tmp_path / "runs" / "latest")
    assert dead.checkpoints.steps() == [5]
    assert [line["step"] for line in reported(dead)][-1] == 8
    monkeypatch.setattr(BackendStep, "update", update)
    config = dead.config
    config.training.resume = str(dead.path)
    train(config, quiet_console)
    assert reported(dead) == reported(whole)


@pytest.mark.xdist_group("tiny run")
def test_the_best_weights_are_those_of_the_best_score(tiny_run: Path) -> None:
    run = RunFolder.open(tiny_run)
    scored = {line["step"]: line["dev/BLEU"] for line in reported(run) if "dev/BLEU" in line}
    assert list(scored) == [5, 10, 12]  # every fifth update, and the last
    latest = run.checkpoints.latest()
    assert latest is not None
    metadata = latest[1]
    assert metadata["step"] == 12
    best = max(scored.values())
    assert metadata["best_score"] == best
    assert metadata["best_step"] == next(step for step, s in scored.items() if s == best)


def test_early_stopping_ends_the_run(
    tmp_path: Path, compose: Callable[..., Config], quiet_console: Console
) -> None:
    # With a rate of next to nothing no evaluation is better than the first.
    config = compose(
        *tiny_overrides(tmp_path),
        "training.learning_rate=1e-12",
        "training.evaluate_every=2",
        "training.early_stopping=3",
        "training.max_steps=100",
        "data.test=0",
    )
    train(config, quiet_console)
    latest = RunFolder.open(tmp_path / "runs" / "latest").checkpoints.latest()
    assert latest is not None
    assert latest[1]["step"] == 8


def test_a_time_limit_ends_the_run(
    tmp_path: Path,
    compose: Callable[..., Config],
    quiet_console: Console,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = itertools.count()  # every look at the clock is one later
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr("nmt.training.loop.time", clock)
    config = compose(
        *tiny_overrides(tmp_path),
        "training.max_steps=null",
        "training.max_minutes=0.5",
        "training.schedule=cosine",
        "training.evaluate_every=100000",
        "data.test=0",
    )
    train(config, quiet_console)
    run = RunFolder.open(tmp_path / "runs" / "latest")
    rates = [line["train/learning_rate"] for line in reported(run) if "train/loss" in line]
    latest = run.checkpoints.latest()
    assert latest is not None
    assert latest[1]["seconds"] >= 30
    assert len(rates) >= 20
    # The schedule knew the limit: the rate is nearly spent when the time is.
    assert rates[-1] < 0.02 * max(rates)


def test_a_loss_that_is_not_finite_is_said_in_one_line(
    tmp_path: Path, compose: Callable[..., Config], quiet_console: Console
) -> None:
    config = compose(
        *tiny_overrides(tmp_path), "training.learning_rate=1e30", "training.clip_norm=null"
    )
    with pytest.raises(UserError, match=r"loss is not finite .* lower training\.learning_rate"):
        train(config, quiet_console)


def test_without_dev_and_test_a_run_trains_all_the_same(
    tmp_path: Path, compose: Callable[..., Config], quiet_console: Console
) -> None:
    config = compose(*tiny_overrides(tmp_path), "data.dev=0", "data.test=0")
    assert train(config, quiet_console) is None
    run = RunFolder.open(tmp_path / "runs" / "latest")
    assert run.load_model().count_params() > 0


def test_one_pair_is_enough(
    tmp_path: Path, compose: Callable[..., Config], quiet_console: Console
) -> None:
    overrides = [
        *tiny_overrides(tmp_path, lines=1),
        "data.dev=0",
        "data.test=0",
        "training.max_steps=60",
        "training.learning_rate=1e-2",
        "model.dropout=0",
        "training.evaluate_every=1000",
    ]
    train(compose(*overrides), quiet_console)
    from nmt import Translator

    source, target = (tmp_path / "corpus.tsv").read_text(encoding="utf-8").strip().split("\t")
    translator = Translator.load(tmp_path / "runs" / "latest")
    assert translator.translate([source]) == [target]
