"""The measurements between two reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nmt.data.batches import Batch
from nmt.training.schedule import TrainingSchedule
from nmt.training.session import Session
from nmt.training.train_step import UpdateMetrics


@dataclass(frozen=True)
class Report:
    """Measurements since the last report."""

    nll: float  # nats per target token; NaN where every update was skipped
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float  # real source and target tokens
    padding: float  # share of positions without a token
    epoch: float
    skipped: int  # skipped updates of the run so far


class ReportWindow:
    """Collects the updates between two reports; device values are read when the window closes.

    Args:
        session: the run; each of its processes adds the rows that it built.
        schedule: counts the epochs.
    """

    def __init__(self, session: Session, schedule: TrainingSchedule) -> None:
        self._session = session
        self._schedule = schedule
        self.reset()

    def reset(self) -> None:
        """Start a new window."""
        self._updates: list[UpdateMetrics] = []
        self._tokens = 0  # on both sides
        self._positions = 0  # on both sides
        self._seconds = 0.0

    def add(self, update: UpdateMetrics, batch: Batch) -> None:
        """Add an update, and the rows of its batch that this process built."""
        self._updates.append(update)
        for side in ("source_segments", "target_segments"):
            self._tokens += int(np.count_nonzero(batch[side]))
            self._positions += batch[side].size

    def add_seconds(self, seconds: float) -> None:
        """Add to the time that the updates of this window took."""
        self._seconds += seconds

    def close(self, learning_rate: float) -> Report:
        """Return the report of this window, and start a new one.

        Args:
            learning_rate: the rate of the last update.
        """
        state = self._session.state
        counts = self._session.process_group.all_gather((self._tokens, self._positions))
        tokens, positions = (sum(column) for column in zip(*counts, strict=True))
        applied = [update for update in self._updates if not bool(update.skipped)]
        target_tokens = sum(float(update.tokens) for update in applied)
        nll = sum(float(update.nll) for update in applied)
        report = Report(
            nll=nll / target_tokens if applied else math.nan,
            learning_rate=learning_rate,
            gradient_norm=float(self._updates[-1].gradient_norm),
            tokens_per_second=tokens / self._seconds,
            padding=1 - tokens / positions,
            epoch=self._schedule.epochs(state, state.step),
            skipped=state.skipped,
        )
        self.reset()
        return report
