"""The next stage, rates, report, evaluation and end of a run, as functions of its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.config import TrainingConfig
from nmt.config.data import StageConfig
from nmt.errors import UserError
from nmt.training.trainer_state import TrainerState

WARMUP_SHARE = 0.1  # of the run: upper limit of the warm-up


@dataclass(frozen=True)
class TrainingSchedule:
    """Derives progress, rates, and the next stage, evaluation or end from a state.

    Attributes:
        training: limits, rates and intervals.
        stages: when each stage of the run ends; empty for a run of one stage.
        steps_per_epoch: updates in an epoch of each stage, one at least.
        compute_rate: returns the learning rate of an update, called with the number of updates
            before it; None: the configured schedule.
    """

    training: TrainingConfig
    stages: Sequence[StageConfig]
    steps_per_epoch: Sequence[int]
    compute_rate: Callable[[int], Any] | None = None

    def epochs(self, state: TrainerState, step: int) -> float:
        """Return the epochs made up to ``step``, an update of the current stage."""
        updates = step - state.stage_start_step
        return state.stage_start_epochs + updates / self.steps_per_epoch[state.stage]

    def progress(self, state: TrainerState) -> float:
        """Return the share of the run that is done, 0 to 1; it ends at the first limit."""
        return min(1.0, max([0.0, *self._limit_shares(state).values()]))

    def learning_rate(self, state: TrainerState) -> float:
        """Return the learning rate of the next update.

        Raises:
            UserError: `compute_rate` returns something else.
        """
        if self.compute_rate is not None:
            return _check_rate(self.compute_rate(state.step), state.step)
        return compute_learning_rate(self.training, state.step + 1, self.progress(state))

    def dropout_share(self, state: TrainerState, step: int) -> float:
        """Return the share of the full dropout rates of the update after ``step``."""
        return compute_dropout_share(self.training, self.epochs(state, step))

    def is_complete(self, state: TrainerState) -> bool:
        """Whether a limit is reached, or the run was stopped before."""
        in_last_stage = state.stage == len(self.steps_per_epoch) - 1
        stopped_early = in_last_stage and self._is_patience_exhausted(state)
        is_ended = stopped_early or state.behind or state.stopped
        return is_ended or self.progress(state) >= 1

    def explain_end(self, state: TrainerState) -> str:
        """Return what ended a complete run: a setting, or a callback."""
        if state.stopped:
            return "a callback"
        for name, share in self._limit_shares(state).items():
            if share >= 1:
                return f"training.{name}={getattr(self.training, name):.10g}"
        name = "stop_behind" if state.behind else "early_stopping"
        return f"training.{name}={getattr(self.training, name)}"

    def is_stage_over(self, state: TrainerState) -> bool:
        """Whether the next update belongs to the next stage.

        This depends on stored fields alone, so that a resumed run changes stages where an
        uninterrupted one does.
        """
        if state.stage == len(self.steps_per_epoch) - 1:
            return False
        stage = self.stages[state.stage]
        progress = self.progress(state) - state.stage_start_progress
        seconds = state.seconds - state.stage_start_seconds
        return (
            (stage.steps is not None and state.step - state.stage_start_step >= stage.steps)
            or (stage.share is not None and progress >= stage.share)
            or (stage.minutes is not None and seconds >= 60 * stage.minutes)
            or (stage.plateau is not None and state.since_best >= stage.plateau)
        )

    def enter_next_stage(self, state: TrainerState) -> None:
        """Change ``state`` to the start of the next stage."""
        state.stage_start_progress = self.progress(state)
        state.stage_start_epochs = self.epochs(state, state.step)
        state.stage += 1
        state.stage_start_step, state.stage_start_seconds = state.step, state.seconds
        state.since_best = 0

    def is_report_due(self, state: TrainerState) -> bool:
        """Whether training is reported after the last update."""
        return state.step % self.training.log_every == 0

    def is_evaluation_due(self, state: TrainerState) -> bool:
        """Whether the run is evaluated after the last update."""
        assert self.training.evaluate_every is not None, "the configuration is not resolved"
        return state.evaluation_cadence.is_due(state.step, self.training.evaluate_every)

    def is_attention_due(self, state: TrainerState) -> bool:
        """Whether attention is logged after the last update, apart from an evaluation."""
        due = state.attention_cadence.is_due(state.step, self.training.attention_every)
        return due and not self.is_complete(state)

    def _limit_shares(self, state: TrainerState) -> dict[str, float]:
        """Return what share of each limit is reached, by the limit's key."""
        reached = {
            "max_steps": state.step,
            "max_epochs": self.epochs(state, state.step),
            "max_minutes": state.seconds / 60,
        }
        limits = {name: getattr(self.training, name) for name in reached}
        return {name: reached[name] / limit for name, limit in limits.items() if limit is not None}

    def _is_patience_exhausted(self, state: TrainerState) -> bool:
        patience = self.training.early_stopping
        return patience is not None and state.since_best >= patience


def _check_rate(value: Any, step: int) -> float:
    """Return the rate that a schedule of the user gives after ``step`` updates."""
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise UserError(
            f"the schedule returns {value!r} after {step} updates: it must return a learning rate, "
            "a finite number of at least 0"
        )
    return rate


def compute_learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
    """Return the learning rate of an update.

    The rate rises linearly over ``warmup_steps``, or over a tenth of the run if that is shorter.
    Then it depends on the schedule:

    - inverse_sqrt: falls with 1 / sqrt(step / warm-up) (Vaswani et al. 2017, equation 3, with a
      configured peak rate);
    - cosine: falls to 0 along half a cosine over the run (Loshchilov & Hutter 2017), which adapts
      to a limit in minutes;
    - constant.

    Args:
        config: peak rate, schedule and warm-up.
        step: number of the update, from 1.
        progress: completed share of the run.
    """
    # Completed warm-ups: 0.5 in the middle of it, more than 1 after it.
    warmups = max(step / max(1, config.warmup_steps), progress / WARMUP_SHARE)
    ramp = min(1.0, warmups)
    if config.schedule == "inverse_sqrt":
        factor = min(ramp, 1 / math.sqrt(warmups))
    elif config.schedule == "cosine":
        factor = ramp * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    else:
        factor = ramp
    assert config.learning_rate is not None, "the configuration is not resolved"
    return config.learning_rate * factor


def compute_dropout_share(config: TrainingConfig, epochs: float) -> float:
    """Return the scale of the dropout rates after a number of epochs.

    The rates grow linearly over ``dropout_warmup_epochs`` (after Morerio et al. 2017, Curriculum
    Dropout): a model cannot overfit sentences that it has not seen before.
    """
    if not config.dropout_warmup_epochs:
        return 1.0
    return min(1.0, epochs / config.dropout_warmup_epochs)
