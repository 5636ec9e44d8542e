"""Evaluations during training, and attention logs between two of them."""

from __future__ import annotations

import gc
import math

from nmt.sweeps.median_stopping import is_behind
from nmt.training.cadence import ATTENTION_PART, EVALUATION_PART, CostMeter
from nmt.training.coordination import Coordinator
from nmt.training.evaluator import Evaluator
from nmt.training.guard import Guard
from nmt.training.journal import DevEvaluation, Journal
from nmt.training.saver import Saver
from nmt.training.schedule import TrainingSchedule
from nmt.training.session import Session
from nmt.training.trainer_state import TrainerState

# By which the dev BLEU of two checkpoints differs by chance, times the root of the number of
# sentences: two standard errors, which are 0.8 each for 300 sentences (docs/experiments.md).
_MARGIN = 28.0


class EvaluationRunner:
    """Runs evaluations and attention logs, at most for the share of the time that is configured.

    Args:
        session: the run.
        schedule: tells when an evaluation is due.
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
        journal: Journal,
    ) -> None:
        self._session = session
        self._state = session.state
        self._schedule = schedule
        self._guard = guard
        self._evaluator = evaluator
        self._saver = saver
        self._journal = journal
        training, share = session.training, session.training.evaluation_share

        assert training.evaluate_every is not None, "the configuration is not resolved"

        def make_meter(every: int, part: float) -> CostMeter:
            part_of_time = None if share is None else part * share
            return CostMeter(coordinator.advance_shared_clock, every=every, share=part_of_time)

        self._evaluation_cost = make_meter(training.evaluate_every, EVALUATION_PART)
        self._attention_cost = make_meter(training.attention_every, ATTENTION_PART)
        self.restart()

    def is_evaluated(self) -> bool:
        """Whether the last update was evaluated."""
        return self._state.evaluated_step == self._state.step

    def is_evaluation_due(self) -> bool:
        """Whether an evaluation follows the last update."""
        return self._schedule.is_evaluation_due(self._state) and not self.is_evaluated()

    def evaluate(self) -> None:
        """Evaluate the averaged weights, save, and keep them if they are the best.

        Scores are written before the checkpoint, and pictures, which take long, after it.
        """
        session, state = self._session, self._state
        self._guard.count_skipped()
        self._evaluation_cost.begin(state.step)
        with session.train_step.use_averages():
            evaluation = self._evaluator.evaluate()
        state.evaluated_step = state.step
        self._journal.append_metrics(state.step, state.seconds, evaluation.values())
        self._journal.append_outputs(state.step, evaluation.outputs)
        is_best = _record_score(state, evaluation)
        state.behind = not self._schedule.is_complete(state) and self._is_behind()
        when = f"update {state.step}, {state.seconds / 60:.1f} min"
        best = " (best)" if is_best and evaluation.scores else ""
        session.console.print(f"{when}: {_describe(evaluation)}{best}")
        self._evaluation_cost.schedule(state.step, state.evaluation_cadence)
        self._saver.save()
        if is_best:
            self._saver.save_best()
        for callback in session.callbacks:
            callback.on_evaluation(state.step, evaluation)
        self._journal.show_in_tensorboard(state.step, evaluation)
        gc.collect()  # figures are reference cycles that hold their pixels
        self._evaluation_cost.end()
        self.restart()

    def log_attention(self) -> None:
        """Log the attention of the probes between two evaluations."""
        state = self._state
        self._attention_cost.begin(state.step)
        with self._session.train_step.use_averages():
            probes, references = self._evaluator.read_attention(), self._evaluator.references
            self._journal.log_attention(state.step, probes, references)
        self._attention_cost.schedule(state.step, state.attention_cadence)
        self._attention_cost.end()
        self.restart()

    def restart(self) -> None:
        """Measure updates anew: evaluations and attention logs are not part of their time."""
        training, state = self._session.training, self._state
        for cadence, every in (
            (state.evaluation_cadence, training.evaluate_every),
            (state.attention_cadence, training.attention_every),
        ):
            # A resumed run may have had a share, or another interval.
            if training.evaluation_share is None or cadence.every not in (0, every):
                cadence.reset()
        for meter in (self._evaluation_cost, self._attention_cost):
            meter.restart(self._state.step, self._state.seconds)

    def _is_behind(self) -> bool:
        """Whether the run has fallen behind its siblings, so that it ends."""
        session, share = self._session, self._session.training.stop_behind
        if share is None:
            return False
        group = session.process_group
        behind = group.broadcast(group.is_main_process and is_behind(session.folder, share))
        if behind:
            session.console.print(f"update {self._state.step}: behind the runs beside it")
        return behind


def _record_score(state: TrainerState, evaluation: DevEvaluation) -> bool:
    """Count an evaluation; return whether its weights are the best."""
    if not evaluation.scores:
        return state.record_score(None)
    margin = _MARGIN / math.sqrt(len(evaluation.outputs))
    return state.record_score(evaluation.scores[0].value, evaluation.nll, margin=margin)


def _describe(evaluation: DevEvaluation) -> str:
    scores = [f"{score.name} {score.value:.2f}" for score in evaluation.scores]
    if evaluation.nll is not None:
        loss = f"dev loss {evaluation.nll:.3f}"
    else:
        loss = "saved, no dev split" if not scores else "no dev pair fits into a row"
    return ", ".join([loss, *scores])
