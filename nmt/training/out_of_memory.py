"""Updates in smaller micro-batches where a device's memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.training.saver import Checkpoint, Saver
from nmt.training.session import Session
from nmt.training.train_step import UpdateMetrics
from nmt.training.update_sizing import is_out_of_memory, split_further


class OutOfMemoryRecovery:
    """Makes updates, and halves their micro-batches after one that did not fit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fitting_shapes: set[tuple[int, ...]] = set()  # of batches

    def update(
        self, batch: Batch, learning_rate: float, dropout_share: float, norm_limit: float
    ) -> UpdateMetrics:
        """Make the next update: see `TrainStep.update`.

        The first update of each shape is waited for, since some devices report a lack of memory
        only when a result is read. It is undone if it does not fit.
        """
        shape = batch["labels"].shape
        number = self._session.state.step + 1
        arrays = None if shape in self._fitting_shapes else self._session.train_step.state()
        try:
            update = self._session.train_step.update(
                batch, learning_rate, number, dropout_share, norm_limit
            )
            if arrays is not None:
                float(update.nll)
        except Exception as error:
            if arrays is not None and is_out_of_memory(error):
                self._session.train_step.restore(arrays)
            raise
        self._fitting_shapes.add(shape)
        return update

    @contextmanager
    def recovering(self, saver: Saver, rewind: Callable[[Checkpoint, int], None]) -> Iterator[None]:
        """Halve the micro-batches when memory runs out; rewind if the state was lost.

        Args:
            saver: reads checkpoints.
            rewind: restores a checkpoint, and continues with this shuffle.

        Raises:
            UserError: micro-batches have one row each, or the run cannot continue in this session.
        """
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            session, state = self._session, self._session.state
            failed_after = state.step
            checkpoint = None if session.train_step.is_intact() else saver.read_latest()
            self._halve(is_recoverable=session.train_step.is_intact() or checkpoint is not None)
            if checkpoint is not None:
                rewind(checkpoint, state.shuffle)
            training = session.training
            session.console.print(
                f"out of memory after update {failed_after}; continuing after update "
                f"{state.step} with micro-batches of {training.batch_tokens} positions a side, "
                f"{training.accumulate} an update"
            )

    def _halve(self, *, is_recoverable: bool) -> None:
        """Use micro-batches of half the size from now on, also after resuming."""
        session = self._session
        training = split_further(session.training)
        if session.process_group.processes > 1 or not is_recoverable:
            size = f"training.batch_tokens={training.batch_tokens}"
            is_saved = bool(session.folder.checkpoints.steps())
            remedy = (
                f"resume with training.resume={session.folder.path} {size}"
                if is_saved
                else f"start a new run with training.accumulate={training.accumulate} {size}"
            )
            raise UserError(f"out of memory after update {session.state.step}; {remedy}")
        session.train_step.reconfigure(training)
        self._fitting_shapes.clear()
        session.config = replace(session.config, training=training)
        session.folder.write_config(session.config)
