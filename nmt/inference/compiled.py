"""One function that runs a model, compiled by whichever backend Keras runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from nmt.model.contract import Model


def compile_over(
    model: Model, function: Callable[..., Any], ranks: tuple[int, ...], *, floats: int = 0
) -> Any:
    """Compile ``function`` over int32 arrays of the given ranks, and then float32 scalars.

    The model's weights are read at every call, so a model that goes on training gives its newest.
    On TensorFlow the function is traced once for all shapes; on JAX once per shape.

    Args:
        model: whose weights the function reads.
        function: of tensors.
        ranks: of its first arguments.
        floats: how many scalars follow them.

    Returns:
        A callable that takes NumPy arrays and numbers, and returns a structure of NumPy arrays.
    """
    dtypes = ["int32"] * len(ranks) + ["float32"] * floats
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        traced = tf.function(
            function,
            input_signature=[
                tf.TensorSpec([None] * rank, dtype)
                for rank, dtype in zip((*ranks, *[0] * floats), dtypes, strict=True)
            ],
            autograph=False,
        )

        def run(*arrays: Any) -> Any:
            outputs = traced(*map(tf.constant, arrays, dtypes))
            return keras.tree.map_structure(lambda tensor: tensor.numpy(), outputs)

        return run

    if keras.config.backend() == "jax":
        import jax

        def with_weights(weights: list[Any], *arrays: Any) -> Any:
            mapping = list(zip(model.weights, weights, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return function(*arrays)

        jitted = jax.jit(with_weights)

        def run_jax(*arrays: Any) -> Any:
            weights = [variable.value for variable in model.weights]
            outputs = jitted(weights, *map(np.asarray, arrays, dtypes))
            return keras.tree.map_structure(np.asarray, outputs)

        return run_jax

    raise NotImplementedError(f"the {keras.config.backend()} backend is not supported")
