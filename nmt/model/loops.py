"""Loops over the positions of a row, with gradients that are written by hand.

What automatic differentiation makes of a loop keeps every intermediate of every position, adds up
the gradient of each weight position by position, and for most loops of Keras exists on one backend
only. So the loops of a recurrent model state their gradients themselves: backwards, a loop passes
on the gradients of states alone, and those of weights are single products over all positions
afterwards. Rows are laid out with positions first: [T, B, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import keras
from keras import ops

Tensor = Any
Record = TypeVar("Record")


def scan(
    step: Callable[[Record, Any], Record], first: Record, given: Any, *, reverse: bool = False
) -> Record:
    """Return the records that ``step`` makes one from another, stacked.

    Args:
        step: takes the record of the position before (behind it, where reversed) and what is given
            to its own, and returns its record: a nest of tensors like ``first``.
        first: what stands for the record before the first position.
        given: a nest of tensors [T, ...].
        reverse: whether to go from the last position to the first.

    Returns:
        A nest like ``first``, of tensors [T, ...].
    """

    def both(record: Record, position: Tensor) -> tuple[Record, Record]:
        record = step(record, keras.tree.map_structure(lambda x: x[position], given))
        return record, record

    # On TensorFlow, a scan over several tensors needs to know how long they are.
    length = ops.shape(keras.tree.flatten(given)[0])[0]
    positions = ops.arange(length, dtype="int32")
    return ops.scan(both, first, positions, reverse=reverse)[1]


def call_with_gradient(compute: Callable[..., Any], *arguments: Any) -> tuple[Tensor, ...]:
    """Return the outputs of ``compute(*arguments)``, which says itself what their gradient is.

    Args:
        compute: returns a tuple of tensors, and a function: of the gradients of these outputs, it
            returns those of the arguments, a nest like each; None for one that has none. It may
            use nothing that depends on weights but its arguments.
        *arguments: nests of tensors; () for one that is absent.
    """

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def flat(*tensors: Tensor) -> Any:
        outputs, back = compute(*keras.tree.pack_sequence_as(arguments, list(tensors)))

        def gradient(*upstream: Any, **_: Any) -> tuple[Tensor, ...]:
            found = back(*keras.tree.flatten(upstream))
            return tuple(
                leaf
                for argument, of_it in zip(arguments, found, strict=True)
                for leaf in keras.tree.flatten(_nothing(argument) if of_it is None else of_it)
            )

        return outputs, gradient

    return flat(*keras.tree.flatten(arguments))


def _nothing(argument: Any) -> Any:
    """Return None for every tensor of a nest."""
    return keras.tree.map_structure(lambda tensor: None, argument)


def earlier(x: Tensor, *, reverse: bool = False) -> Tensor:
    """Return what stands one position before each in ``x`` [T, ...]; before the first, zeros."""
    blank = ops.zeros_like(x[:1])
    return ops.concatenate([x[1:], blank] if reverse else [blank, x[:-1]], axis=0)


def kernel_gradient(x: Tensor, of_product: Tensor) -> Tensor:
    """Return the gradient [M, N] of a kernel from all its products: [..., M] and [..., N]."""
    rows, columns = (ops.reshape(side, (-1, side.shape[-1])) for side in (x, of_product))
    return ops.matmul(ops.transpose(rows), columns)


def bias_gradient(of_sum: Tensor) -> Tensor:
    """Return the gradient [N] of a bias from all its sums [..., N], added up in full precision."""
    rows = ops.reshape(of_sum, (-1, of_sum.shape[-1]))
    full = keras.backend.result_type(of_sum.dtype, "float32")
    return ops.cast(ops.sum(ops.cast(rows, full), axis=0), of_sum.dtype)
