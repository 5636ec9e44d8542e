"""Guards training against non-finite updates and against spikes of the gradient."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.files import replace_atomically
from nmt.runs.checkpoint import STABILITY_ADVICE
from nmt.training.session import Session
from nmt.training.train_step import UpdateMetrics

DUMP_NAME = "skipped_update"  # of the files that describe an update that cannot be applied
MEDIAN_OF = 11  # gradient norms, one a report, whose median is the usual norm


class Guard:
    """Counts skipped updates, finds spikes, and stops a run in which every update is skipped.

    Args:
        session: the run.
        get_batch: returns the whole batch of an update, counted from 1, and its dropout share.

    Attributes:
        has_spike: whether an update since the last report was skipped although its loss and
            gradient were finite; complete after `count_skipped`.
    """

    def __init__(self, session: Session, get_batch: Callable[[int], tuple[Batch, float]]) -> None:
        self._session = session
        self._state = session.state
        self._get_batch = get_batch
        self.reset()

    def reset(self) -> None:
        """Forget the updates since the last report."""
        self._uncounted: list[UpdateMetrics] = []
        self.has_spike = False

    @property
    def norm_limit(self) -> float:
        """The gradient norm from which an update is skipped as a spike."""
        factor, norms = self._session.training.spike_factor, self._state.norms
        if factor is None or len(norms) < MEDIAN_OF:
            return math.inf
        return factor * statistics.median(norms)

    def add(self, update: UpdateMetrics) -> None:
        """Add the last update; nothing is read from the device."""
        self._uncounted.append(update)

    def wait(self) -> None:
        """Wait until the device has finished the last update."""
        if self._uncounted:
            float(self._uncounted[-1].tokens)

    def count_skipped(self) -> None:
        """Count the skipped updates among those added since the last count; wait for the device.

        Raises:
            UserError: ``training.max_skipped`` updates in a row were skipped.
        """
        updates, state = self._uncounted, self._state
        first = state.step - len(updates) + 1
        skipped_before = state.skipped
        last_applied: UpdateMetrics | None = None
        for number, update in enumerate(updates, start=first):
            if not bool(update.skipped):
                state.skipped_in_row = 0
                last_applied = update
                continue
            self.has_spike |= bool(np.isfinite(update.nll) and np.isfinite(update.gradient_norm))
            state.skipped += 1
            state.skipped_in_row += 1
            if state.skipped_in_row >= self._session.training.max_skipped:
                self._give_up(number)
        if state.skipped > skipped_before:
            self._session.console.print(
                f"update {state.step}: {state.skipped - skipped_before} of the last "
                f"{len(updates)} updates skipped, {self._reason}"
            )
        if last_applied is not None:
            state.last_norm = float(last_applied.gradient_norm)
        self._uncounted = []

    def record_norm(self) -> None:
        """Add the last gradient norm to those that limit the next; forget updates and spikes.

        Called at every report.
        """
        state = self._state
        if state.last_norm is not None:
            state.norms = [*state.norms, state.last_norm][-MEDIAN_OF:]
            state.last_norm = None
        self.reset()

    def _give_up(self, number: int) -> NoReturn:
        """Dump an update that cannot be applied, and stop."""
        batch, dropout_share = self._get_batch(number)
        path = self._session.folder.path / f"{DUMP_NAME}_{number:08d}.npz"
        norms = self._session.train_step.gradient_norms(batch, number, dropout_share)
        if self._session.process_group.is_main_process:
            with replace_atomically(path) as file:
                np.savez(file, **batch)  # type: ignore[arg-type]
            self._session.folder.write_json(
                f"{path.stem}.json", {"step": number, "gradient_norms": norms}
            )
        # A process that fails ends the others: first, the files must be complete.
        self._session.process_group.barrier()
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
