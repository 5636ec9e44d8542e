"""Attention: the masks, the one attention function, and its three roles in a transformer.

Masks are boolean and True means "may attend". They are built once by the model, with the functions
below, and broadcast to [B, H, T, S]. Layers take them as ``attention_mask``: an argument called
``mask`` would switch on Keras's implicit masks.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import keras
from keras import ops

from nmt.model.dropout import dropout
from nmt.model.sizes import AttentionSizes

Tensor = Any

MASKED_SCORE = -1e30  # finite, so that a row with nothing to attend to gives no NaN


class KeyValues(NamedTuple):
    """Keys and values as decoding keeps them: laid out for its products, so no step turns them."""

    keys: Tensor  # [B, H, K, S]
    values: Tensor  # [B, H, S, K]


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Let tokens attend within their own segment, and nothing attend to padding.

    A row may hold several sentence pairs, numbered 1, 2, …; 0 is padding.

    Args:
        query_segments: int [B, T].
        key_segments: int [B, S].

    Returns:
        bool [B, 1, T, S].
    """
    queries = ops.expand_dims(query_segments, -1)  # [B, T, 1]
    keys = ops.expand_dims(key_segments, 1)  # [B, 1, S]
    same = ops.logical_and(ops.equal(queries, keys), ops.greater(keys, 0))
    return ops.expand_dims(same, 1)  # [B, 1, T, S]


def causal_mask(length: int | Tensor) -> Tensor:
    """Let position t attend to positions 0 … t. Returns bool [1, 1, T, T]."""
    index = ops.arange(length, dtype="int32")
    return ops.expand_dims(ops.greater_equal(index[:, None], index[None, :]), (0, 1))


def ancestor_mask(ancestors: Tensor) -> Tensor:
    """Let each hypothesis attend to what it descends from.

    Hypotheses of one sentence share a cache of T * k slots: slot t * k + j holds what the
    hypothesis in place j wrote at position t. When hypotheses change places, only this table of
    who descends from whom does, and the cache stays where it is.

    Args:
        ancestors: int [B, k, T], the place j that position t of hypothesis i came from; -1 where
            nothing has been written.

    Returns:
        bool [B, 1, k, T * k].
    """
    batch, places, length = (ops.shape(ancestors)[axis] for axis in range(3))
    same = ops.equal(ops.expand_dims(ancestors, -1), ops.arange(places, dtype="int32"))
    return ops.reshape(same, (batch, 1, places, length * places))


def _weights(product: str, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(Q Kᵀ / sqrt(K)) in float32, over what the mask allows; zeros where it allows nothing.

    Args:
        product: the einsum that makes scores [B, H, T, S] of the two.
        query: [B, T, H, K].
        key: keys of S positions.
        mask: bool, broadcastable to [B, H, T, S]; None: everything may attend.
    """
    if keras.backend.standardize_dtype(query.dtype) == "float16":  # scores overflow it
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    scores = ops.cast(ops.einsum(product, query, key), "float32")
    if mask is not None:
        scores = ops.where(mask, scores, MASKED_SCORE)
    weights = ops.softmax(scores, axis=-1)
    return weights if mask is None else ops.where(mask, weights, 0.0)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    dropout_rate: float = 0.0,
    dropout_key: Tensor | None = None,
    kernel: str = "explicit",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q Kᵀ / sqrt(K)) V: Vaswani et al. 2017, equation 1, for all heads at once.

    The softmax runs in float32 whatever the inputs. A query that may attend to nothing gets zeros.

    Args:
        query: [B, T, H, K].
        key: [B, S, H, K].
        value: [B, S, H, K].
        mask: bool, broadcastable to [B, H, T, S], True = may attend; None: everything may.
        dropout_rate: share of the weights dropped while training.
        dropout_key: see `nmt.model.dropout`; None: no dropout.
        kernel: "explicit" (einsum and softmax) or "fused" (`keras.ops.dot_product_attention`).
            A fused kernel has neither weights nor dropout: asking for either takes the explicit
            path.
        return_weights: whether to return the weights too (before dropout).

    Returns:
        (output [B, T, H, K], weights float32 [B, H, T, S] or None).
    """
    dropping = dropout_key is not None and dropout_rate > 0
    half = keras.backend.standardize_dtype(query.dtype) == "float16"
    # Keras on TensorFlow has no kernel for it, only products that overflow float16.
    overflows = half and keras.config.backend() == "tensorflow"
    if kernel == "fused" and not return_weights and not dropping and not overflows:
        output = ops.dot_product_attention(query, key, value, mask=mask)
        if mask is not None:
            reachable = ops.any(mask, axis=-1)  # [B, H or 1, T]
            reachable = ops.expand_dims(ops.swapaxes(reachable, 1, 2), -1)  # [B, T, H or 1, 1]
            output = ops.where(reachable, output, ops.zeros_like(output))
        return output, None

    weights = _weights("bthk,bshk->bhts", query, key, mask)  # [B, H, T, S]
    dropped = dropout(weights, dropout_rate, dropout_key)
    output = ops.einsum("bhts,bshk->bthk", ops.cast(dropped, value.dtype), value)
    return output, weights if return_weights else None


class MultiHeadAttention(keras.layers.Layer):
    """H attention heads side by side: Vaswani et al. 2017, section 3.2.2.

    The base of the three roles below, which differ only in what they pass to `attend`. The four
    kernels are matrices [D, D] (all heads in one), so that each is a single matrix product and
    2-D optimizers apply to them.
    """

    def __init__(self, sizes: AttentionSizes, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sizes = sizes
        self.query = self._projection("query")
        self.key = self._projection("key")
        self.value = self._projection("value")
        self.output_projection = self._projection("output")

    def _projection(self, name: str) -> keras.layers.Layer:
        return keras.layers.Dense(self.sizes.d_model, name=name, dtype=self.dtype_policy)

    @property
    def num_heads(self) -> int:
        """H."""
        return self.sizes.num_heads

    def build(self, *input_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights; their shapes depend on D alone."""
        for layer in (self.query, self.key, self.value, self.output_projection):
            layer.build((None, None, self.sizes.d_model))
        self.built = True

    def split_heads(self, x: Tensor) -> Tensor:
        """[B, L, D] -> [B, L, H, K]."""
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        return ops.reshape(x, (batch, length, self.num_heads, self.sizes.head_width))

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values [B, S, H, K] of ``memory`` [B, S, D]."""
        return self.split_heads(self.key(memory)), self.split_heads(self.value(memory))

    def attend(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let ``x`` [B, T, D] attend to keys and values [B, S, H, K].

        Returns:
            (output [B, T, D], weights float32 [B, H, T, S] or None).
        """
        output, weights = scaled_dot_product_attention(
            self.split_heads(self.query(x)),
            keys,
            values,
            mask,
            dropout_rate=self.sizes.dropout,
            dropout_key=dropout_key,
            kernel=self.sizes.kernel,
            return_weights=return_weights,
        )
        batch, length = ops.shape(x)[0], ops.shape(x)[1]
        merged = ops.reshape(output, (batch, length, self.sizes.d_model))  # [B, T, D]
        return self.output_projection(merged), weights

    def keep(self, memory: Tensor) -> KeyValues:
        """Project ``memory`` [B, S, D] and lay it out for decoding."""
        return self._laid_out(*self.project(memory))

    def _laid_out(self, keys: Tensor, values: Tensor) -> KeyValues:
        return KeyValues(ops.transpose(keys, (0, 2, 3, 1)), ops.transpose(values, (0, 2, 1, 3)))

    def _places(self, x: Tensor, places: int) -> Tensor:
        """[B * k, D] -> [B, k, H, K]."""
        return ops.reshape(x, (-1, places, self.num_heads, self.sizes.head_width))

    def look_up(
        self, x: Tensor, kept: KeyValues, mask: Tensor, places: int
    ) -> tuple[Tensor, Tensor]:
        """Let ``x`` attend to what was kept: `attend` without dropout, for decoding.

        Args:
            x: [B * k, D]: of rank 2, because products of rank 3 cost a dozen small operations each
                where shapes are dynamic.
            kept: of S positions.
            mask: bool, broadcastable to [B, H, k, S].
            places: k.

        Returns:
            (output [B * k, D], weights float32 [B, H, k, S]).
        """
        query = self._places(self.query(x), places)
        weights = _weights("bthk,bhks->bhts", query, kept.keys, mask)
        values = kept.values
        output = ops.einsum("bhts,bhsk->bthk", ops.cast(weights, values.dtype), values)
        return self.output_projection(ops.reshape(output, (-1, self.sizes.d_model))), weights

    def head_rows(self, number: int) -> slice:
        """Return the rows of the output kernel [D, D] that head ``number`` (from 0) passes through.

        It multiplies the outputs of all heads side by side, [.., H * K]: with these rows at zero,
        nothing of the head comes through.
        """
        return slice(number * self.sizes.head_width, (number + 1) * self.sizes.head_width)

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | dataclasses.asdict(self.sizes)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Rebuild the layer."""
        sizes, others = AttentionSizes.split_off(config)
        return cls(sizes, **others)


@keras.saving.register_keras_serializable("nmt")
class SelfAttention(MultiHeadAttention):
    """Every token attends to every token of its own sequence (the encoder)."""

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within ``x`` [B, S, D].

        Args:
            x: [B, S, D].
            attention_mask: bool, broadcastable to [B, H, S, S]; None: everything may attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.

        Returns:
            (output [B, S, D], weights float32 [B, H, S, S] or None).
        """
        keys, values = self.project(x)
        return self.attend(
            x, keys, values, attention_mask, dropout_key=dropout_key, return_weights=return_weights
        )


@keras.saving.register_keras_serializable("nmt")
class CausalSelfAttention(MultiHeadAttention):
    """Every token attends to itself and to what stands before it (the decoder)."""

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within ``x`` [B, T, D], backwards only.

        Args:
            x: [B, T, D].
            attention_mask: bool, broadcastable to [B, H, T, T]: the whole mask, causality
                included (the model builds it once for all blocks). None: `causal_mask`.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.

        Returns:
            (output [B, T, D], weights float32 [B, H, T, T] or None).
        """
        if attention_mask is None:
            attention_mask = causal_mask(ops.shape(x)[1])
        keys, values = self.project(x)
        return self.attend(
            x, keys, values, attention_mask, dropout_key=dropout_key, return_weights=return_weights
        )

    def step(
        self, x: Tensor, cache: KeyValues, mask: Tensor, index: Tensor, places: int
    ) -> tuple[Tensor, KeyValues]:
        """Attend from the newest token of each hypothesis to those it descends from.

        Args:
            x: [B * k, D], the tokens at position ``index``.
            cache: of T * k slots, filled below position ``index``.
            mask: bool [B, 1, k, T * k], from `ancestor_mask`; position ``index`` included.
            index: int32 scalar.
            places: k.

        Returns:
            (output [B * k, D], the cache with position ``index`` filled in).
        """
        keys, values = (self._places(layer(x), places) for layer in (self.key, self.value))
        new = self._laid_out(keys, values)
        cache = KeyValues(
            ops.slice_update(cache.keys, (0, 0, 0, index * places), new.keys),
            ops.slice_update(cache.values, (0, 0, index * places, 0), new.values),
        )
        return self.look_up(x, cache, mask, places)[0], cache


@keras.saving.register_keras_serializable("nmt")
class CrossAttention(MultiHeadAttention):
    """Every target token attends to every source token (decoder to encoder)."""

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let ``x`` [B, T, D] attend to ``memory`` [B, S, D].

        Args:
            x: [B, T, D].
            memory: [B, S, D], the encoder's output.
            attention_mask: bool, broadcastable to [B, H, T, S]; None: everything may attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.

        Returns:
            (output [B, T, D], weights float32 [B, H, T, S] or None).
        """
        keys, values = self.project(memory)
        return self.attend(
            x, keys, values, attention_mask, dropout_key=dropout_key, return_weights=return_weights
        )
