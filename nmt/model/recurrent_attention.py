"""Attention of a recurrent decoder's states to the encoder's."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.attention_roles import CrossAttention
from nmt.model.dropout import dropout
from nmt.model.layers import Dense, SizedLayer
from nmt.model.masks import masked_softmax
from nmt.model.scores import AdditiveScore, DotProductScore, Score, weighted_sum
from nmt.model.sizes import RecurrentSizes

Tensor = Any


class Memory(NamedTuple):
    """The encoder's states as a decoder reads them; C is the width of a head: R / H."""

    keys: Tensor  # [B, H, S, C]
    values: Tensor | tuple[()]  # [B, H, S, C]; (): the keys are the values, too

    @property
    def values_or_keys(self) -> Tensor:
        """The states that contexts are weighted sums of."""
        return self.keys if isinstance(self.values, tuple) else self.values


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, L, H C] -> [B, H, L, C]."""
    if heads == 1:
        return ops.expand_dims(x, 1)
    batch, length = ops.shape(x)[0], ops.shape(x)[1]
    return ops.transpose(ops.reshape(x, (batch, length, heads, x.shape[-1] // heads)), (0, 2, 1, 3))


def merge_heads(x: Tensor) -> Tensor:
    """[B, H, L, C] -> [B, L, H C]."""
    if x.shape[1] == 1:
        return ops.squeeze(x, 1)
    batch, length = ops.shape(x)[0], ops.shape(x)[2]
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, x.shape[1] * x.shape[3]))


class AttentionParameters(NamedTuple):
    """The weights of attention in the dtype of products; () where absent.

    A linear output projection is multiplied into the kernel of contexts.
    """

    query: Tensor | tuple[()]  # [R, R]
    query_bias: Tensor | tuple[()]  # [R]
    v: Tensor | tuple[()]  # [R]
    context_kernel: Tensor  # [R, D]
    state_kernel: Tensor  # [R, D]
    bias: Tensor  # [D]

    def transpose_kernels(self) -> AttentionParameters:
        """Return the parameters with transposed kernels."""
        return self._replace(
            query=self.query if isinstance(self.query, tuple) else ops.transpose(self.query),
            context_kernel=ops.transpose(self.context_kernel),
            state_kernel=ops.transpose(self.state_kernel),
        )

    def project_query(self, h: Tensor) -> Tensor:
        """Return the queries of states [..., R]."""
        if isinstance(self.query, tuple):
            return h
        query = ops.matmul(h, self.query)
        return query if isinstance(self.query_bias, tuple) else query + self.query_bias

    def combine(self, context: Tensor, h: Tensor) -> Tensor:
        """Return tanh(W [context; h] + b): Luong et al. 2015, equation 5."""
        product = ops.matmul(context, self.context_kernel) + ops.matmul(h, self.state_kernel)
        return ops.tanh(product + self.bias)


@keras.saving.register_keras_serializable("nmt", name="Reading")  # as in older `.keras` files
class RecurrentAttention(SizedLayer):
    """Attention to the encoder's states, and the attentional state that logits are computed from.

    The attentional state is a = tanh(W [context; h] + b), Luong et al. 2015, equation 5.

    Args:
        sizes: the model's.
        **kwargs: the arguments of every Keras layer.
    """

    sizes_class = RecurrentSizes
    sizes: RecurrentSizes

    def __init__(self, sizes: RecurrentSizes | None = None, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        sizes = self.sizes
        self.score: Score = AdditiveScore if sizes.attention == "additive" else DotProductScore
        self.query: Any = None
        self.key: Any = None
        self.cross: Any = None
        if sizes.attention == "cross":
            self.cross = CrossAttention(
                sizes.cross_attention, name="cross_attention", dtype=self.dtype_policy
            )
        if sizes.attention == "additive":
            self.query = self._projection("query", sizes.state_width, use_bias=False)
        if sizes.attention in ("additive", "general"):
            self.key = self._projection("key", sizes.state_width, use_bias=False)
        self.combine = self._projection("combine", sizes.d_model, use_bias=True)

    def _projection(self, name: str, width: int, *, use_bias: bool) -> keras.layers.Layer:
        return Dense(width, use_bias=use_bias, name=name, dtype=self.dtype_policy)

    @property
    def num_heads(self) -> int:
        """H."""
        return self.sizes.num_heads

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes only."""
        width = self.sizes.state_width
        for layer in (self.query, self.key, self.cross):
            if layer is not None:
                layer.build((None, None, width))
        self.combine.build((None, None, 2 * width))
        if self.score is AdditiveScore:
            self.v = self.add_weight(
                shape=(width,),
                initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                name="v",
            )
        self.built = True

    def head_weights(self, number: int) -> list[tuple[keras.Variable, Any]]:
        """See `Model.attention_layers`."""
        if self.cross is not None:
            return self.cross.head_weights(number)
        return [(self.combine.kernel, slice(0, self.sizes.state_width))]

    def parameters(self) -> AttentionParameters:
        """Return the weights."""
        width = self.sizes.state_width
        kernel, bias = self._cast(self.combine.kernel), self._cast(self.combine.bias)
        context_kernel, state_kernel = kernel[:width], kernel[width:]
        query: Any = () if self.query is None else self._cast(self.query.kernel)
        query_bias: Any = ()
        if self.cross is not None:
            query, query_bias = self._cast_dense(self.cross.query)
            output, output_bias = self._cast_dense(self.cross.output_projection)
            bias = bias + ops.matmul(output_bias[None], context_kernel)[0]
            context_kernel = ops.matmul(output, context_kernel)
        return AttentionParameters(
            query, query_bias, self._cast_v(), context_kernel, state_kernel, bias
        )

    def _cast(self, weight: Any) -> Tensor:
        return ops.cast(ops.convert_to_tensor(weight), self.compute_dtype)

    def _cast_dense(self, layer: Any) -> tuple[Tensor, Tensor]:
        """Return kernel, adapters included, and bias."""
        return self._cast(layer.kernel), self._cast(layer.bias)

    def _cast_v(self) -> Any:
        return self._cast(self.v) if self.score is AdditiveScore else ()

    def project(self, states: Tensor) -> Memory:
        """Return the keys and values of the encoder's states [B, S, R]."""
        if self.cross is not None:
            keys, values = self.cross.project(states)  # [B, S, H, C]
            return Memory(ops.transpose(keys, (0, 2, 1, 3)), ops.transpose(values, (0, 2, 1, 3)))
        if self.key is not None:
            return Memory(ops.expand_dims(self.key(states), 1), ops.expand_dims(states, 1))
        return Memory(ops.expand_dims(states, 1), ())

    def call(
        self, h: Tensor, memory: Memory, mask: Tensor, dropout_key: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend from all positions at once.

        Args:
            h: the decoder's states [B, T, R].
            memory: from `project`.
            mask: bool [B, 1, T or 1, S], True = may attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.

        Returns:
            (attentional states [B, T, D], weights float32 [B, H, T, S]).
        """
        parameters = self.parameters()
        queries = split_heads(parameters.project_query(h), self.num_heads)
        is_additive = self.score is AdditiveScore
        score = AdditiveScore.scores_by_position if is_additive else self.score.scores
        weights = masked_softmax(score(queries, memory.keys, parameters.v), mask)
        dropped = dropout(weights, self.sizes.attention_dropout, dropout_key)
        context = merge_heads(weighted_sum(dropped, memory.values_or_keys))
        return parameters.combine(context, h), weights

    def step(
        self, h: Tensor, memory: Memory, mask: Tensor, beam_size: int
    ) -> tuple[Tensor, Tensor]:
        """Attend from k = ``beam_size`` hypotheses per sentence, without dropout.

        Args:
            h: [B * k, R]: rank 2, see `nmt.model.multi_head.MultiHeadAttention.attend_to_cache`.
            memory: from `project`.
            mask: bool [B, 1, 1, S].
            beam_size: k.

        Returns:
            (attentional states [B * k, D], weights float32 [B, H, k, S]).
        """
        width = self.sizes.state_width
        projection = self.query if self.cross is None else self.cross.query
        queries = h if projection is None else projection(h)
        queries = split_heads(ops.reshape(queries, (-1, beam_size, width)), self.num_heads)
        weights = masked_softmax(self.score.scores(queries, memory.keys, self._cast_v()), mask)
        context = merge_heads(weighted_sum(weights, memory.values_or_keys))
        context = ops.reshape(context, (-1, width))
        if self.cross is not None:
            context = self.cross.output_projection(context)
        return ops.tanh(self.combine(ops.concatenate([context, h], axis=-1))), weights
