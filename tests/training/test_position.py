"""What comes next is a function of the position alone."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from nmt.config.data import StageConfig
from nmt.config.training import TrainingConfig
from nmt.training.cadence import Cadence
from nmt.training.position import Position, TrainingSchedule


@pytest.fixture(scope="module")
def training() -> TrainingConfig:
    from nmt.runs.resuming import compose_config

    return replace(compose_config([]).training, max_minutes=None, max_steps=100, early_stopping=3)


def test_a_checkpoint_gives_back_the_position() -> None:
    position = Position(step=7, norms=[1.0, 2.0], attention=Cadence(4, 8), behind=True)
    restored = Position(step=99, best_score=3.0)
    restored.load(asdict(position))
    assert restored == position
    restored.load({"step": 3})  # an older checkpoint has fewer fields
    assert restored == Position(step=3)


def test_the_best_score_is_the_first_of_the_highest() -> None:
    position = Position()
    bests = []
    for step, score in enumerate([10.0, 10.0, 9.0, 12.0, None], start=1):
        position.step = step
        bests.append(position.record_score(score))
    assert bests == [True, False, False, True, False]
    assert (position.best_score, position.best_step, position.evaluations) == (12.0, 4, 5)
    assert position.since_best == 0


@pytest.mark.parametrize(
    ("position", "complete"),
    [
        (Position(step=99), False),
        (Position(step=100), True),
        (Position(since_best=2), False),
        (Position(since_best=3), True),
        (Position(behind=True), True),
    ],
)
def test_a_run_is_complete_at_a_limit(
    training: TrainingConfig, position: Position, complete: bool
) -> None:
    assert TrainingSchedule(training, [], [10]).is_complete(position) == complete


@pytest.mark.parametrize(
    ("stage", "before", "after"),
    [
        (StageConfig(steps=20), {"step": 19}, {"step": 20}),
        (StageConfig(share=0.3), {"step": 29}, {"step": 30}),
        (StageConfig(minutes=2), {"seconds": 119.0}, {"seconds": 120.0}),
        (StageConfig(plateau=1), {"since_best": 0}, {"since_best": 1}),
        (StageConfig(), {"since_best": 2}, {"since_best": 3}),  # early stopping
    ],
)
def test_a_stage_ends_at_each_of_its_limits(
    training: TrainingConfig, stage: StageConfig, before: dict[str, float], after: dict[str, float]
) -> None:
    schedule = TrainingSchedule(training, [stage, StageConfig()], [10, 5])
    assert not schedule.is_stage_over(Position(**before))  # type: ignore[arg-type]
    position = Position(**after)  # type: ignore[arg-type]
    assert schedule.is_stage_over(position)
    assert not schedule.is_complete(position)  # early stopping ends a run in its last stage only
    schedule.enter_next_stage(position)
    assert not schedule.is_stage_over(position)
    assert (position.stage, position.since_best) == (1, 0)
    assert (position.stage_step, position.stage_seconds) == (position.step, position.seconds)


def test_epochs_are_counted_stage_by_stage(training: TrainingConfig) -> None:
    schedule = TrainingSchedule(training, [StageConfig(steps=20), StageConfig()], [10, 5])
    position = Position(step=20)
    assert schedule.epochs(position, 20) == 2.0
    schedule.enter_next_stage(position)
    assert schedule.epochs(position, 20) == 2.0
    assert schedule.epochs(position, 30) == 4.0


def test_reports_evaluations_and_attention_are_due_at_their_intervals(
    training: TrainingConfig,
) -> None:
    config = replace(training, log_every=5, evaluate_every=10, attention_every=3)
    schedule = TrainingSchedule(config, [], [10])
    positions = [Position(step=step) for step in range(1, 13)]
    assert [p.step for p in positions if schedule.is_report_due(p)] == [5, 10]
    assert [p.step for p in positions if schedule.is_evaluation_due(p)] == [10]
    assert [p.step for p in positions if schedule.is_attention_due(p)] == [3, 6, 9, 12]
    assert not schedule.is_attention_due(Position(step=12, attention=Cadence(6, 15)))
    assert not schedule.is_attention_due(Position(step=12, behind=True))
