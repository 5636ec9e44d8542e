"""A function that runs a model, compiled by the backend of Keras."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import keras
import numpy as np

from nmt.model.contract import Model


def compile_with_weights(
    model: Model, function: Callable[..., Any], ranks: tuple[int, ...], *, floats: int = 0
) -> Any:
    """Compile a function of int32 arrays followed by float32 scalars.

    The weights are read at every call, so that training may continue between calls. TensorFlow
    traces the function once for all shapes, JAX once per shape.

    Args:
        model: the model whose weights the function reads.
        function: the function, of tensors.
        ranks: ranks of the int32 arrays.
        floats: number of float32 scalars.

    Returns:
        A callable that takes NumPy arrays and numbers, and returns a structure of NumPy arrays.
    """
    dtypes = ["int32"] * len(ranks) + ["float32"] * floats
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        signature = [
            tf.TensorSpec([None] * rank, dtype)
            for rank, dtype in zip((*ranks, *[0] * floats), dtypes, strict=True)
        ]
        trace, lock = cache(partial(trace_function, function, *signature)), threading.Lock()

        def run(*arrays: Any) -> Any:
            with lock:  # of several threads, one traces
                traced = trace()
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

    raise NotImplementedError(f"unsupported Keras backend: {keras.config.backend()}")


def trace_function(function: Any, *signature: Any) -> Any:
    """Return a concrete TensorFlow function.

    A polymorphic one would warn of retracing once several models, or combinations of options, are
    traced: TensorFlow counts them together.
    """
    import tensorflow as tf

    polymorphic = tf.function(function, input_signature=signature, autograph=False)
    return polymorphic.get_concrete_function()
