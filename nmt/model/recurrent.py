"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015).

A bidirectional encoder, and a decoder that writes from a = tanh(W [context; h] + b), where the
context is what its state h attends to. Where a row holds several pairs, states begin anew with
every segment, forwards and backwards, so that neighbours in a row do not know of each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.model.attention import segment_mask
from nmt.model.blocks import TokenEmbedding
from nmt.model.cells import BidirectionalLayer, RecurrentLayer, States, find_begins, keep_within
from nmt.model.contract import CROSS, AttentionKind
from nmt.model.dense import Dense
from nmt.model.dropout import dropout, fold, resolve_key
from nmt.model.encoder_decoder import PAD, EncoderDecoder, find_segments, take_positions
from nmt.model.feeding import LayerWeights, Masks, Rows, Segments, decode
from nmt.model.scores import Memory, Reading
from nmt.model.sizes import RecurrentSizes

Tensor = Any


class DecodingState(NamedTuple):
    """What a decoder carries from one token to the next, for k hypotheses per sentence.

    Every tensor begins with the batch.
    """

    layers: tuple[States, ...]  # [B, k, R] each
    written: Tensor | tuple[()]  # [B, k, D], which is fed back; (): it is not
    memory: Memory  # [B, H, S, C], shared by the hypotheses
    memory_mask: Tensor  # bool [B, 1, 1, S]
    coverage: Tensor | tuple[()]  # float32 [B, k, S]: attention received so far; (): not kept


@keras.saving.register_keras_serializable("nmt")
class Recurrent(EncoderDecoder):
    """The model: token ids in, next-token logits out. It is a `nmt.model.contract.Model`."""

    made_of = RecurrentSizes
    adapted = ("*",)
    sizes: RecurrentSizes

    def __init__(self, sizes: RecurrentSizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        policy, width = self.dtype_policy, sizes.state_width
        self.embedding = TokenEmbedding(
            sizes.vocabulary_size, sizes.d_model, name="embedding", dtype=policy
        )
        self.encoder_layers = [
            BidirectionalLayer(
                width if i else sizes.d_model, width, sizes.cell, name=f"encoder_{i}", dtype=policy
            )
            for i in range(sizes.encoder_layers)
        ]
        read = 2 * sizes.d_model if sizes.input_feeding else sizes.d_model
        self.decoder_layers = [
            RecurrentLayer(
                width if i else read, width, sizes.cell, name=f"decoder_{i}", dtype=policy
            )
            for i in range(sizes.decoder_layers)
        ]
        self.bridges = [
            Dense(width, activation="tanh", name=f"bridge_{i}", dtype=policy)
            for i in range(sizes.decoder_layers if sizes.bridge else 0)
        ]
        self.reading = Reading(sizes, name="reading", dtype=policy)
        self.build()

    @property
    def inner_width(self) -> int:
        """R."""
        return self.sizes.state_width

    @property
    def attention_kinds(self) -> tuple[AttentionKind, ...]:
        """The decoder's attention to the encoder alone."""
        return (CROSS,)

    def attention_layers(self, kind: str) -> list[Reading]:
        """Return the layers of one kind of attention: there is one layer."""
        return {CROSS.name: [self.reading]}[kind]

    def embed(self, ids: Tensor, dropout_key: Tensor | None) -> Tensor:
        """Return the vectors of ids: [B, L] -> [B, L, D]."""
        return dropout(self.embedding(ids), self.sizes.dropout, dropout_key)

    def encode(self, x: Tensor, segments: Tensor, *, dropout_key: Tensor | None = None) -> Tensor:
        """Return the states [B, S, R] of embeddings ``x`` [B, S, D].

        Args:
            x: [B, S, D].
            segments: int [B, S]; 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
        """
        x = ops.transpose(x, (1, 0, 2))
        for number, layer in enumerate(self.encoder_layers):
            if number:
                key = fold(dropout_key, number)
                x = dropout(x, self.sizes.dropout, key, time_major=True)
            x = layer(x, segments)
        return ops.transpose(x, (1, 0, 2))

    def decode(
        self,
        target: Tensor,
        states: Tensor,
        target_segments: Tensor,
        source_segments: Tensor,
        *,
        dropout_key: Tensor | None = None,
        scored: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Score the next token after every prefix of ``target`` int [B, T].

        Args:
            target: int [B, T], shifted: it begins with the begin-of-sentence id.
            states: [B, S, R] from `encode`.
            target_segments: int [B, T]; a position attends to its own segment of the source.
            source_segments: int [B, S]; 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            scored: int [B], the one position of each row that is scored; None: all.

        Returns:
            (logits float32 [B, T, V], or [B, V] of one position, weights of attention float32
            [B, H, T, S]).
        """
        x = ops.transpose(self.embed(target, fold(dropout_key, 0)), (1, 0, 2))  # [T, B, D]
        begins = self.bridge(states, target_segments, source_segments)
        run = self._run_feeding if self.sizes.input_feeding else self._run_plain
        memory = self.reading.remember(states)
        a, weights = run(x, memory, target_segments, source_segments, begins, fold(dropout_key, 1))
        if scored is not None:
            a = take_positions(a, scored)
        return self.embedding.logits(a), weights

    def bridge(
        self, states: Tensor, target_segments: Tensor, source_segments: Tensor
    ) -> tuple[Tensor, ...]:
        """Return what each layer of the decoder begins a segment with.

        Args:
            states: [B, S, R] from `encode`.
            target_segments: int [B, T].
            source_segments: int [B, S].

        Returns:
            [T, B, R] for every layer, zero where no segment begins; () without a bridge.
        """
        if not self.bridges:
            return ()
        begins = ops.expand_dims(find_begins(target_segments), -1)  # [B, T, 1]
        same = segment_mask(target_segments, source_segments)[:, 0]  # [B, T, S]
        lasts = []
        for half, reverse in zip(ops.split(states, 2, axis=-1), (True, False), strict=True):
            last = find_begins(source_segments, reverse=reverse)[:, None]  # where each ends
            chosen = ops.cast(ops.logical_and(same, last), half.dtype)
            lasts.append(ops.matmul(chosen, half))  # [B, T, R / 2]
        both = ops.transpose(ops.concatenate(lasts, axis=-1), (1, 0, 2))
        begins = ops.cast(ops.transpose(begins, (1, 0, 2)), both.dtype)
        return tuple(bridge(both) * begins for bridge in self.bridges)

    def _run_plain(
        self,
        x: Tensor,
        memory: Memory,
        target_segments: Tensor,
        source_segments: Tensor,
        begins: tuple[Tensor, ...],
        dropout_key: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Run cells over all positions, then attention over all: (a [B, T, D], weights)."""
        keep = keep_within(target_segments, self.compute_dtype)
        for number, layer in enumerate(self.decoder_layers):
            if number:
                key = fold(dropout_key, 2 + number)
                x = dropout(x, self.sizes.dropout, key, time_major=True)
            x = layer(x, keep, begins[number] if begins else ())
        a, weights = self.reading(
            ops.transpose(x, (1, 0, 2)),
            memory,
            segment_mask(target_segments, source_segments),
            fold(dropout_key, 0),
        )
        return dropout(a, self.sizes.dropout, fold(dropout_key, 1)), weights

    def _run_feeding(
        self,
        x: Tensor,
        memory: Memory,
        target_segments: Tensor,
        source_segments: Tensor,
        begins: tuple[Tensor, ...],
        dropout_key: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Run cells and attention position by position: (a [B, T, D], weights)."""
        first, others = self.decoder_layers[0], self.decoder_layers[1:]
        kernel = first.in_compute_dtype(first.inputs.kernel)  # [2 D, G R]
        bias = first.in_compute_dtype(first.inputs.bias)
        depth = self.sizes.d_model
        layers = [LayerWeights(kernel[depth:], (), *first.recurrent_weights)]
        for layer in others:
            within, bias_within = map(layer.in_compute_dtype, layer.inputs.weights)
            layers.append(LayerWeights(within, bias_within, *layer.recurrent_weights))
        rows = Rows(
            x=ops.matmul(x, kernel[:depth]) + bias,
            layers=tuple(layers),
            reader=self.reading.reader(),
            memory=memory,
            segments=Segments(source_segments, ops.transpose(target_segments)),
            keep=keep_within(target_segments, self.compute_dtype),
            begins=begins,
            masks=self._masks(x, memory, dropout_key),
        )
        a, weights = decode(first.kind, self.reading.kind, rows)
        return ops.transpose(a, (1, 0, 2)), ops.transpose(weights, (1, 2, 0, 3))

    def _masks(self, x: Tensor, memory: Memory, dropout_key: Tensor | None) -> Masks:
        """Draw what dropout multiplies by within the loop over ``x`` [T, B, D]."""
        sizes, length, batch = self.sizes, ops.shape(x)[0], ops.shape(x)[1]

        def drawn(rate: float, place: int, *shape: Any, dtype: Any = x.dtype) -> Any:
            if dropout_key is None or not rate:
                return ()
            ones = ops.ones((length, batch, *shape), dtype)
            return dropout(ones, rate, fold(dropout_key, place), time_major=True)

        positions = ops.shape(memory.keys)[2]
        between = [
            drawn(sizes.dropout, 2 + number, sizes.state_width)
            for number in range(1, sizes.decoder_layers)
        ]
        return Masks(
            tuple(mask for mask in between if not isinstance(mask, tuple)),
            drawn(sizes.attention_dropout, 0, sizes.num_heads, positions, dtype="float32"),
            drawn(sizes.dropout, 1, sizes.d_model),
        )

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
                also ``source_segments`` [B, S] and ``target_segments`` [B, T]. Without them, a row
                is one pair and id 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout, unless Keras trains.
            return_attention: whether attention weights are returned too.
            training: passed by Keras; where it is true and no key is given, one is drawn.

        Returns:
            logits float32 [B, T, V], or (logits, {kind: [weights float32 [B, H, T, S]]}).
        """
        dropout_key = resolve_key(dropout_key, self.generator, training)
        source, target = inputs["source"], inputs["target"]
        source_segments = inputs.get("source_segments")
        target_segments = inputs.get("target_segments")
        if source_segments is None:
            source_segments = find_segments(source)
        if target_segments is None:
            target_segments = find_segments(target)
        x = self.embed(source, fold(fold(dropout_key, 0), 0))
        states = self.encode(x, source_segments, dropout_key=fold(dropout_key, 0))
        logits, weights = self.decode(
            target, states, target_segments, source_segments, dropout_key=fold(dropout_key, 1)
        )
        return (logits, {CROSS.name: [weights]}) if return_attention else logits

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> DecodingState:
        """Encode ``source`` int [B, S], and stand before the first token.

        Args:
            source: int [B, S], padded with id 0.
            beam_size: k, hypotheses per sentence.
            max_length: does not matter: nothing grows.
            track_coverage: whether to sum up the attention that each source token receives.
        """
        sizes, segments = self.sizes, find_segments(source)
        states = self.encode(self.embedding(source), segments)
        shape = (ops.shape(source)[0], beam_size)
        bridged = self.bridge(states, ops.ones_like(segments[:, :1]), segments)
        blank = ops.zeros((*shape, sizes.state_width), self.compute_dtype)
        each = [
            ops.broadcast_to(ops.transpose(begin, (1, 0, 2)), (*shape, sizes.state_width))
            for begin in bridged
        ] or [blank] * sizes.decoder_layers
        nothing = ops.zeros((*shape, ops.shape(source)[1]), "float32")
        return DecodingState(
            layers=tuple((begin,) * self.decoder_layers[0].kind.states for begin in each),
            written=ops.zeros((*shape, sizes.d_model), self.compute_dtype)
            if sizes.input_feeding
            else (),
            memory=self.reading.remember(states),
            memory_mask=ops.not_equal(source, PAD)[:, None, None, :],
            coverage=nothing if track_coverage else (),
        )

    def step(
        self, tokens: Tensor, index: Tensor, state: DecodingState
    ) -> tuple[Tensor, DecodingState]:
        """Score what follows ``tokens`` int [B, k], which stand at position ``index``.

        Returns:
            (logits float32 [B, k, V], the state after it).
        """
        places = tokens.shape[1]

        def flat(x: Tensor) -> Tensor:  # products of rank 3 cost more where shapes are dynamic
            return ops.reshape(x, (-1, x.shape[-1]))

        def apart(x: Tensor) -> Tensor:
            return ops.reshape(x, (-1, places, x.shape[-1]))

        x = flat(self.embedding(tokens))  # [B * k, D]
        if self.sizes.input_feeding:
            x = ops.concatenate([x, flat(state.written)], axis=-1)
        layers = []
        for layer, states in zip(self.decoder_layers, state.layers, strict=True):
            after = layer.step(x, tuple(map(flat, states)))
            layers.append(tuple(map(apart, after)))
            x = after[0]
        a, weights = self.reading.step(x, state.memory, state.memory_mask, places)
        coverage = state.coverage
        if not isinstance(coverage, tuple):  # the mean of its heads
            coverage = coverage + ops.mean(weights, axis=1)
        state = state._replace(
            layers=tuple(layers),
            written=apart(a) if self.sizes.input_feeding else (),
            coverage=coverage,
        )
        return apart(self.embedding.logits(a)), state

    @staticmethod
    def reorder(state: DecodingState, parents: Tensor) -> DecodingState:
        """Let the hypothesis in place i go on from the one in place ``parents`` int [B, k]."""
        batch, places = ops.shape(parents)[0], parents.shape[1]
        first = ops.expand_dims(ops.arange(batch, dtype="int32") * places, -1)
        rows = ops.reshape(parents + first, (-1,))  # of [B * k]

        def ordered(kept: Any) -> Any:
            return keras.tree.map_structure(order, kept)

        def order(tensor: Tensor) -> Tensor:
            width = ops.shape(tensor)[2]
            chosen = ops.take(ops.reshape(tensor, (-1, width)), rows, axis=0)
            return ops.reshape(chosen, (-1, places, width))

        return state._replace(
            layers=ordered(state.layers),
            written=ordered(state.written),
            coverage=ordered(state.coverage),
        )

    def capacity(self, state: DecodingState) -> Tensor:
        """Return T, the longest sequence: a state has room for all of it."""
        return ops.convert_to_tensor(self.max_length, "int32")

    @staticmethod
    def grow(state: DecodingState, positions: Tensor) -> DecodingState:
        """Return the state: nothing in it is of one position."""
        return state

    @staticmethod
    def growing_axes(state: DecodingState) -> DecodingState:
        """Return, for every tensor of a state, the axis that `grow` makes longer; -1: none."""
        return keras.tree.map_structure(lambda tensor: -1, state)

    def embed_source(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return [B, S, D] for int [B, S], twice: the encoder reads the tokens alone."""
        embedded = self.embedding(source)
        return embedded, embedded

    def score_embedded(self, embedded: Tensor, target: Tensor, positions: Tensor) -> Tensor:
        """Return the logits float32 [B, V] of one position int [B] of each ``target`` [B, T]."""
        source_segments = ops.ones(ops.shape(embedded)[:2], "int32")
        target_segments = ops.ones_like(target, dtype="int32")
        states = self.encode(embedded, source_segments)
        logits, _ = self.decode(target, states, target_segments, source_segments, scored=positions)
        return logits

    def position_table(self) -> None:
        """Return nothing: order is known from the recurrence."""

    def distance_profiles(self, length: int) -> dict[str, np.ndarray]:
        """Return nothing: scores do not know of distances."""
        return {}
