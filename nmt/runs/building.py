"""From a configuration to a model, and weights into it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.config import Config
from nmt.errors import UserError

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model


def set_seed(seed: int) -> None:
    """Seed what the weights of a new model are drawn from; call it before a tokenizer is built.

    Keras's own function would import TensorFlow, whatever backend it runs on.
    """
    import keras

    if keras.config.backend() == "tensorflow":
        keras.utils.set_random_seed(seed)
    else:
        random.seed(seed)  # Keras draws the seeds of its initializers from it
        np.random.seed(seed)  # noqa: NPY002


def build_model(config: Config, vocabulary_size: int, *, precision: str) -> Model:
    """Build the transformer of a configuration.

    Args:
        config: its ``model`` group is used.
        vocabulary_size: of the tokenizer.
        precision: a Keras dtype policy name.
    """
    from nmt.model.sizes import Sizes
    from nmt.model.transformer import Transformer

    arguments = dataclasses.asdict(config.model)
    del arguments["name"]
    sizes = Sizes(vocabulary_size=vocabulary_size, **arguments)
    return Transformer(sizes, name="transformer", dtype=precision)


def set_weights(model: Model, arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Give a model the weights of a checkpoint, the averaged ones where there are any.

    Raises:
        UserError: one is missing, or of another shape.
    """
    for name, variable in model.named_weights().items():
        array = arrays.get(f"average/{name}", arrays.get(f"model/{name}"))
        if array is None or array.shape != tuple(variable.shape):
            found = "missing" if array is None else f"of shape {array.shape}"
            raise UserError(
                f"{path} does not fit the run's configuration: {name} is {found}, expected "
                f"{tuple(variable.shape)}"
            )
        variable.assign(array)
