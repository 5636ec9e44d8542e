"""The intervals of evaluations and attention logs, at a bounded share of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Shares of ``training.evaluation_share``. Evaluations get most, because they find the best weights.
EVALUATION_PART = 0.8
ATTENTION_PART = 0.2


@dataclass
class Cadence:
    """The schedule of one kind of interruption.

    It counts updates and is stored in checkpoints, so that a resumed run is interrupted at the same
    updates as a run without a stop.
    """

    interval: int = 0  # updates between two interruptions; 0: as configured
    following: int = 0  # earliest update of the next interruption

    def is_due(self, step: int, every: int) -> bool:
        """Whether an interruption is due after update ``step``, at multiples of ``every``."""
        return step % every == 0 and step >= self.following

    def schedule(self, step: int) -> None:
        """Schedule the next interruption after the one at update ``step``."""
        self.following = step + self.interval

    def adapt(self, every: int, share: float, cost: float, update_seconds: float) -> None:
        """Set the shortest interval in which interruptions take at most a share of the time.

        Args:
            every: the interval is a multiple of this.
            share: upper limit of the share, within (0, 1).
            cost: seconds of one interruption.
            update_seconds: seconds of one update.
        """
        updates = cost * (1 - share) / share / max(update_seconds, 1e-9)
        self.interval = every * max(1, math.ceil(updates / every))
