"""What comes next is a function of the state; rates and progress are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nmt.config import TrainingConfig
from nmt.config.data import StageConfig
from nmt.training.cadence import Cadence
from nmt.training.schedule import (
    TrainingSchedule,
    compute_dropout_share,
    compute_learning_rate,
)
from nmt.training.trainer_state import TrainerState

PEAK = 2e-3


def rate(schedule: str, warmup: int, step: int, progress: float) -> float:
    config = TrainingConfig(learning_rate=PEAK, schedule=schedule, warmup_steps=warmup)
    return compute_learning_rate(config, step, progress)


# In units of the peak, with 100 steps of warm-up in a run of 10,000 (so that a tenth of the run
# is longer, and the warm-up is not cut).
WARMUP = [(1, 0.01), (25, 0.25), (50, 0.5), (100, 1.0)]


@pytest.mark.parametrize(
    ("step", "factor"),
    [
        *WARMUP,
        (101, 0.9950372),  # sqrt(100 / 101)
        (400, 0.5),  # four times the steps, half the rate
        (900, 1 / 3),
        (2500, 0.2),
        (10000, 0.1),
    ],
)
def test_inverse_sqrt(step: int, factor: float) -> None:
    value = rate("inverse_sqrt", 100, step, step / 10_000)
    assert value == pytest.approx(PEAK * factor, rel=1e-6)


@pytest.mark.parametrize("step", [1, 7, 100, 101, 5000])
def test_inverse_sqrt_is_the_formula_of_the_paper(step: int) -> None:
    """Vaswani et al. 2017, equation 3: d^-0.5 min(step^-0.5, step warmup^-1.5); peak at warmup."""
    width, warmup = 512, 100
    noam = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
    peak = width**-0.5 * warmup**-0.5
    config = TrainingConfig(learning_rate=peak, schedule="inverse_sqrt", warmup_steps=warmup)
    assert compute_learning_rate(config, step, step / 1e6) == pytest.approx(noam, rel=1e-9)


@pytest.mark.parametrize(
    ("step", "factor"),
    [
        # Half a cosine over the whole run: (1 + cos(pi progress)) / 2, times the warm-up.
        (1, 0.01 * 0.99999998),
        (50, 0.5 * 0.99993832),
        (100, 0.99975328),  # progress 0.01
        (2500, 0.85355339),  # (1 + sqrt(1/2)) / 2
        (3333 + 1 / 3, 0.75),  # cos 60°
        (5000, 0.5),
        (6666 + 2 / 3, 0.25),
        (7500, 0.14644661),
        (10000, 0.0),
    ],
)
def test_cosine(step: float, factor: float) -> None:
    value = rate("cosine", 100, step, step / 10_000)
    assert value == pytest.approx(PEAK * factor, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(("step", "factor"), [*WARMUP, (101, 1.0), (10_000, 1.0)])
def test_constant(step: int, factor: float) -> None:
    assert rate("constant", 100, step, step / 10_000) == pytest.approx(PEAK * factor)


@pytest.mark.parametrize(
    ("step", "progress", "factor"),
    [
        (1, 0.001, 0.01),  # 4,000 steps of warm-up in a run of 1,000: over after 100
        (50, 0.05, 0.5),
        (100, 0.1, 1.0),
        (1000, 1.0, 1.0),
        (2, 0.02, 0.2),  # 4,000 steps in a run with a limit in minutes, 2% of them spent
        (400, 0.0, 0.1),  # an early step of a long run: the steps count
    ],
)
def test_warmup_takes_a_tenth_of_the_run_at_most(step: int, progress: float, factor: float) -> None:
    assert rate("constant", 4000, step, progress) == pytest.approx(PEAK * factor)
    assert rate("inverse_sqrt", 4000, step, progress) <= PEAK * factor * (1 + 1e-12)


@pytest.mark.parametrize(("progress", "factor"), [(0.1, 1.0), (0.4, 0.5), (0.9, 1 / 3)])
def test_inverse_sqrt_falls_after_a_warmup_that_was_cut(progress: float, factor: float) -> None:
    """4,000 steps of warm-up in a run of 1,000: as if 100 had been asked for."""
    value = rate("inverse_sqrt", 4000, round(1000 * progress), progress)
    assert value == pytest.approx(PEAK * factor)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_no_warmup_begins_at_the_peak(schedule: str) -> None:
    assert rate(schedule, 0, 1, 0.0) == pytest.approx(PEAK)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "constant"])
def test_rates_are_never_negative_nor_above_the_peak(schedule: str) -> None:
    rates = [rate(schedule, 100, step, step / 1000) for step in range(1, 1001)]
    assert min(rates) >= 0
    assert max(rates) <= PEAK
    if schedule != "constant":
        assert rates[100:] == sorted(rates[100:], reverse=True)


@pytest.mark.parametrize(
    ("limits", "step", "seconds", "share"),
    [
        ((100, None, None), 25, 1e9, 0.25),
        ((None, 2.0, None), 5, 0.0, 0.25),  # 5 of 2 x 10 steps
        ((None, 0.5, None), 4, 0.0, 0.8),
        ((None, None, 2.0), 10**9, 30.0, 0.25),  # 30 of 120 seconds
        # Whichever comes first: 0.1, 0.5 (10 of 20 steps), 0.25.
        ((100, 2.0, 2.0), 10, 30.0, 0.5),
        ((100, 2.0, 2.0), 1, 90.0, 0.75),
        ((12, 2.0, 2.0), 9, 0.0, 0.75),
        ((100, None, None), 0, 0.0, 0.0),
        ((100, None, None), 100, 0.0, 1.0),
        ((100, None, None), 101, 0.0, 1.0),
        ((None, None, 1.0), 0, 1e6, 1.0),
    ],
)
def test_progress(
    limits: tuple[int | None, float | None, float | None], step: int, seconds: float, share: float
) -> None:
    steps, epochs, minutes = limits
    config = TrainingConfig(max_steps=steps, max_epochs=epochs, max_minutes=minutes)
    progress = TrainingSchedule(config, [], [10]).progress(TrainerState(step, seconds))
    assert progress == pytest.approx(share)


@pytest.mark.parametrize(
    ("warmup", "epochs", "share"),
    [(0, 0, 1), (0, 3, 1), (4, 0, 0), (4, 1, 0.25), (4, 3.5, 0.875), (4, 4, 1), (4, 9, 1)],
)
def test_dropout_grows_over_its_epochs(warmup: float, epochs: float, share: float) -> None:
    config = TrainingConfig(dropout_warmup_epochs=warmup)
    assert compute_dropout_share(config, epochs) == pytest.approx(share)


def test_the_rates_of_the_next_update_follow_the_state() -> None:
    config = TrainingConfig(
        learning_rate=PEAK,
        schedule="cosine",
        warmup_steps=4,
        max_steps=100,
        max_epochs=None,
        max_minutes=None,
        dropout_warmup_epochs=4,
    )
    schedule = TrainingSchedule(config, [], [10])
    assert schedule.learning_rate(TrainerState()) == pytest.approx(PEAK / 4)
    assert schedule.learning_rate(TrainerState(step=50)) == pytest.approx(PEAK / 2)
    assert schedule.dropout_share(TrainerState(step=10), 20) == pytest.approx(0.5)


def test_a_schedule_of_the_user_is_called_with_the_updates_before() -> None:
    schedule = TrainingSchedule(TrainingConfig(), [], [10], lambda step: step / 10)
    assert schedule.learning_rate(TrainerState()) == 0
    assert schedule.learning_rate(TrainerState(step=5)) == 0.5


@pytest.fixture(scope="module")
def training() -> TrainingConfig:
    from nmt.runs.resuming import compose_config

    return replace(compose_config([]).training, max_minutes=None, max_steps=100, early_stopping=3)


@pytest.mark.parametrize(
    ("state", "complete"),
    [
        (TrainerState(step=99), False),
        (TrainerState(step=100), True),
        (TrainerState(since_best=2), False),
        (TrainerState(since_best=3), True),
        (TrainerState(behind=True), True),
    ],
)
def test_a_run_is_complete_at_a_limit(
    training: TrainingConfig, state: TrainerState, complete: bool
) -> None:
    assert TrainingSchedule(training, [], [10]).is_complete(state) == complete


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TrainerState(step=100), "training.max_steps=100"),
        (TrainerState(step=100, since_best=3), "training.max_steps=100"),
        (TrainerState(seconds=90.0), "training.max_minutes=1.5"),
        (TrainerState(step=25), "training.max_epochs=2.5"),
        (TrainerState(since_best=3), "training.early_stopping=3"),
        (TrainerState(behind=True), "training.stop_behind=0.5"),
        (TrainerState(stopped=True), "a callback"),
    ],
)
def test_what_ended_a_run_is_said(
    training: TrainingConfig, state: TrainerState, reason: str
) -> None:
    limits = {"max_minutes": 1.5, "stop_behind": 0.5}
    limits |= {"max_epochs": 2.5} if state.step == 25 else {}
    schedule = TrainingSchedule(replace(training, **limits), [], [10])
    assert schedule.is_complete(state)
    assert schedule.explain_end(state) == reason


@pytest.mark.parametrize(
    ("stage", "before", "after"),
    [
        (StageConfig(steps=20), {"step": 19}, {"step": 20}),
        (StageConfig(share=0.3), {"step": 29}, {"step": 30}),
        (StageConfig(minutes=2), {"seconds": 119.0}, {"seconds": 120.0}),
        (StageConfig(plateau=1), {"since_best": 0}, {"since_best": 1}),
    ],
)
def test_a_stage_ends_at_each_of_its_limits(
    training: TrainingConfig, stage: StageConfig, before: dict[str, float], after: dict[str, float]
) -> None:
    schedule = TrainingSchedule(training, [stage, StageConfig()], [10, 5])
    assert not schedule.is_stage_over(TrainerState(**before))  # type: ignore[arg-type]
    state = TrainerState(**after)  # type: ignore[arg-type]
    assert schedule.is_stage_over(state)
    assert not schedule.is_complete(state)  # early stopping ends a run in its last stage only
    schedule.enter_next_stage(state)
    assert not schedule.is_stage_over(state)
    assert (state.stage, state.since_best) == (1, 0)
    assert (state.stage_start_step, state.stage_start_seconds) == (
        state.step,
        state.seconds,
    )


@pytest.mark.parametrize(
    ("stage", "before", "after"),
    [
        (StageConfig(steps=20), {"step": 49}, {"step": 50}),
        (StageConfig(share=0.3), {"step": 59}, {"step": 60}),
        (StageConfig(minutes=2), {"seconds": 219.0}, {"seconds": 220.0}),
    ],
)
def test_limits_of_a_second_stage_count_from_its_start(
    training: TrainingConfig, stage: StageConfig, before: dict[str, float], after: dict[str, float]
) -> None:
    """It starts after 30 of 100 updates and 100 seconds."""
    stages = [StageConfig(steps=30), stage, StageConfig()]
    schedule = TrainingSchedule(training, stages, [10, 10, 10])
    state = TrainerState(step=30, seconds=100.0)
    assert schedule.is_stage_over(state)
    schedule.enter_next_stage(state)
    assert not schedule.is_stage_over(replace(state, **before))  # type: ignore[arg-type]
    assert schedule.is_stage_over(replace(state, **after))  # type: ignore[arg-type]


def test_early_stopping_ends_the_last_stage_only(training: TrainingConfig) -> None:
    """A stage before it ends at its own limits; ``plateau`` is the one for dev scores."""
    schedule = TrainingSchedule(training, [StageConfig(steps=20), StageConfig()], [10, 5])
    state = TrainerState(step=19, since_best=training.early_stopping or 0)
    assert not schedule.is_stage_over(state)
    assert not schedule.is_complete(state)
    state.step = 20
    assert schedule.is_stage_over(state)
    schedule.enter_next_stage(state)
    assert not schedule.is_complete(state)
    state.since_best = training.early_stopping or 0
    assert schedule.is_complete(state)


def test_epochs_are_counted_stage_by_stage(training: TrainingConfig) -> None:
    schedule = TrainingSchedule(training, [StageConfig(steps=20), StageConfig()], [10, 5])
    state = TrainerState(step=20)
    assert schedule.epochs(state, 20) == 2.0
    schedule.enter_next_stage(state)
    assert schedule.epochs(state, 20) == 2.0
    assert schedule.epochs(state, 30) == 4.0


def test_reports_evaluations_and_attention_are_due_at_their_intervals(
    training: TrainingConfig,
) -> None:
    config = replace(training, log_every=5, evaluate_every=10, attention_every=3)
    schedule = TrainingSchedule(config, [], [10])
    states = [TrainerState(step=step) for step in range(1, 13)]
    assert [p.step for p in states if schedule.is_report_due(p)] == [5, 10]
    assert [p.step for p in states if schedule.is_evaluation_due(p)] == [10]
    assert [p.step for p in states if schedule.is_attention_due(p)] == [3, 6, 9, 12]
    assert not schedule.is_attention_due(TrainerState(step=12, attention_cadence=Cadence(6, 15)))
    assert not schedule.is_attention_due(TrainerState(step=12, behind=True))
