"""Attention: the masks, the one attention function, and its three roles in a transformer.

Masks are boolean and True means "may attend". They are built once by the model, with the functions
below, and broadcast to [B, H, T, S]. Layers take them as ``attention_mask``; the masks of padding
that Keras passes from layer to layer, where a layer is used by itself, come beside it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Self

import keras
from keras import ops

from nmt.model.chunked import MASKED_SCORE, SegmentMask, chunked_attention
from nmt.model.dense import Dense
from nmt.model.dropout import dropout, resolve_key
from nmt.model.positions import rotate, spread
from nmt.model.sizes import NORM_EPSILON, AttentionSizes

Tensor = Any


class KeyValues(NamedTuple):
    """Keys and values as decoding keeps them: laid out for its products, so no step turns them."""

    keys: Tensor  # [B, G, K, S]
    values: Tensor  # [B, G, S, C]


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Let tokens attend within their own segment, and nothing attend to padding.

    A row may hold several sentence pairs, numbered 1, 2, …; 0 is padding.

    Args:
        query_segments: int [B, T].
        key_segments: int [B, S].

    Returns:
        bool [B, 1, T, S].
    """
    queries = ops.expand_dims(query_segments, -1)  # [B, T, 1]
    keys = ops.expand_dims(key_segments, 1)  # [B, 1, S]
    same = ops.logical_and(ops.equal(queries, keys), ops.greater(keys, 0))
    return ops.expand_dims(same, 1)  # [B, 1, T, S]


def spread_mask(mask: SegmentMask) -> Tensor:
    """Return bool [B, 1, T, S] of a mask that is kept as segments."""
    whole = segment_mask(mask.queries, mask.keys)
    return whole & causal_mask(ops.shape(mask.queries)[1]) if mask.causal else whole


def causal_mask(length: int | Tensor) -> Tensor:
    """Let position t attend to positions 0 … t. Returns bool [1, 1, T, T]."""
    index = ops.arange(length, dtype="int32")
    return ops.expand_dims(ops.greater_equal(index[:, None], index[None, :]), (0, 1))


def ancestor_mask(ancestors: Tensor) -> Tensor:
    """Let each hypothesis attend to what it descends from.

    Hypotheses of one sentence share a cache of T * k slots: slot t * k + j holds what the
    hypothesis in place j wrote at position t. When hypotheses change places, only this table of
    who descends from whom does, and the cache stays where it is.

    Args:
        ancestors: int [B, k, T], the place j that position t of hypothesis i came from; -1 where
            nothing has been written.

    Returns:
        bool [B, 1, k, T * k].
    """
    batch, places, length = (ops.shape(ancestors)[axis] for axis in range(3))
    same = ops.equal(ops.expand_dims(ancestors, -1), ops.arange(places, dtype="int32"))
    return ops.reshape(same, (batch, 1, places, length * places))


def _weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    bias: Tensor | None = None,
    *,
    kept: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / sqrt(K)) in float32, over what the mask allows; zeros where it allows nothing.

    Args:
        query: [B, T, H, K].
        key: [B, S, G, K], or [B, G, K, S] as `KeyValues` have them.
        mask: bool, broadcastable to [B, H, T, S]; None: everything may attend.
        bias: [1, H, T, S], added to the scores; None: nothing is.
        kept: whether the key is one of `KeyValues`.
    """
    if keras.backend.standardize_dtype(query.dtype) == "float16":  # scores overflow it
        query, key = ops.cast(query, "float32"), ops.cast(key, "float32")
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    heads, groups = query.shape[2], key.shape[1 if kept else 2]
    if groups == heads:
        scores = ops.einsum("bthk,bhks->bhts" if kept else "bthk,bshk->bhts", query, key)
    else:
        product = "btgrk,bgks->bgrts" if kept else "btgrk,bsgk->bgrts"
        scores = _joined_heads(ops.einsum(product, _parted_heads(query, 2, groups), key), 1)
    scores = ops.cast(scores, "float32")
    if bias is not None:
        scores = scores + ops.cast(bias, "float32")
    if mask is not None:
        scores = ops.where(mask, scores, MASKED_SCORE)
    weights = ops.softmax(scores, axis=-1)
    return weights if mask is None else ops.where(mask, weights, 0.0)


def _weighted(weights: Tensor, value: Tensor, *, kept: bool = False) -> Tensor:
    """Return the sums of values [B, T, H, C] under weights [B, H, T, S].

    Args:
        weights: [B, H, T, S].
        value: [B, S, G, C], or [B, G, S, C] as `KeyValues` have them.
        kept: whether the value is one of `KeyValues`.
    """
    heads, groups = weights.shape[1], value.shape[1 if kept else 2]
    weights = ops.cast(weights, value.dtype)
    if groups == heads:
        return ops.einsum("bhts,bhsk->bthk" if kept else "bhts,bshk->bthk", weights, value)
    product = "bgrts,bgsk->btgrk" if kept else "bgrts,bsgk->btgrk"
    return _joined_heads(ops.einsum(product, _parted_heads(weights, 1, groups), value), 2)


def _parted_heads(x: Tensor, axis: int, groups: int) -> Tensor:
    """Part an axis of H heads into [G, H / G]: those that share keys and values."""
    shape = ops.shape(x)
    return ops.reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))


def _joined_heads(x: Tensor, axis: int) -> Tensor:
    """Undo `_parted_heads`."""
    shape = ops.shape(x)
    return ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | SegmentMask | None = None,
    *,
    distance_bias: Tensor | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Tensor | None = None,
    kernel: str = "explicit",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(Q Kᵀ / sqrt(K)) V: Vaswani et al. 2017, equation 1, for all heads at once.

    The softmax runs in float32 whatever the inputs. A query that may attend to nothing gets zeros.

    Args:
        query: [B, T, H, K].
        key: [B, S, G, K]; head h of the queries reads head h // (H / G).
        value: [B, S, G, C].
        mask: bool, broadcastable to [B, H, T, S], True = may attend, or a `SegmentMask`; None:
            everything may.
        distance_bias: [H, T + S - 1]: what is added to the scores for each of
            `nmt.model.positions.list_distances`; None: nothing.
        dropout_rate: share of the weights dropped while training.
        dropout_key: see `nmt.model.dropout`; None: no dropout.
        kernel: "explicit" (einsum and softmax), "fused" (`keras.ops.dot_product_attention`) or
            "chunked" (`nmt.model.chunked`, whose memory grows with T and not with T²). A fused
            kernel has no dropout and values as wide as keys, and neither has weights: asking for
            what a kernel does not have takes the explicit path.
        return_weights: whether to return the weights too (before dropout).

    Returns:
        (output [B, T, H, C], weights float32 [B, H, T, S] or None).
    """
    if kernel == "chunked" and not return_weights:
        output = chunked_attention(
            query, key, value, mask, distance_bias, dropout_rate, dropout_key
        )
        return output, None
    if isinstance(mask, SegmentMask):
        mask = spread_mask(mask)
    bias = None
    if distance_bias is not None:
        bias = ops.cast(distance_bias, "float32")  # in which its gradient adds up, then
        bias = spread(bias, ops.shape(query)[1], ops.shape(key)[1])[None]
    dropping = dropout_key is not None and dropout_rate > 0
    half = keras.backend.standardize_dtype(query.dtype) == "float16"
    # Keras on TensorFlow has no kernel for it, only products that overflow float16.
    overflows = half and keras.config.backend() == "tensorflow"
    fusable = not dropping and not overflows and key.shape[-1] == value.shape[-1]
    if kernel == "fused" and not return_weights and fusable:
        return _fused(query, key, value, mask, bias), None

    weights = _weights(query, key, mask, bias)  # [B, H, T, S]
    output = _weighted(dropout(weights, dropout_rate, dropout_key), value)
    return output, weights if return_weights else None


def _fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """Return what the backend's own kernel gives: zeros where a query may attend to nothing."""
    repeats = query.shape[2] // key.shape[2]
    if repeats > 1:
        key, value = ops.repeat(key, repeats, axis=2), ops.repeat(value, repeats, axis=2)
    if mask is not None:  # one of keys alone, cuDNN does not take
        lengths = (ops.shape(query)[1], ops.shape(key)[1])
        mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *lengths))
    output = ops.dot_product_attention(query, key, value, bias=bias, mask=mask)
    if mask is not None:
        reachable = ops.any(mask, axis=-1)  # [B, H or 1, T]
        reachable = ops.expand_dims(ops.swapaxes(reachable, 1, 2), -1)  # [B, T, H or 1, 1]
        output = ops.where(reachable, output, ops.zeros_like(output))
    return output


class HeadProjections(keras.layers.Layer):
    """A matrix [D, K] of its own for each head, applied side by side: [B, L, D] -> [B, L, H K]."""

    def __init__(self, heads: int, width: int, *, biases: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = [
            Dense(width, use_bias=biases, name=f"head_{i}", dtype=self.dtype_policy)
            for i in range(heads)
        ]

    def build(self, input_shape: Any) -> None:
        """Create the weights of every head."""
        for head in self.heads:
            head.build(input_shape)
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        """[.., D] -> [.., H K]."""
        return ops.concatenate([head(x) for head in self.heads], axis=-1)


class MultiHeadAttention(keras.layers.Layer):
    """H attention heads side by side: Vaswani et al. 2017, section 3.2.2.

    The base of the three roles below, which differ only in what they pass to `attend`. The kernels
    are matrices (all heads in one, unless they are to have matrices of their own), so that each is
    a single matrix product and 2-D optimizers apply to them.

    Args:
        sizes: as a model hands them down; dropout is then on exactly when a key is given. None: the
            layer stands by itself, the fields of `AttentionSizes` are given as keywords, and
            Keras's ``training`` switches dropout on.
        seed: of that dropout, for a layer that stands by itself.
        **kwargs: those fields, and what every Keras layer takes.

    Raises:
        TypeError: a size is not given by its name, or not at all.
        ValueError: see `AttentionSizes`.
    """

    def __init__(
        self, sizes: AttentionSizes | None = None, *, seed: int | None = None, **kwargs: Any
    ) -> None:
        alone = sizes is None
        if sizes is None:
            sizes, kwargs = AttentionSizes.split_off(kwargs)
        if not isinstance(sizes, AttentionSizes):
            raise TypeError(f"name what is given: d_model={sizes!r}, or the like")
        super().__init__(**kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: sizes.d_model})
        self.supports_masking = True
        self.alone = alone
        self.sizes = sizes
        self.seed = seed
        self.generator = None
        if self.alone and sizes.dropout:
            self.generator = keras.random.SeedGenerator(seed)
        self.query = self._projection("query", sizes.num_heads, sizes.head_width)
        self.key = self._projection("key", sizes.groups, sizes.head_width)
        self.value = self._projection("value", sizes.groups, sizes.value_width)
        self.output_projection = None
        if sizes.output:
            self.output_projection = Dense(
                sizes.d_model, use_bias=sizes.biases, name="output", dtype=self.dtype_policy
            )
        self.query_norm = self._normalization("query_norm")
        self.key_norm = self._normalization("key_norm")

    def _projection(self, name: str, heads: int, width: int) -> keras.layers.Layer:
        biases, policy = self.sizes.biases, self.dtype_policy
        if self.sizes.heads == "own":
            return HeadProjections(heads, width, biases=biases, name=name, dtype=policy)
        return Dense(heads * width, use_bias=biases, name=name, dtype=policy)

    def _normalization(self, name: str) -> keras.layers.Layer | None:
        if not self.sizes.qk_norm:
            return None
        return keras.layers.RMSNormalization(
            epsilon=NORM_EPSILON, name=name, dtype=self.dtype_policy
        )

    @property
    def num_heads(self) -> int:
        """H."""
        return self.sizes.num_heads

    def build(self, *input_shapes: Any, **named_shapes: Any) -> None:
        """Create the weights; their shapes depend on the sizes alone.

        Raises:
            ValueError: an input is of another width than D.
        """
        sizes = self.sizes
        for shape in (*input_shapes, *named_shapes.values()):
            if shape is not None and shape[-1] not in (None, sizes.d_model):
                raise ValueError(f"inputs of {self.name} are {sizes.d_model} wide, not {shape[-1]}")
        for layer in (self.query, self.key, self.value):
            layer.build((None, None, sizes.d_model))
        if self.output_projection is not None:
            width = sizes.value_width if sizes.heads == "pooled" else sizes.d_model
            self.output_projection.build((None, None, width))
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.build((None, None, sizes.head_width))
        self.built = True

    def compute_output_shape(self, x_shape: Any, *other_shapes: Any) -> Any:
        """Return the shape of the output: that of ``x``."""
        return x_shape

    def compute_output_spec(self, *tensors: Any, **arguments: Any) -> Any:
        """Return what stands for the output, and for the weights where they are asked for."""
        return keras.Operation.compute_output_spec(self, *tensors, **arguments)  # by tracing `call`

    def split_heads(
        self, x: Tensor, lead: tuple[Any, ...] | None = None, width: int | None = None
    ) -> Tensor:
        """[B, L, H K] -> [B, L, H, K]: cut what heads have side by side.

        Args:
            x: [B, L, H K], or of another number of heads, or of rank 2.
            lead: shape of what it is to be before the heads; None: (B, L).
            width: of a head; None: K.
        """
        width = self.sizes.head_width if width is None else width
        lead = (ops.shape(x)[0], ops.shape(x)[1]) if lead is None else lead
        return ops.reshape(x, (*lead, x.shape[-1] // width, width))

    def _queries(self, x: Tensor, lead: Any, positions: Tensor | None) -> Tensor:
        """Return the queries [*lead, H, K] of ``x``, which stands at ``positions`` int [T]."""
        return self._placed(self.query(x), self.query_norm, lead, positions)

    def _keys(self, x: Tensor, lead: Any, positions: Tensor | None) -> Tensor:
        """Return the keys [*lead, G, K] of ``x``, which stands at ``positions`` int [S]."""
        return self._placed(self.key(x), self.key_norm, lead, positions)

    def _placed(
        self, x: Tensor, norm: keras.layers.Layer | None, lead: Any, positions: Any
    ) -> Tensor:
        x = self.split_heads(x, lead)
        if norm is not None:
            x = norm(x)
        return rotate(x, positions) if self.sizes.rotary else x

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys [B, S, G, K] and values [B, S, G, C] of ``memory`` [B, S, D]."""
        keys = self._keys(memory, None, self._list_positions(memory))
        return keys, self.split_heads(self.value(memory), width=self.sizes.value_width)

    def _list_positions(self, x: Tensor) -> Tensor | None:
        """Return int32 [L], where the tokens of ``x`` [B, L, D] stand, if anything depends on it.

        Where a row holds several segments, the places in the row do: only distances count.
        """
        return ops.arange(ops.shape(x)[1], dtype="int32") if self.sizes.rotary else None

    def attend(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | SegmentMask | None,
        *,
        distance_bias: Tensor | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Let ``x`` [B, T, D] attend to keys [B, S, G, K] and values [B, S, G, C].

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights float32 [B, H, T, S]).
        """
        output, weights = scaled_dot_product_attention(
            self._queries(x, None, self._list_positions(x)),
            keys,
            values,
            mask,
            distance_bias=distance_bias,
            dropout_rate=self.sizes.dropout,
            dropout_key=dropout_key,
            kernel=self.sizes.kernel,
            return_weights=return_weights,
        )
        merged = self._merged(output, (ops.shape(x)[0], ops.shape(x)[1]))
        return (merged, weights) if return_weights else merged

    def _merged(self, heads: Tensor, lead: tuple[Any, ...]) -> Tensor:
        """[B, T, H, C] -> [*lead, D]: put the heads side by side, or add them, and project."""
        if self.sizes.heads == "pooled":
            heads = ops.sum(heads, axis=2)
        merged = ops.reshape(heads, (*lead, self.sizes.d_model))
        return merged if self.output_projection is None else self.output_projection(merged)

    def keep(self, memory: Tensor) -> KeyValues:
        """Project ``memory`` [B, S, D] and lay it out for decoding."""
        return self._laid_out(*self.project(memory))

    def _laid_out(self, keys: Tensor, values: Tensor) -> KeyValues:
        return KeyValues(ops.transpose(keys, (0, 2, 3, 1)), ops.transpose(values, (0, 2, 1, 3)))

    def look_up(
        self,
        x: Tensor,
        kept: KeyValues,
        mask: Tensor,
        places: int,
        *,
        position: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Let ``x`` attend to what was kept: `attend` without dropout, for decoding.

        Args:
            x: [B * k, D]: of rank 2, because products of rank 3 cost a dozen small operations each
                where shapes are dynamic.
            kept: of S positions.
            mask: bool, broadcastable to [B, H, k, S].
            places: k.
            position: int32 scalar, where ``x`` stands.
            bias: [H, S], added to the scores; None: nothing is.

        Returns:
            (output [B * k, D], weights float32 [B, H, k, S]).
        """
        query = self._queries(x, (-1, places), position)
        bias = None if bias is None else bias[None, :, None, :]
        weights = _weights(query, kept.keys, mask, bias, kept=True)
        return self._merged(_weighted(weights, kept.values, kept=True), (-1,)), weights

    def head_weights(self, number: int) -> list[tuple[keras.Variable, Any]]:
        """Return the weights that are to be zero for nothing of head ``number`` to come through.

        They are the rows of the output kernel that it passes through, or where there are none of
        its own, what makes its values.

        Returns:
            (variable, index) of each; heads count from 0.
        """
        width = self.sizes.value_width
        part = slice(number * width, (number + 1) * width)
        if self.output_projection is not None and self.sizes.heads != "pooled":
            return [(self.output_projection.kernel, part)]
        if self.sizes.heads == "own":
            return [(weight, ...) for weight in self.value.heads[number].weights]
        return [(weight, (..., part)) for weight in self.value.weights]

    @staticmethod
    def _allowed(attention_mask: Any, padding: Tensor | None) -> Tensor | SegmentMask | None:
        """Join a mask with the one that Keras passes along.

        Args:
            attention_mask: bool, of rank 4, or [B, T, S] for all heads; a `SegmentMask`; or None.
            padding: bool [B, S], False for keys that are none; None: all are.

        Raises:
            ValueError: the mask is of another rank.
        """
        if attention_mask is not None and not isinstance(attention_mask, SegmentMask):
            attention_mask = ops.cast(attention_mask, "bool")
            if len(attention_mask.shape) == 3:
                attention_mask = ops.expand_dims(attention_mask, 1)
            if len(attention_mask.shape) != 4:
                raise ValueError(
                    "attention_mask is [B, T, S] or broadcastable to [B, H, T, S], not "
                    f"{tuple(attention_mask.shape)}; padding [B, S] has an argument of its own"
                )
        if padding is None:
            return attention_mask
        keys = ops.expand_dims(ops.cast(padding, "bool"), (1, 2))  # [B, 1, 1, S]
        if isinstance(attention_mask, SegmentMask):
            attention_mask = spread_mask(attention_mask)
        return keys if attention_mask is None else ops.logical_and(attention_mask, keys)

    def get_config(self) -> dict[str, Any]:
        """Return what rebuilds the layer."""
        alone = {"seed": self.seed} if self.alone else {}
        return super().get_config() | dataclasses.asdict(self.sizes) | alone

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Rebuild the layer."""
        if "seed" in config:
            return cls(**config)
        sizes, others = AttentionSizes.split_off(config)
        return cls(sizes, **others)


@keras.saving.register_keras_serializable("nmt")
class SelfAttention(MultiHeadAttention):
    """Every token attends to every token of its own sequence (the encoder)."""

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | SegmentMask | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Attend within ``x`` [B, S, D].

        Args:
            x: [B, S, D].
            attention_mask: bool, broadcastable to [B, H, S, S], or [B, S, S]; None: everything may
                attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.
            distance_bias: [H, 2 S - 1], see `scaled_dot_product_attention`.
            mask: bool [B, S], False for padding: as Keras passes it from layer to layer.
            x_mask: the same, under the name that Keras gives it beside other tensors.
            training: of a layer that stands by itself: switches its dropout on.

        Returns:
            The output [B, S, D]; with ``return_weights``, (output, weights float32 [B, H, S, S]).
        """
        keys, values = self.project(x)
        return self.attend(
            x,
            keys,
            values,
            self._allowed(attention_mask, x_mask if mask is None else mask),
            distance_bias=distance_bias,
            dropout_key=resolve_key(dropout_key, self.generator, training),
            return_weights=return_weights,
        )


@keras.saving.register_keras_serializable("nmt")
class CausalSelfAttention(SelfAttention):
    """Every token attends to itself and to what stands before it (the decoder)."""

    def call(
        self,
        x: Tensor,
        attention_mask: Tensor | SegmentMask | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        distance_bias: Tensor | None = None,
        mask: Tensor | None = None,
        x_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Attend within ``x`` [B, T, D], backwards only.

        Args:
            x: [B, T, D].
            attention_mask: bool, broadcastable to [B, H, T, T], or [B, T, T]. Of a layer in a
                model, which builds it once for all blocks: the whole mask, causality included. Of a
                layer that stands by itself: what else is to hold. None: `causal_mask` alone.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.
            distance_bias: [H, 2 T - 1], see `scaled_dot_product_attention`.
            mask: bool [B, T], False for padding: as Keras passes it from layer to layer.
            x_mask: the same, under the name that Keras gives it beside other tensors.
            training: of a layer that stands by itself: switches its dropout on.

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights float32 [B, H, T, T]).
        """
        if attention_mask is None:
            everywhere = ops.ones((ops.shape(x)[0], ops.shape(x)[1]), "int32")
            chunked = self.sizes.kernel == "chunked"
            attention_mask = (
                SegmentMask(everywhere, everywhere, causal=True)
                if chunked
                else causal_mask(ops.shape(x)[1])
            )
        elif self.alone and isinstance(attention_mask, SegmentMask):
            attention_mask = dataclasses.replace(attention_mask, causal=True)
        elif self.alone:
            causal = causal_mask(ops.shape(x)[1])
            attention_mask = ops.logical_and(self._allowed(attention_mask, None), causal)
        return super().call(
            x, attention_mask, dropout_key, return_weights, distance_bias, mask, x_mask, training
        )

    def step(
        self,
        x: Tensor,
        cache: KeyValues,
        mask: Tensor,
        index: Tensor,
        places: int,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """Attend from the newest token of each hypothesis to those it descends from.

        Args:
            x: [B * k, D], the tokens at position ``index``.
            cache: of T * k slots, filled below position ``index``.
            mask: bool [B, 1, k, T * k], from `ancestor_mask`; position ``index`` included.
            index: int32 scalar.
            places: k.
            bias: [H, T * k], added to the scores; None: nothing is.

        Returns:
            (output [B * k, D], the cache with position ``index`` filled in).
        """
        lead = (-1, places)
        values = self.split_heads(self.value(x), lead, self.sizes.value_width)
        new = self._laid_out(self._keys(x, lead, index), values)
        cache = KeyValues(
            ops.slice_update(cache.keys, (0, 0, 0, index * places), new.keys),
            ops.slice_update(cache.values, (0, 0, index * places, 0), new.values),
        )
        return self.look_up(x, cache, mask, places, position=index, bias=bias)[0], cache


@keras.saving.register_keras_serializable("nmt")
class CrossAttention(MultiHeadAttention):
    """Every target token attends to every source token (decoder to encoder)."""

    def call(
        self,
        x: Tensor,
        memory: Tensor,
        attention_mask: Tensor | SegmentMask | None = None,
        dropout_key: Tensor | None = None,
        return_weights: bool = False,
        memory_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Let ``x`` [B, T, D] attend to ``memory`` [B, S, D].

        Args:
            x: [B, T, D].
            memory: [B, S, D], the encoder's output.
            attention_mask: bool, broadcastable to [B, H, T, S], or [B, T, S]; None: everything may
                attend.
            dropout_key: see `nmt.model.dropout`; None: no dropout.
            return_weights: whether weights are returned beside the output.
            memory_mask: bool [B, S], False for padding: as Keras passes it from layer to layer.
            training: of a layer that stands by itself: switches its dropout on.

        Returns:
            The output [B, T, D]; with ``return_weights``, (output, weights float32 [B, H, T, S]).
        """
        keys, values = self.project(memory)
        return self.attend(
            x,
            keys,
            values,
            self._allowed(attention_mask, memory_mask),
            dropout_key=resolve_key(dropout_key, self.generator, training),
            return_weights=return_weights,
        )
