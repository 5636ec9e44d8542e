"""The encoder-decoder transformer of Vaswani et al. 2017, with pre-norm blocks by default."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.model.attention import (
    KeyValues,
    MultiHeadAttention,
    ancestor_mask,
    causal_mask,
    segment_mask,
)
from nmt.model.blocks import DecoderBlock, EncoderBlock, TokenEmbedding
from nmt.model.chunked import SegmentMask
from nmt.model.contract import CROSS, DECODER, ENCODER, AttentionKind
from nmt.model.dropout import dropout, fold, resolve_key
from nmt.model.encoder_decoder import PAD, EncoderDecoder, find_segments, take_positions
from nmt.model.positions import EMBEDDED, PositionEmbedding, list_distances, make_bias, rotate
from nmt.model.sizes import Sizes

Tensor = Any


class DecodingState(NamedTuple):
    """What a decoder carries from one token to the next, for k hypotheses per sentence.

    Every tensor begins with the batch. See `ancestor_mask` for how hypotheses share a cache.
    """

    cache: tuple[KeyValues, ...]  # per layer, T * k slots
    ancestors: Tensor  # int32 [B, k, T]; -1 where nothing has been written
    memory: tuple[KeyValues, ...]  # per layer, S positions
    memory_mask: Tensor  # bool [B, 1, 1, S]
    coverage: Tensor | tuple[()]  # float32 [B, k, S]: attention received so far; (): not kept


@keras.saving.register_keras_serializable("nmt")
class Transformer(EncoderDecoder):
    """The model: token ids in, next-token logits out. It is a `nmt.model.contract.Model`."""

    sizes: Sizes

    def __init__(self, sizes: Sizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        policy = self.dtype_policy
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
            make_bias(sizes.positions, sizes.num_heads, causal=causal, name=name)
            for causal, name in ((False, "encoder_bias"), (True, "decoder_bias"))
        )
        self.encoder_blocks = [
            EncoderBlock(sizes, name=f"encoder_{i}", dtype=policy)
            for i in range(sizes.encoder_layers)
        ]
        self.decoder_blocks = [
            DecoderBlock(sizes, name=f"decoder_{i}", dtype=policy)
            for i in range(sizes.decoder_layers)
        ]
        # Pre-norm leaves the residual stream unnormalised: one more norm ends each stack.
        self.encoder_norm = self.decoder_norm = None
        if sizes.norm == "pre":
            self.encoder_norm = keras.layers.LayerNormalization(
                epsilon=sizes.norm_epsilon, name="encoder_norm", dtype=policy
            )
            self.decoder_norm = keras.layers.LayerNormalization(
                epsilon=sizes.norm_epsilon, name="decoder_norm", dtype=policy
            )
        self.build()

    @property
    def inner_width(self) -> int:
        """D."""
        return self.sizes.d_model

    @property
    def attention_kinds(self) -> tuple[AttentionKind, ...]:
        """The three roles of attention."""
        return ENCODER, DECODER, CROSS

    def attention_layers(self, kind: str) -> list[MultiHeadAttention]:
        """Return the layers of one kind of attention, the first block's first."""
        return {
            ENCODER.name: [block.attention for block in self.encoder_blocks],
            DECODER.name: [block.self_attention for block in self.decoder_blocks],
            CROSS.name: [block.cross_attention for block in self.decoder_blocks],
        }[kind]

    def embed(self, ids: Tensor, positions: Tensor | None, dropout_key: Tensor | None) -> Tensor:
        """Embed tokens, and positions where they have vectors: ids [B, L] -> [B, L, D]."""
        x = self.embedding(ids)
        if self.positions is not None:
            if positions is None:
                positions = ops.expand_dims(ops.arange(ops.shape(ids)[1], dtype="int32"), 0)
            x = x + self.positions(positions)
        return dropout(x, self.sizes.dropout, dropout_key)

    @staticmethod
    def _distance_bias(bias: keras.layers.Layer | None, x: Tensor) -> Tensor | None:
        """Return the bias [H, 2 L - 1] of attention within ``x`` [B, L, D], if there is one."""
        length = ops.shape(x)[1]
        return None if bias is None else bias(list_distances(length, length))

    def encode(
        self,
        source: Tensor,
        mask: Tensor,
        *,
        positions: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Encode ``source`` int [B, S] under ``mask``, bool [B, 1, S or 1, S] or a `SegmentMask`.

        Returns:
            (memory [B, S, D], self-attention weights per layer, or an empty list).
        """
        x = self.embed(source, positions, fold(dropout_key, 0))
        return self.encode_embedded(x, mask, dropout_key=dropout_key, return_weights=return_weights)

    def encode_embedded(
        self,
        x: Tensor,
        mask: Tensor,
        *,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Do what `encode` does behind the embeddings ``x`` [B, S, D]."""
        collected = []
        bias = self._distance_bias(self.encoder_bias, x)
        for number, block in enumerate(self.encoder_blocks, start=1):
            x, weights = self._run(
                block,
                x,
                attention_mask=mask,
                dropout_key=fold(dropout_key, number),
                return_weights=return_weights,
                distance_bias=bias,
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
        scored: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Score the next token after every prefix of ``target`` int [B, T].

        Args:
            target: int [B, T], shifted: it begins with the begin-of-sentence id.
            memory: [B, S, D] from `encode`.
            mask: bool [B or 1, 1, T, T], causality included, or a `SegmentMask`.
            memory_mask: bool [B, 1, T or 1, S], or a `SegmentMask`.
            positions: int [B, T]; None: 0 … T - 1.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether attention weights are returned.
            scored: int [B], the one position of each row that is scored; None: all.

        Returns:
            (logits float32 [B, T, V], or [B, V] of one position, self weights per layer, cross
            weights per layer).
        """
        x = self.embed(target, positions, fold(dropout_key, 0))
        of_self, of_cross = [], []
        bias = self._distance_bias(self.decoder_bias, x)
        for number, block in enumerate(self.decoder_blocks, start=1):
            x, self_weights, cross_weights = self._run(
                block,
                x,
                memory,
                attention_mask=mask,
                memory_mask=memory_mask,
                dropout_key=fold(dropout_key, number),
                return_weights=return_weights,
                distance_bias=bias,
            )
            if return_weights:
                of_self.append(self_weights)
                of_cross.append(cross_weights)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        if scored is not None:
            x = take_positions(x, scored)
        return self.embedding.logits(x), of_self, of_cross

    def call(
        self,
        inputs: dict[str, Tensor],
        dropout_key: Tensor | None = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Run encoder and decoder.

        Args:
            inputs: ``source`` int [B, S] and ``target`` int [B, T]; where rows hold several pairs
                also ``source_segments``, ``source_positions`` [B, S], ``target_segments`` and
                ``target_positions`` [B, T]. Without them, a row is one pair and id 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_attention: whether attention weights are returned too.
            training: passed by Keras; where it is true and no key is given, one is drawn.

        Returns:
            logits float32 [B, T, V], or (logits, {kind: [weights float32 [B, H, rows, columns] of
            each layer]}).
        """
        dropout_key = resolve_key(dropout_key, self.generator, training)
        source, target = inputs["source"], inputs["target"]
        source_segments = inputs.get("source_segments")
        target_segments = inputs.get("target_segments")
        if source_segments is None:
            source_segments = find_segments(source)
        if target_segments is None:
            target_segments = find_segments(target)
        of_source, of_target, of_memory = self._make_masks(
            source_segments, target_segments, spread=return_attention
        )
        memory, of_encoder = self.encode(
            source,
            of_source,
            positions=inputs.get("source_positions"),
            dropout_key=fold(dropout_key, 0),
            return_weights=return_attention,
        )
        logits, of_decoder, of_cross = self.decode(
            target,
            memory,
            of_target,
            of_memory,
            positions=inputs.get("target_positions"),
            dropout_key=fold(dropout_key, 1),
            return_weights=return_attention,
        )
        if return_attention:
            of_kinds = (of_encoder, of_decoder, of_cross)
            names = [kind.name for kind in self.attention_kinds]
            return logits, dict(zip(names, of_kinds, strict=True))
        return logits

    def _make_masks(self, source: Tensor, target: Tensor, *, spread: bool) -> tuple[Any, Any, Any]:
        """Return the masks of encoder, decoder and cross-attention.

        Args:
            source: int [B, S], segments.
            target: int [B, T], segments.
            spread: whether they are tensors even where a kernel reads them block by block.
        """
        if self.sizes.attention_kernel == "chunked" and not spread:
            return (
                SegmentMask(source, source, causal=False),
                SegmentMask(target, target, causal=True),
                SegmentMask(target, source, causal=False),
            )
        of_target = ops.logical_and(segment_mask(target, target), causal_mask(ops.shape(target)[1]))
        return segment_mask(source, source), of_target, segment_mask(target, source)

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> DecodingState:
        """Encode ``source`` int [B, S] and make an empty cache for decoding.

        Args:
            source: int [B, S], padded with id 0.
            beam_size: k, hypotheses per sentence.
            max_length: T, the positions of the cache; `grow` makes more.
            track_coverage: whether to sum up the attention that each source token receives.
        """
        mask = ops.not_equal(source, PAD)[:, None, None, :]  # [B, 1, 1, S]
        memory, _ = self.encode(source, mask)
        batch, slots = ops.shape(source)[0], max_length * beam_size
        sizes = self.sizes.self_attention
        keys = ops.zeros((batch, sizes.groups, sizes.head_width, slots), self.compute_dtype)
        values = ops.zeros((batch, sizes.groups, slots, sizes.value_width), self.compute_dtype)
        nothing = ops.zeros((batch, beam_size, ops.shape(source)[1]), "float32")
        return DecodingState(
            cache=tuple(KeyValues(keys, values) for _ in self.decoder_blocks),
            ancestors=ops.full((batch, beam_size, max_length), -1, "int32"),
            memory=tuple(block.cross_attention.keep(memory) for block in self.decoder_blocks),
            memory_mask=mask,
            coverage=nothing if track_coverage else (),
        )

    def step(
        self, tokens: Tensor, index: Tensor, state: DecodingState
    ) -> tuple[Tensor, DecodingState]:
        """Score what follows ``tokens`` int [B, k], which stand at position ``index``.

        Returns:
            (logits float32 [B, k, V], the state after it).
        """
        hypotheses = tokens.shape[1]
        places = ops.arange(hypotheses, dtype="int32")
        here = ops.equal(ops.arange(ops.shape(state.ancestors)[2], dtype="int32"), index)  # [T]
        ancestors = ops.where(here, places[:, None], state.ancestors)
        mask = ancestor_mask(ancestors)
        bias = None
        if self.decoder_bias is not None:  # of every slot, by how far back its position is
            slots = ops.arange(ops.shape(mask)[3], dtype="int32")
            bias = self.decoder_bias(index - slots // hypotheses)
        x = self.embed(tokens, ops.reshape(index, (1, 1)), None)  # [B, k, D]
        x = ops.reshape(x, (-1, self.sizes.d_model))  # [B * k, D]
        caches = []
        weights = None
        for block, cache, memory in zip(
            self.decoder_blocks, state.cache, state.memory, strict=True
        ):
            x, cache, weights = block.step(
                x, cache, memory, mask, state.memory_mask, index, hypotheses, bias
            )
            caches.append(cache)
        if self.decoder_norm is not None:
            x = self.decoder_norm(x)
        coverage = state.coverage
        if not isinstance(coverage, tuple):  # by the last layer, the mean of its heads
            coverage = coverage + ops.mean(weights, axis=1)
        state = state._replace(cache=tuple(caches), ancestors=ancestors, coverage=coverage)
        logits = self.embedding.logits(x)  # [B * k, V]
        return ops.reshape(logits, (-1, hypotheses, self.vocabulary_size)), state

    @staticmethod
    def reorder(state: DecodingState, parents: Tensor) -> DecodingState:
        """Let the hypothesis in place i go on from the one in place ``parents`` int [B, k]."""
        chosen = ops.expand_dims(parents, -1)
        coverage = state.coverage
        if not isinstance(coverage, tuple):
            coverage = ops.take_along_axis(coverage, chosen, axis=1)
        return state._replace(
            ancestors=ops.take_along_axis(state.ancestors, chosen, axis=1), coverage=coverage
        )

    @staticmethod
    def capacity(state: DecodingState) -> Tensor:
        """Return T, the positions of the cache."""
        return ops.shape(state.ancestors)[2]

    @staticmethod
    def grow(state: DecodingState, positions: Tensor) -> DecodingState:
        """Make room for more positions at the end of the cache."""
        batch, places = ops.shape(state.ancestors)[0], ops.shape(state.ancestors)[1]

        def more(kept: KeyValues) -> KeyValues:
            heads, width = kept.keys.shape[1:3]
            keys = ops.zeros((batch, heads, width, positions * places), kept.keys.dtype)
            width = kept.values.shape[3]
            values = ops.zeros((batch, heads, positions * places, width), kept.values.dtype)
            return KeyValues(
                ops.concatenate([kept.keys, keys], axis=3),
                ops.concatenate([kept.values, values], axis=2),
            )

        unwritten = ops.full((batch, places, positions), -1, "int32")
        return state._replace(
            cache=tuple(more(kept) for kept in state.cache),
            ancestors=ops.concatenate([state.ancestors, unwritten], axis=2),
        )

    @staticmethod
    def growing_axes(state: DecodingState) -> DecodingState:
        """Return, for every tensor of a state, the axis that `grow` makes longer; -1: none."""
        fixed = DecodingState(*keras.tree.map_structure(lambda tensor: -1, tuple(state)))
        return fixed._replace(cache=tuple(KeyValues(3, 2) for _ in state.cache), ancestors=2)

    def embed_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return two tensors [B, S, D] for int [B, S]: what the encoder reads, and tokens alone."""
        return self.embed(source, None, None), self.embedding(source)

    def score_embedded(self, embedded: Tensor, target: Tensor, positions: Tensor) -> Tensor:
        """Return the logits float32 [B, V] of one position int [B] of each ``target`` [B, T]."""
        everything = ops.ones((1, 1, 1, ops.shape(embedded)[1]), "bool")
        memory, _ = self.encode_embedded(embedded, everything)
        causal = causal_mask(ops.shape(target)[1])
        return self.decode(target, memory, causal, everything, scored=positions)[0]

    def position_table(self) -> np.ndarray | None:
        """Return the vectors of positions, float32 [max_length, D]; None where they have none."""
        if self.positions is None:
            return None
        return np.asarray(self.positions.table, np.float32)

    def distance_profiles(self, length: int) -> dict[str, np.ndarray]:
        """Return what the distance of two tokens does to their score, float32 [H or 1, 2 L - 1].

        Of rotary positions, it is the product of a vector of equal numbers and the same turned.
        """
        distances = list_distances(length, length)
        if self.sizes.positions == "rotary":
            width = self.sizes.cross_attention.head_width
            turned = rotate(ops.full((1, 2 * length - 1, 1, width), width**-0.5), distances)
            products = ops.sum(turned, axis=-1)[:, :, 0] * width**-0.5
            return {"cosine of a vector and itself, turned": ops.convert_to_numpy(products)}
        stacks = {"encoder": self.encoder_bias, "decoder": self.decoder_bias}
        return {
            f"added to scores of the {name}": ops.convert_to_numpy(bias(distances))
            for name, bias in stacks.items()
            if bias is not None
        }

    def _run(self, block: keras.layers.Layer, *tensors: Tensor, **arguments: Any) -> Any:
        """Call a block; with `remat`, so that its activations are recomputed when needed."""
        if not self.sizes.remat or arguments["return_weights"]:
            return block(*tensors, **arguments)
        # A rematerialised function takes and returns tensors only; the rest is closed over. On
        # TensorFlow, gradients do not flow to that, so a learned bias has to be passed, too.
        bias = arguments.pop("distance_bias")
        biases = () if bias is None else (bias,)
        count = len(tensors)

        def run(*inner: Tensor) -> Tensor:
            passed = inner[count] if biases else None
            return block(*inner[:count], distance_bias=passed, **arguments)[0]

        x = keras.remat(run)(*tensors, *biases)
        return (x, None) if isinstance(block, EncoderBlock) else (x, None, None)
