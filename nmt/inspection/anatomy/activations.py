"""How much memory a training step keeps between its forward and its backward pass.

An estimate by closed form, in the manner of Korthikanti et al. 2022 (section 4.1), for the layers
as they are written in `nmt.model`: what the derivative of each operation needs is kept, once,
however many operations need it. A compiler that fuses operations keeps less, by recomputing cheap
ones; an allocator needs room for what is only passing through. Weights, gradients and optimizer
state come on top: they do not depend on the batch. A test holds the estimate within 5% of the
tensors that the backward pass of a TensorFlow graph reads (with ``remat``, 15%).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nmt.config import ModelConfig

PRECISIONS = ("float32", "bfloat16")
_FULL = 4  # bytes of a float32: norms, softmax and loss have it whatever the precision


@dataclass(frozen=True)
class Activations:
    """Bytes kept for the backward pass, by part."""

    attention_weights: int
    attention_vectors: int  # queries, keys, values, and what the weights made of the values
    feed_forward: int
    norms: int  # the residual stream, its scaled copy, and what the branches read
    dropout: int  # masks
    loss: int  # exponentials of the logits

    @property
    def total(self) -> int:
        """Of all parts."""
        return sum(vars(self).values())


def estimate_activations(
    config: ModelConfig, vocabulary_size: int, *, rows: int, length: int, precision: str
) -> Activations:
    """Estimate what one batch keeps, with the explicit attention kernel.

    With N = rows · length positions on each side and b bytes per number, 4 or 2, a layer keeps

    - per attention: N·D·b for each of queries, keys, values and output; N·H·length weights in
      float32 before and, in b bytes, after masking; one byte more where weights are dropped;
    - per feed-forward: N·F·b for what the outer matrix reads, and more where the activation is
      another than relu, which is its own record: see `_count_feed_forward_numbers`;
    - per norm: its input and its scale in float32, N·D·4 each, and N·D·b for its output;
    - per residual branch: one byte for each of N·D elements, where dropout is on;

    and the loss the exponentials of N·V logits in float32. With ``remat``, a layer keeps its input
    alone, and one layer at a time, the largest, is worked out again.

    Args:
        config: the ``model`` group of a configuration; a dropout that is not set yet counts as on.
        vocabulary_size: V.
        rows: of a batch.
        length: positions of a row, on each side.
        precision: "float32" or "bfloat16".
    """
    batch = _Batch(rows, length, {"float32": 4, "bfloat16": 2}[precision])
    blocks = [_estimate_block(config, batch, attentions=1)] * config.encoder_layers
    blocks += [_estimate_block(config, batch, attentions=2)] * config.decoder_layers
    if config.remat:
        kept = Activations(0, 0, 0, _count_vectors(config, batch) * len(blocks), 0, 0)
        blocks = [kept, max(blocks, key=lambda one: one.total)]
    return _sum([_estimate_outside(config, batch, vocabulary_size), *blocks])


class _Batch(NamedTuple):
    rows: int
    length: int
    bytes_each: int  # of a number, where it is not always a float32

    @property
    def positions(self) -> int:
        return self.rows * self.length


def _count_vectors(config: ModelConfig, batch: _Batch) -> int:
    """Return the bytes of [N, D]."""
    return batch.positions * config.d_model * batch.bytes_each


def _count_norm(config: ModelConfig, batch: _Batch) -> int:
    """Return what one norm keeps."""
    return batch.positions * config.d_model * 2 * _FULL + _count_vectors(config, batch)


def _count_mask(config: ModelConfig, batch: _Batch) -> int:
    """Return what dropout on [N, D] keeps."""
    return 0 if config.dropout == 0 else batch.positions * config.d_model


def _estimate_block(config: ModelConfig, batch: _Batch, *, attentions: int) -> Activations:
    """Estimate what one layer keeps."""
    weights = batch.positions * config.num_heads * batch.length
    inner = batch.positions * config.ffn_width
    bytes_each = batch.bytes_each
    branches = attentions + 1
    return Activations(
        attention_weights=attentions
        * weights
        * (_FULL + bytes_each + (1 if config.attention_dropout else 0)),
        attention_vectors=attentions * 4 * _count_vectors(config, batch),
        feed_forward=inner * bytes_each * _count_feed_forward_numbers(config),
        norms=branches * _count_norm(config, batch),
        dropout=branches * _count_mask(config, batch) + (inner if config.ffn_dropout else 0),
        loss=0,
    )


def _estimate_outside(config: ModelConfig, batch: _Batch, vocabulary_size: int) -> Activations:
    """Estimate what is kept outside of the layers."""
    vectors, norm = _count_vectors(config, batch), _count_norm(config, batch)
    return Activations(
        attention_weights=0,
        attention_vectors=0,
        feed_forward=0,
        norms=2 * (norm if config.norm == "pre" else vectors),  # of both stacks
        dropout=2 * _count_mask(config, batch),  # on the embeddings
        loss=batch.positions * vocabulary_size * _FULL,
    )


def _count_feed_forward_numbers(config: ModelConfig) -> int:
    """Return how many [N, F] the feed-forward block keeps."""
    numbers = {"relu": 1, "relu2": 2, "gelu": 5, "swiglu": 4}[config.activation]
    # What the outer matrix reads is among them; relu needs its own output, dropped from or not.
    return numbers + (1 if config.ffn_dropout and config.activation == "relu" else 0)


def _sum(parts: list[Activations]) -> Activations:
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Activations(*(sum(column) for column in columns))
