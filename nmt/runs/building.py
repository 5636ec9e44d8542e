"""From a configuration to a model, and weights into it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import Config, ModelConfig, RecurrentConfig
from nmt.errors import UserError
from nmt.model.sizes import RecurrentSizes, Sizes

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model


# How Keras calls the matrices A and B of an adapter, beside its "kernel".
ADAPTER_A, ADAPTER_B = "lora_kernel_a", "lora_kernel_b"
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
    del arguments["name"], arguments["kind"], arguments["lora_rank"], arguments["lora_on"]
    if config.dropout is None:
        arguments["dropout"] = UNSET_DROPOUT
    kind = RecurrentSizes if isinstance(config, RecurrentConfig) else Sizes
    return kind(vocabulary_size=vocabulary_size, **arguments)


def choose_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights in a checkpoint by their names, the averaged ones where there are any.

    Adapters are merged into their matrices.
    """
    chosen: dict[str, np.ndarray] = {}
    for prefix in ("model/", "average/"):
        for name, array in arrays.items():
            if name.startswith(prefix):
                chosen[name.removeprefix(prefix)] = array
    return merge_adapters(chosen)


def merge_adapters(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return weights by name with W + A B (Hu et al. 2021, section 4.1) in place of W, A and B."""
    merged = {name: array for name, array in weights.items() if not is_adapter(name)}
    for name in weights:
        kernel = name.removesuffix(ADAPTER_A) + "kernel"
        if name.endswith(ADAPTER_A) and kernel in merged:
            factors = weights[name], weights[name.removesuffix(ADAPTER_A) + ADAPTER_B]
            merged[kernel] = merged[kernel] + np.matmul(*factors)
    return merged


def is_adapter(name: str) -> bool:
    """Whether a weight is one of the two matrices of an adapter."""
    return name.endswith((ADAPTER_A, ADAPTER_B))


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
    assign_weights(model.named_weights(), choose_weights(arrays), path)


def assign_weights(
    weights: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: Path
) -> None:
    """Give weights the arrays of their names.

    Raises:
        UserError: one is missing, or of another shape.
    """
    for name, variable in weights.items():
        check_weight(path, name, arrays.get(name), variable.shape)
        variable.assign(arrays[name])
