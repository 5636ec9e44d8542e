"""The ways in which a model encodes the order of tokens.

- "sinusoidal", "sinusoidal_halves", "learned": an embedding of the position is added to that of the
  token (`PositionEmbedding`).
- "rotary": queries and keys of self-attention are rotated by angles proportional to their position
  (`rotate`), so that a score depends on the distance between the two.
- "relative", "alibi": a number for each distance and head is added to the scores of self-attention
  (`RelativeBias`, `LinearBias`).
- "none": only the causal mask of the decoder tells the order.

The last four depend only on distances. Within a packed row, the distance of two tokens of a segment
equals that of their positions in the row, so these models need no positions as inputs.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from nmt.model.sinusoids import sinusoids
from nmt.model.sizes import RELATIVE_BUCKETS as BUCKETS
from nmt.model.sizes import RELATIVE_FARTHEST as FARTHEST
from nmt.model.sizes import SINUSOIDAL

Tensor = Any

EMBEDDED = (*SINUSOIDAL, "learned")  # kinds with an embedding for each position


@keras.saving.register_keras_serializable("nmt")
class PositionEmbedding(keras.layers.Layer):
    """Sinusoidal (fixed) or learned embeddings of positions 0 … max_length - 1."""

    def __init__(self, kind: str, max_length: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if kind not in EMBEDDED:
            raise ValueError(
                f"positions must be one of {', '.join(map(repr, EMBEDDED))}, got {kind!r}"
            )
        self.kind = kind
        self.max_length = max_length
        self.d_model = d_model

    def build(self, positions_shape: Any = None) -> None:
        """Create the table, which is a weight only if it is learned."""
        if self.kind == "learned":
            self.table = self.add_weight(
                shape=(self.max_length, self.d_model),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name="table",
            )
        else:
            halves = self.kind == "sinusoidal_halves"
            self.table = sinusoids(self.max_length, self.d_model, halves=halves)
        self.built = True

    def compute_output_shape(self, positions_shape: Any) -> Any:
        """[B, L] -> [B, L, D]. A third axis, which `EncoderDecoder.build` passes, is ignored."""
        return (*positions_shape[:2], self.d_model)

    def call(self, positions: Tensor) -> Tensor:
        """[B, L] -> [B, L, D]."""
        rows = ops.take(ops.convert_to_tensor(self.table), positions, axis=0)
        return ops.cast(rows, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {
            "kind": self.kind,
            "max_length": self.max_length,
            "d_model": self.d_model,
        }


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate every pair of elements by position times frequency: Su et al. 2021, equation 34.

    Pair i consists of the elements i and i + K / 2; its frequency is 10000^(-2i / K).

    Args:
        x: [B, L, H, K], K even.
        positions: int [L], or a scalar for all tokens.

    Returns:
        [B, L, H, K], of unchanged norm.
    """
    half = x.shape[-1] // 2
    frequency = ops.convert_to_tensor(10000.0 ** (-np.arange(half, dtype=np.float32) / half))
    angle = ops.cast(positions, "float32")[..., None, None] * frequency  # [L, 1, K / 2]
    cos, sin = ops.cast(ops.cos(angle), x.dtype), ops.cast(ops.sin(angle), x.dtype)
    first, second = x[..., :half], x[..., half:]
    return ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def list_distances(queries: int | Tensor, keys: int | Tensor) -> Tensor:
    """Return int32 [T + S - 1]: every distance t - s of a query and a key, in rising order."""
    return ops.arange(queries + keys - 1, dtype="int32") - (keys - 1)


def expand_distance_bias(bias: Tensor, queries: int | Tensor, keys: int | Tensor) -> Tensor:
    """Expand a bias per distance, [H, T + S - 1], to one per query and key: [H, T, S]."""
    rows, columns = ops.arange(queries, dtype="int32"), ops.arange(keys, dtype="int32")
    return ops.take(bias, rows[:, None] - columns + (keys - 1), axis=1)


def bucket(distances: Tensor, *, causal: bool) -> Tensor:
    """Return the bucket of each distance: Raffel et al. 2020, section 2.1.

    Half of the buckets hold one distance each. The others hold ranges that grow in proportion, up
    to `RELATIVE_FARTHEST`; the last one holds all larger distances. Where tokens attend in both
    directions, each direction has half of the buckets.

    Args:
        distances: int32, of any shape, t - s.
        causal: whether tokens attend backwards only.

    Returns:
        int32 of the same shape, below `RELATIVE_BUCKETS`.
    """
    buckets = BUCKETS if causal else BUCKETS // 2
    ahead = ops.cast(distances < 0, "int32")
    far = ops.maximum(distances, 0) if causal else ops.abs(distances)
    exact = buckets // 2
    ratio = ops.cast(ops.maximum(far, exact), "float32") / exact
    scale = (buckets - exact) / math.log(FARTHEST / exact)
    # Adding 1e-5 keeps every backend from rounding the end of a range into the bucket below.
    ranged = exact + ops.cast(ops.floor(ops.log(ratio) * scale + 1e-5), "int32")
    index = ops.where(far < exact, far, ops.minimum(ranged, buckets - 1))
    return index if causal else index + ahead * buckets


@keras.saving.register_keras_serializable("nmt")
class RelativeBias(keras.layers.Layer):
    """A learned number for each head and bucket of distances, shared by the layers of a stack."""

    def __init__(self, num_heads: int, *, causal: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.causal = causal

    def build(self, *input_shapes: Any) -> None:
        """Create the table."""
        self.table = self.add_weight(
            shape=(BUCKETS, self.num_heads),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="table",
        )
        self.built = True

    def call(self, distances: Tensor) -> Tensor:
        """Return [H, n] for distances int32 [n]."""
        table = ops.transpose(ops.convert_to_tensor(self.table))  # [H, BUCKETS]
        return ops.take(table, bucket(distances, causal=self.causal), axis=1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {"num_heads": self.num_heads, "causal": self.causal}


def list_slopes(num_heads: int) -> list[float]:
    """Return the slope of each head: Press et al. 2022, section 3.

    If H is a power of 2, they are 2^(-8/H), 2^(-16/H), …, 2^-8. Otherwise, as in the authors' code,
    they are those of the next lower power, followed by every second slope of twice that power.
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    between = [2.0 ** (-4.0 * (i + 1) / power) for i in range(2 * power)][::2]
    return slopes + between[: num_heads - power]


@keras.saving.register_keras_serializable("nmt")
class LinearBias(keras.layers.Layer):
    """A penalty proportional to the distance, with a different slope for each head."""

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def call(self, distances: Tensor) -> Tensor:
        """Return [H, n] for distances int32 [n]."""
        slopes = ops.convert_to_tensor(np.array(list_slopes(self.num_heads), np.float32))
        return -slopes[:, None] * ops.abs(ops.cast(distances, "float32"))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that rebuild the layer."""
        return super().get_config() | {"num_heads": self.num_heads}


def make_distance_bias(
    kind: str, num_heads: int, *, causal: bool, name: str
) -> keras.layers.Layer | None:
    """Return the float32 layer that biases self-attention by distance; None for other kinds."""
    if kind == "relative":
        return RelativeBias(num_heads, causal=causal, name=name, dtype="float32")
    return LinearBias(num_heads, name=name, dtype="float32") if kind == "alibi" else None
