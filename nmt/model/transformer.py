"""The encoder-decoder transformer of Vaswani et al. 2017, with pre-norm blocks by default."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.model.attention import (
    CausalSelfAttention,
    CrossAttention,
    SelfAttention,
    causal_mask,
    segment_mask,
)
from nmt.model.dropout import dropout, fold

Tensor = Any

PAD = 0  # the id of padding, as every tokenizer here has it
NORM_EPSILON = 1e-6


class AttentionWeights(NamedTuple):
    """All attention weights of one forward pass, one entry per layer, float32."""

    encoder: list[Tensor]  # [B, H, S, S]
    decoder: list[Tensor]  # [B, H, T, T]
    cross: list[Tensor]  # [B, H, T, S]


class DecodingState(NamedTuple):
    """What a decoder carries from one token to the next.

    ``N`` is B times the number of hypotheses per sentence.
    """

    cache: tuple[tuple[Tensor, Tensor], ...]  # per layer: keys, values [N, T, H, K]
    memory: tuple[tuple[Tensor, Tensor], ...]  # per layer: keys, values [B, S, H, K]
    memory_mask: Tensor  # bool [B, 1, 1, S]


def sinusoids(length: int, width: int) -> np.ndarray:
    """Return the position table [length, width] of Vaswani et al. 2017, section 3.5."""
    position = np.arange(length)[:, None]
    frequency = 10000.0 ** (-np.arange(0, width, 2) / width)
    table = np.empty((length, width), dtype=np.float32)
    table[:, 0::2] = np.sin(position * frequency)
    table[:, 1::2] = np.cos(position * frequency)
    return table


@keras.saving.register_keras_serializable("nmt")
class TokenEmbedding(keras.layers.Layer):
    """One table [V, D] for source tokens, target tokens and output logits (Press & Wolf 2017)."""

    def __init__(self, vocabulary_size: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model

    def build(self, *input_shapes: Any) -> None:
        """Create the table."""
        self.table = self.add_weight(
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(stddev=self.d_model**-0.5),
            name="table",
        )
        self.built = True

    def call(self, ids: Tensor) -> Tensor:
        """Return sqrt(D) times the rows of ``ids``: [B, L] -> [B, L, D]."""
        rows = ops.take(ops.convert_to_tensor(self.table), ids, axis=0)
        return ops.cast(rows, self.compute_dtype) * self.d_model**0.5

    def logits(self, x: Tensor) -> Tensor:
        """Score every token of the vocabulary: [B, L, D] -> float32 [B, L, V]."""
        table = ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype)
        return ops.cast(ops.matmul(x, ops.transpose(table)), "float32")

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
        }


@keras.saving.register_keras_serializable("nmt")
class PositionEmbedding(keras.layers.Layer):
    """Sinusoidal (fixed) or learned vectors for positions 0 … max_length - 1."""

    def __init__(self, kind: str, max_length: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in ("sinusoidal", "learned"):
            raise ValueError(f"positions={kind!r} is neither 'sinusoidal' nor 'learned'")
        self.kind = kind
        self.max_length = max_length
        self.d_model = d_model

    def build(self, *input_shapes: Any) -> None:
        """Create the table, which is a weight only where it is learned."""
        if self.kind == "learned":
            self.table = self.add_weight(
                shape=(self.max_length, self.d_model),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name="table",
            )
        else:
            self.table = sinusoids(self.max_length, self.d_model)
        self.built = True

    def call(self, positions: Tensor) -> Tensor:
        """[B, L] -> [B, L, D]."""
        rows = ops.take(ops.convert_to_tensor(self.table), positions, axis=0)
        return ops.cast(rows, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "kind": self.kind,
            "max_length": self.max_length,
            "d_model": self.d_model,
        }


@keras.saving.register_keras_serializable("nmt")
class FeedForward(keras.layers.Layer):
    """Position-wise feed-forward block: Vaswani et al. 2017, equation 2.

    "relu" and "gelu" have two matrices; "swiglu" (Shazeer 2020) multiplies by a gate and has three.
    """

    def __init__(
        self, d_model: int, width: int, activation: str, dropout: float, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if activation not in ("relu", "gelu", "swiglu"):
            raise ValueError(f"activation={activation!r} is none of 'relu', 'gelu', 'swiglu'")
        self.d_model = d_model
        self.width = width
        self.activation = activation
        self.dropout = dropout
        self.gate = (
            keras.layers.Dense(width, name="gate", dtype=self.dtype_policy)
            if activation == "swiglu"
            else None
        )
        self.inner = keras.layers.Dense(width, name="inner", dtype=self.dtype_policy)
        self.outer = keras.layers.Dense(d_model, name="outer", dtype=self.dtype_policy)

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on D and F alone."""
        self.inner.build((None, None, self.d_model))
        self.outer.build((None, None, self.width))
        if self.gate is not None:
            self.gate.build((None, None, self.d_model))
        self.built = True

    def call(self, x: Tensor, dropout_key: Tensor | None = None) -> Tensor:
        """[B, L, D] -> [B, L, D]."""
        hidden = self.inner(x)  # [B, L, F]
        if self.gate is not None:
            hidden = ops.silu(self.gate(x)) * hidden
        elif self.activation == "gelu":
            hidden = ops.gelu(hidden)
        else:
            hidden = ops.relu(hidden)
        return self.outer(dropout(hidden, self.dropout, dropout_key))

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        return super().get_config() | {
            "d_model": self.d_model,
            "width": self.width,
            "activation": self.activation,
            "dropout": self.dropout,
        }


class _Block(keras.layers.Layer):
    """What encoder and decoder blocks share: configuration, and residual branches."""

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        ffn_width: int,
        norm: str,
        activation: str,
        dropout: float,
        attention_dropout: float,
        ffn_dropout: float,
        attention_kernel: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if norm not in ("pre", "post"):
            raise ValueError(f"norm={norm!r} is neither 'pre' nor 'post'")
        self._config = {
            "d_model": d_model,
            "num_heads": num_heads,
            "ffn_width": ffn_width,
            "norm": norm,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "ffn_dropout": ffn_dropout,
            "attention_kernel": attention_kernel,
        }
        self.d_model = d_model
        self.norm = norm
        self.dropout = dropout
        self._attention_arguments: dict[str, Any] = {
            "d_model": d_model,
            "num_heads": num_heads,
            "dropout": attention_dropout,
            "kernel": attention_kernel,
            "dtype": self.dtype_policy,
        }
        self.feed_forward = FeedForward(
            d_model,
            ffn_width,
            activation,
            ffn_dropout,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        self.feed_forward_norm = self._normalization("feed_forward_norm")

    def _normalization(self, name: str) -> keras.layers.Layer:
        return keras.layers.LayerNormalization(
            epsilon=NORM_EPSILON, name=name, dtype=self.dtype_policy
        )

    def build(self, *input_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights of every part; their shapes depend on the sizes alone."""
        for layer in self._flatten_layers(include_self=False, recursive=False):
            layer.build((None, None, self.d_model))
        self.built = True

    def before(self, norm: keras.layers.Layer, x: Tensor) -> Tensor:
        """Return what a residual branch reads."""
        return norm(x) if self.norm == "pre" else x

    def after(
        self, norm: keras.layers.Layer, x: Tensor, branch: Tensor, key: Tensor | None
    ) -> Tensor:
        """Add what a residual branch gave."""
        x = x + dropout(branch, self.dropout, key)
        return norm(x) if self.norm == "post" else x

    def _feed_forward(self, x: Tensor, key: Tensor | None) -> Tensor:
        branch = self.feed_forward(
            self.before(self.feed_forward_norm, x), dropout_key=_place(key, 0)
        )
        return self.after(self.feed_forward_norm, x, branch, _place(key, 1))

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the block."""
        return super().get_config() | self._config


def _place(key: Tensor | None, place: int) -> Tensor | None:
    return None if key is None else fold(key, place)


@keras.saving.register_keras_serializable("nmt")
class EncoderBlock(_Block):
    """Self-attention and feed-forward, each in a residual branch."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attention = SelfAttention(name="self_attention", **self._attention_arguments)
        self.attention_norm = self._normalization("self_attention_norm")

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return (x [B, S, D], weights [B, H, S, S] or None)."""
        branch, weights = self.attention(
            self.before(self.attention_norm, x),
            attention_mask=attention_mask,
            dropout_key=_place(dropout_key, 2),
            return_weights=return_weights,
        )
        x = self.after(self.attention_norm, x, branch, _place(dropout_key, 3))
        return self._feed_forward(x, dropout_key), weights


@keras.saving.register_keras_serializable("nmt")
class DecoderBlock(_Block):
    """Causal self-attention, cross-attention and feed-forward, each in a residual branch."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.self_attention = CausalSelfAttention(
            name="causal_self_attention", **self._attention_arguments
        )
        self.self_attention_norm = self._normalization("causal_self_attention_norm")
        self.cross_attention = CrossAttention(name="cross_attention", **self._attention_arguments)
        self.cross_attention_norm = self._normalization("cross_attention_norm")

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return (x [B, T, D], self weights [B, H, T, T] or None, cross weights or None)."""
        branch, self_weights = self.self_attention(
            self.before(self.self_attention_norm, x),
            attention_mask=attention_mask,
            dropout_key=_place(dropout_key, 2),
            return_weights=return_weights,
        )
        x = self.after(self.self_attention_norm, x, branch, _place(dropout_key, 3))
        branch, cross_weights = self.cross_attention(
            self.before(self.cross_attention_norm, x),
            memory,
            attention_mask=memory_mask,
            dropout_key=_place(dropout_key, 4),
            return_weights=return_weights,
        )
        x = self.after(self.cross_attention_norm, x, branch, _place(dropout_key, 5))
        return self._feed_forward(x, dropout_key), self_weights, cross_weights

    def step(
        self,
        x: Tensor,
        cache: tuple[Tensor, Tensor],
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor,
        index: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Decode one token [N, 1, D] against the cache; see `DecodingState` for the shapes."""
        branch, cache = self.self_attention.step(
            self.before(self.self_attention_norm, x), cache, index
        )
        x = self.after(self.self_attention_norm, x, branch, None)
        # The hypotheses of a sentence share its keys and values: they attend as if they were the
        # positions of one target, and the memory is never repeated.
        grouped = ops.reshape(x, (ops.shape(memory_mask)[0], -1, self.d_model))  # [B, N/B, D]
        branch, _ = self.cross_attention.attend(
            self.before(self.cross_attention_norm, grouped), *memory, memory_mask
        )
        branch = ops.reshape(branch, ops.shape(x))  # [N, 1, D]
        x = self.after(self.cross_attention_norm, x, branch, None)
        return self._feed_forward(x, None), cache


@keras.saving.register_keras_serializable("nmt")
class Transformer(keras.Model):
    """The model: token ids in, next-token logits out.

    Weights exist as soon as it is constructed. Dropout is on exactly when a key is given.

    Args:
        vocabulary_size: V, shared by source and target; embeddings and output are tied.
        d_model: D.
        num_heads: H.
        ffn_width: F.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks.
        norm: "pre" or "post" (the paper's).
        positions: "sinusoidal" or "learned".
        activation: "relu", "gelu" or "swiglu".
        dropout: rate on embeddings and residual branches.
        attention_dropout: rate on attention weights.
        ffn_dropout: rate inside the feed-forward block.
        max_length: longest sequence in tokens, source or target.
        attention_kernel: "explicit" or "fused".
        remat: recompute each block in the backward pass instead of keeping its activations.
    """

    built: bool

    def __init__(
        self,
        *,
        vocabulary_size: int,
        d_model: int,
        num_heads: int,
        ffn_width: int,
        encoder_layers: int,
        decoder_layers: int,
        norm: str,
        positions: str,
        activation: str,
        dropout: float,
        attention_dropout: float,
        ffn_dropout: float,
        max_length: int,
        attention_kernel: str,
        remat: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        block: dict[str, Any] = {
            "d_model": d_model,
            "num_heads": num_heads,
            "ffn_width": ffn_width,
            "norm": norm,
            "activation": activation,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "ffn_dropout": ffn_dropout,
            "attention_kernel": attention_kernel,
        }
        self._config = block | {
            "vocabulary_size": vocabulary_size,
            "encoder_layers": encoder_layers,
            "decoder_layers": decoder_layers,
            "positions": positions,
            "max_length": max_length,
            "remat": remat,
        }
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.num_heads = num_heads
        self.max_length = max_length
        self.dropout = dropout
        self.remat = remat
        policy = self.dtype_policy
        self.embedding = TokenEmbedding(vocabulary_size, d_model, name="embedding", dtype=policy)
        self.positions = PositionEmbedding(
            positions, max_length, d_model, name="positions", dtype=policy
        )
        self.encoder_blocks = [
            EncoderBlock(name=f"encoder_{i}", dtype=policy, **block) for i in range(encoder_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(name=f"decoder_{i}", dtype=policy, **block) for i in range(decoder_layers)
        ]
        # Pre-norm leaves the residual stream unnormalised: one more norm ends each stack.
        self.encoder_norm = self.decoder_norm = None
        if norm == "pre":
            self.encoder_norm = keras.layers.LayerNormalization(
                epsilon=NORM_EPSILON, name="encoder_norm", dtype=policy
            )
            self.decoder_norm = keras.layers.LayerNormalization(
                epsilon=NORM_EPSILON, name="decoder_norm", dtype=policy
            )
        self.build()

    def build(self, *input_shapes: Any) -> None:
        """Create every weight; no shape depends on the input."""
        if self.built:
            return
        for layer in self._flatten_layers(include_self=False, recursive=False):
            layer.build((None, None, self.d_model))
        self.built = True

    def embed(self, ids: Tensor, positions: Tensor | None, dropout_key: Tensor | None) -> Tensor:
        """Add token and position embeddings: ids [B, L] -> [B, L, D]."""
        if positions is None:
            positions = ops.expand_dims(ops.arange(ops.shape(ids)[1], dtype="int32"), 0)
        return dropout(self.embedding(ids) + self.positions(positions), self.dropout, dropout_key)

    def encode(
        self,
        source: Tensor,
        mask: Tensor,
        *,
        positions: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Encode ``source`` int [B, S] under ``mask`` bool [B, 1, S or 1, S].

        Returns:
            (memory [B, S, D], self-attention weights per layer, or an empty list).
        """
        x = self.embed(source, positions, _place(dropout_key, 0))
        collected = []
        for number, block in enumerate(self.encoder_blocks, start=1):
            x, weights = self._run(
                block,
                x,
                attention_mask=mask,
                dropout_key=_place(dropout_key, number),
                return_weights=return_weights,
            )
            if return_weights:
                collected.append(weights)
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        return x, collected

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        mask: Tensor,
        memory_mask: Tensor,
        *,
        positions: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Score the next token after every prefix of ``target`` int [B, T].

        Args:
            target: int [B, T], shifted: it begins with the begin-of-sentence id.
            memory: [B, S, D] from `encode`.
            mask: bool [B or 1, 1, T, T], causality included.
            memory_mask: bool [B, 1, T or 1, S].
            positions: int [B, T]; None: 0 … T - 1.
            dropout_key: uint32 scalar; None: no dropout.
            return_weights: whether attention weights are returned.

        Returns:
            (logits float32 [B, T, V], self weights per layer, cross weights per layer).
        """
        x = self.embed(target, positions, _place(dropout_key, 0))
        of_self, of_cross = [], []
        for number, block in enumerate(self.decoder_blocks, start=1):
            x, self_weights, cross_weights = self._run(
                block,
                x,
                memory,
                attention_mask=mask,
                memory_mask=memory_mask,
                dropout_key=_place(dropout_key, number),
                return_weights=return_weights,
            )
            if return_weights:
                of_self.append(self_weights)
                of_cross.append(cross_weights)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        return self.embedding.logits(x), of_self, of_cross

    def call(
        self,
        inputs: dict[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
    ) -> Any:
        """Run encoder and decoder.

        Args:
            inputs: ``source`` int [B, S] and ``target`` int [B, T]; where rows hold several pairs
                also ``source_segments``, ``source_positions`` [B, S], ``target_segments`` and
                ``target_positions`` [B, T]. Without them, a row is one pair and id 0 is padding.
            dropout_key: uint32 scalar; None: no dropout.
            return_attention: whether attention weights are returned too.

        Returns:
            logits float32 [B, T, V], or (logits, `AttentionWeights`).
        """
        source, target = inputs["source"], inputs["target"]
        source_segments = inputs.get("source_segments")
        target_segments = inputs.get("target_segments")
        if source_segments is None:
            source_segments = ops.cast(ops.not_equal(source, PAD), "int32")
        if target_segments is None:
            target_segments = ops.cast(ops.not_equal(target, PAD), "int32")
        memory, of_encoder = self.encode(
            source,
            segment_mask(source_segments, source_segments),
            positions=inputs.get("source_positions"),
            dropout_key=_place(dropout_key, 0),
            return_weights=return_attention,
        )
        logits, of_decoder, of_cross = self.decode(
            target,
            memory,
            ops.logical_and(
                segment_mask(target_segments, target_segments), causal_mask(ops.shape(target)[1])
            ),
            segment_mask(target_segments, source_segments),
            positions=inputs.get("target_positions"),
            dropout_key=_place(dropout_key, 1),
            return_weights=return_attention,
        )
        if return_attention:
            return logits, AttentionWeights(of_encoder, of_decoder, of_cross)
        return logits

    def start(self, source: Tensor, *, hypotheses: int, max_length: int | Tensor) -> DecodingState:
        """Encode ``source`` int [B, S] and make an empty cache for decoding.

        Args:
            source: int [B, S], padded with id 0.
            hypotheses: per sentence; N = B * hypotheses.
            max_length: T, the positions of the cache.
        """
        mask = ops.not_equal(source, PAD)[:, None, None, :]  # [B, 1, 1, S]
        memory, _ = self.encode(source, mask)
        shape = (
            ops.shape(source)[0] * hypotheses,
            max_length,
            self.num_heads,
            self.d_model // self.num_heads,
        )
        return DecodingState(
            cache=tuple(
                (ops.zeros(shape, self.compute_dtype), ops.zeros(shape, self.compute_dtype))
                for _ in self.decoder_blocks
            ),
            memory=tuple(block.cross_attention.project(memory) for block in self.decoder_blocks),
            memory_mask=mask,
        )

    def step(
        self, tokens: Tensor, index: Tensor, state: DecodingState
    ) -> tuple[Tensor, DecodingState]:
        """Score the token that follows ``tokens`` int [N], which stand at position ``index``.

        Returns:
            (logits float32 [N, V], the state after it).
        """
        positions = ops.reshape(index, (1, 1))
        x = self.embed(tokens[:, None], positions, None)  # [N, 1, D]
        caches = []
        for block, cache, memory in zip(
            self.decoder_blocks, state.cache, state.memory, strict=True
        ):
            x, cache = block.step(x, cache, memory, state.memory_mask, index)
            caches.append(cache)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        return self.embedding.logits(x)[:, 0], state._replace(cache=tuple(caches))

    def named_weights(self) -> dict[str, keras.Variable]:
        """Return every weight by its path inside the model, whatever the model is called."""
        return {weight.path.split("/", 1)[1]: weight for weight in self.weights}

    def _run(self, block: keras.layers.Layer, *tensors: Tensor, **arguments: Any) -> Any:
        """Call a block; with `remat`, so that its activations are recomputed when needed."""
        if not self.remat or arguments["return_weights"]:
            return block(*tensors, **arguments)
        # A rematerialised function takes and returns tensors only; the rest is closed over.
        x = keras.remat(lambda *inner: block(*inner, **arguments)[0])(*tensors)
        return (x, None) if isinstance(block, EncoderBlock) else (x, None, None)

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the model."""
        return super().get_config() | self._config
