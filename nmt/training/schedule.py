"""Learning rate, dropout rate and progress of a run as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.config import TrainingConfig

WARMUP_SHARE = 0.1  # of the run: upper limit of the warm-up


@dataclass(frozen=True)
class Limits:
    """The limits of a run, which ends at the first one it reaches."""

    steps: int | None  # updates
    epochs: float | None
    minutes: float | None  # wall clock

    @classmethod
    def from_config(cls, config: TrainingConfig) -> Limits:
        """Return the limits of a configuration."""
        return cls(config.max_steps, config.max_epochs, config.max_minutes)

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """Return the completed share of the run, 0 to 1.

        Args:
            step: number of updates so far.
            epochs: number of epochs so far, summed over the stages.
            seconds: wall-clock time so far, summed over the sessions of the run.
        """
        shares = [0.0]
        if self.steps is not None:
            shares.append(step / self.steps)
        if self.epochs is not None:
            shares.append(epochs / self.epochs)
        if self.minutes is not None:
            shares.append(seconds / (60 * self.minutes))
        return min(1.0, max(shares))


def learning_rate(config: TrainingConfig, step: int, progress: float) -> float:
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
        progress: completed share of the run, from `Limits.progress`.
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


def dropout_share(config: TrainingConfig, epochs: float) -> float:
    """Return the scale of the dropout rates after a number of epochs.

    The rates grow linearly over ``dropout_warmup_epochs`` (after Morerio et al. 2017, Curriculum
    Dropout): a model cannot overfit sentences that it has not seen before.
    """
    if not config.dropout_warmup_epochs:
        return 1.0
    return min(1.0, epochs / config.dropout_warmup_epochs)
