"""How much source and prefix contribute to each output token, and what each layer would write.

ALTI+ (Ferrando, Gállego, Alastruey, Escolano & Costa-jussà 2022, "Towards Opening the Black Box of
Neural Machine Translation: Source and Target Interpretations of the Transformer"): contributions
within each attention sublayer, multiplied through the layers. As in the paper, feed-forward layers
and the normalisation before the output, which act on each position by itself, mix nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from nmt.analysis.explaining.decomposition import (
    decompose_decoder,
    decompose_encoder,
    measure_contributions,
    run_feed_forward,
)
from nmt.analysis.explaining.forced import pad_length, pad_rows
from nmt.data.tokenizer import BOS
from nmt.errors import UserError
from nmt.inference.compiled import compile_with_weights
from nmt.model.contract import Model
from nmt.model.encoder_decoder import find_segments
from nmt.model.transformer import Transformer, distance_bias, make_masks

Tensor = Any


class LayerView(NamedTuple):
    """What the decoder would write after each of its layers: the logit lens (nostalgebraist 2020).

    The last layer's view is what the model writes.
    """

    best: np.ndarray  # int [layers, T], the most probable token
    best_probability: np.ndarray  # float32 [layers, T]
    probability: np.ndarray  # float32 [layers, T], of the written token
    rank: np.ndarray  # int [layers, T], of the written token; 1 is the most probable


class Contributions(NamedTuple):
    """Contributions to the output tokens of a pair."""

    # By ALTI+, float32 [T, S] and [T, T]: of the source, and of the tokens that the decoder reads,
    # BOS first; those to a token sum to 1 over both
    source: np.ndarray
    prefix: np.ndarray
    layers: LayerView


def check_transformer(model: Model) -> Transformer:
    """Return the model if its attention can be decomposed.

    Raises:
        UserError: it cannot.
    """
    if type(model) is Transformer:  # a subclass may compute something else
        return model
    raise UserError(
        "source and prefix contributions and the logit lens need nmt.model.Transformer: this is a "
        f"{type(model).__name__} model, which they cannot decompose"
    )


def make_contributions(model: Model) -> Callable[..., list[Contributions]]:
    """Return a compiled function that measures the contributions of each pair of a batch.

    Its arguments are the ids of sources with EOS, of shifted targets with BOS, and of targets with
    EOS: a list of int [S] or [T] each.

    Raises:
        UserError: see `check_transformer`.
    """
    transformer = check_transformer(model)

    def run(source: Tensor, target_in: Tensor, target_out: Tensor) -> Any:
        contributions, states = trace_tokens(transformer, source, target_in)
        return contributions, _read_states(transformer, states, target_out)

    compiled = compile_with_weights(model, run, (2, 2, 2))

    def measure(
        sources: Sequence[np.ndarray],
        targets_in: Sequence[np.ndarray],
        targets_out: Sequence[np.ndarray],
    ) -> list[Contributions]:
        columns = [
            pad_rows(rows, pad_length(max(map(len, rows)), transformer.max_length))
            for rows in (sources, targets_in, targets_out)
        ]
        weights, views = compiled(*columns)
        width = columns[0].shape[1]
        return [
            Contributions(
                weights[row, : len(target), : len(source)],
                weights[row, : len(target), width : width + len(target)],
                LayerView(*(view[:, row, : len(target)] for view in views)),
            )
            for row, (source, target) in enumerate(zip(sources, targets_in, strict=True))
        ]

    return measure


def contribute(
    measure: Callable[..., list[Contributions]] | None, source: np.ndarray, tokens: Sequence[int]
) -> Contributions:
    """Return the contributions of a source with EOS to a translation; NaN without ``measure``."""
    if measure is None:
        of_source = np.full((len(tokens), len(source)), np.nan)
        of_prefix = np.full((len(tokens), len(tokens)), np.nan)
        return Contributions(of_source, of_prefix, LayerView(*[np.empty((0, len(tokens)))] * 4))
    [contributions] = measure([source], [np.array([BOS, *tokens[:-1]])], [np.array(tokens)])
    return contributions


def trace_tokens(model: Transformer, source: Tensor, target: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Run the model, and follow its tokens through the layers.

    Args:
        model: the model.
        source: int [B, S], padded with id 0.
        target: int [B, T], shifted.

    Returns:
        (the contributions of all tokens to the last layer's states, float32 [B, T, S + T]; the
        states [B, T, D] after each decoder layer).
    """
    segments = map(find_segments, (source, target))
    mask, target_mask, memory_mask = make_masks(*segments, as_segments=False)
    x = model.embed(source, None, None)
    bias = distance_bias(model.encoder_bias, x)
    mixing = ops.eye(ops.shape(source)[1])[None]
    for block in model.encoder_blocks:
        sublayer = decompose_encoder(block, x, mask, bias)
        mixing = ops.matmul(measure_contributions(sublayer), mixing)
        x = run_feed_forward(block, sublayer.output)
    memory = x if model.encoder_norm is None else model.encoder_norm(x)
    x = model.embed(target, None, None)
    bias = distance_bias(model.decoder_bias, x)
    length = ops.shape(source)[1]
    prefix_shares = ops.eye(ops.shape(target)[1])[None]  # [B, T, T]
    source_shares = ops.zeros_like(prefix_shares[:, :, :1]) * ops.zeros((1, 1, length))  # [B, T, S]
    states = []
    for block in model.decoder_blocks:
        sublayer = decompose_decoder(block, x, memory, target_mask, memory_mask, bias)
        within = measure_contributions(sublayer)
        from_memory, from_states = within[:, :, :length], within[:, :, length:]
        source_shares = ops.matmul(from_memory, mixing) + ops.matmul(from_states, source_shares)
        prefix_shares = ops.matmul(from_states, prefix_shares)
        x = run_feed_forward(block, sublayer.output)
        states.append(x)
    return ops.concatenate([source_shares, prefix_shares], axis=-1), states


def _read_states(model: Transformer, states: Sequence[Tensor], written: Tensor) -> tuple[Any, ...]:
    """Return the fields of `LayerView`, [layers, B, T], of states [B, T, D] by layer."""
    views = []
    for x in states:
        read = x if model.decoder_norm is None else model.decoder_norm(x)
        probabilities = ops.softmax(model.embedding.logits(read), axis=-1)  # [B, T, V]
        probability = ops.take_along_axis(probabilities, written[..., None], axis=-1)
        higher = ops.sum(ops.cast(probabilities > probability, "int32"), axis=-1)
        best = ops.cast(ops.argmax(probabilities, axis=-1), "int32")
        views.append((best, ops.max(probabilities, axis=-1), probability[..., 0], higher + 1))
    return tuple(ops.stack(column) for column in zip(*views, strict=True))
