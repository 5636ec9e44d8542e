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


def activations(
    config: ModelConfig, vocabulary_size: int, *, rows: int, length: int, precision: str
) -> Activations:
    """Estimate what one batch keeps, with the explicit attention kernel.

    With N = rows · length positions on each side and b bytes per number, 4 or 2, a layer keeps

    - per attention: N·D·b for each of queries, keys, values and output; N·H·length weights in
      float32 before and, in b bytes, after masking; one byte more where weights are dropped;
    - per feed-forward: N·F·b for what the outer matrix reads, and more where the activation is
      another than relu, which is its own record: see `_feed_forward_numbers`;
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
    bytes_each = {"float32": 4, "bfloat16": 2}[precision]
    positions, width = rows * length, config.d_model
    vectors = positions * width * bytes_each  # [N, D]
    norm = positions * width * 2 * _FULL + vectors
    mask = 0 if config.dropout == 0 else positions * width
    weights = positions * config.num_heads * length * (_FULL + bytes_each)
    if config.attention_dropout:
        weights += positions * config.num_heads * length
    inner = positions * config.ffn_width
    feed_forward = inner * bytes_each * _feed_forward_numbers(config)
    inner_mask = inner if config.ffn_dropout else 0
    pre = config.norm == "pre"

    def block(attentions: int) -> Activations:
        branches = attentions + 1
        return Activations(
            attention_weights=attentions * weights,
            attention_vectors=attentions * 4 * vectors,
            feed_forward=feed_forward,
            norms=branches * norm,
            dropout=branches * mask + inner_mask,
            loss=0,
        )

    blocks = [block(1)] * config.encoder_layers + [block(2)] * config.decoder_layers
    outside = Activations(
        attention_weights=0,
        attention_vectors=0,
        feed_forward=0,
        norms=2 * (norm if pre else vectors),  # of both stacks
        dropout=2 * mask,  # on the embeddings
        loss=positions * vocabulary_size * _FULL,
    )
    if config.remat:
        kept = Activations(0, 0, 0, vectors * len(blocks), 0, 0)
        blocks = [kept, max(blocks, key=lambda one: one.total)]
    return _sum([outside, *blocks])


def _feed_forward_numbers(config: ModelConfig) -> int:
    """Return how many [N, F] the feed-forward block keeps."""
    numbers = {"relu": 1, "relu2": 2, "gelu": 5, "swiglu": 4}[config.activation]
    # What the outer matrix reads is among them; relu needs its own output, dropped from or not.
    return numbers + (1 if config.ffn_dropout and config.activation == "relu" else 0)


def _sum(parts: list[Activations]) -> Activations:
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Activations(*(sum(column) for column in columns))
