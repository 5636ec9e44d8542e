"""Dense layers, whose products are of rank 2 wherever that is faster."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable("nmt")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, which on JAX multiplies all rows of a batch as one matrix.

    XLA's gradient of a kernel is slower where the input has more axes than two, and attention to
    short sequences is little else than such products (``scripts/bench/bench_attention.py``).
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """[.., I] -> [.., units]."""
        if len(inputs.shape) == 2 or keras.config.backend() != "jax":
            return super().call(inputs, training=training)
        shape = ops.shape(inputs)
        rows = super().call(ops.reshape(inputs, (-1, shape[-1])), training=training)
        return ops.reshape(rows, (*shape[:-1], self.units))
