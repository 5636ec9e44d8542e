"""The state of a run apart from its arrays: updates made, best score, counters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nmt.errors import UserError
from nmt.training.cadence import Cadence

# Keys in checkpoints that differ from their fields.
_STORED = {
    "order": "shuffle",
    "stage_step": "stage_start_step",
    "stage_seconds": "stage_start_seconds",
    "stage_epochs": "stage_start_epochs",
    "stage_progress": "stage_start_progress",
    "evaluation": "evaluation_cadence",
    "attention": "attention_cadence",
}


@dataclass
class TrainerState:
    """The state of a run apart from its arrays; a checkpoint stores all of it."""

    step: int = 0  # updates made
    seconds: float = 0.0  # wall clock, all sessions together
    evaluations: int = 0
    evaluated_step: int = 0  # the last update that was evaluated
    best_score: float | None = None  # dev BLEU of the best weights
    best_loss: float | None = None  # their dev loss; None: unknown, as in older checkpoints
    best_step: int = 0  # of the best weights
    since_best: int = 0  # evaluations since the best one
    skipped: int = 0  # updates that were skipped
    skipped_in_row: int = 0  # of them, those since the last one that was applied
    norms: list[float] = field(default_factory=list)  # gradient norms of the last reports
    last_norm: float | None = None  # of the last update applied since then
    shuffle: int = 0  # how often a spike made training rewind
    stage: int = 0  # index into ``data.stages``
    stage_start_step: int = 0  # updates made before this stage
    stage_start_seconds: float = 0.0  # spent before it
    stage_start_epochs: float = 0.0  # made before it
    stage_start_progress: float = 0.0  # share of the run before it
    behind: bool = False  # whether the run has fallen behind its siblings, and ends
    stopped: bool = False  # whether a callback ended the run; not stored, so that it can be resumed
    evaluation_cadence: Cadence = field(default_factory=Cadence)
    attention_cadence: Cadence = field(default_factory=Cadence)

    def stored(self) -> dict[str, Any]:
        """Return the fields under the keys that they have in a checkpoint."""
        fields = asdict(self)
        del fields["stopped"]
        for key, name in _STORED.items():
            fields[key] = fields.pop(name)
        return fields

    def load(self, metadata: Mapping[str, Any]) -> None:
        """Take over what `stored` returned; missing fields get their defaults.

        Raises:
            UserError: a field is unknown.
        """
        fields = dict(metadata)
        fields.setdefault("evaluated_step", fields.get("step", 0))  # as older checkpoints mean it
        for key, name in _STORED.items():
            if key in fields:
                value = fields.pop(key)
                if isinstance(value, dict):
                    _check_known(Cadence, value)
                    value = Cadence(**value)
                fields[name] = value
        _check_known(TrainerState, fields)
        self.__dict__.update(vars(TrainerState(**fields)))

    def record_score(
        self, score: float | None, loss: float | None = None, *, margin: float = 0.0
    ) -> bool:
        """Count an evaluation after the last update; return whether its weights are the best.

        Weights are better if their score is higher, or if their loss is lower and their score not
        significantly lower: scores of a few hundred sentences differ by chance. Without a score,
        the last weights are the best.

        Args:
            score: dev BLEU; None: not measured.
            loss: dev loss; None: not measured.
            margin: by which a score may be lower by chance.
        """
        self.evaluations += 1
        is_best = self.best_score is None
        if score is not None and self.best_score is not None:
            is_lower = loss is not None and self.best_loss is not None and loss < self.best_loss
            is_best = score > self.best_score - (margin if is_lower else 0.0)
        if is_best:
            self.best_score, self.best_loss, self.best_step = score, loss, self.step
        self.since_best = 0 if is_best or score is None else self.since_best + 1
        return is_best


def _check_known(kind: type[TrainerState] | type[Cadence], names: Iterable[str]) -> None:
    """Check that a dataclass has all stored fields."""
    unknown = sorted(set(names).difference(each.name for each in dataclasses.fields(kind)))
    if unknown:
        raise UserError(
            f"the checkpoint was written by a newer version, which knows {unknown[0]}: resume "
            "training with that version"
        )
