"""One function that runs a model, compiled by whichever backend Keras runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np


def compiled(model: keras.Model, function: Callable[..., Any], ranks: tuple[int, ...]) -> Any:
    """Compile ``function`` over int32 arrays of the given ranks.

    The model's weights are read at every call, so a model that goes on training gives its newest.
    On TensorFlow the function is traced once for all shapes; on JAX once per shape.

    Returns:
        A callable that takes NumPy arrays and returns a structure of NumPy arrays.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        traced = tf.function(
            function,
            input_signature=[tf.TensorSpec([None] * rank, tf.int32) for rank in ranks],
            autograph=False,
        )

        def run(*arrays: np.ndarray) -> Any:
            outputs = traced(*(tf.constant(array, tf.int32) for array in arrays))
            return keras.tree.map_structure(lambda tensor: tensor.numpy(), outputs)

        return run

    if keras.config.backend() == "jax":
        import jax

        def with_weights(weights: list[Any], *arrays: Any) -> Any:
            mapping = list(zip(model.variables, weights, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return function(*arrays)

        jitted = jax.jit(with_weights)

        def run_jax(*arrays: np.ndarray) -> Any:
            weights = [variable.value for variable in model.variables]
            outputs = jitted(weights, *(array.astype(np.int32) for array in arrays))
            return keras.tree.map_structure(np.asarray, outputs)

        return run_jax

    raise NotImplementedError(f"the {keras.config.backend()} backend is not supported")
