"""Which backend's update is used."""

from __future__ import annotations

import keras

from nmt.config import TrainingConfig
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.training.process_group import ProcessGroup
from nmt.training.step import Step


def make_step(
    model: Model, config: TrainingConfig, *, seed: int, process_group: ProcessGroup | None = None
) -> Step:
    """Return the compiled update for the backend in use.

    Args:
        model: whose weights it changes.
        config: the ``training`` group of a finished configuration.
        seed: of the dropout masks.
        process_group: who shares the update, in whose scope this is called; None: one device.

    Raises:
        UserError: training is not available on that backend.
    """
    if keras.config.backend() == "tensorflow":
        from nmt.training.tensorflow_step import TensorFlowStep

        return TensorFlowStep(model, config, seed=seed, process_group=process_group)
    if keras.config.backend() == "jax":
        from nmt.training.jax_step import JaxStep

        return JaxStep(model, config, seed=seed, process_group=process_group)
    raise UserError(
        f"training does not run on the {keras.config.backend()} backend: set "
        "KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax"
    )
