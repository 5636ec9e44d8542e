"""From a configuration to a model, and weights into it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nmt.config import Config, ModelConfig, RecurrentConfig
from nmt.errors import UserError
from nmt.model.sizes import RecurrentSizes, Sizes

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model


UNSET_DROPOUT = 0.1  # for accounts of what has not been trained: that there is one is what counts


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
    """Build the model of a configuration.

    Args:
        config: its ``model`` group is used.
        vocabulary_size: of the tokenizer.
        precision: a Keras dtype policy name.
    """
    sizes = make_sizes(config.model, vocabulary_size)
    if isinstance(sizes, RecurrentSizes):
        from nmt.model.recurrent import Recurrent

        return Recurrent(sizes, name="recurrent", dtype=precision)
    from nmt.model.transformer import Transformer

    return Transformer(sizes, name="transformer", dtype=precision)


def make_sizes(config: ModelConfig, vocabulary_size: int) -> Sizes | RecurrentSizes:
    """Return the sizes of the model of a configuration.

    Args:
        config: the ``model`` group. A dropout that is not set yet counts as `UNSET_DROPOUT`.
        vocabulary_size: V.
    """
    arguments = dataclasses.asdict(config)
    del arguments["name"], arguments["kind"]
    if config.dropout is None:
        arguments["dropout"] = UNSET_DROPOUT
    kind = RecurrentSizes if isinstance(config, RecurrentConfig) else Sizes
    return kind(vocabulary_size=vocabulary_size, **arguments)


def choose_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights in a checkpoint by their names, the averaged ones where there are any."""
    chosen = {}
    for prefix in ("model/", "average/"):
        for name, array in arrays.items():
            if name.startswith(prefix):
                chosen[name.removeprefix(prefix)] = array
    return chosen


def check_weight(path: Path, name: str, found: np.ndarray | None, shape: Sequence[int]) -> None:
    """Check that a weight has the shape that a configuration gives it.

    Raises:
        UserError: it is missing, or of another shape.
    """
    if found is None or found.shape != tuple(shape):
        what = "missing" if found is None else f"of shape {found.shape}"
        raise UserError(
            f"{path} does not fit the run's configuration: {name} is {what}, expected "
            f"{tuple(shape)}"
        )


def set_weights(model: Model, arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Give a model the weights of a checkpoint, the averaged ones where there are any.

    Raises:
        UserError: one is missing, or of another shape.
    """
    chosen = choose_weights(arrays)
    for name, variable in model.named_weights().items():
        check_weight(path, name, chosen.get(name), variable.shape)
        variable.assign(chosen[name])
