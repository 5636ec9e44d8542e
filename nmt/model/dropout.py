"""Dropout as a pure function of a key: the same key gives the same mask on every backend.

Keras draws dropout masks from a counter that lives in the layer. Here the key is an argument, so a
mask depends on (run seed, step, place in the network) alone: a resumed run draws what the killed
one would have drawn, rematerialised blocks recompute the very mask of the forward pass, and
TensorFlow and JAX agree. The bits come from an integer hash of (key, element index), which XLA
fuses into the multiplication that uses them; a counter-based cryptographic generator costs up to a
quarter of a training step on a CPU.

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


class DropoutKey(NamedTuple):
    """What a mask is drawn from, and how far the rates have grown.

    Every layer knows its full rate; while training warms dropout up, masks are drawn at a share of
    it. The share is an integer because layers cast floating-point arguments to their own precision.

    Masks belong to the rows of the whole batch: who works on some of them says where they begin.
    What is drawn for a row then does not depend on how many devices, parts or micro-batches share
    the batch.
    """

    bits: Tensor  # uint32 scalar
    share: Tensor  # uint32 scalar: of the full rate, in 1 / FULL_SHARE, at most FULL_SHARE
    first_row: Tensor | int = 0  # uint32 scalar: of the whole batch, what row 0 here is

    def at_row(self, number: int | Tensor) -> DropoutKey:
        """Return the key of rows that begin ``number`` rows further down."""
        first = ops.add(_uint32(self.first_row), _uint32(number))
        return self._replace(first_row=first)


def _uint32(value: int | Tensor) -> Tensor:
    tensor = ops.convert_to_tensor(value, dtype="uint32") if isinstance(value, int) else value
    return ops.cast(tensor, "uint32")


def _mix(x: Tensor) -> Tensor:
    x = ops.bitwise_xor(x, ops.right_shift(x, _uint32(16)))
    x = ops.multiply(x, _uint32(0x7FEB352D))
    x = ops.bitwise_xor(x, ops.right_shift(x, _uint32(15)))
    x = ops.multiply(x, _uint32(0x846CA68B))
    return ops.bitwise_xor(x, ops.right_shift(x, _uint32(16)))


def fold(key: Tensor | None, place: int | Tensor) -> Tensor | None:
    """Derive the key of one ``place`` (a layer, a step, a replica) from the key around it.

    Args:
        key: uint32 scalar, or a `DropoutKey`; None, where dropout is off, stays None.
        place: a non-negative integer, or an integer scalar tensor.

    Returns:
        A key of the same kind, unrelated to the keys of other places.
    """
    if key is None:
        return None
    if isinstance(key, DropoutKey):
        return key._replace(bits=fold(key.bits, place))
    number = ops.add(_uint32(place), _uint32(1))
    return _mix(ops.add(key, ops.multiply(number, _uint32(_GOLDEN))))


def resolve_key(
    key: Tensor | None, generator: keras.random.SeedGenerator | None, training: bool | None
) -> Tensor | None:
    """Return the key of dropout: ``key``, or while Keras trains one drawn from ``generator``.

    Args:
        key: of a training that draws its own keys; None: no dropout, unless Keras trains.
        generator: of the layer or model; None: it has no dropout, or is a part of a model.
        training: Keras's argument of that name.
    """
    if key is not None or generator is None or not training:
        return key
    drawn = ops.cast(generator.next(), "uint32")
    return fold(drawn[0], drawn[1])


def uniform(keys: Tensor) -> Tensor:
    """Return float32 numbers in (0, 1), one for each key: uint32 of any shape, from `fold`."""
    # 24 bits are what a float32 holds; the half keeps 0 out. The largest of them, 2^24 - 0.5, is no
    # float32 and is rounded up to 2^24.
    numbers = (ops.cast(ops.right_shift(keys, _uint32(8)), "float32") + 0.5) * 2.0**-24
    return ops.minimum(numbers, 1 - 2.0**-24)


class Odds(NamedTuple):
    """What decides which elements a mask keeps, and what those are multiplied by."""

    bits: Tensor  # uint32 scalar
    threshold: Tensor  # uint32 scalar: the share that is dropped, in 2^-32
    scale: Any  # 1 / (1 - that share): a number or a float32 scalar


def odds(rate: float, key: Tensor, per_row: int | Tensor) -> Odds:
    """Return the odds of a mask.

    Args:
        rate: in (0, 1).
        key: as for `dropout`, but not None.
        per_row: elements of one row of the batch.
    """
    whole = round(rate * 2**32)
    if not isinstance(key, DropoutKey):
        return Odds(key, _uint32(whole), 1.0 / (1.0 - rate))
    high, low = (_uint32(part) for part in divmod(whole, FULL_SHARE))
    share = key.share
    threshold = high * share + ops.right_shift(low * share, _uint32(16))  # rate times share
    scale = 1.0 / (1.0 - ops.cast(threshold, "float32") * 2.0**-32)
    # The rows before these come first in the count of elements.
    before = ops.multiply(_uint32(key.first_row), _uint32(per_row))
    return Odds(ops.add(key.bits, before), threshold, scale)


def keeps(odds: Odds, counters: Tensor) -> Tensor:
    """Tell which elements a mask keeps.

    Args:
        odds: of the mask.
        counters: uint32 of any shape, the elements' numbers, row of the batch by row, from 0.

    Returns:
        bool, of the shape of ``counters``.
    """
    return ops.greater_equal(_mix(ops.add(counters, odds.bits)), odds.threshold)


def dropout(x: Tensor, rate: float, key: Tensor | None, *, time_major: bool = False) -> Tensor:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate).

    Args:
        x: float tensor of any shape, of fewer than 2^31 elements; rows of the batch come first.
        rate: in [0, 1).
        key: from `fold` (masks of neighbouring raw keys are each other's shifts), a uint32 scalar
            or a `DropoutKey`; None switches dropout off (inference).
        time_major: whether ``x`` is [T, B, ...]: what is dropped is then that of [B, T, ...].
    """
    if key is None or rate == 0:
        return x
    shape = ops.shape(x)
    if time_major:
        shape = (shape[1], shape[0], *shape[2:])
    chances = odds(rate, key, math.prod(shape[1:]))
    counters = ops.cast(ops.arange(math.prod(shape), dtype="int32"), "uint32")
    kept = ops.reshape(keeps(chances, counters), shape)
    if time_major:
        kept = ops.swapaxes(kept, 0, 1)
    return ops.where(kept, x * ops.cast(chances.scale, x.dtype), ops.zeros_like(x))
