"""How well a state of the decoder matches each state of the encoder, and what it reads of them.

Every score gives weights softmax(score(h, m_s)) over the encoder's states m_1 … m_S of the same
segment, and the context, which is their weighted mean:

- "additive": v^T tanh(W_q h + W_k m), Bahdanau et al. 2015, appendix A.1.2;
- "dot": h · m / sqrt(R), Luong et al. 2015, equation 8;
- "general": h^T W m / sqrt(R), the same;
- "cross": this project's own `CrossAttention`, whose heads are Q K^T / sqrt(K).

The last three are products of a query with keys (`Product`), the first is not (`Sum`). Luong et al.
do not divide by sqrt(R) (Vaswani et al. 2017, section 3.2.1, do). For "general" that is no other
function, as W is learned, but it is another beginning: without it, each update moves scores so far
that all weight soon lies on one state, and no gradient leads away from there. What can be
computed of the encoder's states alone is, once for each sentence: keys and values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.attention import CrossAttention
from nmt.model.blocks import Sized
from nmt.model.chunked import MASKED_SCORE
from nmt.model.dense import Dense
from nmt.model.dropout import dropout
from nmt.model.loops import bias_gradient, call_with_gradient
from nmt.model.sizes import RecurrentSizes

Tensor = Any


class Memory(NamedTuple):
    """The encoder's states, as a decoder reads them; C is the width of a head: R / H."""

    keys: Tensor  # [B, H, S, C]
    values: Tensor | tuple[()]  # [B, H, S, C]; (): the keys are the values, too

    @property
    def read(self) -> Tensor:
        """What the context is made of."""
        return self.keys if isinstance(self.values, tuple) else self.values


def part_heads(x: Tensor, heads: int) -> Tensor:
    """Return [B, H, L, C] of [B, L, H C]."""
    if heads == 1:
        return ops.expand_dims(x, 1)
    batch, length = ops.shape(x)[0], ops.shape(x)[1]
    return ops.transpose(ops.reshape(x, (batch, length, heads, x.shape[-1] // heads)), (0, 2, 1, 3))


def join_heads(x: Tensor) -> Tensor:
    """Return [B, L, H C] of [B, H, L, C]."""
    if x.shape[1] == 1:
        return ops.squeeze(x, 1)
    batch, length = ops.shape(x)[0], ops.shape(x)[2]
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, x.shape[1] * x.shape[3]))


class Product:
    """Scores that are products of queries and keys, divided by the root of their width C."""

    @staticmethod
    def scores(queries: Tensor, keys: Tensor, v: Any) -> Tensor:
        """Return float32 [B, H, P, S].

        Args:
            queries: [B, H, P, C], of P positions.
            keys: [B, H, S, C].
            v: ().
        """
        if keras.backend.standardize_dtype(queries.dtype) == "float16":  # scores overflow it
            queries, keys = ops.cast(queries, "float32"), ops.cast(keys, "float32")
        queries = queries * keys.shape[-1] ** -0.5
        return ops.cast(ops.einsum("bhpc,bhsc->bhps", queries, keys), "float32")

    @staticmethod
    def of_queries(of_scores: Tensor, queries: Tensor, keys: Tensor, v: Any) -> Tensor:
        """Return the gradient of the queries [B, H, P, C] from that of the scores."""
        return ops.matmul(ops.cast(of_scores, keys.dtype), keys) * keys.shape[-1] ** -0.5

    @staticmethod
    def of_keys(of_scores: Tensor, queries: Tensor, keys: Tensor, v: Any) -> tuple[Tensor, Any]:
        """Return the gradients of the keys [B, H, S, C] and of v.

        Args:
            of_scores: [T, B, H, S].
            queries: [T, B, H, C].
            keys: [B, H, S, C].
            v: ().
        """
        queries = queries * keys.shape[-1] ** -0.5
        return ops.einsum("tbhs,tbhc->bhsc", ops.cast(of_scores, keys.dtype), queries), ()


class Sum:
    """Scores of sums of queries and keys: v^T tanh(q + k). There is one head."""

    @staticmethod
    def scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return float32 [B, 1, P, S]: see `Product.scores`; ``v`` is [R]."""
        hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
        return ops.sum(ops.cast(hidden * v, "float32"), axis=-1)  # of [B, 1, P, S, R]

    @staticmethod
    def of_queries(of_scores: Tensor, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return the gradient of the queries [B, 1, P, R] from that of the scores."""
        hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
        of_scores = ops.expand_dims(ops.cast(of_scores, keys.dtype), -1)
        return ops.sum((1 - hidden * hidden) * of_scores, axis=3) * v

    @staticmethod
    def of_keys(
        of_scores: Tensor, queries: Tensor, keys: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of the keys [B, 1, S, R] and of v [R]: see `Product.of_keys`.

        One position of the source after another, so that nothing is T x S x R large.
        """
        queries = ops.squeeze(queries, 2)  # [T, B, R]

        def of_position(given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            of_scores, key = given  # [T, B], [B, R]
            hidden = ops.tanh(queries + key)
            of_scores = ops.expand_dims(of_scores, -1)
            of_key = ops.sum((1 - hidden * hidden) * of_scores, axis=0)
            return of_key, bias_gradient(hidden * of_scores)

        of_scores = ops.transpose(ops.cast(of_scores[:, :, 0], keys.dtype), (2, 0, 1))
        of_keys, of_v = ops.map(of_position, (of_scores, ops.transpose(keys[:, 0], (1, 0, 2))))
        return ops.transpose(of_keys * v, (1, 0, 2))[:, None], bias_gradient(of_v)

    @classmethod
    def scores_of_all(cls, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        """Return what `scores` does, one position after another: nothing is T x S x R large."""

        def compute(queries: Tensor, keys: Tensor, v: Tensor) -> Any:
            each = ops.transpose(queries, (2, 0, 1, 3))  # [T, B, 1, R]

            def of_position(query: Tensor) -> Tensor:
                return cls.scores(query[:, :, None], keys, v)[:, :, 0]

            def back(of_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                of_scores = ops.transpose(of_scores, (2, 0, 1, 3))  # [T, B, 1, S]

                def back_at(given: tuple[Tensor, Tensor]) -> Tensor:
                    of_scores, query = (part[:, :, None] for part in given)
                    return cls.of_queries(of_scores, query, keys, v)[:, :, 0]

                of_queries = ops.transpose(ops.map(back_at, (of_scores, each)), (1, 2, 0, 3))
                return (of_queries, *cls.of_keys(of_scores, each, keys, v))

            return (ops.transpose(ops.map(of_position, each), (1, 2, 0, 3)),), back

        (scores,) = call_with_gradient(compute, queries, keys, v)
        return scores


Kind = type[Product] | type[Sum]


def weigh(scores: Tensor, mask: Tensor) -> Tensor:
    """Return softmax of scores float32 [B, H, P, S] where ``mask`` [B, 1, P, S] is True.

    Zeros elsewhere, and where nothing may be attended to.
    """
    weights = ops.softmax(ops.where(mask, scores, MASKED_SCORE), axis=-1)
    return ops.where(mask, weights, 0.0)


def read(weights: Tensor, values: Tensor) -> Tensor:
    """Return the contexts [B, H, P, C] of weights [B, H, P, S] and values [B, H, S, C]."""
    return ops.matmul(ops.cast(weights, values.dtype), values)


def of_weights(of_context: Tensor, weights: Tensor, values: Tensor, kept: Any) -> Tensor:
    """Return the gradient of the scores, float32 [B, H, P, S].

    Args:
        of_context: [B, H, P, C].
        weights: [B, H, P, S], before dropout.
        values: [B, H, S, C].
        kept: [B, H, P, S], what dropout multiplied the weights by; (): nothing.
    """
    found = ops.cast(ops.einsum("bhpc,bhsc->bhps", of_context, values), "float32")
    if not isinstance(kept, tuple):
        found = found * kept
    return weights * (found - ops.sum(found * weights, axis=-1, keepdims=True))


class Reader(NamedTuple):
    """The weights with which a decoder reads, in the dtype of products; () for what there is not.

    What follows the weighted mean linearly is multiplied into the kernel of contexts.
    """

    query: Tensor | tuple[()]  # [R, R]
    query_bias: Tensor | tuple[()]  # [R]
    v: Tensor | tuple[()]  # [R]
    of_context: Tensor  # [R, D]
    of_state: Tensor  # [R, D]
    bias: Tensor  # [D]

    def turned(self) -> Reader:
        """Return the transposed kernels."""
        return self._replace(
            query=self.query if isinstance(self.query, tuple) else ops.transpose(self.query),
            of_context=ops.transpose(self.of_context),
            of_state=ops.transpose(self.of_state),
        )

    def ask(self, h: Tensor) -> Tensor:
        """Return the queries of states [..., R]."""
        if isinstance(self.query, tuple):
            return h
        asked = ops.matmul(h, self.query)
        return asked if isinstance(self.query_bias, tuple) else asked + self.query_bias

    def join(self, context: Tensor, h: Tensor) -> Tensor:
        """Return tanh(W [context; h] + b): Luong et al. 2015, equation 5."""
        joined = ops.matmul(context, self.of_context) + ops.matmul(h, self.of_state)
        return ops.tanh(joined + self.bias)


@keras.saving.register_keras_serializable("nmt")
class Reading(Sized):
    """Attention of a decoder's states to the encoder's, and what the decoder writes from.

    a = tanh(W [context; h] + b), Luong et al. 2015, equation 5.

    Args:
        sizes: of the model.
        **kwargs: what every Keras layer takes.
    """

    made_of = RecurrentSizes
    sizes: RecurrentSizes

    def __init__(self, sizes: RecurrentSizes, **kwargs: Any) -> None:
        super().__init__(sizes, **kwargs)
        self.kind: Kind = Sum if sizes.attention == "additive" else Product
        self.query: Any = None
        self.key: Any = None
        self.cross: Any = None
        if sizes.attention == "cross":
            self.cross = CrossAttention(
                sizes.cross_attention, name="cross_attention", dtype=self.dtype_policy
            )
        if sizes.attention == "additive":
            self.query = self._projection("query", sizes.state_width, biased=False)
        if sizes.attention in ("additive", "general"):
            self.key = self._projection("key", sizes.state_width, biased=False)
        self.combine = self._projection("combine", sizes.d_model, biased=True)

    def _projection(self, name: str, width: int, *, biased: bool) -> keras.layers.Layer:
        return Dense(width, use_bias=biased, name=name, dtype=self.dtype_policy)

    @property
    def num_heads(self) -> int:
        """H."""
        return self.sizes.num_heads

    def build(self, *input_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes alone."""
        width = self.sizes.state_width
        for layer in (self.query, self.key, self.cross):
            if layer is not None:
                layer.build((None, None, width))
        self.combine.build((None, None, 2 * width))
        if self.kind is Sum:
            self.v = self.add_weight(
                shape=(width,),
                initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                name="v",
            )
        self.built = True

    def head_weights(self, number: int) -> list[tuple[keras.Variable, Any]]:
        """Return the weights that are to be zero for nothing of head ``number`` to come through.

        Returns:
            (variable, index) of each; heads count from 0.
        """
        if self.cross is not None:
            return self.cross.head_weights(number)
        return [(self.combine.kernel, slice(0, self.sizes.state_width))]

    def reader(self) -> Reader:
        """Return the weights."""
        width = self.sizes.state_width
        kernel, bias = self._cast(self.combine.kernel), self._cast(self.combine.bias)
        of_context, of_state = kernel[:width], kernel[width:]
        query: Any = () if self.query is None else self._cast(self.query.kernel)
        query_bias: Any = ()
        if self.cross is not None:
            query, query_bias = map(self._cast, self.cross.query.weights)
            output, output_bias = map(self._cast, self.cross.output_projection.weights)
            bias = bias + ops.matmul(output_bias[None], of_context)[0]
            of_context = ops.matmul(output, of_context)
        v: Any = self._cast(self.v) if self.kind is Sum else ()
        return Reader(query, query_bias, v, of_context, of_state, bias)

    def _cast(self, weight: Any) -> Tensor:
        return ops.cast(ops.convert_to_tensor(weight), self.compute_dtype)

    def remember(self, states: Tensor) -> Memory:
        """Return what is read of the encoder's states [B, S, R]."""
        if self.cross is not None:
            keys, values = self.cross.project(states)  # [B, S, H, C]
            return Memory(ops.transpose(keys, (0, 2, 1, 3)), ops.transpose(values, (0, 2, 1, 3)))
        if self.key is not None:
            return Memory(ops.expand_dims(self.key(states), 1), ops.expand_dims(states, 1))
        return Memory(ops.expand_dims(states, 1), ())

    def call(
        self, h: Tensor, memory: Memory, mask: Tensor, dropout_key: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Read for all positions at once.

        Args:
            h: the decoder's states [B, P, R].
            memory: from `remember`.
            mask: bool [B, 1, P or 1, S], True = may attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.

        Returns:
            (a [B, P, D], weights float32 [B, H, P, S]).
        """
        reader = self.reader()
        queries = part_heads(reader.ask(h), self.num_heads)
        score = Sum.scores_of_all if self.kind is Sum else self.kind.scores
        weights = weigh(score(queries, memory.keys, reader.v), mask)
        kept = dropout(weights, self.sizes.attention_dropout, dropout_key)
        return reader.join(join_heads(read(kept, memory.read)), h), weights

    def step(self, h: Tensor, memory: Memory, mask: Tensor, places: int) -> tuple[Tensor, Tensor]:
        """Read for k = ``places`` hypotheses per sentence, without dropout.

        Args:
            h: [B * k, R]: of rank 2, see `nmt.model.attention.MultiHeadAttention.look_up`.
            memory: from `remember`.
            mask: bool [B, 1, 1, S].
            places: k.

        Returns:
            (a [B * k, D], weights float32 [B, H, k, S]).
        """
        width = self.sizes.state_width
        asking = self.query if self.cross is None else self.cross.query
        queries = h if asking is None else asking(h)
        queries = part_heads(ops.reshape(queries, (-1, places, width)), self.num_heads)
        v = self._cast(self.v) if self.kind is Sum else ()
        weights = weigh(self.kind.scores(queries, memory.keys, v), mask)
        context = ops.reshape(join_heads(read(weights, memory.read)), (-1, width))
        if self.cross is not None:
            context = self.cross.output_projection(context)
        return ops.tanh(self.combine(ops.concatenate([context, h], axis=-1))), weights
