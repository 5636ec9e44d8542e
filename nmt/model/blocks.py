"""The blocks of the transformer: feed-forward, encoder and decoder."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from nmt.model.attention import KeyValues
from nmt.model.attention_roles import CausalSelfAttention, CrossAttention, SelfAttention
from nmt.model.dropout import dropout, fold, resolve_key
from nmt.model.layers import Dense, LayerNormalization, SizedLayer, StandaloneLayer
from nmt.model.sizes import BIASED, BLOCK_DEFAULTS, BlockSizes

Tensor = Any


@keras.saving.register_keras_serializable("nmt")
class FeedForward(SizedLayer):
    """Position-wise feed-forward block: Vaswani et al. 2017, equation 2.

    "relu", "gelu", "silu" (both Hendrycks & Gimpel 2016) and "relu2" (the square of relu: So et al.
    2021, section 4) have two matrices; "swiglu" (Shazeer 2020) multiplies by a gate and has three.

    Dropout is on only when a ``dropout_key`` is passed, in a standalone layer too.
    """

    sizes_class = BlockSizes
    default_sizes = BLOCK_DEFAULTS
    sizes: BlockSizes

    def __init__(self, sizes: BlockSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.supports_masking = True
        is_gated = self.sizes.activation == "swiglu"
        self.gate = self._projection("gate", self.sizes.ffn_width) if is_gated else None
        self.inner = self._projection("inner", self.sizes.ffn_width)
        self.outer = self._projection("outer", self.sizes.d_model)

    def _projection(self, name: str, width: int) -> keras.layers.Layer:
        return Dense(width, name=name, dtype=self.dtype_policy)

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on D and F only."""
        self.inner.build((None, None, self.sizes.d_model))
        self.outer.build((None, None, self.sizes.ffn_width))
        if self.gate is not None:
            self.gate.build((None, None, self.sizes.d_model))
        self.build_others(self.sizes.d_model)
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


class _Block(StandaloneLayer):
    """The residual branches that encoder and decoder blocks share.

    Branch n (0: feed-forward; 1, 2: attention) derives two dropout keys: 2 n inside of it,
    2 n + 1 for its output.

    Its sizes are the fields of `BlockSizes`; see `StandaloneLayer` for the arguments.
    """

    sizes_class = BlockSizes
    default_sizes = BLOCK_DEFAULTS
    feed_forward_class: type[keras.layers.Layer] = FeedForward
    sizes: BlockSizes

    def __init__(
        self, sizes: BlockSizes | None = None, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(sizes, seed=seed, **kwargs)
        self.feed_forward = self.feed_forward_class(
            self.sizes, name="feed_forward", dtype=self.dtype_policy
        )
        self.feed_forward_norm = self._normalization("feed_forward_norm")

    def _normalization(self, name: str) -> keras.layers.Layer:
        return LayerNormalization(
            epsilon=self.sizes.norm_epsilon, name=name, dtype=self.dtype_policy
        )

    def build(self, x_shape: Any = None, *other_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights of every layer; their shapes depend on the sizes only."""
        self.build_others(self.sizes.d_model)
        self.built = True

    def _check_bias(self, distance_bias: Tensor | None) -> None:
        """Check that a bias is passed if positions need one: a block has no weights for it."""
        if distance_bias is None and self.sizes.positions in BIASED:
            raise ValueError(
                f"positions={self.sizes.positions!r} of {self.name} needs distance_bias, from "
                "nmt.model.positions.make_distance_bias"
            )

    def branch_input(self, norm: keras.layers.Layer, x: Tensor) -> Tensor:
        """Return the input [B, L, D] of a residual branch, normalised in a pre-norm block."""
        return norm(x) if self.sizes.norm == "pre" else x

    def add_residual(
        self, norm: keras.layers.Layer, x: Tensor, branch: Tensor, key: Tensor | None
    ) -> Tensor:
        """Return ``x`` plus the output of its branch [B, L, D], normalised in a post-norm block."""
        x = x + dropout(branch, self.sizes.dropout, key)
        return norm(x) if self.sizes.norm == "post" else x

    def _attend(
        self,
        layer: keras.layers.Layer,
        norm: keras.layers.Layer,
        x: Tensor,
        *memory: Tensor,
        key: Tensor | None,
        index: int,
        return_weights: bool,
        **arguments: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Run an attention branch: (x, weights or None), with keys ``index`` and ``index`` + 1."""
        result = layer(
            self.branch_input(norm, x),
            *memory,
            dropout_key=fold(key, index),
            return_weights=return_weights,
            **arguments,
        )
        branch, weights = result if return_weights else (result, None)
        return self.add_residual(norm, x, branch, fold(key, index + 1)), weights

    def _feed_forward(self, x: Tensor, key: Tensor | None) -> Tensor:
        branch_input = self.branch_input(self.feed_forward_norm, x)
        branch = self.feed_forward(branch_input, dropout_key=fold(key, 0))
        return self.add_residual(self.feed_forward_norm, x, branch, fold(key, 1))


@keras.saving.register_keras_serializable("nmt")
class EncoderBlock(_Block):
    """Self-attention and feed-forward, each in a residual branch."""

    attention_class: type[keras.layers.Layer] = SelfAttention

    def __init__(self, sizes: BlockSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.attention = self.attention_class(
            self.sizes.self_attention, name="self_attention", dtype=self.dtype_policy
        )
        self.attention_norm = self._normalization("self_attention_norm")

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Encode ``x`` [B, S, D]; the arguments are those of `SelfAttention.call`.

        Returns:
            The output [B, S, D]; with ``return_weights``, (output, weights float32 [B, H, S, S]).
        """
        self._check_bias(distance_bias)
        dropout_key = resolve_key(dropout_key, self.generator, training)
        x, weights = self._attend(
            self.attention,
            self.attention_norm,
            x,
            key=dropout_key,
            index=2,
            attention_mask=attention_mask,
            return_weights=return_weights,
            distance_bias=distance_bias,
            mask=x_mask if mask is None else mask,
        )
        x = self._feed_forward(x, dropout_key)
        return (x, weights) if return_weights else x


@keras.saving.register_keras_serializable("nmt")
class DecoderBlock(_Block):
    """Causal self-attention, cross-attention and feed-forward, each in a residual branch."""

    self_attention_class: type[keras.layers.Layer] = CausalSelfAttention
    cross_attention_class: type[keras.layers.Layer] = CrossAttention

    def __init__(self, sizes: BlockSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.self_attention = self.self_attention_class(
            self.sizes.self_attention, name="causal_self_attention", dtype=self.dtype_policy
        )
        self.self_attention.standalone = self.standalone  # adds causality to any mask
        self.self_attention_norm = self._normalization("causal_self_attention_norm")
        self.cross_attention = self.cross_attention_class(
            self.sizes.cross_attention, name="cross_attention", dtype=self.dtype_policy
        )
        self.cross_attention_norm = self._normalization("cross_attention_norm")

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
        x_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Decode ``x`` [B, T, D] with the encoder's output.

        Args:
            x: [B, T, D].
            memory: [B, S, D], the encoder's output.
            attention_mask: of self-attention; a standalone block adds causality to it.
            cross_mask: of cross-attention: bool, broadcastable to [B, H, T, S], or [B, T, S].
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether to return the weights too.
            distance_bias: of self-attention.
            x_mask: bool [B, T], False for padding: as Keras passes it from layer to layer.
            memory_mask: the same, [B, S].
            training: of a standalone block: switches its dropout on.

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights of self-attention
            float32 [B, H, T, T], weights of cross-attention [B, H, T, S]).
        """
        self._check_bias(distance_bias)
        dropout_key = resolve_key(dropout_key, self.generator, training)
        x, self_weights = self._attend(
            self.self_attention,
            self.self_attention_norm,
            x,
            key=dropout_key,
            index=2,
            attention_mask=attention_mask,
            return_weights=return_weights,
            distance_bias=distance_bias,
            mask=x_mask,
        )
        x, cross_weights = self._attend(
            self.cross_attention,
            self.cross_attention_norm,
            x,
            memory,
            key=dropout_key,
            index=4,
            attention_mask=cross_mask,
            return_weights=return_weights,
            memory_mask=memory_mask,
        )
        x = self._feed_forward(x, dropout_key)
        return (x, self_weights, cross_weights) if return_weights else x

    def step(
        self,
        x: Tensor,
        cache: KeyValues,
        memory: KeyValues,
        mask: Tensor,
        memory_mask: Tensor,
        index: Tensor,
        beam_size: int,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues, Tensor]:
        """Decode one token of each of the k = ``beam_size`` hypotheses, [B * k, D].

        The hypotheses of a sentence attend to its memory as if they were the positions of one
        target, so the memory is never repeated.

        Args:
            x: [B * k, D], the tokens at position ``index``.
            cache: of self-attention: T * k slots, filled below position ``index``.
            memory: keys and values of the S source tokens.
            mask: bool [B, 1, k, T * k], see `CausalSelfAttention.step`.
            memory_mask: bool [B, 1, 1, S], True = may attend.
            index: int32 scalar.
            beam_size: k.
            bias: [H, T * k], added to the scores of self-attention; None: no bias.

        Returns:
            (x [B * k, D], the cache with position ``index`` filled in, cross weights
            [B, H, k, S]).
        """
        branch, cache = self.self_attention.step(
            self.branch_input(self.self_attention_norm, x), cache, mask, index, beam_size, bias
        )
        x = self.add_residual(self.self_attention_norm, x, branch, None)
        branch, weights = self.cross_attention.attend_to_cache(
            self.branch_input(self.cross_attention_norm, x), memory, memory_mask, beam_size
        )
        x = self.add_residual(self.cross_attention_norm, x, branch, None)
        return self._feed_forward(x, None), cache, weights
