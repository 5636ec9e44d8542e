"""The loop: it resumes bit for bit, stops on request, keeps the best, and ends when told."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt.errors import UserError
from nmt.runs.folder import RunFolder
from nmt.training.job import fit

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

KILLED_AT = 7  # neither an evaluation nor the end

AtUpdate = Callable[[int, Callable[[], None]], None]


@pytest.fixture(scope="module")
def whole(shop: Workshop) -> Callable[[str], RunFolder]:
    """Train a run to its end, once for each way to compile it."""

    @cache
    def trained(jit: str) -> RunFolder:
        with shop.keeping():
            return shop.train("name=whole", "data.test=0", f"training.jit_compile={jit}").folder

    return trained


def reported(run: RunFolder) -> list[dict[str, Any]]:
    """Everything reported but times, which no resumed run can repeat."""
    timed = ("seconds", "speed/tokens_per_second")
    return [{key: value for key, value in line.items() if key not in timed} for line in run.metrics]


def latest(run: RunFolder) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    found = run.checkpoints.latest()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("jit", "number"),
    [
        pytest.param("off", signal.SIGTERM, marks=pytest.mark.backend),
        # For TensorFlow: JAX always compiles.
        pytest.param("on", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    shop: Workshop,
    whole: Callable[[str], RunFolder],
    at_update: AtUpdate,
    jit: str,
    number: int,
) -> None:
    expected = whole(jit)
    at_update(KILLED_AT, lambda: os.kill(os.getpid(), number))
    with shop.keeping():
        stopped = shop.train("name=killed", "data.test=0", f"training.jit_compile={jit}")
    assert not stopped.complete
    assert stopped.evaluation is None
    killed = stopped.folder
    assert killed.path != expected.path
    assert killed.checkpoints.steps()[-1] == KILLED_AT

    at_update(-1, lambda: None)
    assert shop.train(f"training.resume={killed.path}").complete  # with nothing that was there
    assert reported(killed) == reported(expected)
    arrays = latest(expected)[0]
    for name, array in latest(killed)[0].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_a_run_that_dies_loses_only_what_follows_its_last_checkpoint(
    kept: Workshop, whole: Callable[[str], RunFolder], at_update: AtUpdate
) -> None:
    expected = whole("off")

    def die() -> None:
        raise MemoryError("as if the power had gone")

    at_update(9, die)
    with pytest.raises(MemoryError):
        kept.train("name=dead", "data.test=0")
    dead = RunFolder.open(kept.runs / "latest")
    assert dead.config.name == "dead"
    assert dead.checkpoints.steps() == [5]
    assert [line["step"] for line in reported(dead)][-1] == 8
    at_update(-1, die)
    kept.train(f"training.resume={dead.path}")
    assert reported(dead) == reported(expected)


def test_the_best_weights_are_those_of_the_best_score(whole: Callable[[str], RunFolder]) -> None:
    run = whole("off")
    scored = {line["step"]: line["dev/BLEU"] for line in reported(run) if "dev/BLEU" in line}
    assert list(scored) == [5, 10, 12]  # every fifth update, and the last
    metadata = latest(run)[1]
    assert metadata["step"] == 12
    best = max(scored.values())
    assert metadata["best_score"] == best
    assert metadata["best_step"] == next(step for step, s in scored.items() if s == best)


def test_early_stopping_ends_the_run(kept: Workshop) -> None:
    # With a rate of next to nothing no evaluation is better than the first.
    run = kept.train(
        "data.test=0",
        "training.learning_rate=1e-12",
        "training.evaluate_every=2",
        "training.early_stopping=3",
        "training.max_steps=100",
    )
    assert run.complete
    assert latest(run.folder)[1]["step"] == 8


def test_a_time_limit_ends_the_run(kept: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()  # every look at the clock is one later
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    monkeypatch.setattr("nmt.training.loop.time", clock)
    run = kept.train(
        "data.test=0",
        "training.max_steps=null",
        "training.max_minutes=0.5",
        "training.schedule=cosine",
        "training.evaluate_every=100000",
    ).folder
    rates = [line["train/learning_rate"] for line in reported(run) if "train/loss" in line]
    assert latest(run)[1]["seconds"] >= 30
    assert len(rates) >= 20
    # The schedule knew the limit: the rate is nearly spent when the time is.
    assert rates[-1] < 0.02 * max(rates)


def test_a_loss_that_is_not_finite_is_said_in_one_line(kept: Workshop) -> None:
    with pytest.raises(UserError, match=r"loss is not finite .* lower training\.learning_rate"):
        kept.train("data.test=0", "training.learning_rate=1e30")


def test_without_dev_and_test_a_run_trains_all_the_same(kept: Workshop) -> None:
    run = kept.train("data.dev=0", "data.test=0")
    assert run.best_score is None
    assert run.evaluation is None
    assert run.folder.load_model().count_params() > 0


def test_one_pair_is_enough(tmp_path: Path, quiet_console: Console) -> None:
    overrides = [
        *tiny_overrides(tmp_path, lines=1),
        "data.dev=0",
        "data.test=0",
        "training.max_steps=60",
        "training.learning_rate=1e-2",
        "training.batch_tokens=64",
        "model.dropout=0",
        "training.evaluate_every=1000",
    ]
    run = fit(overrides, console=quiet_console)
    source, target = (tmp_path / "corpus.tsv").read_text(encoding="utf-8").strip().split("\t")
    assert run.translator().translate([source]) == [target]
