"""The parts of the transformer: embeddings, the feed-forward block, encoder and decoder blocks."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import keras
from keras import ops

from nmt.model.attention import CausalSelfAttention, CrossAttention, KeyValues, SelfAttention
from nmt.model.dense import Dense
from nmt.model.dropout import dropout, fold
from nmt.model.mixed import multiply_to_float32
from nmt.model.sizes import RecurrentSizes, Sizes

Tensor = Any


@keras.saving.register_keras_serializable("nmt")
class TokenEmbedding(keras.layers.Layer):
    """One table [V, D] for source tokens, target tokens and output logits (Press & Wolf 2017).

    Args:
        vocabulary_size: V.
        d_model: D.
        output_bias: whether logits have a bias [V].
        **kwargs: of every Keras layer.
    """

    def __init__(
        self, vocabulary_size: int, d_model: int, *, output_bias: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.output_bias = output_bias
        self.bias: Any = None

    def build(self, *input_shapes: Any) -> None:
        """Create the table."""
        self.table = self.add_weight(
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            name="table",
        )
        if self.output_bias:
            self.bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="bias"
            )
        self.built = True

    def call(self, ids: Tensor) -> Tensor:
        """Return sqrt(D) times the rows of ``ids``: [B, L] -> [B, L, D]."""
        rows = ops.take(ops.convert_to_tensor(self.table), ids, axis=0)
        return ops.cast(rows, self.compute_dtype) * self.d_model**0.5

    def logits(self, x: Tensor) -> Tensor:
        """Score every token of the vocabulary: [..., D] -> float32 [..., V].

        Whatever the inputs are computed in, their products are added up, and stay, in float32: a
        logit near 10 would otherwise be rounded by up to 0.03 in bfloat16.
        """
        table = ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype)
        if self.compute_dtype in ("float16", "bfloat16"):
            logits = multiply_to_float32(ops.cast(x, self.compute_dtype), table)
        else:
            x, table = ops.cast(x, "float32"), ops.cast(table, "float32")
            logits = ops.matmul(x, ops.transpose(table))
        if self.bias is None:
            return logits
        return logits + ops.cast(ops.convert_to_tensor(self.bias), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "output_bias": self.output_bias,
        }


class Sized(keras.layers.Layer):
    """A layer that is made of an object of sizes, and rebuilt from it."""

    made_of: ClassVar[type[Sizes] | type[RecurrentSizes]] = Sizes
    sizes: Any

    def __init__(self, sizes: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sizes = sizes

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | dataclasses.asdict(self.sizes)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Rebuild the layer."""
        sizes, others = cls.made_of.split_off(config)
        return cls(sizes, **others)


@keras.saving.register_keras_serializable("nmt")
class FeedForward(Sized):
    """Position-wise feed-forward block: Vaswani et al. 2017, equation 2.

    "relu", "gelu", "silu" (both Hendrycks & Gimpel 2016) and "relu2" (the square of relu: So et al.
    2021, section 4) have two matrices; "swiglu" (Shazeer 2020) multiplies by a gate and has three.
    """

    sizes: Sizes

    def __init__(self, sizes: Sizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        gated = sizes.activation == "swiglu"
        self.gate = self._projection("gate", sizes.ffn_width) if gated else None
        self.inner = self._projection("inner", sizes.ffn_width)
        self.outer = self._projection("outer", sizes.d_model)

    def _projection(self, name: str, width: int) -> keras.layers.Layer:
        return Dense(width, name=name, dtype=self.dtype_policy)

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on D and F alone."""
        self.inner.build((None, None, self.sizes.d_model))
        self.outer.build((None, None, self.sizes.ffn_width))
        if self.gate is not None:
            self.gate.build((None, None, self.sizes.d_model))
        self.built = True

    def call(self, x: Tensor, dropout_key: Tensor | None = None) -> Tensor:
        """[B, L, D] -> [B, L, D]."""
        hidden = self.inner(x)  # [B, L, F]
        if self.gate is not None:
            hidden = ops.silu(self.gate(x)) * hidden
        elif self.sizes.activation in ("gelu", "silu"):
            hidden = getattr(ops, self.sizes.activation)(hidden)
        else:
            hidden = ops.relu(hidden)
            if self.sizes.activation == "relu2":
                hidden = ops.square(hidden)
        return self.outer(dropout(hidden, self.sizes.ffn_dropout, dropout_key))


class _Block(Sized):
    """What encoder and decoder blocks share: residual branches, and the feed-forward one."""

    sizes: Sizes

    def __init__(self, sizes: Sizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.feed_forward = FeedForward(sizes, name="feed_forward", dtype=self.dtype_policy)
        self.feed_forward_norm = self._normalization("feed_forward_norm")

    def _normalization(self, name: str) -> keras.layers.Layer:
        return keras.layers.LayerNormalization(
            epsilon=self.sizes.norm_epsilon, name=name, dtype=self.dtype_policy
        )

    def build(self, *input_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights of every part; their shapes depend on the sizes alone."""
        for layer in self._flatten_layers(include_self=False, recursive=False):
            layer.build((None, None, self.sizes.d_model))
        self.built = True

    def before(self, norm: keras.layers.Layer, x: Tensor) -> Tensor:
        """Return what a residual branch reads."""
        return norm(x) if self.sizes.norm == "pre" else x

    def after(
        self, norm: keras.layers.Layer, x: Tensor, branch: Tensor, key: Tensor | None
    ) -> Tensor:
        """Add what a residual branch gave."""
        x = x + dropout(branch, self.sizes.dropout, key)
        return norm(x) if self.sizes.norm == "post" else x

    @staticmethod
    def attended(found: Any, return_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return what an attention layer gave as (output, weights or None)."""
        return found if return_weights else (found, None)

    def _feed_forward(self, x: Tensor, key: Tensor | None) -> Tensor:
        branch = self.feed_forward(self.before(self.feed_forward_norm, x), dropout_key=fold(key, 0))
        return self.after(self.feed_forward_norm, x, branch, fold(key, 1))


@keras.saving.register_keras_serializable("nmt")
class EncoderBlock(_Block):
    """Self-attention and feed-forward, each in a residual branch."""

    def __init__(self, sizes: Sizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.attention = SelfAttention(
            sizes.self_attention, name="self_attention", dtype=self.dtype_policy
        )
        self.attention_norm = self._normalization("self_attention_norm")

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return (x [B, S, D], weights [B, H, S, S] or None)."""
        found = self.attention(
            self.before(self.attention_norm, x),
            attention_mask=attention_mask,
            dropout_key=fold(dropout_key, 2),
            return_weights=return_weights,
            distance_bias=distance_bias,
        )
        branch, weights = self.attended(found, return_weights)
        x = self.after(self.attention_norm, x, branch, fold(dropout_key, 3))
        return self._feed_forward(x, dropout_key), weights


@keras.saving.register_keras_serializable("nmt")
class DecoderBlock(_Block):
    """Causal self-attention, cross-attention and feed-forward, each in a residual branch."""

    def __init__(self, sizes: Sizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.self_attention = CausalSelfAttention(
            sizes.self_attention, name="causal_self_attention", dtype=self.dtype_policy
        )
        self.self_attention_norm = self._normalization("causal_self_attention_norm")
        self.cross_attention = CrossAttention(
            sizes.cross_attention, name="cross_attention", dtype=self.dtype_policy
        )
        self.cross_attention_norm = self._normalization("cross_attention_norm")

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return (x [B, T, D], self weights [B, H, T, T] or None, cross weights or None)."""
        found = self.self_attention(
            self.before(self.self_attention_norm, x),
            attention_mask=attention_mask,
            dropout_key=fold(dropout_key, 2),
            return_weights=return_weights,
            distance_bias=distance_bias,
        )
        branch, self_weights = self.attended(found, return_weights)
        x = self.after(self.self_attention_norm, x, branch, fold(dropout_key, 3))
        found = self.cross_attention(
            self.before(self.cross_attention_norm, x),
            memory,
            attention_mask=memory_mask,
            dropout_key=fold(dropout_key, 4),
            return_weights=return_weights,
        )
        branch, cross_weights = self.attended(found, return_weights)
        x = self.after(self.cross_attention_norm, x, branch, fold(dropout_key, 5))
        return self._feed_forward(x, dropout_key), self_weights, cross_weights

    def step(
        self,
        x: Tensor,
        cache: KeyValues,
        memory: KeyValues,
        mask: Tensor,
        memory_mask: Tensor,
        index: Tensor,
        places: int,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues, Tensor]:
        """Decode one token for each of k = ``places`` hypotheses, [B * k, D], against the cache.

        The hypotheses of a sentence attend to its memory as if they were the positions of one
        target, so the memory is never repeated.

        Returns:
            (x [B * k, D], the cache with position ``index`` filled in, cross weights
            [B, H, k, S]).
        """
        branch, cache = self.self_attention.step(
            self.before(self.self_attention_norm, x), cache, mask, index, places, bias
        )
        x = self.after(self.self_attention_norm, x, branch, None)
        branch, weights = self.cross_attention.look_up(
            self.before(self.cross_attention_norm, x), memory, memory_mask, places
        )
        x = self.after(self.cross_attention_norm, x, branch, None)
        return self._feed_forward(x, None), cache, weights
