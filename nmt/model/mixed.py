"""Products of half-precision matrices, summed and returned in float32 where the hardware can."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

Tensor = Any


def multiply_to_float32(x: Tensor, table: Tensor) -> Tensor:
    """Multiply in half precision, as tensor cores do, with a float32 result.

    Products of two half-precision numbers are exact in float32, so the result is as accurate as a
    float32 product. Its gradient is rounded to half precision before it is multiplied.

    Args:
        x: float16 or bfloat16 [..., D].
        table: [V, D], of the same dtype.

    Returns:
        float32 [..., V]
    """

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def multiply(rows: Tensor, table: Tensor) -> Any:
        """[N, D], [V, D] -> [N, V]."""

        def gradient(upstream: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
            upstream = ops.cast(upstream, rows.dtype)  # [N, V]
            rows_gradient = _contract(upstream, table, 1, 0)  # [N, D]
            table_gradient = _contract(upstream, rows, 0, 0)  # [V, D]
            return ops.cast(rows_gradient, rows.dtype), ops.cast(table_gradient, rows.dtype)

        return _contract(rows, table, 1, 1), gradient

    shape = ops.shape(x)
    logits = multiply(ops.reshape(x, (-1, shape[-1])), table)
    return ops.reshape(logits, (*shape[:-1], table.shape[0]))


def _contract(a: Tensor, b: Tensor, a_axis: int, b_axis: int) -> Tensor:
    """Return the float32 product of two half-precision matrices over one axis of each."""
    if keras.config.backend() == "jax":
        from jax import lax

        numbers = (((a_axis,), (b_axis,)), ((), ()))
        return lax.dot_general(a, b, numbers, preferred_element_type="float32")
    import tensorflow as tf

    if tf.__internal__.get_enclosing_xla_context() is not None:
        from tensorflow.compiler.tf2xla.python import xla
        from tensorflow.compiler.xla import xla_data_pb2

        numbers = xla_data_pb2.DotDimensionNumbers(
            lhs_contracting_dimensions=[a_axis], rhs_contracting_dimensions=[b_axis]
        )
        return xla.dot_general(a, b, numbers, preferred_element_type=tf.float32)
    # `tf.matmul` returns the dtype of its operands, which would round the result.
    a, b = tf.cast(a, tf.float32), tf.cast(b, tf.float32)
    return tf.matmul(a, b, transpose_a=a_axis == 0, transpose_b=b_axis == 1)
