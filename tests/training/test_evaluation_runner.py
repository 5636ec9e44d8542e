"""Intervals of evaluations, and what a resumed run keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.data.splitting import Pair
from nmt.inference.metrics import Score
from nmt.training import evaluation_runner
from nmt.training.cadence import Cadence
from nmt.training.evaluation_runner import EvaluationRunner, _describe
from nmt.training.journal import DevEvaluation, Journal
from nmt.training.process_group import ProcessGroup
from nmt.training.saver import Saver
from nmt.training.schedule import TrainingSchedule
from nmt.training.trainer_state import TrainerState

BLEU = Score("BLEU", 20.0, "")


def make_session(state: TrainerState, **training: Any) -> Any:
    settings = {"evaluation_share": None, "evaluate_every": 1000, "attention_every": 250}
    return SimpleNamespace(state=state, training=SimpleNamespace(**(settings | training)))


@pytest.mark.parametrize(("share", "kept"), [(None, False), (0.1, True)])
def test_without_a_share_a_resumed_run_is_evaluated_as_configured(
    share: float | None, kept: bool
) -> None:
    cadence = Cadence(interval=3000, following=6000)
    state = TrainerState(step=3480, evaluation_cadence=cadence, attention_cadence=cadence)
    others: Any = dict.fromkeys(("schedule", "guard", "evaluator", "saver", "journal"))
    coordinator: Any = SimpleNamespace(advance_shared_clock=lambda: 0.0)
    EvaluationRunner(make_session(state, evaluation_share=share), coordinator=coordinator, **others)
    assert state.evaluation_cadence == (cadence if kept else Cadence())
    assert state.attention_cadence == (cadence if kept else Cadence())


@pytest.mark.parametrize(
    ("nll", "scores", "line"),
    [
        (1.5, [BLEU], "dev loss 1.500, BLEU 20.00"),
        (None, [BLEU], "no dev pair fits into a row, BLEU 20.00"),
        (None, [], "saved, no dev split"),
    ],
)
def test_an_evaluation_is_one_line(nll: float | None, scores: list[Score], line: str) -> None:
    assert _describe(DevEvaluation(nll, scores, [], [], [], draw=False)) == line


@pytest.mark.parametrize(("every", "kept"), [(0, True), (1000, True), (500, False)])
def test_a_run_resumed_with_another_interval_is_evaluated_in_that_one(
    every: int, kept: bool
) -> None:
    state = TrainerState(step=3480, evaluation_cadence=Cadence(3000, 6000, every))
    others: Any = dict.fromkeys(("schedule", "guard", "evaluator", "saver", "journal"))
    coordinator: Any = SimpleNamespace(advance_shared_clock=lambda: 0.0)
    EvaluationRunner(make_session(state, evaluation_share=0.1), coordinator=coordinator, **others)
    assert state.evaluation_cadence.is_due(4000, 1000) != kept


@pytest.mark.parametrize(("stop_behind", "behind"), [(0.5, True), (None, False)])
def test_a_run_that_fell_behind_continues_without_that_limit(
    tmp_path: Path, stop_behind: float | None, behind: bool
) -> None:
    state = TrainerState()
    session = make_session(state, stop_behind=stop_behind)
    stored = TrainerState(step=7, behind=True).stored()
    session.folder = SimpleNamespace(
        path=tmp_path,
        checkpoints=SimpleNamespace(load_latest=lambda log: ({"w": np.zeros(1)}, stored)),
    )
    session.console = SimpleNamespace(print=lambda line: None)
    session.train_step = SimpleNamespace(restore=lambda arrays: None)
    assert Saver(session).resume()
    assert (state.step, state.behind) == (7, behind)


def make_evaluation(bleu: float, loss: float, sentences: int = 1) -> DevEvaluation:
    outputs = [(Pair("a", "b"), "b")] * sentences
    return DevEvaluation(loss, [Score("BLEU", bleu, "")], outputs, [], [], draw=False)


def make_runner(
    state: TrainerState, folder: Path, *results: DevEvaluation, **training: Any
) -> tuple[EvaluationRunner, list[str]]:
    """Return a runner, and a list to which it adds what happens."""
    events: list[str] = []
    evaluations = list(results) or [make_evaluation(20.0, 1.5)]

    @contextmanager
    def use_averages() -> Iterator[None]:
        events.append("use averages")
        yield
        events.append("use current weights")

    def evaluate() -> DevEvaluation:
        events.append("evaluate")
        return evaluations.pop(0)

    def read_attention() -> list[Any]:
        events.append("read attention")
        return []

    session = make_session(state, **training)
    session.console = SimpleNamespace(print=lambda line: None)
    session.train_step = SimpleNamespace(use_averages=use_averages)
    session.process_group, session.folder, session.callbacks = ProcessGroup(), folder, []
    others: dict[str, Any] = {
        "coordinator": SimpleNamespace(advance_shared_clock=lambda: 0.0),
        "guard": SimpleNamespace(count_skipped=lambda: None),
        "evaluator": SimpleNamespace(
            evaluate=evaluate, read_attention=read_attention, references={}
        ),
        "saver": SimpleNamespace(
            save=lambda: events.append("save"), save_best=lambda: events.append("save best")
        ),
    }
    schedule = TrainingSchedule(session.training, [], [10])
    return EvaluationRunner(session, schedule=schedule, journal=Journal(), **others), events


LIMITS = {"max_steps": 10, "max_epochs": None, "max_minutes": None, "early_stopping": None}


@pytest.mark.parametrize(("step", "behind"), [(9, True), (10, False)])
def test_a_run_that_is_behind_at_its_own_limit_ends_as_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, behind: bool
) -> None:
    monkeypatch.setattr(evaluation_runner, "is_behind", lambda folder, share: True)
    state = TrainerState(step=step)
    runner, _ = make_runner(state, tmp_path, stop_behind=0.5, **LIMITS)
    runner.evaluate()
    assert state.behind == behind


def test_averaged_weights_are_evaluated_and_current_weights_saved(tmp_path: Path) -> None:
    runner, events = make_runner(TrainerState(step=9), tmp_path, stop_behind=None, **LIMITS)
    runner.evaluate()
    averaged = ["use averages", "evaluate", "use current weights"]
    assert events == [*averaged, "save", "save best"]


@pytest.mark.parametrize(("sentences", "is_best"), [(300, True), (2000, False)])
def test_chance_decides_less_with_more_dev_sentences(
    tmp_path: Path, sentences: int, is_best: bool
) -> None:
    results = make_evaluation(20.0, 1.5, sentences), make_evaluation(19.2, 1.4, sentences)
    state = TrainerState(step=1)
    runner, events = make_runner(state, tmp_path, *results, stop_behind=None, **LIMITS)
    runner.evaluate()
    state.step = 2
    runner.evaluate()
    assert events.count("save best") == 1 + is_best
    assert state.best_step == 1 + is_best


def test_attention_is_that_of_averaged_weights(tmp_path: Path) -> None:
    runner, events = make_runner(TrainerState(step=9), tmp_path, **LIMITS)
    runner.log_attention()
    assert events == ["use averages", "read attention", "use current weights"]
