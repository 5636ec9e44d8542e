"""How often training is interrupted to evaluate and to log attention, at a bounded cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Parts of ``training.evaluation_share``. Evaluations choose the best weights, so they get most.
EVALUATION_PART = 0.8
ATTENTION_PART = 0.2


@dataclass
class Cadence:
    """When the next interruption of one kind is due.

    It is chosen in updates and kept in the checkpoint, so that a resumed run is interrupted where
    the same run without a stop is.
    """

    interval: int = 0  # updates between two; 0: as configured
    following: int = 0  # the next one is not before this update

    def is_due(self, step: int, every: int) -> bool:
        """Whether training is to be interrupted after update ``step``, a multiple of ``every``."""
        return step % every == 0 and step >= self.following

    def schedule(self, step: int) -> None:
        """Choose the next one after that of update ``step``, in the same interval."""
        self.following = step + self.interval

    def adapt(self, every: int, share: float, cost: float, update_seconds: float) -> None:
        """Choose the interval: the least that keeps to a share of the time.

        Args:
            every: of which the interval is a multiple.
            share: of the time, within (0, 1).
            cost: seconds that one interruption takes.
            update_seconds: that one update takes.
        """
        updates = cost * (1 - share) / share / max(update_seconds, 1e-9)
        self.interval = every * max(1, math.ceil(updates / every))
