"""What all parts of the training loop share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from nmt.config import Config, TrainingConfig
from nmt.model.contract import Model
from nmt.runs.folder import RunFolder
from nmt.training.callbacks import Callback
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import TrainStep
from nmt.training.trainer_state import TrainerState


@dataclass
class Session:
    """A run while it is trained.

    Attributes:
        folder: its run folder.
        config: its configuration, resolved; only `nmt.training.out_of_memory` changes it.
        model: the model that is trained.
        train_step: its compiled update.
        process_group: the processes and devices that share an update; one process writes.
        console: takes messages.
        components: replace what the configuration would build.
        callbacks: called by the training loop.
        state: updates made, best score and the like.
        stop_requested: whether a callback of this process called `stop`.
    """

    folder: RunFolder
    config: Config
    model: Model
    train_step: TrainStep
    process_group: ProcessGroup
    console: Console
    components: Components = AS_CONFIGURED
    callbacks: Sequence[Callback] = ()
    state: TrainerState = field(default_factory=TrainerState)
    stop_requested: bool = False

    @property
    def training(self) -> TrainingConfig:
        """The configuration of training."""
        return self.config.training

    def stop(self) -> None:
        """End the run: it is evaluated, saved, and scored as complete; resuming continues it.

        Of several processes, all follow at the next report or evaluation.
        """
        self.stop_requested = True
