"""Dropout as a pure function of a key: the same key gives the same mask on every backend.

Keras draws dropout masks from a counter inside the layer. Here the key is an argument, so a mask
depends only on (run seed, update, layer, row): a resumed run draws the masks that the interrupted
run would have drawn, rematerialised blocks recompute the mask of the forward pass, and TensorFlow
and JAX agree. The bits come from an integer hash of (key, element index), which XLA fuses into the
multiplication that uses them; a counter-based cryptographic generator would take up to a quarter
of a training step on a CPU.

The hash is the 32-bit finaliser "lowbias32" found by Chris Wellons' search (Prospecting for Hash
Functions, 2018): every input bit flips every output bit with a probability of 0.5 ± 0.002.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
from keras import ops

Tensor = Any

_GOLDEN = 0x9E3779B9  # 2^32 / golden ratio: spreads small integers over the 32-bit range
FULL_SHARE = 1 << 16  # see `DropoutKey`


def encode_share(share: float) -> int:
    """Return a share of the full rates, 0 to 1, as `DropoutKey` holds it."""
    return round(share * FULL_SHARE)


class DropoutKey(NamedTuple):
    """The random bits of a mask, and the share of the full rate.

    Every layer knows its full rate; while training warms dropout up, masks are drawn at a share of
    it. The share is an integer because layers cast floating-point arguments to their own precision.

    Masks are defined on the rows of the full batch. ``first_row`` tells which of them a micro-batch
    or device holds, so the mask of a row does not depend on how the batch is divided.
    """

    bits: Tensor  # uint32 scalar
    share: Tensor  # uint32 scalar: share of the full rate, from 0 to FULL_SHARE
    first_row: Tensor | int = 0  # uint32 scalar: index of row 0 in the full batch

    def at_row(self, number: int | Tensor) -> DropoutKey:
        """Return the key of the rows from ``number`` on, counted from ``first_row``."""
        return self._replace(first_row=ops.add(_uint32(self.first_row), _uint32(number)))


def _uint32(value: int | Tensor) -> Tensor:
    tensor = ops.convert_to_tensor(value, dtype="uint32") if isinstance(value, int) else value
    return ops.cast(tensor, "uint32")


def _mix(x: Tensor) -> Tensor:
    x = ops.bitwise_xor(x, ops.right_shift(x, _uint32(16)))
    x = ops.multiply(x, _uint32(0x7FEB352D))
    x = ops.bitwise_xor(x, ops.right_shift(x, _uint32(15)))
    x = ops.multiply(x, _uint32(0x846CA68B))
    return ops.bitwise_xor(x, ops.right_shift(x, _uint32(16)))


def fold(key: Tensor | None, index: int | Tensor) -> Tensor | None:
    """Derive the key of one layer, step or replica from the key of the model or run.

    Args:
        key: uint32 tensor of any shape, or `DropoutKey`; None (dropout is off) stays None.
        index: a non-negative integer, or an integer tensor; its shape is broadcast with the key's.

    Returns:
        A key of the same type, unrelated to the keys of other indices.
    """
    if key is None:
        return None
    if isinstance(key, DropoutKey):
        return key._replace(bits=fold(key.bits, index))
    number = ops.add(_uint32(index), _uint32(1))
    return _mix(ops.add(key, ops.multiply(number, _uint32(_GOLDEN))))


def resolve_key(
    key: Tensor | None, generator: keras.random.SeedGenerator | None, training: bool | None
) -> Tensor | None:
    """Return ``key`` or, while Keras trains, a new key from ``generator``.

    Args:
        key: the caller's key; None: no dropout, unless Keras trains.
        generator: the layer's or model's; None: the layer has no dropout, or belongs to a model.
        training: Keras's argument of that name.
    """
    if key is not None or generator is None or not training:
        return key
    seed = ops.cast(generator.next(), "uint32")
    return fold(seed[0], seed[1])


def uniform(keys: Tensor) -> Tensor:
    """Return float32 numbers in (0, 1), one for each key: uint32 of any shape, from `fold`."""
    # A float32 holds 24 bits; adding a half excludes 0. The largest sum, 2^24 - 0.5, is not a
    # float32: it rounds up to 2^24, and `minimum` excludes 1.
    numbers = (ops.cast(ops.right_shift(keys, _uint32(8)), "float32") + 0.5) * 2.0**-24
    return ops.minimum(numbers, 1 - 2.0**-24)


class MaskParameters(NamedTuple):
    """The random bits and threshold of a mask, and the scale of the elements it keeps."""

    bits: Tensor  # uint32 scalar
    threshold: Tensor  # uint32 scalar: the share that is dropped, in units of 2^-32
    scale: Any  # 1 / (1 - that share): a number or a float32 scalar


def mask_parameters(rate: float, key: Tensor, row_size: int | Tensor) -> MaskParameters:
    """Return the parameters of a mask.

    Args:
        rate: in (0, 1).
        key: see `dropout`; not None.
        row_size: number of elements in one row of the batch.
    """
    full = round(rate * 2**32)
    if not isinstance(key, DropoutKey):
        return MaskParameters(key, _uint32(full), 1.0 / (1.0 - rate))
    high, low = (_uint32(digit) for digit in divmod(full, FULL_SHARE))
    share = key.share
    threshold = high * share + ops.right_shift(low * share, _uint32(16))  # rate times share
    scale = 1.0 / (1.0 - ops.cast(threshold, "float32") * 2.0**-32)
    # Elements are counted from the first row of the full batch.
    first_element = ops.multiply(_uint32(key.first_row), _uint32(row_size))
    return MaskParameters(ops.add(key.bits, first_element), threshold, scale)


def keep_mask(parameters: MaskParameters, counters: Tensor) -> Tensor:
    """Return a mask: bool with the shape of ``counters``, False for dropped elements.

    Args:
        parameters: from `mask_parameters`.
        counters: uint32 of any shape: the elements' indices in the batch, from 0, row by row.
    """
    return ops.greater_equal(_mix(ops.add(counters, parameters.bits)), parameters.threshold)


def dropout(x: Tensor, rate: float, key: Tensor | None, *, time_major: bool = False) -> Tensor:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Args:
        x: float tensor with fewer than 2^31 elements; the batch is its first axis.
        rate: in [0, 1).
        key: uint32 scalar or `DropoutKey`, from `fold`: the masks of raw keys n and n + 1 would be
            shifted copies. None: no dropout.
        time_major: whether ``x`` is [T, B, ...]; it gets the mask of [B, T, ...].
    """
    if key is None or rate == 0:
        return x
    shape = ops.shape(x)
    if time_major:
        shape = (shape[1], shape[0], *shape[2:])
    parameters = mask_parameters(rate, key, math.prod(shape[1:]))
    counters = ops.cast(ops.arange(math.prod(shape), dtype="int32"), "uint32")
    keep = keep_mask(parameters, counters)
    scale = ops.cast(parameters.scale, x.dtype)
    if time_major:
        keep = ops.swapaxes(ops.reshape(keep, shape), 0, 1)
        return ops.where(keep, x * scale, ops.zeros_like(x))
    # As a matrix: XLA sums its gradient over the rows faster than over several axes.
    matrix = ops.reshape(x, (-1, shape[-1]))
    keep = ops.reshape(keep, ops.shape(matrix))
    return ops.reshape(ops.where(keep, matrix * scale, ops.zeros_like(matrix)), shape)
