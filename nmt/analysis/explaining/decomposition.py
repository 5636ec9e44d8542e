"""The output of an attention sublayer as a sum of vectors, one of each token it reads.

After Kobayashi et al. 2021 ("Incorporating Residual and Normalization Layers into Analysis of
Masked Language Models") and Ferrando et al. 2022 (see `contributions`): attention adds up projected
values, and with its own standard deviation held fixed a layer normalisation is linear, so each
token's part of the sum is exact. Weights and functions are those of the model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from nmt.model.blocks import DecoderBlock, EncoderBlock
from nmt.model.multi_head import MultiHeadAttention

Tensor = Any


class Sublayer(NamedTuple):
    """The output of a sublayer, residual branch and normalisation included, and its parts."""

    output: Tensor  # [B, T, D], as the model computes it
    parts: Tensor  # float32 [B, T, N, D], of each of N tokens
    # [B or 1, T or 1, D], the biases: with the parts they sum to the output
    constant: Tensor


def decompose_encoder(
    block: EncoderBlock, x: Tensor, mask: Tensor, bias: Tensor | None
) -> Sublayer:
    """Decompose the self-attention sublayer of an encoder block, [B, S, D] under ``mask``."""
    read = block.branch_input(block.attention_norm, x)
    branch = _split_attention(block.attention, read, read, mask, bias)
    return _add_residual(block.attention_norm, _is_post(block), branch, x, _on_diagonal(x))


def decompose_decoder(
    block: DecoderBlock,
    x: Tensor,
    memory: Tensor,
    mask: Tensor,
    memory_mask: Tensor,
    bias: Tensor | None,
) -> Sublayer:
    """Decompose both attention sublayers of a decoder block, [B, T, D], as one.

    The residual branch of cross-attention is the output of self-attention, whose parts are carried
    on: the N = S + T parts are those of the source tokens, then those of the target tokens.
    """
    is_post = _is_post(block)
    read = block.branch_input(block.self_attention_norm, x)
    branch = _split_attention(block.self_attention, read, read, mask, bias)
    prefix = _add_residual(block.self_attention_norm, is_post, branch, x, _on_diagonal(x))
    read = block.branch_input(block.cross_attention_norm, prefix.output)
    branch = _split_attention(block.cross_attention, read, memory, memory_mask, None)
    source = branch.parts
    branch = branch._replace(
        parts=ops.concatenate([source, ops.zeros_like(prefix.parts)], axis=2),
        constant=branch.constant + prefix.constant,
    )
    residual = ops.concatenate([ops.zeros_like(source), prefix.parts], axis=2)
    return _add_residual(block.cross_attention_norm, is_post, branch, prefix.output, residual)


def measure_contributions(sublayer: Sublayer) -> Tensor:
    """Return how much each token contributes to the output, [B, T, N]; rows sum to 1.

    With the output y and a part t, in proportion to max(0, |y| - |y - t|) in the L1 norm (Ferrando
    et al. 2022, "Measuring the Mixing of Contextual Information in the Transformer"): the nearer a
    part is to the whole, the more it contributes. Where no part is nearer to it than
    nothing is, the paper's shares are undefined: there, in proportion to the norms of the parts
    (Kobayashi et al. 2021).
    """
    output = sublayer.output[:, :, None]  # [B, T, 1, D]
    # One sum, exactly 0 for a part of zero; two sums may be rounded differently.
    nearer = ops.abs(output) - ops.abs(output - sublayer.parts)
    nearness = ops.relu(ops.sum(nearer, axis=-1))
    is_near = ops.any(nearness > 0, axis=-1, keepdims=True)
    shares = ops.where(is_near, nearness, ops.sum(ops.abs(sublayer.parts), axis=-1))
    return shares / ops.maximum(ops.sum(shares, axis=-1, keepdims=True), 1e-30)


def _is_post(block: EncoderBlock | DecoderBlock) -> bool:
    return bool(block.sizes.norm == "post")


def _on_diagonal(x: Tensor) -> Tensor:
    """Return parts [B, L, L, D] in which each token of ``x`` [B, L, D] is a part of itself only."""
    return ops.eye(ops.shape(x)[1], dtype=x.dtype)[None, :, :, None] * x[:, None]


def _split_attention(
    layer: MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor, bias: Tensor | None
) -> Sublayer:
    """Return the output of attention, and what each of the S tokens attended to adds to it."""
    keys, values = layer.project(memory)  # [B, S, G, K], [B, S, G, C]
    output, weights = layer.attend(x, keys, values, mask, distance_bias=bias, return_weights=True)
    values = ops.repeat(values, layer.num_heads // values.shape[2], axis=2)  # [B, S, H, C]
    mixed = ops.einsum("bhts,bshc->btshc", ops.cast(weights, values.dtype), values)
    batch, length, count = (ops.shape(mixed)[axis] for axis in range(3))
    heads = ops.reshape(mixed, (batch, length * count, *values.shape[2:]))
    parts = layer.merge_heads(heads, (batch, length, count))  # [B, T, S, D], each with the bias
    constant = layer.merge_heads(ops.zeros((1, 1, *values.shape[2:]), values.dtype), (1, 1))
    return Sublayer(output, parts - constant[:, None], constant)


def _add_residual(
    norm: keras.layers.LayerNormalization,
    is_post: bool,
    branch: Sublayer,
    x: Tensor,
    residual: Tensor,
) -> Sublayer:
    """Add the residual branch ``x`` [B, T, D], with its parts; normalise where the model does."""
    total, parts = x + branch.output, branch.parts + residual
    if not is_post:
        return Sublayer(total, parts, branch.constant)
    # With the standard deviation held fixed: the linear map v -> (v - mean(v)) * scale.
    scale = norm.gamma * ops.rsqrt(ops.var(total, axis=-1, keepdims=True) + norm.epsilon)
    return Sublayer(
        norm(total),
        _center(parts) * scale[:, :, None],
        _center(branch.constant) * scale + norm.beta,
    )


def _center(x: Tensor) -> Tensor:
    return x - ops.mean(x, axis=-1, keepdims=True)


def run_feed_forward(block: EncoderBlock | DecoderBlock, x: Tensor) -> Tensor:
    """Return the output of the feed-forward sublayer, [B, L, D]."""
    norm = block.feed_forward_norm
    return block.add_residual(norm, x, block.feed_forward(block.branch_input(norm, x)), None)
