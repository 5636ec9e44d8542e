"""The state of the transformer's decoder during a search."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.attention import KeyValues

Tensor = Any


class TransformerState(NamedTuple):
    """The cache that decoding carries from token to token, for k hypotheses per sentence.

    The batch is the first axis of every tensor. See `nmt.model.masks.ancestor_mask` for how
    hypotheses share a cache.
    """

    cache: tuple[KeyValues, ...]  # per layer, T * k slots
    ancestors: Tensor  # int32 [B, k, T]; -1 where nothing has been written
    memory: tuple[KeyValues, ...]  # per layer, S positions
    memory_mask: Tensor  # bool [B, 1, 1, S]
    coverage: Tensor | tuple[()]  # float32 [B, k, S]: attention received so far; (): not tracked

    def reorder(self, parents: Tensor) -> TransformerState:
        """See `Decoder.reorder`: only the table of ancestors moves, not the cache."""
        index = ops.expand_dims(parents, -1)
        coverage = self.coverage
        if not isinstance(coverage, tuple):
            coverage = ops.take_along_axis(coverage, index, axis=1)
        return self._replace(
            ancestors=ops.take_along_axis(self.ancestors, index, axis=1), coverage=coverage
        )

    def grow(self, positions: Tensor) -> TransformerState:
        """See `Decoder.grow`."""
        batch, beam_size = ops.shape(self.ancestors)[0], ops.shape(self.ancestors)[1]

        def lengthen(cache: KeyValues) -> KeyValues:
            heads, width = cache.keys.shape[1:3]
            keys = ops.zeros((batch, heads, width, positions * beam_size), cache.keys.dtype)
            width = cache.values.shape[3]
            values = ops.zeros((batch, heads, positions * beam_size, width), cache.values.dtype)
            return KeyValues(
                ops.concatenate([cache.keys, keys], axis=3),
                ops.concatenate([cache.values, values], axis=2),
            )

        unwritten = ops.full((batch, beam_size, positions), -1, "int32")
        return self._replace(
            cache=tuple(map(lengthen, self.cache)),
            ancestors=ops.concatenate([self.ancestors, unwritten], axis=2),
        )

    def growing_axes(self) -> TransformerState:
        """See `Decoder.growing_axes`."""
        fixed = TransformerState(*keras.tree.map_structure(lambda tensor: -1, tuple(self)))
        return fixed._replace(cache=tuple(KeyValues(3, 2) for _ in self.cache), ancestors=2)
