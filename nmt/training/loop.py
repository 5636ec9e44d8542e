"""The training loop: plan a batch, update, guard, report, evaluate, save."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence

from nmt.data.batches import Batch, BatchPlan, RowSelection
from nmt.data.splitting import Pair
from nmt.inference.translator import Translator
from nmt.training.coordination import Coordinator
from nmt.training.display import Display
from nmt.training.evaluator import Evaluator
from nmt.training.guard import Guard
from nmt.training.interruptions import Interruptions
from nmt.training.journal import Journal, NoJournal
from nmt.training.out_of_memory import OutOfMemoryRecovery
from nmt.training.position import TrainingSchedule
from nmt.training.prefetching import Prefetcher
from nmt.training.saver import Checkpoint, Saver
from nmt.training.session import Session


class Trainer:
    """Trains a run; if its folder holds a checkpoint, training resumes from it.

    Args:
        session: the run, its model freshly built.
        stages: training batches of each stage, one at least.
        dev_batches: validation batches; None without a dev split.
        dev: the dev pairs that are translated at an evaluation.
        translator: translates with the model that is trained.
        summary: describes data and model, for TensorBoard.
    """

    def __init__(
        self,
        session: Session,
        *,
        stages: Sequence[BatchPlan],
        dev_batches: BatchPlan | None,
        dev: Sequence[Pair],
        translator: Translator,
        summary: str,
    ) -> None:
        self._session = session
        self._position = position = session.position
        self._prefetcher = Prefetcher(
            lambda stage, step, order, rows: stages[stage].batch(step, order, rows)
        )
        self._saver = Saver(session)
        resumed_at = position.step if self._saver.resume() else None
        writes = session.process_group.is_main_process
        self._journal = Journal(session.run, resumed_at=resumed_at) if writes else NoJournal()
        if resumed_at is None:
            self._journal.log_configuration(session.config, summary)
        self._schedule = TrainingSchedule(
            session.training,
            session.config.data.stages,
            [stage.steps_per_epoch for stage in stages],
        )
        self._memory = OutOfMemoryRecovery(session)
        self._guard = Guard(session, lambda number: self._plan_update(number - 1))
        self._coordinator = Coordinator(position, session.process_group)
        self._interruptions = Interruptions(
            session,
            schedule=self._schedule,
            coordinator=self._coordinator,
            guard=self._guard,
            evaluator=Evaluator(session, dev_batches, dev, translator),
            saver=self._saver,
            journal=self._journal,
        )

    @property
    def stop_signal(self) -> int | None:
        """The signal that stopped the training; None if it is complete."""
        return None if self._schedule.is_complete(self._position) else self._coordinator.stop_signal

    def train(self) -> bool:
        """Train to the end, or until a signal asks to stop; save the last state either way.

        Returns:
            Whether the run is complete.

        Raises:
            UserError: every update is skipped, or an evaluation gives no finite loss.
        """
        session, schedule, position = self._session, self._schedule, self._position
        guard, coordinator, interruptions = self._guard, self._coordinator, self._interruptions
        display = Display(session.console, position.step)
        with coordinator.receive_stop_signals(), _freeze_garbage(), self._prefetcher, display:
            coordinator.synchronize()
            while not self._is_over():
                with self._memory.recovering(self._saver, self._rewind):
                    if schedule.is_complete(position) or interruptions.is_evaluation_due():
                        interruptions.evaluate()  # the last one, or one that ran out of memory
                        continue
                    # Plan a batch.
                    self._enter_stage()
                    rate = schedule.learning_rate(position)
                    batch, dropout = self._plan_update(position.step, session.train_step.local_rows)
                    # Update.
                    update = self._memory.update(batch, rate, dropout, guard.norm_limit)
                    position.step += 1
                    guard.add(update, batch)
                    # Guard. Results are read from the device only where something is due.
                    reports = schedule.is_report_due(position)
                    evaluates = interruptions.is_evaluation_due()
                    if (reports or evaluates) and self._rewind_after_spike():
                        coordinator.synchronize()
                        continue
                    # Report.
                    if reports:
                        guard.check()  # waits for the device, which belongs to the window's time
                    guard.add_seconds(coordinator.tick())
                    if reports:
                        window = guard.close_window(rate, schedule.epochs(position, position.step))
                        self._journal.log_window(position.step, position.seconds, window)
                        display.show(position, schedule.progress(position), window)
                    # Evaluate and save.
                    if evaluates:
                        interruptions.evaluate()
                    elif schedule.is_attention_due(position):
                        interruptions.log_attention()
                    if reports or evaluates or session.process_group.processes == 1:
                        coordinator.synchronize()
        guard.check()
        if self._saver.saved_step != position.step:
            self._saver.save()
        self._journal.close()
        return schedule.is_complete(position)

    def _is_over(self) -> bool:
        if self._schedule.is_complete(self._position):
            return self._interruptions.is_evaluated()
        stops = self._coordinator.stop_signal is not None
        return stops and not self._interruptions.is_evaluation_due()

    def _plan_update(
        self, step: int, local_rows: RowSelection | None = None
    ) -> tuple[Batch, float]:
        """Return the batch of the update after ``step``, and its share of the dropout rates."""
        position = self._position
        address = position.stage, step - position.stage_step, position.order, local_rows
        return self._prefetcher.get(address), self._schedule.dropout_share(position, step)

    def _enter_stage(self) -> None:
        """Enter the next stage where one is over."""
        position, stages = self._position, self._schedule.steps_per_epoch
        while self._schedule.is_stage_over(position):
            self._guard.check()  # these updates belong to the stage that ends
            self._schedule.enter_next_stage(position)
            self._session.console.print(
                f"update {position.step}: stage {position.stage + 1} of {len(stages)}"
            )

    def _rewind_after_spike(self) -> bool:
        """Rewind if there was a spike and ``training.on_spike=go_back``; return whether.

        A run that is killed before its next checkpoint comes here again after resuming.

        Raises:
            UserError: training was rewound ``training.max_skipped`` times, always to a spike.
        """
        training, step = self._session.training, self._position.step
        if training.on_spike != "go_back" or not self._guard.check():
            return False
        checkpoint = self._saver.read_latest()
        if checkpoint is None:
            return False  # the update stays skipped
        self._rewind(checkpoint, self._position.order + 1)
        self._saver.count_rewind()
        self._session.console.print(
            f"update {step}: the gradient spiked; rewound to update {self._position.step}, to "
            "continue with the batches in another order"
        )
        return True

    def _rewind(self, checkpoint: Checkpoint, order: int) -> None:
        """Restore a checkpoint, but for the clock, and continue with batches in this order."""
        seconds = self._position.seconds
        self._saver.restore(checkpoint)
        self._position.order, self._position.seconds = order, seconds
        self._guard.reset()
        self._interruptions.restart()
        self._journal.rewind(self._position.step)
        self._coordinator.tick()


@contextlib.contextmanager
def _freeze_garbage() -> Iterator[None]:
    """Exclude all existing objects, such as TensorFlow's, from garbage collection."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
