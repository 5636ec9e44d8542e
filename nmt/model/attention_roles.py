"""The three roles of attention in a transformer: Vaswani et al. 2017, section 3.2.3."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
from keras import ops

from nmt.model.attention import KeyValues
from nmt.model.dropout import resolve_key
from nmt.model.masks import SegmentMask, causal_mask, combine_masks
from nmt.model.multi_head import MultiHeadAttention

Tensor = Any


@keras.saving.register_keras_serializable("nmt")
class SelfAttention(MultiHeadAttention):
    """Every token attends to every token of its sequence (the encoder)."""

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | SegmentMask | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Attend within ``x`` [B, L, D].

        Args:
            x: [B, L, D].
            attention_mask: bool, broadcastable to [B, H, L, L], or [B, L, L]; None: every token
                may attend to every token.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_weights: whether to return the weights too.
            distance_bias: [H, 2 L - 1], see `scaled_dot_product_attention`.
            mask: bool [B, L], False for padding: as Keras passes it from layer to layer.
            x_mask: the same; Keras uses this name where a layer has several inputs.
            training: of a standalone layer: switches its dropout on.

        Returns:
            The output [B, L, D]; with ``return_weights``, (output, weights float32 [B, H, L, L]).
        """
        keys, values = self.project(x)
        attention_mask = self.complete_mask(x, attention_mask)
        return self.attend(
            x,
            keys,
            values,
            combine_masks(attention_mask, x_mask if mask is None else mask),
            distance_bias=distance_bias,
            dropout_key=resolve_key(dropout_key, self.generator, training),
            return_weights=return_weights,
        )

    def complete_mask(
        self, x: Tensor, attention_mask: Tensor | SegmentMask | None
    ) -> Tensor | SegmentMask | None:
        """Return the mask of a call, without padding: here, ``attention_mask``."""
        return attention_mask


@keras.saving.register_keras_serializable("nmt")
class CausalSelfAttention(SelfAttention):
    """Every token attends to itself and to the tokens before it (the decoder).

    In a model, which builds the mask once for all blocks, ``attention_mask`` includes causality. A
    standalone layer adds causality to it. None: `causal_mask` only.
    """

    def complete_mask(
        self, x: Tensor, attention_mask: Tensor | SegmentMask | None
    ) -> Tensor | SegmentMask:
        """Return the causal mask of a call."""
        if attention_mask is None:
            if self.sizes.kernel != "chunked":
                return causal_mask(ops.shape(x)[1])
            single = ops.ones((ops.shape(x)[0], ops.shape(x)[1]), "int32")
            return SegmentMask(single, single, causal=True)
        if not self.standalone:
            return attention_mask
        if isinstance(attention_mask, SegmentMask):
            return dataclasses.replace(attention_mask, causal=True)
        causal = causal_mask(ops.shape(x)[1])
        return ops.logical_and(combine_masks(attention_mask, None), causal)

    def step(
        self,
        x: Tensor,
        cache: KeyValues,
        mask: Tensor,
        index: Tensor,
        beam_size: int,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """Attend from the newest token of each hypothesis to the tokens it descends from.

        Args:
            x: [B * k, D], the tokens at position ``index``.
            cache: T * k slots, filled below position ``index``.
            mask: bool [B, 1, k, T * k], from `ancestor_mask`; includes position ``index``.
            index: int32 scalar.
            beam_size: k.
            bias: [H, T * k], added to the scores; None: no bias.

        Returns:
            (output [B * k, D], the cache with position ``index`` filled in).
        """
        lead = (-1, beam_size)
        values = self.split_heads(self.value(x), lead, self.sizes.value_width)
        keys = self._place_heads(self.key(x), self.key_norm, lead, index)
        new = KeyValues.from_heads(keys, values)
        cache = KeyValues(
            ops.slice_update(cache.keys, (0, 0, 0, index * beam_size), new.keys),
            ops.slice_update(cache.values, (0, 0, index * beam_size, 0), new.values),
        )
        return self.attend_to_cache(x, cache, mask, beam_size, position=index, bias=bias)[0], cache


@keras.saving.register_keras_serializable("nmt")
class CrossAttention(MultiHeadAttention):
    """Every target token attends to every source token (decoder to encoder)."""

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | SegmentMask | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        memory_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Let ``x`` [B, T, D] attend to ``memory`` [B, S, D].

        Args:
            x: [B, T, D].
            memory: [B, S, D], the encoder's output.
            attention_mask: bool, broadcastable to [B, H, T, S], or [B, T, S]; None: every token
                may attend to every source token.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_weights: whether to return the weights too.
            memory_mask: bool [B, S], False for padding: as Keras passes it from layer to layer.
            training: of a standalone layer: switches its dropout on.

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights float32 [B, H, T, S]).
        """
        keys, values = self.project(memory)
        return self.attend(
            x,
            keys,
            values,
            combine_masks(attention_mask, memory_mask),
            dropout_key=resolve_key(dropout_key, self.generator, training),
            return_weights=return_weights,
        )
