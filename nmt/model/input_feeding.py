"""A recurrent decoder that reads, at every position, its previous attentional state.

Input feeding (Luong et al. 2015, section 3.3) makes attention part of the recurrence, so that the
whole decoder is one loop: cells, attention, and the attentional state that logits are computed
from. Its gradient is written by hand, see `nmt.model.loops`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from nmt.model.cells import Cell, States, project_state, step_backward
from nmt.model.loops import bias_gradient, call_with_gradient, kernel_gradient, scan, shift
from nmt.model.masks import masked_softmax
from nmt.model.recurrent_attention import AttentionParameters, Memory
from nmt.model.recurrent_layers import carry_states
from nmt.model.scores import Score, score_gradient, weighted_sum

Tensor = Any


class LayerWeights(NamedTuple):
    """The weights of one layer of cells inside the loop; () where absent."""

    inputs: Tensor  # [M, g R]; of the first layer, the rows for the attentional state, M = D
    input_bias: Tensor | tuple[()]  # [g R]; (): added before the loop
    recurrent: Tensor  # [R, g R]
    recurrent_bias: Tensor | tuple[()]  # [g R]

    def transpose_kernels(self) -> LayerWeights:
        """Return the weights with transposed kernels."""
        return self._replace(
            inputs=ops.transpose(self.inputs), recurrent=ops.transpose(self.recurrent)
        )


class DropoutMasks(NamedTuple):
    """The factors of dropout; () where it is off."""

    between: tuple[Tensor, ...] = ()  # [T, B, R], for every layer but the first
    weights: Tensor | tuple[()] = ()  # [T, B, H, S]
    attentional: Tensor | tuple[()] = ()  # [T, B, D]


class Segments(NamedTuple):
    """The segment ids of tokens; 0 is padding."""

    source: Tensor  # int [B, S]
    target: Tensor  # int [T, B]

    def mask(self, target: Tensor) -> Tensor:
        """Return the mask bool [B, 1, 1, S] of a position with segment ids ``target`` int [B]."""
        same = ops.equal(self.source, ops.expand_dims(target, -1))
        return ops.logical_and(same, self.source > 0)[:, None, None]


class DecoderInputs(NamedTuple):
    """The inputs and weights that a decoder is run with."""

    x: Tensor  # [T, B, g R], products of the first layer's inputs, without the attentional state
    layers: tuple[LayerWeights, ...]
    attention: AttentionParameters
    memory: Memory
    segments: Segments  # a position attends to its own segment of the memory
    carry_mask: Tensor  # [T, B, 1], see `nmt.model.recurrent_layers.make_carry_mask`
    initial: tuple[Tensor, ...]  # [T, B, R] for each layer, see `carry_states`; (): zeros
    dropout: DropoutMasks


class _Activations(NamedTuple):
    """The results of one position."""

    layers: tuple[tuple[States, Tensor], ...]  # for each: states, and residuals of `Gru.step`
    query: Tensor  # [B, R]
    weights: Tensor  # float32 [B, H, S], before dropout
    context: Tensor  # [B, R]
    attentional: Tensor  # [B, D], before dropout


class _Gradients(NamedTuple):
    """The gradients of one position."""

    layers: tuple[tuple[States, Tensor], ...]  # for each: the states that it read, and its gates
    query: Tensor  # [B, R]
    scores: Tensor  # float32 [B, H, S]
    context: Tensor  # [B, R]
    pre_tanh: Tensor  # [B, D], inside the tanh of the attentional state
    fed: Tensor  # [B, D], the attentional state that it read


def decode(
    cell: Cell, score: Score, inputs: DecoderInputs, *, return_weights: bool = False
) -> tuple[Tensor, Any]:
    """Run a decoder over rows.

    Args:
        cell: the kind of cell of all layers.
        score: the kind of attention score.
        inputs: its inputs and weights.
        return_weights: whether to return attention weights, which adds their gradient to the loop.

    Returns:
        (attentional states [T, B, D] after dropout; attention weights float32 [T, B, H, S], or ()).
    """

    def compute(*fields: Any) -> Any:
        loop = _Loop(cell, score, DecoderInputs(*fields))
        activations = loop.run()

        def backward(attentional_gradient: Tensor, weight_gradient: Any = ()) -> DecoderInputs:
            gradients = loop.run_backward(activations, attentional_gradient, weight_gradient)
            return loop.input_gradients(activations, gradients)

        outputs = (loop.drop(activations.attentional), activations.weights)
        return outputs if return_weights else outputs[:1], backward

    attentional, *weights = call_with_gradient(compute, *inputs)
    return attentional, weights[0] if weights else ()


def _apply(mask: Tensor | tuple[()], x: Tensor) -> Tensor:
    """Multiply by a dropout mask, if there is one."""
    return x if isinstance(mask, tuple) else x * mask


def _mask_of_layer(masks: tuple[Tensor, ...], index: int) -> Any:
    """Return the mask of the input of layer ``index``, from 1; (): no dropout."""
    return masks[index - 1] if masks else ()


def _merge_heads(x: Tensor) -> Tensor:
    """[B, H, 1, C] -> [B, R]."""
    return ops.reshape(x, (-1, x.shape[1] * x.shape[3]))


class _Loop:
    """The loop over positions, forwards and backwards."""

    def __init__(self, cell: Cell, score: Score, inputs: DecoderInputs) -> None:
        self.cell, self.score, self.inputs = cell, score, inputs
        self.layers, self.attention, self.memory = inputs.layers, inputs.attention, inputs.memory
        self.carry_mask, self.dropout = inputs.carry_mask, inputs.dropout
        self.initial: tuple[Any, ...] = inputs.initial or ((),) * len(inputs.layers)
        # The factor of the previous attentional state: zero where a segment starts.
        self.feed_scale = self.carry_mask
        if not isinstance(self.dropout.attentional, tuple):
            self.feed_scale = self.carry_mask * shift(self.dropout.attentional)

    def drop(self, attentional: Tensor) -> Tensor:
        """Apply dropout to attentional states [T, B, D]."""
        return _apply(self.dropout.attentional, attentional)

    def run(self) -> _Activations:
        """Return the activations of all positions."""
        positions = (
            self.inputs.x,
            self.carry_mask,
            self.feed_scale,
            self.initial,
            self.inputs.segments.target,
            self.dropout.between,
            self.dropout.weights,
        )
        return scan(self._step, self._zeros(), positions)

    def _step(self, last: _Activations, position: Any) -> _Activations:
        x, carry_mask, feed_scale, initial, target, between, weight_mask = position
        x = x + ops.matmul(last.attentional * feed_scale, self.layers[0].inputs)
        h, layers = None, []
        for i, layer in enumerate(self.layers):
            if i:
                x = _apply(_mask_of_layer(between, i), h)
                x = ops.matmul(x, layer.inputs) + layer.input_bias
            states = carry_states(last.layers[i][0], carry_mask, initial[i])
            u = project_state(states, layer.recurrent, layer.recurrent_bias)
            layers.append(self.cell.step(x, u, states))
            h = layers[i][0][0]
        query = self.attention.project_query(h)
        scores = self.score.scores(self._split_heads(query), self.memory.keys, self.attention.v)
        weights = masked_softmax(scores, self.inputs.segments.mask(target))[:, :, 0]
        dropped = _apply(weight_mask, weights)[:, :, None]
        context = _merge_heads(weighted_sum(dropped, self.memory.values_or_keys))
        attentional = self.attention.combine(context, h)
        stored_query = () if isinstance(self.attention.query, tuple) else query
        return _Activations(tuple(layers), stored_query, weights, context, attentional)

    def _zeros(self) -> _Activations:
        batch, dtype = ops.shape(self.inputs.x)[1], self.inputs.x.dtype
        width, depth = self.attention.context_kernel.shape
        keys = self.memory.keys
        state = ops.zeros((batch, width), dtype)
        layer = ((state,) * self.cell.states, ops.zeros((batch, 4 * width), dtype))
        return _Activations(
            (layer,) * len(self.layers),
            () if isinstance(self.attention.query, tuple) else state,
            ops.zeros((batch, keys.shape[1], ops.shape(keys)[2]), "float32"),
            state,
            ops.zeros((batch, depth), dtype),
        )

    def _split_heads(self, x: Tensor) -> Tensor:
        """[B, R] -> [B, H, 1, C]."""
        heads, width = self.memory.keys.shape[1], self.memory.keys.shape[3]
        return ops.reshape(x, (-1, heads, 1, width))

    def _split_heads_of_all(self, x: Tensor) -> Tensor:
        """[T, B, R] -> [T, B, H, C]."""
        shape, keys = ops.shape(x), self.memory.keys
        return ops.reshape(x, (shape[0], shape[1], keys.shape[1], keys.shape[3]))

    def _queries(self, activations: _Activations) -> Tensor:
        """Return the queries, which are the last layer's outputs where they are not projected."""
        query = activations.query
        return activations.layers[-1][0][0] if isinstance(query, tuple) else query

    def _states_before(self, activations: _Activations) -> tuple[States, ...]:
        """Return, for each layer, the states that each position read, [T, B, R] each."""
        return tuple(
            carry_states(tuple(map(shift, states)), self.carry_mask, initial)
            for (states, _), initial in zip(activations.layers, self.initial, strict=True)
        )

    def run_backward(
        self, activations: _Activations, attentional_gradient: Tensor, weight_gradient: Any
    ) -> _Gradients:
        """Return the gradients of all positions.

        Args:
            activations: of all positions.
            attentional_gradient: of the attentional states after dropout, [T, B, D].
            weight_gradient: of the attention weights, [T, B, H, S]; (): they are not returned.
        """
        attention = self.attention.transpose_kernels()
        layers = [layer.transpose_kernels() for layer in self.layers]

        def step(later: _Gradients, position: Any) -> _Gradients:
            return self._step_backward(later, position, attention, layers)

        positions = (
            self.drop(attentional_gradient),
            weight_gradient,
            shift(self.carry_mask, reverse=True),
            shift(self.feed_scale, reverse=True),
            self.dropout.between,
            self.dropout.weights,
            activations,
            self._states_before(activations),
        )
        zeros = self._zeros()
        initial = _Gradients(
            zeros.layers,
            zeros.context,
            zeros.weights,
            zeros.context,
            zeros.attentional,
            zeros.attentional,
        )
        return scan(step, initial, positions, reverse=True)

    def _step_backward(
        self,
        later: _Gradients,
        position: Any,
        transposed_attention: AttentionParameters,
        transposed_layers: list[LayerWeights],
    ) -> _Gradients:
        gradient, weight_gradient, later_carry_mask, later_feed_scale, *rest = position
        between, weight_mask, activations, before = rest
        gradient = gradient + later.fed * later_feed_scale
        pre_tanh = gradient * (1 - activations.attentional * activations.attentional)
        context_gradient = ops.matmul(pre_tanh, transposed_attention.context_kernel)
        scores = score_gradient(
            self._split_heads(context_gradient),
            activations.weights[:, :, None],
            self.memory.values_or_keys,
            *(x if isinstance(x, tuple) else x[:, :, None] for x in (weight_mask, weight_gradient)),
        )
        queries = self._split_heads(self._queries(activations))
        query_gradient = _merge_heads(
            self.score.query_gradient(scores, queries, self.memory.keys, self.attention.v)
        )
        kernel = transposed_attention.query
        through_query = (
            query_gradient if isinstance(kernel, tuple) else ops.matmul(query_gradient, kernel)
        )
        grad_h = ops.matmul(pre_tanh, transposed_attention.state_kernel) + through_query
        layer_gradients: list[Any] = [None] * len(self.layers)
        for i in reversed(range(len(self.layers))):
            states = tuple(state * later_carry_mask for state in later.layers[i][0])
            states = (states[0] + grad_h, *states[1:])
            layer_gradients[i] = step_backward(
                self.cell, states, activations.layers[i], before[i], transposed_layers[i].recurrent
            )
            gates = layer_gradients[i][1]
            grad_h = ops.matmul(self.cell.input_gradient(gates), transposed_layers[i].inputs)
            if i:
                grad_h = _apply(_mask_of_layer(between, i), grad_h)
        return _Gradients(
            tuple(layer_gradients),
            query_gradient,
            scores[:, :, 0],
            context_gradient,
            pre_tanh,
            fed=grad_h,
        )

    def input_gradients(self, activations: _Activations, gradients: _Gradients) -> DecoderInputs:
        """Return the gradients of the decoder's inputs, from those of all positions."""
        key_gradient, v_gradient = self.score.key_gradient(
            gradients.scores,
            self._split_heads_of_all(self._queries(activations)),
            self.memory.keys,
            self.attention.v,
        )
        initial = (
            tuple(sum(states) for states, _ in gradients.layers) if self.inputs.initial else ()
        )
        no_gradient: Any = None
        return DecoderInputs(
            x=self.cell.input_gradient(gradients.layers[0][1]),
            layers=self._layer_gradients(activations, gradients),
            attention=self._attention_gradients(activations, gradients, v_gradient),
            memory=self._memory_gradient(activations, gradients, key_gradient),
            segments=no_gradient,
            carry_mask=no_gradient,
            initial=initial,
            dropout=no_gradient,
        )

    def _layer_gradients(
        self, activations: _Activations, gradients: _Gradients
    ) -> tuple[LayerWeights, ...]:
        inputs = [self.feed_scale * shift(activations.attentional)]
        for i in range(1, len(self.layers)):
            h = activations.layers[i - 1][0][0]
            inputs.append(_apply(_mask_of_layer(self.dropout.between, i), h))
        before = self._states_before(activations)
        layer_gradients = []
        for i, layer in enumerate(self.layers):
            gates = gradients.layers[i][1]
            input_product = self.cell.input_gradient(gates)
            state_product = self.cell.product_gradient(gates)
            layer_gradients.append(
                LayerWeights(
                    kernel_gradient(inputs[i], input_product),
                    _gradient_if_present(layer.input_bias, bias_gradient, input_product),
                    kernel_gradient(before[i][0], state_product),
                    _gradient_if_present(layer.recurrent_bias, bias_gradient, state_product),
                )
            )
        return tuple(layer_gradients)

    def _attention_gradients(
        self, activations: _Activations, gradients: _Gradients, v_gradient: Any
    ) -> AttentionParameters:
        h, attention = activations.layers[-1][0][0], self.attention
        return AttentionParameters(
            _gradient_if_present(attention.query, kernel_gradient, h, gradients.query),
            _gradient_if_present(attention.query_bias, bias_gradient, gradients.query),
            v_gradient,
            kernel_gradient(activations.context, gradients.pre_tanh),
            kernel_gradient(h, gradients.pre_tanh),
            bias_gradient(gradients.pre_tanh),
        )

    def _memory_gradient(
        self, activations: _Activations, gradients: _Gradients, key_gradient: Tensor
    ) -> Memory:
        weights = _apply(self.dropout.weights, activations.weights)
        value_gradient = ops.einsum(
            "tbhs,tbhc->bhsc",
            ops.cast(weights, gradients.context.dtype),
            self._split_heads_of_all(gradients.context),
        )
        if isinstance(self.memory.values, tuple):
            return Memory(key_gradient + value_gradient, ())
        return Memory(key_gradient, value_gradient)


def _gradient_if_present(weight: Any, gradient: Any, *tensors: Tensor) -> Any:
    """Return ``gradient(*tensors)``; () if the weight is absent."""
    return () if isinstance(weight, tuple) else gradient(*tensors)
