"""Building the model of a configuration, and setting its weights."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import Config
from nmt.errors import UserError
from nmt.model.sizes import RecurrentSizes
from nmt.runs.custom_model import ModelClass, build_custom

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model


# Keras's names of the matrices A and B of an adapter; the adapted matrix is "kernel".
ADAPTER_A, ADAPTER_B = "lora_kernel_a", "lora_kernel_b"


def set_seed(seed: int) -> None:
    """Seed the initial weights of new models.

    Not `keras.utils.set_random_seed`, which imports TensorFlow on any backend, and clears its
    cache of kernels: each compiled function would be optimized again at its next call.
    """
    random.seed(seed)  # the source of seeds of Keras's initializers
    np.random.seed(seed)  # noqa: NPY002


def build_model(
    config: Config, vocabulary_size: int, *, precision: str, model_class: ModelClass | None = None
) -> Model:
    """Build the model of a configuration; ``precision`` names a Keras dtype policy.

    Args:
        config: decides the sizes, whatever the class.
        vocabulary_size: V.
        precision: name of a Keras dtype policy.
        model_class: see `nmt.runs.custom_model`; None: as configured.

    Raises:
        UserError: see `build_custom`.
    """
    sizes = config.model.make_sizes(vocabulary_size)
    if model_class is not None:
        return build_custom(model_class, sizes, precision)
    if isinstance(sizes, RecurrentSizes):
        from nmt.model.recurrent import Recurrent

        return Recurrent(sizes, name="recurrent", dtype=precision)
    from nmt.model.transformer import Transformer

    return Transformer(sizes, name="transformer", dtype=precision)


def choose_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights of a checkpoint by name: averaged ones if it has them.

    Adapters are merged into their matrices.
    """
    weights: dict[str, np.ndarray] = {}
    for prefix in ("model/", "average/"):
        for name, array in arrays.items():
            if name.startswith(prefix):
                weights[name.removeprefix(prefix)] = array
    return merge_adapters(weights)


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
    """Return whether a weight is a matrix of an adapter."""
    return name.endswith((ADAPTER_A, ADAPTER_B))


def check_weight(path: Path, name: str, weight: np.ndarray | None, shape: Sequence[int]) -> None:
    """Check that a weight exists and has the shape that the configuration demands.

    Raises:
        UserError: it is missing or has another shape.
    """
    if weight is None or weight.shape != tuple(shape):
        problem = "missing" if weight is None else f"of shape {weight.shape}"
        raise UserError(
            f"{path} does not fit the run's configuration: {name} is {problem}, expected "
            f"{tuple(shape)}"
        )


def set_weights(model: Model, arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Set a model's weights from a checkpoint: averaged ones if it has them.

    Raises:
        UserError: a weight is missing, has another shape, or is not the model's.
    """
    weights, chosen = model.named_weights(), choose_weights(arrays)
    assign_weights(weights, chosen, path)
    if extra := sorted(chosen.keys() - weights.keys()):
        raise UserError(f"{path} does not fit the model: it has no weight {extra[0]}")


def assign_weights(
    weights: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: Path
) -> None:
    """Set each weight to the array of its name.

    Raises:
        UserError: an array is missing or has another shape.
    """
    for name, variable in weights.items():
        check_weight(path, name, arrays.get(name), variable.shape)
        variable.assign(arrays[name])
