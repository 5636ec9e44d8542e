"""What interrupts training: evaluations, and logs of attention between two of them."""

from __future__ import annotations

import gc

from nmt.sweeps.median_stopping import is_behind
from nmt.training.cadence import ATTENTION_PART, EVALUATION_PART
from nmt.training.coordination import Coordinator, Interruption, UpdateTimer
from nmt.training.evaluator import Evaluator
from nmt.training.guard import Guard
from nmt.training.journal import NoJournal, Validation
from nmt.training.position import TrainingSchedule
from nmt.training.saver import Saver
from nmt.training.session import Session


class Interruptions:
    """Evaluates and logs attention, at most for the share of the time that is configured.

    Args:
        session: the run.
        schedule: tells when an interruption is due.
        coordinator: the clock.
        guard: counts skipped updates before anything is reported or saved.
        evaluator: evaluates the model.
        saver: saves after every evaluation.
        journal: takes the results.
    """

    def __init__(
        self,
        session: Session,
        *,
        schedule: TrainingSchedule,
        coordinator: Coordinator,
        guard: Guard,
        evaluator: Evaluator,
        saver: Saver,
        journal: NoJournal,
    ) -> None:
        self._session = session
        self._position = session.position
        self._schedule = schedule
        self._guard = guard
        self._evaluator = evaluator
        self._saver = saver
        self._journal = journal
        self._evaluated_step = session.position.step  # the last update that was evaluated
        self._timer = UpdateTimer(session.position)
        training, share = session.training, session.training.evaluation_share

        def measure(every: int, part: float) -> Interruption:
            part_of_time = None if share is None else part * share
            return Interruption(coordinator, self._position, self._timer, every, part_of_time)

        self._evaluation = measure(training.evaluate_every, EVALUATION_PART)
        self._attention = measure(training.attention_every, ATTENTION_PART)

    def is_evaluated(self) -> bool:
        """Whether the last update was evaluated."""
        return self._evaluated_step == self._position.step

    def is_evaluation_due(self) -> bool:
        """Whether an evaluation follows the last update."""
        return self._schedule.is_evaluation_due(self._position) and not self.is_evaluated()

    def restart(self) -> None:
        """Continue from a checkpoint, whose update was evaluated."""
        self._evaluated_step = self._position.step
        self._timer.restart()

    def evaluate(self) -> None:
        """Evaluate the averaged weights, save, and keep them if they are the best.

        Scores are written before the checkpoint, and pictures, which take long, after it.
        """
        session, position = self._session, self._position
        self._guard.check()
        self._evaluation.begin()
        with session.train_step.use_averages():
            validation = self._evaluator.evaluate()
        self._evaluated_step = position.step
        self._journal.log_scores(position.step, position.seconds, validation)
        is_best = position.record_score(validation.scores[0].value if validation.scores else None)
        position.behind = self._is_behind()
        when = f"update {position.step}, {position.seconds / 60:.1f} min"
        best = " (best)" if is_best else ""
        session.console.print(f"{when}: {_describe(validation)}{best}")
        self._evaluation.schedule(position.evaluation)
        self._saver.save()
        if is_best:
            self._saver.save_best()
        self._journal.log_validation(position.step, validation)
        gc.collect()  # figures are reference cycles that hold their pixels
        self._evaluation.end()

    def log_attention(self) -> None:
        """Log the attention of the probes between two evaluations."""
        self._guard.wait()  # the time of updates does not count as attention's
        self._attention.begin()
        with self._session.train_step.use_averages():
            self._journal.log_attention(self._position.step, self._evaluator.read_attention())
        self._attention.schedule(self._position.attention)
        self._attention.end()

    def _is_behind(self) -> bool:
        """Whether the run has fallen behind its siblings, so that it ends."""
        session, share = self._session, self._session.training.stop_behind
        if share is None:
            return False
        group = session.process_group
        behind = group.all_gather(group.is_main_process and is_behind(session.run, share))[0]
        if behind:
            session.console.print(f"update {self._position.step}: behind the runs beside it")
        return behind


def _describe(validation: Validation) -> str:
    scores = [f"{score.name} {score.value:.2f}" for score in validation.scores]
    return ", ".join([f"dev loss {validation.nll:.3f}", *scores])
