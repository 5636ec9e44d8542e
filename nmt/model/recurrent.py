"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015).

A bidirectional encoder, and a decoder whose logits are computed from the attentional state
a = tanh(W [context; h] + b), where h is the decoder's state and the context is the encoder's states
weighted by attention. States start anew with every segment of a packed row, in both directions, so
the segments of a row do not influence each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.cells import States
from nmt.model.contract import CROSS
from nmt.model.dropout import dropout, fold
from nmt.model.encoder_decoder import (
    PAD,
    EncoderDecoder,
    add_coverage,
    find_segments,
    start_coverage,
)
from nmt.model.input_feeding import DecoderInputs, DropoutMasks, LayerWeights, Segments, decode
from nmt.model.layers import Dense, TokenEmbedding
from nmt.model.masks import segment_mask
from nmt.model.recurrent_attention import Memory, RecurrentAttention
from nmt.model.recurrent_layers import (
    BidirectionalLayer,
    RecurrentLayer,
    find_starts,
    make_carry_mask,
)
from nmt.model.sizes import RecurrentSizes

Tensor = Any


class RecurrentState(NamedTuple):
    """The states that decoding carries from token to token, for k hypotheses per sentence.

    The batch is the first axis of every tensor.
    """

    layers: tuple[States, ...]  # [B, k, R] each
    attentional: Tensor | tuple[()]  # [B, k, D], for input feeding; (): no input feeding
    memory: Memory  # [B, H, S, C], shared by the hypotheses
    memory_mask: Tensor  # bool [B, 1, 1, S]
    coverage: Tensor | tuple[()]  # float32 [B, k, S]: attention received so far; (): not tracked

    def reorder(self, parents: Tensor) -> RecurrentState:
        """See `Decoder.reorder`."""
        batch, beam_size = ops.shape(parents)[0], parents.shape[1]
        first = ops.expand_dims(ops.arange(batch, dtype="int32") * beam_size, -1)
        rows = ops.reshape(parents + first, (-1,))  # indices into [B * k]

        def gather(tensor: Tensor) -> Tensor:
            width = ops.shape(tensor)[2]
            chosen = ops.take(ops.reshape(tensor, (-1, width)), rows, axis=0)
            return ops.reshape(chosen, (-1, beam_size, width))

        return self._replace(
            layers=keras.tree.map_structure(gather, self.layers),
            attentional=keras.tree.map_structure(gather, self.attentional),
            coverage=keras.tree.map_structure(gather, self.coverage),
        )

    def grow(self, positions: Tensor) -> RecurrentState:
        """See `Decoder.grow`: no tensor has an axis of target positions."""
        return self

    def growing_axes(self) -> RecurrentState:
        """See `Decoder.growing_axes`."""
        return keras.tree.map_structure(lambda tensor: -1, self)


@keras.saving.register_keras_serializable("nmt")
class Recurrent(EncoderDecoder):
    """Token ids in, next-token logits out: a `nmt.model.contract.Model`."""

    sizes_class = RecurrentSizes
    adapter_patterns = ("*",)
    attention_kinds = (CROSS,)
    sizes: RecurrentSizes

    def __init__(self, sizes: RecurrentSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        sizes, policy = self.sizes, self.dtype_policy
        width = sizes.state_width
        self.embedding = TokenEmbedding(
            sizes.vocabulary_size, sizes.d_model, name="embedding", dtype=policy
        )
        self.encoder_layers = [
            BidirectionalLayer(
                width if i else sizes.d_model, width, sizes.cell, name=f"encoder_{i}", dtype=policy
            )
            for i in range(sizes.encoder_layers)
        ]
        input_width = 2 * sizes.d_model if sizes.input_feeding else sizes.d_model
        self.decoder_layers = [
            RecurrentLayer(
                width if i else input_width, width, sizes.cell, name=f"decoder_{i}", dtype=policy
            )
            for i in range(sizes.decoder_layers)
        ]
        self.bridges = [
            Dense(width, activation="tanh", name=f"bridge_{i}", dtype=policy)
            for i in range(sizes.decoder_layers if sizes.bridge else 0)
        ]
        self.reading = RecurrentAttention(sizes, name="reading", dtype=policy)
        if type(self).__init__ is Recurrent.__init__:  # a subclass may add layers
            self.build()

    def attention_layers(self, kind: str) -> list[RecurrentAttention]:
        """See `Model.attention_layers`."""
        return {CROSS.name: [self.reading]}[kind]

    def embed(self, ids: Tensor, dropout_key: Tensor | None) -> Tensor:
        """Embed tokens: [B, L] -> [B, L, D]."""
        return dropout(self.embedding(ids), self.sizes.dropout, dropout_key)

    def encode(self, x: Tensor, segments: Tensor, *, dropout_key: Tensor | None = None) -> Tensor:
        """Return the states [B, S, R] of embeddings ``x`` [B, S, D].

        Args:
            x: [B, S, D].
            segments: int [B, S]; 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
        """
        x = ops.transpose(x, (1, 0, 2))
        for index, layer in enumerate(self.encoder_layers):
            if index:
                key = fold(dropout_key, index)
                x = dropout(x, self.sizes.dropout, key, time_major=True)
            x = layer(x, segments)
        return ops.transpose(x, (1, 0, 2))

    def decode(
        self,
        x: Tensor,
        states: Tensor,
        target_segments: Tensor,
        source_segments: Tensor,
        *,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Any]:
        """Score the next token after every prefix of a target.

        Args:
            x: [B, T, D], the embeddings of the shifted target, which begins with BOS.
            states: [B, S, R] from `encode`.
            target_segments: int [B, T]; a position attends to its own segment of the source.
            source_segments: int [B, S]; 0 is padding.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether to return attention weights.

        Returns:
            (logits float32 [B, T, V]; attention weights float32 [B, H, T, S], or ()).
        """
        x = ops.transpose(x, (1, 0, 2))  # [T, B, D]
        initial = self.bridge(states, target_segments, source_segments)
        memory, key = self.reading.project(states), fold(dropout_key, 1)
        arguments = (x, memory, target_segments, source_segments, initial, key)
        if self.sizes.input_feeding:
            attentional, weights = self._run_feeding(*arguments, return_weights=return_weights)
        else:
            attentional, weights = self._run_plain(*arguments)
        return self.embedding.logits(attentional), weights if return_weights else ()

    def bridge(
        self, states: Tensor, target_segments: Tensor, source_segments: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the initial states of each layer of the decoder.

        Args:
            states: [B, S, R] from `encode`.
            target_segments: int [B, T].
            source_segments: int [B, S].

        Returns:
            [T, B, R] for every layer, zero where no segment starts; () without a bridge.
        """
        if not self.bridges:
            return ()
        starts = ops.expand_dims(find_starts(target_segments), -1)  # [B, T, 1]
        same = segment_mask(target_segments, source_segments)[:, 0]  # [B, T, S]
        final_states = []
        for half, reverse in zip(ops.split(states, 2, axis=-1), (True, False), strict=True):
            is_final = find_starts(source_segments, reverse=reverse)[:, None]
            chosen = ops.cast(ops.logical_and(same, is_final), half.dtype)
            final_states.append(ops.matmul(chosen, half))  # [B, T, R / 2]
        both = ops.transpose(ops.concatenate(final_states, axis=-1), (1, 0, 2))
        starts = ops.cast(ops.transpose(starts, (1, 0, 2)), both.dtype)
        return tuple(bridge(both) * starts for bridge in self.bridges)

    def _run_plain(
        self,
        x: Tensor,
        memory: Memory,
        target_segments: Tensor,
        source_segments: Tensor,
        initial: tuple[Tensor, ...],
        dropout_key: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Run cells, then attention: (attentional states [B, T, D], weights [B, H, T, S])."""
        carry_mask = make_carry_mask(target_segments, self.compute_dtype)
        for index, layer in enumerate(self.decoder_layers):
            if index:
                key = fold(dropout_key, 2 + index)
                x = dropout(x, self.sizes.dropout, key, time_major=True)
            x = layer(x, carry_mask, initial[index] if initial else ())
        attentional, weights = self.reading(
            ops.transpose(x, (1, 0, 2)),
            memory,
            segment_mask(target_segments, source_segments),
            fold(dropout_key, 0),
        )
        return dropout(attentional, self.sizes.dropout, fold(dropout_key, 1)), weights

    def _run_feeding(
        self,
        x: Tensor,
        memory: Memory,
        target_segments: Tensor,
        source_segments: Tensor,
        initial: tuple[Tensor, ...],
        dropout_key: Tensor | None,
        *,
        return_weights: bool,
    ) -> tuple[Tensor, Any]:
        """Run cells and attention position by position.

        See `_run_plain` for the results; without ``return_weights``, the weights are ().
        """
        first, others = self.decoder_layers[0], self.decoder_layers[1:]
        kernel = first.in_compute_dtype(first.inputs.kernel)  # [2 D, g R]
        bias = first.in_compute_dtype(first.inputs.bias)
        depth = self.sizes.d_model
        layers = [LayerWeights(kernel[depth:], (), *first.recurrent_weights)]
        for layer in others:
            # Not layer.inputs.weights, among which adapters are.
            both = (layer.inputs.kernel, layer.inputs.bias)
            input_kernel, input_bias = map(layer.in_compute_dtype, both)
            layers.append(LayerWeights(input_kernel, input_bias, *layer.recurrent_weights))
        inputs = DecoderInputs(
            x=ops.matmul(x, kernel[:depth]) + bias,
            layers=tuple(layers),
            attention=self.reading.parameters(),
            memory=memory,
            segments=Segments(source_segments, ops.transpose(target_segments)),
            carry_mask=make_carry_mask(target_segments, self.compute_dtype),
            initial=initial,
            dropout=self._draw_masks(x, memory, dropout_key),
        )
        attentional, weights = decode(
            first.cell_type, self.reading.score, inputs, return_weights=return_weights
        )
        if return_weights:
            weights = ops.transpose(weights, (1, 2, 0, 3))
        return ops.transpose(attentional, (1, 0, 2)), weights

    def _draw_masks(self, x: Tensor, memory: Memory, dropout_key: Tensor | None) -> DropoutMasks:
        """Return the dropout masks inside the loop over ``x`` [T, B, D]."""
        sizes, length, batch = self.sizes, ops.shape(x)[0], ops.shape(x)[1]

        def draw(rate: float, index: int, *shape: Any, dtype: Any = x.dtype) -> Any:
            if dropout_key is None or not rate:
                return ()
            ones = ops.ones((length, batch, *shape), dtype)
            return dropout(ones, rate, fold(dropout_key, index), time_major=True)

        positions = ops.shape(memory.keys)[2]
        between = [
            draw(sizes.dropout, 2 + index, sizes.state_width)
            for index in range(1, sizes.decoder_layers)
        ]
        return DropoutMasks(
            tuple(mask for mask in between if not isinstance(mask, tuple)),
            draw(sizes.attention_dropout, 0, sizes.num_heads, positions, dtype="float32"),
            draw(sizes.dropout, 1, sizes.d_model),
        )

    def forward(
        self,
        inputs: dict[str, Tensor],
        source_segments: Tensor,
        target_segments: Tensor,
        dropout_key: Tensor | None,
        return_attention: bool,
    ) -> tuple[Tensor, tuple[list[Tensor], ...]]:
        """See `EncoderDecoder.forward`."""
        encoder_key = fold(dropout_key, 0)
        x = self.embed(inputs["source"], fold(encoder_key, 0))
        states = self.encode(x, source_segments, dropout_key=encoder_key)
        decoder_key = fold(dropout_key, 1)
        logits, weights = self.decode(
            self.embed(inputs["target"], fold(decoder_key, 0)),
            states,
            target_segments,
            source_segments,
            dropout_key=decoder_key,
            return_weights=return_attention,
        )
        return logits, ([weights],)

    def start(
        self,
        source: Tensor,
        *,
        beam_size: int,
        max_length: int | Tensor,
        track_coverage: bool = False,
    ) -> RecurrentState:
        """See `Decoder.start`; the capacity does not depend on ``max_length``."""
        sizes, segments = self.sizes, find_segments(source)
        states = self.encode(self.embedding(source), segments)
        shape = (ops.shape(source)[0], beam_size)
        bridged = self.bridge(states, ops.ones_like(segments[:, :1]), segments)
        zeros = ops.zeros((*shape, sizes.state_width), self.compute_dtype)
        initial = [
            ops.broadcast_to(ops.transpose(state, (1, 0, 2)), (*shape, sizes.state_width))
            for state in bridged
        ] or [zeros] * sizes.decoder_layers
        attentional = ops.zeros((*shape, sizes.d_model), self.compute_dtype)
        return RecurrentState(
            layers=tuple((state,) * self.decoder_layers[0].cell_type.states for state in initial),
            attentional=attentional if sizes.input_feeding else (),
            memory=self.reading.project(states),
            memory_mask=ops.not_equal(source, PAD)[:, None, None, :],
            coverage=start_coverage(source, beam_size, is_tracked=track_coverage),
        )

    def step(
        self, tokens: Tensor, index: Tensor, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """See `Decoder.step`."""
        beam_size = tokens.shape[1]

        def flatten(x: Tensor) -> Tensor:  # products of rank 3 cost more where shapes are dynamic
            return ops.reshape(x, (-1, x.shape[-1]))

        def unflatten(x: Tensor) -> Tensor:
            return ops.reshape(x, (-1, beam_size, x.shape[-1]))

        x = flatten(self.embedding(tokens))  # [B * k, D]
        if self.sizes.input_feeding:
            x = ops.concatenate([x, flatten(state.attentional)], axis=-1)
        layers = []
        for layer, states in zip(self.decoder_layers, state.layers, strict=True):
            states = layer.step(x, tuple(map(flatten, states)))
            layers.append(tuple(map(unflatten, states)))
            x = states[0]
        attentional, weights = self.reading.step(x, state.memory, state.memory_mask, beam_size)
        state = state._replace(
            layers=tuple(layers),
            attentional=unflatten(attentional) if self.sizes.input_feeding else (),
            coverage=add_coverage(state.coverage, weights),
        )
        return unflatten(self.embedding.logits(attentional)), state

    def capacity(self, state: RecurrentState) -> Tensor:
        """See `Decoder.capacity`: the longest sequence, as no tensor grows."""
        return ops.convert_to_tensor(self.max_length, "int32")
