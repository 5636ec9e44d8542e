"""The training loop: plan a batch, update, guard, report, evaluate, save."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from nmt.data.batches import Batch, BatchPlan, RowSelection
from nmt.startup.memory import excluding_present_objects
from nmt.training.coordination import Coordinator
from nmt.training.display import Display
from nmt.training.evaluation_runner import EvaluationRunner
from nmt.training.evaluator import Evaluator
from nmt.training.guard import Guard
from nmt.training.journal import Journal, RunJournal
from nmt.training.out_of_memory import OutOfMemoryRecovery
from nmt.training.prefetching import Prefetcher
from nmt.training.report import ReportWindow
from nmt.training.saver import Checkpoint, Saver
from nmt.training.schedule import TrainingSchedule
from nmt.training.session import Session


class Trainer:
    """Trains a run.

    The constructor restores the newest checkpoint in the run folder, if there is one, and opens the
    run's journal, which drops the records of later updates.

    Args:
        session: the run, its model freshly built.
        stages: training batches of each stage; at least one.
        evaluator: evaluates the session's model.
        summary: describes data and model, for TensorBoard.
    """

    def __init__(
        self,
        session: Session,
        *,
        stages: Sequence[BatchPlan],
        evaluator: Evaluator,
        summary: str,
    ) -> None:
        self._session = session
        self._state = state = session.state
        self._prefetcher = Prefetcher(
            lambda stage, step, shuffle, selection: stages[stage].batch(step, shuffle, selection)
        )
        self._saver = Saver(session)
        resumed_at = state.step if self._saver.resume() else None
        writes = session.process_group.is_main_process
        self._journal = RunJournal(session.folder, resumed_at) if writes else Journal()
        self._journal.log_configuration(session.config, summary, resumed_at or 0)
        steps_per_epoch = [stage.steps_per_epoch for stage in stages]
        data_stages = session.config.data.stages
        self._schedule = TrainingSchedule(
            session.training, data_stages, steps_per_epoch, session.components.compute_rate
        )
        if resumed_at is not None and self._schedule.is_complete(state):
            session.console.print(
                f"the run is complete at update {resumed_at}: nothing is trained; what ended it: "
                f"{self._schedule.explain_end(state)}"
            )
        self._window = ReportWindow(session, self._schedule)
        self._recovery = OutOfMemoryRecovery(session)
        self._guard = Guard(session, self._get_batch)
        self._coordinator = Coordinator(session)
        self._evaluation_runner = EvaluationRunner(
            session,
            schedule=self._schedule,
            coordinator=self._coordinator,
            guard=self._guard,
            evaluator=evaluator,
            saver=self._saver,
            journal=self._journal,
        )

    @property
    def stop_signal(self) -> int | None:
        """The signal that stopped the training; None if it is complete."""
        return None if self._schedule.is_complete(self._state) else self._coordinator.stop_signal

    def train(self) -> bool:
        """Train to the end, or until a signal asks to stop; save the last state either way.

        Returns:
            Whether the run is complete.

        Raises:
            UserError: every update is skipped, or an evaluation gives no finite loss.
        """
        begin = self._state.step
        with self._coordinator.receive_stop_signals(), closing(self._journal):
            self._train()
            self._finish()
        return self._announce_end(begin)

    def _train(self) -> None:
        """Update until training is over, and report, evaluate and save in between."""
        session, schedule, state = self._session, self._schedule, self._state
        guard, coordinator, runner = self._guard, self._coordinator, self._evaluation_runner
        window, display = self._window, Display(session.console, state.step)
        with excluding_present_objects(), self._prefetcher, display:
            coordinator.exchange_clock_and_stop()
            while not self._is_over():
                # Where memory runs out, this shrinks the micro-batches and the loop tries again.
                with self._recovery.recovering(self._saver, self._rewind):
                    if schedule.is_complete(state) or runner.is_evaluation_due():
                        # The run has ended, or memory ran out in the evaluation that was due.
                        runner.evaluate()
                        continue
                    # Get the next batch.
                    self._enter_stage()
                    rate = schedule.learning_rate(state)
                    selection = session.train_step.local_rows
                    batch, dropout = self._get_batch(state.step + 1, selection)
                    # Update.
                    update = self._recovery.update(batch, rate, dropout, guard.norm_limit)
                    state.step += 1
                    guard.add(update)
                    window.add(update, batch)
                    for callback in session.callbacks:
                        callback.on_update(state.step)
                    # Guard. Results are read from the device only where something is due.
                    report_is_due = schedule.is_report_due(state)
                    evaluation_is_due = runner.is_evaluation_due()
                    attention_is_due = not evaluation_is_due and schedule.is_attention_due(state)
                    if (report_is_due or evaluation_is_due) and self._rewind_after_spike():
                        coordinator.exchange_clock_and_stop()
                        continue
                    # Report.
                    if report_is_due or evaluation_is_due or attention_is_due:
                        guard.wait()  # the time of the device is that of these updates
                    window.add_seconds(coordinator.tick())
                    if report_is_due:
                        self._report(rate, display)
                    # Evaluate and save.
                    if evaluation_is_due:
                        runner.evaluate()
                    elif attention_is_due:
                        runner.log_attention()
                    # A single process sees a stop signal after every update at no cost; several
                    # processes agree only at reports and evaluations.
                    if report_is_due or evaluation_is_due or session.process_group.processes == 1:
                        coordinator.exchange_clock_and_stop()

    def _finish(self) -> None:
        """Rewind if the last updates have a spike, and save unless the update is saved."""
        is_complete = self._schedule.is_complete(self._state)
        # A resumed run would not see the spike.
        rewound = not is_complete and self._rewind_after_spike()
        self._guard.count_skipped()
        if rewound or self._saver.saved_step != self._state.step:
            self._saver.save()

    def _announce_end(self, begin: int) -> bool:
        """Say what ended the run, if it was trained after ``begin``; return whether it ended.

        A resumed run may end without better weights, and thus with the scores of before.
        """
        if not self._schedule.is_complete(self._state):
            return False
        if self._state.step > begin:
            best = self._state.best_step
            weights = f"; best weights: update {best}" if best else ""
            end = self._schedule.explain_end(self._state)
            self._session.console.print(f"ended by {end}{weights}")
        return True

    def _report(self, rate: float, display: Display) -> None:
        """Report the updates since the last report.

        Args:
            rate: the learning rate of the last update.
            display: shows the report.
        """
        state = self._state
        self._guard.count_skipped()
        self._guard.record_norm()
        report = self._window.close(rate)
        self._journal.log_report(state.step, state.seconds, report)
        display.show(state, self._schedule.progress(state), report)
        for callback in self._session.callbacks:
            callback.on_report(state.step, report)

    def _is_over(self) -> bool:
        if self._schedule.is_complete(self._state):
            return self._evaluation_runner.is_evaluated()
        stops = self._coordinator.stop_signal is not None
        return stops and not self._evaluation_runner.is_evaluation_due()

    def _get_batch(self, number: int, selection: RowSelection | None = None) -> tuple[Batch, float]:
        """Return the batch of an update, counted from 1, and its share of the dropout rates."""
        state, step = self._state, number - 1
        address = state.stage, step - state.stage_start_step, state.shuffle, selection
        return self._prefetcher.get(address), self._schedule.dropout_share(state, step)

    def _enter_stage(self) -> None:
        """Enter the next stage where one is over."""
        state, stages = self._state, self._schedule.steps_per_epoch
        while self._schedule.is_stage_over(state):
            self._guard.count_skipped()  # these updates belong to the stage that ends
            self._schedule.enter_next_stage(state)
            self._session.console.print(
                f"update {state.step}: stage {state.stage + 1} of {len(stages)}"
            )

    def _rewind_after_spike(self) -> bool:
        """Rewind if there was a spike and ``training.on_spike=go_back``; return whether.

        The next checkpoint stores the new order. A run that is killed before that checkpoint meets
        the same spike, and rewinds again.

        Raises:
            UserError: training was rewound ``training.max_skipped`` times, and spiked each time.
        """
        training, step = self._session.training, self._state.step
        if training.on_spike != "go_back":
            return False
        self._guard.count_skipped()
        if not self._guard.has_spike:
            return False
        if (checkpoint := self._saver.read_latest()) is None:
            self._guard.has_spike = False  # the update stays skipped
            return False
        self._rewind(checkpoint, self._state.shuffle + 1)
        self._saver.count_rewind()
        self._session.console.print(
            f"update {step}: the gradient spiked; rewound to update {self._state.step}, to "
            "continue with the batches in another order"
        )
        return True

    def _rewind(self, checkpoint: Checkpoint, shuffle: int) -> None:
        """Restore a checkpoint, but for the clock, and continue with this shuffle."""
        seconds = self._state.seconds
        self._saver.restore(checkpoint)
        self._state.shuffle, self._state.seconds = shuffle, seconds
        self._guard.reset()
        self._window.reset()
        self._evaluation_runner.restart()
        self._journal.rewind(self._state.step)
        self._coordinator.tick()
