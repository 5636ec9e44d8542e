"""Attention scores of recurrent models, with hand-written gradients.

Each score gives weights softmax(score(h, m_s)) over the encoder's states m_1 … m_S of the same
segment, and their weighted mean is the context:

- "additive": v^T tanh(W_q h + W_k m), Bahdanau et al. 2015, appendix A.1.2;
- "dot": h · m / sqrt(R), Luong et al. 2015, section 3.1;
- "general": h^T W m / sqrt(R), Luong et al. 2015, section 3.1;
- "cross": the `CrossAttention` of the transformer, Q K^T / sqrt(K) per head.

The last three are products of a query with keys (`DotProductScore`); the first is not
(`AdditiveScore`). Luong et al. do not divide by sqrt(R) (Vaswani et al. 2017, section 3.2.1, do).
As W is learned, this leaves the functions that "general" can represent unchanged, but not their
initial scale: without it, each update moves scores so far that soon all weight lies on one state,
where the gradient vanishes. Keys and values depend only on the encoder's states, so they are
computed once per sentence.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from nmt.model.loops import bias_gradient, call_with_gradient

Tensor = Any


class DotProductScore:
    """Products of queries and keys, divided by the root of their width C."""

    @staticmethod
    def scores(queries: Tensor, keys: Tensor, v: Any) -> Tensor:
        """Return float32 [B, H, T, S].

        Args:
            queries: [B, H, T, C], of T positions.
            keys: [B, H, S, C].
            v: ().
        """
        if keras.backend.standardize_dtype(queries.dtype) == "float16":  # scores overflow it
            queries, keys = ops.cast(queries, "float32"), ops.cast(keys, "float32")
        queries = queries * keys.shape[-1] ** -0.5
        return ops.cast(ops.einsum("bhtc,bhsc->bhts", queries, keys), "float32")

    @staticmethod
    def query_gradient(score_gradient: Tensor, queries: Tensor, keys: Tensor, v: Any) -> Tensor:
        """Return the gradient of the queries [B, H, T, C]."""
        return ops.matmul(ops.cast(score_gradient, keys.dtype), keys) * keys.shape[-1] ** -0.5

    @staticmethod
    def key_gradient(
        score_gradient: Tensor, queries: Tensor, keys: Tensor, v: Any
    ) -> tuple[Tensor, Any]:
        """Return the gradients of the keys [B, H, S, C] and of v.

        Args:
            score_gradient: [T, B, H, S].
            queries: [T, B, H, C].
            keys: [B, H, S, C].
            v: ().
        """
        queries = queries * keys.shape[-1] ** -0.5
        return ops.einsum("tbhs,tbhc->bhsc", ops.cast(score_gradient, keys.dtype), queries), ()


class AdditiveScore:
    """v^T tanh(q + k), with one head."""

    @staticmethod
    def scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return float32 [B, 1, T, S]: see `DotProductScore.scores`; ``v`` is [R]."""
        hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
        return ops.sum(ops.cast(hidden * v, "float32"), axis=-1)  # sum of [B, 1, T, S, R]

    @staticmethod
    def query_gradient(score_gradient: Tensor, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return the gradient of the queries [B, 1, T, R]."""
        hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
        score_gradient = ops.expand_dims(ops.cast(score_gradient, keys.dtype), -1)
        return ops.sum((1 - hidden * hidden) * score_gradient, axis=3) * v

    @staticmethod
    def key_gradient(
        score_gradient: Tensor, queries: Tensor, keys: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of the keys [B, 1, S, R] and of v [R].

        See `DotProductScore.key_gradient`. It loops over source positions, so that no tensor has
        T x S x R elements.
        """
        queries = ops.squeeze(queries, 2)  # [T, B, R]

        def at_source(position: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            score_gradient, key = position  # [T, B], [B, R]
            hidden = ops.tanh(queries + key)
            score_gradient = ops.expand_dims(score_gradient, -1)
            key_gradient = ops.sum((1 - hidden * hidden) * score_gradient, axis=0)
            return key_gradient, bias_gradient(hidden * score_gradient)

        score_gradient = ops.transpose(
            ops.cast(score_gradient[:, :, 0], keys.dtype), (2, 0, 1)
        )  # [S, T, B]
        key_gradients, v_gradients = ops.map(
            at_source, (score_gradient, ops.transpose(keys[:, 0], (1, 0, 2)))
        )
        return ops.transpose(key_gradients * v, (1, 0, 2))[:, None], bias_gradient(v_gradients)

    @classmethod
    def scores_by_position(cls, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return `scores`, looping over positions, so that no tensor has T x S x R elements."""

        def compute(queries: Tensor, keys: Tensor, v: Tensor) -> Any:
            time_major = ops.transpose(queries, (2, 0, 1, 3))  # [T, B, 1, R]

            def score(query: Tensor) -> Tensor:
                return cls.scores(query[:, :, None], keys, v)[:, :, 0]

            def backward(score_gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                score_gradient = ops.transpose(score_gradient, (2, 0, 1, 3))  # [T, B, 1, S]

                def query_gradient(position: tuple[Tensor, Tensor]) -> Tensor:
                    gradient, query = (tensor[:, :, None] for tensor in position)
                    return cls.query_gradient(gradient, query, keys, v)[:, :, 0]

                gradients = ops.map(query_gradient, (score_gradient, time_major))
                return (
                    ops.transpose(gradients, (1, 2, 0, 3)),
                    *cls.key_gradient(score_gradient, time_major, keys, v),
                )

            return (ops.transpose(ops.map(score, time_major), (1, 2, 0, 3)),), backward

        (scores,) = call_with_gradient(compute, queries, keys, v)
        return scores


Score = type[DotProductScore] | type[AdditiveScore]


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return the contexts [B, H, T, C] of weights [B, H, T, S] and values [B, H, S, C]."""
    return ops.matmul(ops.cast(weights, values.dtype), values)


def score_gradient(
    context_gradient: Tensor,
    weights: Tensor,
    values: Tensor,
    dropout_mask: Any,
    weight_gradient: Any = (),
) -> Tensor:
    """Return the gradient of the scores, float32 [B, H, T, S].

    Args:
        context_gradient: [B, H, T, C].
        weights: [B, H, T, S], before dropout.
        values: [B, H, S, C].
        dropout_mask: [B, H, T, S], the factor of the weights; (): no dropout.
        weight_gradient: float32 [B, H, T, S], of the weights as results; (): they are none.
    """
    gradient = ops.cast(ops.einsum("bhtc,bhsc->bhts", context_gradient, values), "float32")
    if not isinstance(dropout_mask, tuple):
        gradient = gradient * dropout_mask
    if not isinstance(weight_gradient, tuple):
        gradient = gradient + weight_gradient
    return weights * (gradient - ops.sum(gradient * weights, axis=-1, keepdims=True))
