"""The encoder-decoder transformer of Vaswani et al. 2017, with pre-norm blocks by default."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from nmt.model.attention import KeyValues
from nmt.model.blocks import DecoderBlock, EncoderBlock
from nmt.model.contract import CROSS, DECODER, ENCODER
from nmt.model.dropout import dropout, fold
from nmt.model.encoder_decoder import PAD, EncoderDecoder, add_coverage, start_coverage
from nmt.model.layers import LayerNormalization, TokenEmbedding
from nmt.model.masks import SegmentMask, ancestor_mask, causal_mask, segment_mask
from nmt.model.multi_head import MultiHeadAttention
from nmt.model.positions import (
    EMBEDDED,
    PositionEmbedding,
    list_distances,
    make_distance_bias,
    rotate,
)
from nmt.model.sizes import TRANSFORMER_DEFAULTS, TransformerSizes
from nmt.model.transformer_state import TransformerState

Tensor = Any


def make_masks(
    source_segments: Tensor, target_segments: Tensor, *, as_segments: bool
) -> tuple[Any, Any, Any]:
    """Return the masks of encoder, decoder and cross-attention.

    Args:
        source_segments: int [B, S]; 0 is padding.
        target_segments: int [B, T].
        as_segments: whether to return `SegmentMask`, for a kernel that reads masks block by block,
            instead of tensors.
    """
    source, target = source_segments, target_segments
    if as_segments:
        return (
            SegmentMask(source, source, causal=False),
            SegmentMask(target, target, causal=True),
            SegmentMask(target, source, causal=False),
        )
    within_target = ops.logical_and(segment_mask(target, target), causal_mask(ops.shape(target)[1]))
    return segment_mask(source, source), within_target, segment_mask(target, source)


def distance_bias(bias: keras.layers.Layer | None, x: Tensor) -> Tensor | None:
    """Return the bias [H, 2 L - 1] of attention within ``x`` [B, L, D], if the model has one."""
    length = ops.shape(x)[1]
    return None if bias is None else bias(list_distances(length, length))


def _run_block(
    block: keras.layers.Layer, *tensors: Tensor, remat: bool, **arguments: Any
) -> tuple[Any, ...]:
    """Call a block: (output, its weights if they are requested).

    With ``remat``, the backward pass recomputes its activations.
    """
    if arguments["return_weights"]:
        return block(*tensors, **arguments)
    if not remat:
        return (block(*tensors, **arguments),)
    # A rematerialised function takes and returns tensors only; it closes over everything else. On
    # TensorFlow, closed-over tensors get no gradients, so a learned bias must be an argument.
    bias = arguments.pop("distance_bias")
    biases = () if bias is None else (bias,)
    count = len(tensors)

    def run(*inputs: Tensor) -> Tensor:
        bias = inputs[count] if biases else None
        return block(*inputs[:count], distance_bias=bias, **arguments)

    return (keras.remat(run)(*tensors, *biases),)


@keras.saving.register_keras_serializable("nmt")
class Transformer(EncoderDecoder):
    """Token ids in, next-token logits out: a `nmt.model.contract.Model`.

    >>> model = Transformer(vocabulary_size=8000, d_model=256, num_heads=4, ffn_width=1024,
    ...                     encoder_layers=3, decoder_layers=3, dropout=0.1)

    A subclass may set `encoder_block_class` and `decoder_block_class`.

    Args:
        sizes: its sizes; None: the fields of `TransformerSizes` are keywords, and those of
            `TRANSFORMER_DEFAULTS` may be left out.
        **kwargs: these fields, and the arguments of every Keras model.

    Raises:
        TypeError: a size is missing or not passed by keyword.
        ValueError: see `TransformerSizes`.
    """

    default_sizes = TRANSFORMER_DEFAULTS
    attention_kinds = (ENCODER, DECODER, CROSS)
    encoder_block_class = EncoderBlock
    decoder_block_class = DecoderBlock
    sizes: TransformerSizes

    def __init__(self, sizes: TransformerSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        sizes, policy = self.sizes, self.dtype_policy
        self.embedding = TokenEmbedding(
            sizes.vocabulary_size,
            sizes.d_model,
            output_bias=sizes.output_bias,
            name="embedding",
            dtype=policy,
        )
        self.positions = None
        if sizes.positions in EMBEDDED:
            self.positions = PositionEmbedding(
                sizes.positions, sizes.max_length, sizes.d_model, name="positions", dtype=policy
            )
        self.encoder_bias, self.decoder_bias = (
            make_distance_bias(sizes.positions, sizes.num_heads, causal=causal, name=name)
            for causal, name in ((False, "encoder_bias"), (True, "decoder_bias"))
        )
        self.encoder_blocks = [
            self.encoder_block_class(sizes, name=f"encoder_{i}", dtype=policy)
            for i in range(sizes.encoder_layers)
        ]
        self.decoder_blocks = [
            self.decoder_block_class(sizes, name=f"decoder_{i}", dtype=policy)
            for i in range(sizes.decoder_layers)
        ]
        # Pre-norm leaves the residual stream unnormalised: one more norm ends each stack.
        self.encoder_norm = self.decoder_norm = None
        if sizes.norm == "pre":
            self.encoder_norm, self.decoder_norm = (
                LayerNormalization(epsilon=sizes.norm_epsilon, name=name, dtype=policy)
                for name in ("encoder_norm", "decoder_norm")
            )
        if type(self).__init__ is Transformer.__init__:  # a subclass may add layers
            self.build()

    def attention_layers(self, kind: str) -> list[MultiHeadAttention]:
        """See `Model.attention_layers`."""
        return {
            ENCODER.name: [block.attention for block in self.encoder_blocks],
            DECODER.name: [block.self_attention for block in self.decoder_blocks],
            CROSS.name: [block.cross_attention for block in self.decoder_blocks],
        }[kind]

    def embed(self, ids: Tensor, positions: Tensor | None, dropout_key: Tensor | None) -> Tensor:
        """Embed tokens, and positions if they have embeddings: ids [B, L] -> [B, L, D].

        Raises:
            ValueError: rows are longer than there are positions.
        """
        x = self.embedding(ids)
        if self.positions is not None:
            if positions is None:
                length, longest = ids.shape[1], self.sizes.max_length
                if isinstance(length, int) and length > longest:  # JAX traces symbolic lengths
                    raise ValueError(f"rows of {length} tokens exceed model.max_length={longest}")
                positions = ops.expand_dims(ops.arange(ops.shape(ids)[1], dtype="int32"), 0)
            x = x + self.positions(positions)
        return dropout(x, self.sizes.dropout, dropout_key)

    def encode(
        self,
        source: Tensor,
        mask: Tensor,
        *,
        positions: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the representation of a source that the decoder attends to.

        Args:
            source: int [B, S].
            mask: bool [B, 1, S or 1, S], or a `SegmentMask`.
            positions: int [B, S]; None: 0 … S - 1.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether to return attention weights.

        Returns:
            (memory [B, S, D]; self-attention weights float32 [B, H, S, S] per layer, or an empty
            list).
        """
        x = self.embed(source, positions, fold(dropout_key, 0))
        layer_weights = []
        bias = distance_bias(self.encoder_bias, x)
        for index, block in enumerate(self.encoder_blocks, start=1):
            x, *weights = _run_block(
                block,
                x,
                remat=self.sizes.remat,
                attention_mask=mask,
                dropout_key=fold(dropout_key, index),
                return_weights=return_weights,
                distance_bias=bias,
            )
            layer_weights += weights
        if self.encoder_norm is not None:
            x = self.encoder_norm(x)
        return x, layer_weights

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
            target: int [B, T], shifted: it begins with BOS.
            memory: [B, S, D] from `encode`.
            mask: bool [B or 1, 1, T, T], causality included, or a `SegmentMask`.
            memory_mask: bool [B, 1, T or 1, S], or a `SegmentMask`.
            positions: int [B, T]; None: 0 … T - 1.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether to return attention weights.

        Returns:
            (logits float32 [B, T, V]; weights of self-attention float32 [B, H, T, T] per layer;
            weights of cross-attention [B, H, T, S] per layer). Without ``return_weights``, both
            lists are empty.
        """
        x = self.embed(target, positions, fold(dropout_key, 0))
        self_weights, cross_weights = [], []
        bias = distance_bias(self.decoder_bias, x)
        for index, block in enumerate(self.decoder_blocks, start=1):
            x, *weights = _run_block(
                block,
                x,
                memory,
                remat=self.sizes.remat,
                attention_mask=mask,
                cross_mask=memory_mask,
                dropout_key=fold(dropout_key, index),
                return_weights=return_weights,
                distance_bias=bias,
            )
            if return_weights:
                self_weights.append(weights[0])
                cross_weights.append(weights[1])
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        return self.embedding.logits(x), self_weights, cross_weights

    def forward(
        self,
        inputs: dict[str, Tensor],
        source_segments: Tensor,
        target_segments: Tensor,
        dropout_key: Tensor | None,
        return_attention: bool,
    ) -> tuple[Tensor, tuple[list[Tensor], ...]]:
        """See `EncoderDecoder.forward`."""
        as_segments = self.sizes.attention_kernel == "chunked" and not return_attention
        encoder_mask, decoder_mask, memory_mask = make_masks(
            source_segments, target_segments, as_segments=as_segments
        )
        memory, encoder_weights = self.encode(
            inputs["source"],
            encoder_mask,
            positions=inputs.get("source_positions"),
            dropout_key=fold(dropout_key, 0),
            return_weights=return_attention,
        )
        logits, self_weights, cross_weights = self.decode(
            inputs["target"],
            memory,
            decoder_mask,
            memory_mask,
            positions=inputs.get("target_positions"),
            dropout_key=fold(dropout_key, 1),
            return_weights=return_attention,
        )
        return logits, (encoder_weights, self_weights, cross_weights)

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> TransformerState:
        """See `Decoder.start`: encode the source and allocate an empty cache."""
        mask = ops.not_equal(source, PAD)[:, None, None, :]  # [B, 1, 1, S]
        memory, _ = self.encode(source, mask)
        batch, slots = ops.shape(source)[0], max_length * beam_size
        sizes = self.sizes.self_attention
        keys = ops.zeros((batch, sizes.groups, sizes.head_width, slots), self.compute_dtype)
        values = ops.zeros((batch, sizes.groups, slots, sizes.value_width), self.compute_dtype)
        return TransformerState(
            cache=tuple(KeyValues(keys, values) for _ in self.decoder_blocks),
            ancestors=ops.full((batch, beam_size, max_length), -1, "int32"),
            memory=tuple(
                KeyValues.from_heads(*block.cross_attention.project(memory))
                for block in self.decoder_blocks
            ),
            memory_mask=mask,
            coverage=start_coverage(source, beam_size, is_tracked=track_coverage),
        )

    def step(
        self, tokens: Tensor, index: Tensor, state: TransformerState
    ) -> tuple[Tensor, TransformerState]:
        """See `Decoder.step`."""
        beam_size = tokens.shape[1]
        hypotheses = ops.arange(beam_size, dtype="int32")
        is_current = ops.equal(ops.arange(self.capacity(state), dtype="int32"), index)  # [T]
        ancestors = ops.where(is_current, hypotheses[:, None], state.ancestors)
        mask = ancestor_mask(ancestors)
        bias = None
        if self.decoder_bias is not None:  # by the distance of every slot's position
            slots = ops.arange(ops.shape(mask)[3], dtype="int32")
            bias = self.decoder_bias(index - slots // beam_size)
        x = self.embed(tokens, ops.reshape(index, (1, 1)), None)  # [B, k, D]
        x = ops.reshape(x, (-1, self.sizes.d_model))  # [B * k, D]
        caches = []
        weights = None
        for block, cache, memory in zip(
            self.decoder_blocks, state.cache, state.memory, strict=True
        ):
            x, cache, weights = block.step(
                x, cache, memory, mask, state.memory_mask, index, beam_size, bias
            )
            caches.append(cache)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        coverage = add_coverage(state.coverage, weights)  # of the last layer
        state = state._replace(cache=tuple(caches), ancestors=ancestors, coverage=coverage)
        logits = self.embedding.logits(x)  # [B * k, V]
        return ops.reshape(logits, (-1, beam_size, self.vocabulary_size)), state

    def capacity(self, state: TransformerState) -> Tensor:
        """See `Decoder.capacity`."""
        return ops.shape(state.ancestors)[2]

    def position_table(self) -> np.ndarray | None:
        """See `Model.position_table`."""
        if self.positions is None:
            return None
        return np.asarray(self.positions.table, np.float32)

    def distance_profiles(self, length: int) -> dict[str, np.ndarray]:
        """See `Model.distance_profiles`.

        For rotary positions, it is the product of a constant vector and the same vector rotated.
        """
        distances = list_distances(length, length)
        if self.sizes.positions == "rotary":
            width = self.sizes.cross_attention.head_width
            rotated = rotate(ops.full((1, 2 * length - 1, 1, width), width**-0.5), distances)
            products = ops.sum(rotated, axis=-1)[:, :, 0] * width**-0.5
            return {"cosine of a vector and itself, turned": ops.convert_to_numpy(products)}
        stacks = {"encoder": self.encoder_bias, "decoder": self.decoder_bias}
        profiles = {
            f"added to scores of the {name}": np.array(ops.convert_to_numpy(bias(distances)))
            for name, bias in stacks.items()
            if bias is not None
        }
        for title, profile in profiles.items():
            if title.endswith("decoder"):
                profile[:, : length - 1] = np.nan  # masked: the key is ahead
        return profiles
