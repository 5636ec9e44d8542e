"""Checkpoints of a run: restored, saved, rewound to; and its best weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.data.splitting import TEST
from nmt.errors import UserError
from nmt.runs.checkpoint import STABILITY_ADVICE, read_arrays, write_arrays
from nmt.runs.folder import name_test_scores
from nmt.training.session import Session

Checkpoint = tuple[dict[str, np.ndarray], dict[str, Any]]  # arrays, fields of `TrainerState`


class Saver:
    """Saves and restores a run: the arrays of its step, and its `TrainerState`.

    Attributes:
        saved_step: the last update that a checkpoint holds; None before the first checkpoint.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._checkpoints = session.folder.checkpoints
        self.saved_step: int | None = None
        self._rewinds = 0  # after spikes, since the last checkpoint was saved

    def read_latest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is intact; None without one."""
        return self._checkpoints.load_latest(self._session.console.print)

    def resume(self) -> bool:
        """Restore the newest checkpoint; return whether there is one."""
        checkpoint = self.read_latest()
        if checkpoint is None:
            return False
        self.restore(checkpoint)
        session = self._session
        session.console.print(f"resumed {session.folder.path} after update {session.state.step}")
        self.saved_step = self._session.state.step
        self._repair_best()
        return True

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set weights, optimizer and `TrainerState`."""
        arrays, metadata = checkpoint
        self._session.train_step.restore(arrays)
        state = self._session.state
        state.load(metadata)
        state.behind &= self._session.training.stop_behind is not None

    def count_rewind(self) -> None:
        """Count a rewind after a spike; counted here because saving resets the count.

        Raises:
            UserError: there were more than ``training.max_skipped`` since the last checkpoint.
        """
        self._rewinds += 1
        limit = self._session.training.max_skipped
        if self._rewinds > limit:
            raise UserError(
                f"training was rewound to update {self._session.state.step} {limit} times, and "
                f"the gradient spiked every time: {STABILITY_ADVICE}, or a larger "
                "training.spike_factor; earlier checkpoints are intact"
            )

    def save(self) -> None:
        """Write a checkpoint, and remove the oldest beyond ``training.keep_checkpoints``."""
        session, state = self._session, self._session.state
        arrays = session.train_step.state()
        session.process_group.check_same_state(arrays)
        if session.process_group.is_main_process:
            keep = session.training.keep_checkpoints
            self._checkpoints.save(state.step, arrays, state.stored(), keep=keep)
        session.process_group.barrier()
        self.saved_step = state.step
        self._rewinds = 0
        for callback in session.callbacks:
            callback.on_save(self._checkpoints.path(state.step))

    def save_best(self) -> None:
        """Write the averaged weights as the best; call it after `save`.

        The checkpoint already says which update is the best, so that a run killed in between
        repairs the file when it is resumed.
        """
        session = self._session
        if not session.process_group.is_main_process:
            return
        for name in (TEST, *session.config.data.tests):
            # Scores of other weights; a complete run is scored again.
            (session.folder.path / name_test_scores(name)).unlink(missing_ok=True)
        with session.train_step.use_averages():
            weights = session.model.trained_weights()
            arrays = {f"model/{name}": np.asarray(weight) for name, weight in weights.items()}
            write_arrays(self._checkpoints.best, arrays, session.state.stored())

    def _repair_best(self) -> None:
        state = self._session.state
        if state.best_score is None and state.evaluations:
            # Older checkpoints do not say so: without a score, the last evaluation is the best.
            state.best_step = state.evaluated_step
        if not state.evaluations or state.best_step != state.step:
            return
        try:
            best_step = read_arrays(self._checkpoints.best)[1].get("best_step")
        except UserError:
            best_step = None
        if best_step != state.best_step:
            self.save_best()
