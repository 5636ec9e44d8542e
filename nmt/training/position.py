"""The position of a run, and the next stage, rate, report or evaluation as functions of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.config import TrainingConfig
from nmt.config.data import StageConfig
from nmt.training.cadence import Cadence
from nmt.training.schedule import Limits, dropout_share, learning_rate


@dataclass
class Position:
    """The state of a run apart from its arrays; a checkpoint stores all of it."""

    step: int = 0  # updates made
    seconds: float = 0.0  # wall clock, all sessions together
    evaluations: int = 0
    best_score: float | None = None  # dev BLEU
    best_step: int = 0
    since_best: int = 0  # evaluations without a better score
    skipped: int = 0  # updates that were skipped
    skipped_in_row: int = 0  # of them, those since the last one that was applied
    norms: list[float] = field(default_factory=list)  # gradient norms of the last reports
    order: int = 0  # which shuffling of the batches: how often training was rewound
    stage: int = 0  # index into ``data.stages``
    stage_step: int = 0  # updates made before this stage
    stage_seconds: float = 0.0  # spent before it
    stage_epochs: float = 0.0  # made before it
    stage_progress: float = 0.0  # share of the run before it
    behind: bool = False  # whether the run has fallen behind its siblings, and ends
    evaluation: Cadence = field(default_factory=Cadence)
    attention: Cadence = field(default_factory=Cadence)

    def load(self, metadata: Mapping[str, Any]) -> None:
        """Take over what a checkpoint stores; missing fields get their defaults."""
        cadences = {
            name: Cadence(**metadata[name])
            for name in ("evaluation", "attention")
            if name in metadata
        }
        self.__dict__.update(vars(Position(**{**metadata, **cadences})))

    def record_score(self, score: float | None) -> bool:
        """Count an evaluation after the last update; return whether its score is the best."""
        self.evaluations += 1
        is_best = score is not None and (self.best_score is None or score > self.best_score)
        if is_best:
            self.best_score, self.best_step = score, self.step
        self.since_best = 0 if is_best or score is None else self.since_best + 1
        return is_best


@dataclass(frozen=True)
class TrainingSchedule:
    """Derives progress, rates, and the next stage, evaluation or end from a position.

    Attributes:
        training: limits, rates and intervals.
        stages: when each stage of the run ends; empty for a run of one stage.
        steps_per_epoch: updates in an epoch of each stage, one at least.
    """

    training: TrainingConfig
    stages: Sequence[StageConfig]
    steps_per_epoch: Sequence[int]

    def epochs(self, position: Position, step: int) -> float:
        """Return the epochs made up to ``step``, an update of the current stage."""
        updates = step - position.stage_step
        return position.stage_epochs + updates / self.steps_per_epoch[position.stage]

    def progress(self, position: Position) -> float:
        """Return the share of the run that is done, 0 to 1."""
        epochs = self.epochs(position, position.step)
        return Limits.from_config(self.training).progress(position.step, epochs, position.seconds)

    def learning_rate(self, position: Position) -> float:
        """Return the learning rate of the next update."""
        return learning_rate(self.training, position.step + 1, self.progress(position))

    def dropout_share(self, position: Position, step: int) -> float:
        """Return the share of the full dropout rates of the update after ``step``."""
        return dropout_share(self.training, self.epochs(position, step))

    def is_complete(self, position: Position) -> bool:
        """Whether a limit is reached, or the run was stopped early."""
        in_last_stage = position.stage == len(self.steps_per_epoch) - 1
        stopped_early = in_last_stage and self._is_patience_exhausted(position)
        return stopped_early or position.behind or self.progress(position) >= 1

    def is_stage_over(self, position: Position) -> bool:
        """Whether the next update belongs to the next stage.

        This depends on stored fields alone, so that a resumed run changes stages where an
        uninterrupted one does.
        """
        if position.stage == len(self.steps_per_epoch) - 1:
            return False
        stage = self.stages[position.stage]
        progress = self.progress(position) - position.stage_progress
        seconds = position.seconds - position.stage_seconds
        return (
            self._is_patience_exhausted(position)
            or (stage.steps is not None and position.step - position.stage_step >= stage.steps)
            or (stage.share is not None and progress >= stage.share)
            or (stage.minutes is not None and seconds >= 60 * stage.minutes)
            or (stage.plateau is not None and position.since_best >= stage.plateau)
        )

    def enter_next_stage(self, position: Position) -> None:
        """Change ``position`` to the start of the next stage."""
        position.stage_progress = self.progress(position)
        position.stage_epochs = self.epochs(position, position.step)
        position.stage += 1
        position.stage_step, position.stage_seconds = position.step, position.seconds
        position.since_best = 0

    def is_report_due(self, position: Position) -> bool:
        """Whether training is reported after the last update."""
        return position.step % self.training.log_every == 0

    def is_evaluation_due(self, position: Position) -> bool:
        """Whether the run is evaluated after the last update."""
        return position.evaluation.is_due(position.step, self.training.evaluate_every)

    def is_attention_due(self, position: Position) -> bool:
        """Whether attention is logged after the last update, apart from an evaluation."""
        due = position.attention.is_due(position.step, self.training.attention_every)
        return due and not self.is_complete(position)

    def _is_patience_exhausted(self, position: Position) -> bool:
        patience = self.training.early_stopping
        return patience is not None and position.since_best >= patience
