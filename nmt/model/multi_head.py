"""Multi-head attention: Vaswani et al. 2017, section 3.2.2."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from nmt.model.attention import (
    KeyValues,
    attention_weights,
    scaled_dot_product_attention,
    weighted_values,
)
from nmt.model.layers import Dense, StandaloneLayer
from nmt.model.masks import SegmentMask
from nmt.model.positions import rotate
from nmt.model.sizes import NORM_EPSILON, AttentionSizes

Tensor = Any


class HeadProjections(keras.layers.Layer):
    """A separate matrix [D, K] per head, applied side by side: [B, L, D] -> [B, L, H K]."""

    def __init__(self, heads: int, width: int, *, biases: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = [
            Dense(width, use_bias=biases, name=f"head_{i}", dtype=self.dtype_policy)
            for i in range(heads)
        ]

    def build(self, input_shape: Any) -> None:
        """Create the weights of every head."""
        for head in self.heads:
            head.build(input_shape)
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        """[.., D] -> [.., H K]."""
        return ops.concatenate([head(x) for head in self.heads], axis=-1)


class MultiHeadAttention(StandaloneLayer):
    """H attention heads side by side: Vaswani et al. 2017, section 3.2.2.

    The base of the three roles in `nmt.model.attention_roles`, which differ only in the queries,
    keys, values and masks that they pass to `attend`. The kernels are matrices (one for all heads,
    unless ``sizes.heads`` is "own"), so that each projection is a single matrix product and 2-D
    optimizers apply.

    Its sizes are the fields of `AttentionSizes`; see `StandaloneLayer` for the arguments.
    """

    sizes_class = AttentionSizes
    sizes: AttentionSizes

    def __init__(
        self, sizes: AttentionSizes | None = None, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(sizes, seed=seed, **kwargs)
        sizes = self.sizes
        self.query = self._projection("query", sizes.num_heads, sizes.head_width)
        self.key = self._projection("key", sizes.groups, sizes.head_width)
        self.value = self._projection("value", sizes.groups, sizes.value_width)
        self.output_projection = None
        if sizes.output:
            self.output_projection = Dense(
                sizes.d_model, use_bias=sizes.biases, name="output", dtype=self.dtype_policy
            )
        self.query_norm = self.key_norm = None
        if sizes.qk_norm:
            self.query_norm, self.key_norm = (
                keras.layers.RMSNormalization(
                    epsilon=NORM_EPSILON, name=name, dtype=self.dtype_policy
                )
                for name in ("query_norm", "key_norm")
            )

    def _projection(self, name: str, heads: int, width: int) -> keras.layers.Layer:
        biases, policy = self.sizes.biases, self.dtype_policy
        if self.sizes.heads == "own":
            return HeadProjections(heads, width, biases=biases, name=name, dtype=policy)
        return Dense(heads * width, use_bias=biases, name=name, dtype=policy)

    @property
    def num_heads(self) -> int:
        """H."""
        return self.sizes.num_heads

    def build(self, *input_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes only.

        Raises:
            ValueError: the last axis of an input is not D.
        """
        sizes = self.sizes
        for shape in (*input_shapes, *named_shapes.values()):
            # A saved layer that was built by hand is built with all shapes in one list.
            width = None if shape is None else shape[-1]
            if isinstance(width, int) and width != sizes.d_model:
                raise ValueError(f"inputs of {self.name} must be {sizes.d_model} wide, got {width}")
        for layer in (self.query, self.key, self.value):
            layer.build((None, None, sizes.d_model))
        if self.output_projection is not None:
            width = sizes.value_width if sizes.heads == "pooled" else sizes.d_model
            self.output_projection.build((None, None, width))
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.build((None, None, sizes.head_width))
        self.build_others(sizes.d_model)
        self.built = True

    def split_heads(
        self, x: Tensor, lead: tuple[Any, ...] | None = None, width: int | None = None
    ) -> Tensor:
        """Split the last axis into heads: [B, L, H K] -> [B, L, H, K].

        Args:
            x: [B, L, H K], or rank 2, or with another number of heads.
            lead: the axes before the heads in the result; None: (B, L).
            width: the width of a head; None: K.
        """
        width = self.sizes.head_width if width is None else width
        lead = (ops.shape(x)[0], ops.shape(x)[1]) if lead is None else lead
        return ops.reshape(x, (*lead, x.shape[-1] // width, width))

    def _place_heads(
        self,
        x: Tensor,
        norm: keras.layers.Layer | None,
        lead: tuple[Any, ...] | None = None,
        position: Tensor | None = None,
    ) -> Tensor:
        """Split projected queries or keys into heads, then normalise and rotate them.

        Where a row holds several segments, positions count from the start of the row: only
        distances matter.

        Args:
            x: [B, L, H K], or rank 2.
            norm: `query_norm` or `key_norm`.
            lead: see `split_heads`.
            position: int32 scalar, the position of every token of ``x``; None: 0 … L - 1.
        """
        x = self.split_heads(x, lead)
        if norm is not None:
            x = norm(x)
        if not self.sizes.rotary:
            return x
        positions = ops.arange(ops.shape(x)[1], dtype="int32") if position is None else position
        return rotate(x, positions)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys [B, S, G, K] and values [B, S, G, C] of ``memory`` [B, S, D]."""
        keys = self._place_heads(self.key(memory), self.key_norm)
        return keys, self.split_heads(self.value(memory), width=self.sizes.value_width)

    def attend(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | SegmentMask | None,
        *,
        distance_bias: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Let ``x`` [B, T, D] attend to keys [B, S, G, K] and values [B, S, G, C].

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights float32 [B, H, T, S]).
        """
        output, weights = scaled_dot_product_attention(
            self._place_heads(self.query(x), self.query_norm),
            keys,
            values,
            mask,
            distance_bias=distance_bias,
            dropout_rate=self.sizes.dropout,
            dropout_key=dropout_key,
            kernel=self.sizes.kernel,
            return_weights=return_weights,
        )
        merged = self.merge_heads(output, (ops.shape(x)[0], ops.shape(x)[1]))
        return (merged, weights) if return_weights else merged

    def merge_heads(self, heads: Tensor, lead: tuple[Any, ...]) -> Tensor:
        """Concatenate (or add) heads [B, T, H, C] and project them: [*lead, D].

        ``lead`` are the first axes of the result, such as (B, T) or (B T,).
        """
        if self.sizes.heads == "pooled":
            heads = ops.sum(heads, axis=2)
        merged = ops.reshape(heads, (*lead, self.sizes.d_model))
        return merged if self.output_projection is None else self.output_projection(merged)

    def attend_to_cache(
        self,
        x: Tensor,
        cache: KeyValues,
        mask: Tensor,
        beam_size: int,
        *,
        position: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Let one token of each hypothesis attend to cached keys and values, without dropout.

        Args:
            x: [B * k, D]: rank 2, because products of rank 3 cost a dozen small operations each
                where shapes are dynamic.
            cache: keys and values of S positions.
            mask: bool, broadcastable to [B, H, k, S].
            beam_size: k.
            position: int32 scalar, the position of ``x``; needed where heads are rotary.
            bias: [H, S], added to the scores; None: no bias.

        Returns:
            (output [B * k, D], weights float32 [B, H, k, S]).
        """
        query = self._place_heads(self.query(x), self.query_norm, (-1, beam_size), position)
        bias = None if bias is None else bias[None, :, None, :]
        weights = attention_weights(query, cache.keys, mask, bias, cached=True)
        output = weighted_values(weights, cache.values, cached=True)
        return self.merge_heads(output, (-1,)), weights

    def head_weights(self, number: int) -> list[tuple[keras.Variable, Any]]:
        """Return the weights that silence head ``number`` when they are set to zero.

        They are the head's rows of the output kernel or, where heads have no rows of their own
        there, the weights of its values.

        Returns:
            (variable, index) of each; heads count from 0.
        """
        width = self.sizes.value_width
        columns = slice(number * width, (number + 1) * width)
        if self.output_projection is not None and self.sizes.heads != "pooled":
            return [(self.output_projection.kernel, columns)]
        if self.sizes.heads == "own":
            return [(weight, ...) for weight in self.value.heads[number].weights]
        return [(weight, (..., columns)) for weight in self.value.weights]
