"""Loops over the positions of a row, with hand-written gradients.

Automatic differentiation of a loop keeps every intermediate of every position and sums the gradient
of each weight position by position, and XLA cannot compile it on TensorFlow. So the loops of a
recurrent model define their gradients themselves: the backward loop passes on only the gradients of
states, and the gradients of weights are single products over all positions afterwards. Positions
are the first axis: [T, B, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras
from keras import ops

Tensor = Any
Carry = TypeVar("Carry")


def scan(
    step: Callable[[Carry, Any], Carry], initial: Carry, inputs: Any, *, reverse: bool = False
) -> Carry:
    """Return the results of ``step`` at all positions, stacked.

    Args:
        step: takes the result at the previous position (the next one, if reversed) and the inputs
            of its position, and returns its result: nested tensors like ``initial``.
        initial: stands for the result before the first position.
        inputs: nested tensors [T, ...].
        reverse: whether to go from the last position to the first.

    Returns:
        Nested like ``initial``, tensors [T, ...].
    """

    def step_at(carry: Carry, position: Tensor) -> tuple[Carry, Carry]:
        carry = step(carry, keras.tree.map_structure(lambda x: x[position], inputs))
        return carry, carry

    # On TensorFlow, a scan over several tensors needs their static length.
    length = ops.shape(keras.tree.flatten(inputs)[0])[0]
    positions = ops.arange(length, dtype="int32")
    return ops.scan(step_at, initial, positions, reverse=reverse)[1]


def call_with_gradient(compute: Callable[..., Any], *arguments: Any) -> tuple[Tensor, ...]:
    """Return the outputs of ``compute(*arguments)``, which defines its own gradient.

    Args:
        compute: returns a tuple of output tensors and a function that maps the outputs' gradients
            to those of the arguments: nested like each argument, or None for one without gradient.
            It must not use weights other than its arguments.
        *arguments: nested tensors; () where absent.
    """

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def call_flat(*tensors: Tensor) -> Any:
        outputs, backward = compute(*keras.tree.pack_sequence_as(arguments, list(tensors)))

        def gradient(*upstream: Any, **_: Any) -> tuple[Tensor, ...]:
            gradients = backward(*keras.tree.flatten(upstream))
            return tuple(
                leaf
                for argument, nested in zip(arguments, gradients, strict=True)
                for leaf in keras.tree.flatten(_all_none(argument) if nested is None else nested)
            )

        return outputs, gradient

    return call_flat(*keras.tree.flatten(arguments))


def _all_none(argument: Any) -> Any:
    """Return None for every tensor of a nest."""
    return keras.tree.map_structure(lambda tensor: None, argument)


def shift(x: Tensor, *, reverse: bool = False) -> Tensor:
    """Shift ``x`` [T, ...] so that each position holds the previous one (the next, if reversed).

    The first position (the last, if reversed) holds zeros.
    """
    zeros = ops.zeros_like(x[:1])
    return ops.concatenate([x[1:], zeros] if reverse else [zeros, x[:-1]], axis=0)


def kernel_gradient(inputs: Tensor, product_gradient: Tensor) -> Tensor:
    """Return the gradient [M, N] of a kernel from its inputs [..., M] and products [..., N]."""
    rows, columns = (ops.reshape(x, (-1, x.shape[-1])) for x in (inputs, product_gradient))
    return ops.matmul(ops.transpose(rows), columns)


def bias_gradient(sum_gradient: Tensor) -> Tensor:
    """Return the gradient [N] of a bias from its sums [..., N], summed in float32 at least."""
    rows = ops.reshape(sum_gradient, (-1, sum_gradient.shape[-1]))
    dtype = keras.backend.result_type(sum_gradient.dtype, "float32")
    return ops.cast(ops.sum(ops.cast(rows, dtype), axis=0), sum_gradient.dtype)
