"""A state is stored whole, and keeps the best score."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from nmt.errors import UserError
from nmt.training.cadence import Cadence
from nmt.training.trainer_state import TrainerState


def test_a_checkpoint_gives_back_the_state() -> None:
    state = TrainerState(step=7, norms=[1.0, 2.0], attention_cadence=Cadence(4, 8), behind=True)
    assert state.stored()["attention"] == {"interval": 4, "following": 8, "every": 0}
    assert list(state.stored())[-2:] == ["evaluation", "attention"]  # as released versions store
    restored = TrainerState(step=99, best_score=3.0)
    restored.load(state.stored())
    assert restored == state
    restored.load({"step": 3})  # an older checkpoint has fewer fields
    assert restored == TrainerState(step=3, evaluated_step=3)  # whose update counts as evaluated


def test_a_checkpoint_gives_back_every_field() -> None:
    values: dict[str, Callable[[int], Any]] = {
        "int": lambda number: number,
        "float": lambda number: number + 0.5,
        "float | None": lambda number: number + 0.25,
        "bool": lambda number: True,
        "list[float]": lambda number: [number + 0.125, float(number)],
        "Cadence": lambda number: Cadence(number, number + 100, number + 200),
    }
    fields = enumerate(dataclasses.fields(TrainerState), start=1)
    state = TrainerState(**{field.name: values[str(field.type)](n) for n, field in fields})
    default = TrainerState()
    assert not [name for name, value in vars(state).items() if value == getattr(default, name)]
    restored = TrainerState()
    restored.load(json.loads(json.dumps(state.stored())))
    assert restored == dataclasses.replace(state, stopped=False)  # so that it can be resumed


@pytest.mark.parametrize("metadata", [{"step": 3, "new": 1}, {"evaluation": {"new": 1}}])
def test_a_field_of_a_newer_version_is_named(metadata: dict[str, object]) -> None:
    state = TrainerState(step=7)
    with pytest.raises(UserError, match=r"was written by a newer version, which knows new: "):
        state.load(metadata)
    assert state == TrainerState(step=7)


def test_the_best_score_is_the_first_of_the_highest() -> None:
    state = TrainerState()
    bests = []
    for step, score in enumerate([10.0, 10.0, 9.0, 12.0, None], start=1):
        state.step = step
        bests.append(state.record_score(score))
    assert bests == [True, False, False, True, False]
    assert (state.best_score, state.best_step, state.evaluations) == (12.0, 4, 5)
    assert state.since_best == 0


@pytest.mark.parametrize(
    ("score", "loss", "is_best"),
    [
        (19.5, 1.4, True),
        (19.2, 1.4, False),  # more than chance explains
        (19.5, 1.5, False),
        (20.0, 1.5, False),
        (20.1, 1.6, True),
        (19.5, None, False),
        (20.1, None, True),
        (None, 1.4, False),
    ],
)
def test_of_scores_that_differ_by_chance_the_lower_loss_is_the_best(
    score: float | None, loss: float | None, is_best: bool
) -> None:
    state = TrainerState(step=1)
    assert state.record_score(20.0, 1.5, margin=0.8)
    state.step = 2
    assert state.record_score(score, loss, margin=0.8) == is_best
    best = (score, loss, 2) if is_best else (20.0, 1.5, 1)
    assert (state.best_score, state.best_loss, state.best_step) == best


def test_the_score_alone_decides_if_the_loss_of_the_best_is_unknown() -> None:
    state = TrainerState()
    state.load({"step": 1, "best_score": 20.0})  # of an older version
    assert not state.record_score(19.5, 1.4, margin=0.8)
    assert state.record_score(20.1, 1.5, margin=0.8)
    assert state.best_loss == 1.5


def test_without_scores_the_last_weights_are_the_best() -> None:
    state = TrainerState()
    for step in (5, 9):
        state.step = step
        assert state.record_score(None)
        assert (state.best_score, state.best_step, state.since_best) == (None, step, 0)
    assert state.record_score(3.0)
    assert not state.record_score(None)
    assert state.best_score == 3.0
