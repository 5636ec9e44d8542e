"""Scaled dot-product attention: Vaswani et al. 2017, equation 1, for all heads at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.chunked import chunked_attention
from nmt.model.dropout import dropout
from nmt.model.masks import SegmentMask, masked_softmax
from nmt.model.positions import expand_distance_bias

Tensor = Any


class KeyValues(NamedTuple):
    """Cached keys and values, laid out for decoding's products, so that no step transposes them."""

    keys: Tensor  # [B, G, K, S]
    values: Tensor  # [B, G, S, C]

    @classmethod
    def from_heads(cls, keys: Tensor, values: Tensor) -> KeyValues:
        """Lay out keys [B, S, G, K] and values [B, S, G, C]."""
        return cls(ops.transpose(keys, (0, 2, 3, 1)), ops.transpose(values, (0, 2, 1, 3)))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | SegmentMask | None = None,
    *,
    distance_bias: Tensor | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Tensor | None = None,
    kernel: str = "explicit",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q Kᵀ / sqrt(K)) V: Vaswani et al. 2017, equation 1, for all heads at once.

    The softmax runs in float32 whatever the inputs. A query that may attend to nothing gets zeros.

    Args:
        query: [B, T, H, K].
        key: [B, S, G, K]; head h of the queries reads head h // (H / G).
        value: [B, S, G, C].
        mask: bool, broadcastable to [B, H, T, S], True = may attend, or a `SegmentMask`; None:
            every query may attend to every key.
        distance_bias: [H, T + S - 1], added to the scores: one number for each of
            `nmt.model.positions.list_distances`; None: no bias.
        dropout_rate: share of the weights dropped in training.
        dropout_key: see `nmt.model.dropout`; None: no dropout.
        kernel: "explicit" (einsum and softmax), "fused" (`keras.ops.dot_product_attention`) or
            "chunked" (`nmt.model.chunked`: memory grows with T, not T²). The fused kernel supports
            neither dropout nor values of another width, and neither kernel can return weights: such
            calls take the explicit path.
        return_weights: whether to return the weights too (before dropout).

    Returns:
        (output [B, T, H, C], weights float32 [B, H, T, S] or None).
    """
    # JAX infers the shape of outputs from symbolic lengths, which have no blocks.
    has_blocks = all(isinstance(x.shape[1], int | None) for x in (query, key))
    if kernel == "chunked" and not return_weights and has_blocks:
        output = chunked_attention(
            query, key, value, mask, distance_bias, dropout_rate, dropout_key
        )
        return output, None
    if isinstance(mask, SegmentMask):
        mask = mask.expand()
    bias = None
    if distance_bias is not None:
        # Cast before it is expanded, so that its gradient is summed in float32.
        bias = ops.cast(distance_bias, "float32")
        bias = expand_distance_bias(bias, ops.shape(query)[1], ops.shape(key)[1])[None]
    has_dropout = dropout_key is not None and dropout_rate > 0
    is_half = keras.backend.standardize_dtype(query.dtype) == "float16"
    # On TensorFlow, Keras has no kernel for float16, only products that overflow it.
    overflows = is_half and keras.config.backend() == "tensorflow"
    can_fuse = not has_dropout and not overflows and key.shape[-1] == value.shape[-1]
    if kernel == "fused" and not return_weights and can_fuse:
        return _fused_attention(query, key, value, mask, bias), None

    weights = attention_weights(query, key, mask, bias)  # [B, H, T, S]
    output = weighted_values(dropout(weights, dropout_rate, dropout_key), value)
    return output, weights if return_weights else None


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    bias: Tensor | None = None,
    *,
    cached: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / sqrt(K)) in float32 over the allowed keys; zeros where no key is allowed.

    Args:
        query: [B, T, H, K].
        key: [B, S, G, K], or [B, G, K, S] of `KeyValues`.
        mask: bool, broadcastable to [B, H, T, S]; None: every query may attend to every key.
        bias: [1, H, T, S], added to the scores; None: no bias.
        cached: whether the key has the layout of `KeyValues`.
    """
    if keras.backend.standardize_dtype(query.dtype) == "float16":  # scores overflow it
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    heads, groups = query.shape[2], key.shape[1 if cached else 2]
    if groups == heads:
        scores = ops.einsum("bthk,bhks->bhts" if cached else "bthk,bshk->bhts", query, key)
    else:
        equation = "btgrk,bgks->bgrts" if cached else "btgrk,bsgk->bgrts"
        scores = _join_groups(ops.einsum(equation, _split_groups(query, 2, groups), key), 1)
    scores = ops.cast(scores, "float32")
    if bias is not None:
        scores = scores + ops.cast(bias, "float32")
    return masked_softmax(scores, mask)


def weighted_values(weights: Tensor, value: Tensor, *, cached: bool = False) -> Tensor:
    """Return the sums of values [B, T, H, C] under weights [B, H, T, S].

    Args:
        weights: [B, H, T, S].
        value: [B, S, G, C], or [B, G, S, C] of `KeyValues`.
        cached: whether the value has the layout of `KeyValues`.
    """
    heads, groups = weights.shape[1], value.shape[1 if cached else 2]
    weights = ops.cast(weights, value.dtype)
    if groups == heads:
        return ops.einsum("bhts,bhsk->bthk" if cached else "bhts,bshk->bthk", weights, value)
    equation = "bgrts,bgsk->btgrk" if cached else "bgrts,bsgk->btgrk"
    return _join_groups(ops.einsum(equation, _split_groups(weights, 1, groups), value), 2)


def _split_groups(x: Tensor, axis: int, groups: int) -> Tensor:
    """Split an axis of H heads into [G, H / G]: the heads that share keys and values."""
    shape = ops.shape(x)
    return ops.reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))


def _join_groups(x: Tensor, axis: int) -> Tensor:
    """Undo `_split_groups`."""
    shape = ops.shape(x)
    return ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Call the backend's fused kernel; a query that may attend to nothing gets zeros."""
    repeats = query.shape[2] // key.shape[2]
    if repeats > 1:
        key, value = ops.repeat(key, repeats, axis=2), ops.repeat(value, repeats, axis=2)
    if mask is not None:  # cuDNN rejects a mask with a query axis of 1
        lengths = (ops.shape(query)[1], ops.shape(key)[1])
        mask = ops.expand_dims(mask, tuple(range(4 - len(mask.shape))))
        mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *lengths))
    output = ops.dot_product_attention(query, key, value, bias=bias, mask=mask)
    if mask is not None:
        reachable = ops.any(mask, axis=-1)  # [B, H or 1, T]
        reachable = ops.expand_dims(ops.swapaxes(reachable, 1, 2), -1)  # [B, T, H or 1, 1]
        output = ops.where(reachable, output, ops.zeros_like(output))
    return output
