"""The learning rate and the progress of a run, as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.config import TrainingConfig

WARMUP_SHARE = 0.1  # of the run: the longest that warm-up may take


@dataclass(frozen=True)
class Limits:
    """Where a run ends: at whichever of these comes first."""

    steps: int | None  # updates
    epochs: float | None
    minutes: float | None  # wall clock

    @classmethod
    def from_config(cls, config: TrainingConfig) -> Limits:
        """Take the limits out of a configuration."""
        return cls(config.max_steps, config.max_epochs, config.max_minutes)

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """Return the share of the run that is behind, 0 to 1.

        Args:
            step: updates made.
            epochs: made of the corpus, stage by stage.
            seconds: wall-clock time spent, all sessions of the run together.
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
    """Return the rate of the 1-based update ``step``.

    Warm-up is linear over `warmup_steps`, or over a tenth of the run where that is shorter. Then:

    - inverse_sqrt: falls with 1 / sqrt(step / warm-up) (Vaswani et al. 2017, equation 3, with the
      peak rate given instead of derived from the model width);
    - cosine: falls to 0 along half a cosine over the whole run (Loshchilov & Hutter 2017), which
      adapts to a limit in minutes;
    - constant.

    Args:
        config: peak rate, schedule, warm-up.
        step: updates, counted from 1.
        progress: share of the run behind, from `Limits.progress`.
    """
    warmups = max(step / max(1, config.warmup_steps), progress / WARMUP_SHARE)  # how many behind
    ramp = min(1.0, warmups)
    if config.schedule == "inverse_sqrt":
        factor = min(ramp, 1 / math.sqrt(warmups))
    elif config.schedule == "cosine":
        factor = ramp * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    else:
        factor = ramp
    assert config.learning_rate is not None, "the configuration is not finished"
    return config.learning_rate * factor


def dropout_share(config: TrainingConfig, epochs: float) -> float:
    """Return the share of the full dropout rates that holds after so many epochs.

    Sentences that are new cannot be learned by heart: dropout only costs while they are. The rates
    grow linearly over `dropout_warmup_epochs` (after Morerio et al. 2017, Curriculum Dropout).
    """
    if not config.dropout_warmup_epochs:
        return 1.0
    return min(1.0, epochs / config.dropout_warmup_epochs)
