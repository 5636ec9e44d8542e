"""Guards training against non-finite updates and against spikes of the gradient."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.files import replace_atomically
from nmt.runs.checkpoint import STABILITY_ADVICE
from nmt.training.journal import TrainingWindow
from nmt.training.session import Session
from nmt.training.train_step import Update

DUMP_NAME = "unsound_update"  # of the files that describe an update that cannot be applied
MEDIAN_OF = 11  # gradient norms, one a report, whose median is the usual norm


@dataclass
class _Window:
    """Updates since the last report; device values are read when they are needed."""

    updates: list[Update] = field(default_factory=list)
    checked: int = 0  # of them, those known to be applied or skipped
    applied: list[Update] = field(default_factory=list)
    has_spike: bool = False  # whether one was skipped although its gradient was finite
    tokens: int = 0  # on both sides
    positions: int = 0  # on both sides
    seconds: float = 0.0


class Guard:
    """Counts skipped updates, finds spikes, and stops a run in which every update is skipped.

    Args:
        session: the run.
        get_update: returns the whole batch of an update, counted from 1, and its dropout share.
    """

    def __init__(self, session: Session, get_update: Callable[[int], tuple[Batch, float]]) -> None:
        self._session = session
        self._position = session.position
        self._get_update = get_update
        self._window = _Window()

    @property
    def norm_limit(self) -> float:
        """The gradient norm from which an update is skipped as a spike."""
        factor, norms = self._session.training.spike_factor, self._position.norms
        if factor is None or len(norms) < MEDIAN_OF:
            return math.inf
        return factor * statistics.median(norms)

    def add(self, update: Update, batch: Batch) -> None:
        """Add an update, and the rows of it that this process built."""
        window = self._window
        window.updates.append(update)
        for side in ("source_segments", "target_segments"):
            window.tokens += int(np.count_nonzero(batch[side]))
            window.positions += batch[side].size

    def add_seconds(self, seconds: float) -> None:
        """Add to the time that the updates of this window took."""
        self._window.seconds += seconds

    def wait(self) -> None:
        """Wait until the device has finished the last update."""
        if self._window.updates:
            float(self._window.updates[-1].tokens)

    def check(self) -> bool:
        """Count the updates skipped since the last check; wait for the device.

        Returns:
            Whether there was a spike since the last report.

        Raises:
            UserError: ``training.max_skipped`` updates in a row were skipped.
        """
        window, position = self._window, self._position
        first = position.step - len(window.updates) + 1
        skipped_before = position.skipped
        for index in range(window.checked, len(window.updates)):
            update = window.updates[index]
            if not bool(update.skipped):
                position.skipped_in_row = 0
                window.applied.append(update)
                continue
            window.has_spike |= bool(np.isfinite(update.gradient_norm))
            position.skipped += 1
            position.skipped_in_row += 1
            if position.skipped_in_row == self._session.training.max_skipped:
                self._give_up(first + index)
        if position.skipped > skipped_before:
            self._session.console.print(
                f"update {position.step}: {position.skipped - skipped_before} of the last "
                f"{len(window.updates) - window.checked} updates skipped, {self._reason}"
            )
        window.checked = len(window.updates)
        return window.has_spike

    def close_window(self, learning_rate: float, epoch: float) -> TrainingWindow:
        """Return what happened since the last report, and start a new window.

        Args:
            learning_rate: of the last update.
            epoch: the epochs made.
        """
        window = self._window
        assert window.checked == len(window.updates), "check first: it waits for the device"
        self.reset()
        norms = [float(update.gradient_norm) for update in window.applied[-1:]]
        self._position.norms = [*self._position.norms, *norms][-MEDIAN_OF:]
        # Each process has counted the rows that it built.
        counts = self._session.process_group.all_gather((window.tokens, window.positions))
        tokens, positions = (sum(column) for column in zip(*counts, strict=True))
        target_tokens = sum(float(update.tokens) for update in window.applied)
        nll = sum(float(update.nll) for update in window.applied)
        return TrainingWindow(
            nll=nll / target_tokens if window.applied else math.nan,
            learning_rate=learning_rate,
            gradient_norm=float(window.updates[-1].gradient_norm),
            tokens_per_second=tokens / window.seconds,
            padding=1 - tokens / positions,
            epoch=epoch,
            skipped=self._position.skipped,
        )

    def reset(self) -> None:
        """Start a new window."""
        self._window = _Window()

    def _give_up(self, number: int) -> NoReturn:
        """Dump an update that cannot be applied, and stop."""
        batch, dropout_share = self._get_update(number)
        path = self._session.run.path / f"{DUMP_NAME}_{number:08d}.npz"
        norms = self._session.train_step.gradient_norms(batch, number, dropout_share)
        if self._session.process_group.is_main_process:
            with replace_atomically(path) as file:
                np.savez(file, **batch)  # type: ignore[arg-type]
            self._session.run.write_json(
                f"{path.stem}.json", {"step": number, "gradient_norms": norms}
            )
        raise UserError(
            f"{self._session.training.max_skipped} updates in a row were skipped, the last of "
            f"them update {number}, {self._reason}: {STABILITY_ADVICE}; {path} has its batch, and "
            f"{path.stem}.json the gradient norm of each weight; earlier checkpoints are intact"
        )

    @property
    def _reason(self) -> str:
        spike = (
            ""
            if self._session.training.spike_factor is None
            else ", or beyond training.spike_factor"
        )
        return f"with a non-finite loss or gradient{spike}"
