"""The choice of the compiled update by backend."""

from __future__ import annotations

from typing import Any

import keras

from nmt.config import TrainingConfig
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import TrainStep


def make_step(
    model: Model,
    config: TrainingConfig,
    *,
    seed: int,
    process_group: ProcessGroup | None = None,
    components: Components = AS_CONFIGURED,
) -> TrainStep:
    """Return the compiled update for the backend in use.

    Args:
        model: the model to train.
        config: the ``training`` group of a resolved configuration.
        seed: seed of the dropout masks.
        process_group: the devices that share the update, whose scope must be entered; None: the
            default device.
        components: an optimizer and a loss in place of the configured ones.

    Raises:
        UserError: the backend is not supported.
    """
    arguments: dict[str, Any] = {"seed": seed, "process_group": process_group}
    arguments["components"] = components
    if keras.config.backend() == "tensorflow":
        from nmt.training.tensorflow_step import TensorFlowStep

        return TensorFlowStep(model, config, **arguments)
    if keras.config.backend() == "jax":
        from nmt.training.jax_step import JaxStep

        return JaxStep(model, config, **arguments)
    raise UserError(
        f"the backend {keras.config.backend()} is not supported in training: set "
        "KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax"
    )
