"""The intervals of evaluations and attention logs, at a bounded share of the time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# Shares of ``training.evaluation_share``. Evaluations get most, because they find the best weights.
EVALUATION_PART = 0.8
ATTENTION_PART = 0.2


@dataclass
class Cadence:
    """The schedule of evaluations, or of attention logs, in updates.

    It is stored in checkpoints, so that a resumed run evaluates at the same updates as one that
    never stopped.
    """

    interval: int = 0  # updates between two evaluations; 0: as configured
    following: int = 0  # earliest update of the next evaluation
    every: int = 0  # as configured when it was set; 0: not set, or by an older version

    def is_due(self, step: int, every: int) -> bool:
        """Whether an evaluation is due after update ``step``, at multiples of ``every``."""
        return step % every == 0 and step >= self.following

    def schedule(self, step: int) -> None:
        """Schedule the next evaluation after the one at update ``step``."""
        self.following = step + self.interval

    def reset(self) -> None:
        """Evaluate as configured from now on."""
        self.interval = self.following = self.every = 0

    def adapt(self, every: int, share: float, cost: float, update_seconds: float) -> None:
        """Set the shortest interval in which evaluations take at most a share of the time.

        Args:
            every: the interval is a multiple of this.
            share: upper limit of the share, within (0, 1).
            cost: seconds of one evaluation.
            update_seconds: seconds of one update.
        """
        updates = cost * (1 - share) / share / max(update_seconds, 1e-9)
        self.interval = every * max(1, math.ceil(updates / every))


class CostMeter:
    """Measures the seconds of evaluations, or of attention logs, and adapts their cadence.

    The first evaluation of a session compiles functions, and changes no interval; its time from
    `schedule` to `end` is the estimate for the second one.

    Args:
        advance_clock: advances the run's clock, the same in all processes; returns its seconds.
        every: intervals are multiples of this number of updates.
        share: upper limit of the share of the time; None: no limit.
    """

    def __init__(
        self, advance_clock: Callable[[], float], *, every: int, share: float | None
    ) -> None:
        self._advance_clock = advance_clock
        self._every = every
        self._share = share
        self._begin_seconds = self._schedule_seconds = self._update_seconds = 0.0
        self._seconds_after_schedule: float | None = None  # of the last evaluation

    def restart(self, step: int, seconds: float) -> None:
        """Measure the mean time of an update from this update and second on."""
        self._first_step, self._first_seconds = step, seconds

    def begin(self, step: int) -> None:
        """Start to measure the evaluation after update ``step``."""
        self._begin_seconds = self._advance_clock()
        updates = step - self._first_step
        elapsed = self._begin_seconds - self._first_seconds
        self._update_seconds = elapsed / updates if updates else 0.0

    def schedule(self, step: int, cadence: Cadence) -> None:
        """Choose when the next evaluation is due, before the state is saved.

        The time from here to `end` is estimated from the last evaluation.
        """
        self._schedule_seconds = self._advance_clock()
        rest = self._seconds_after_schedule
        if self._share is not None and rest is not None and self._update_seconds > 0:
            seconds = self._schedule_seconds - self._begin_seconds + rest
            cadence.adapt(self._every, self._share, seconds, self._update_seconds)
        cadence.schedule(step)
        cadence.every = self._every

    def end(self) -> None:
        """Stop measuring."""
        self._seconds_after_schedule = self._advance_clock() - self._schedule_seconds
