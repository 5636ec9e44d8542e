"""Gradient times input: how far source and prefix tokens speak for a word.

A gradient measures how the output depends on small changes of the input. Attention weights do not:
lower layers have mixed all positions, and quite different weights can give the same output (Jain &
Wallace 2019, "Attention is not Explanation"; against it, Wiegreffe & Pinter 2019, "Attention is not
not Explanation").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS
from nmt.errors import UserError
from nmt.inference.compiled import compile_over
from nmt.model.contract import Model

_ROWS = 64  # continuations that are differentiated at a time


class Continuation(NamedTuple):
    """A word that a translation may have behind a prefix."""

    prefix: tuple[int, ...]  # ids, without begin mark
    tokens: tuple[int, ...]  # ids of the word's pieces


class Attribution(NamedTuple):
    """The log-probability of a word's pieces, and gradient times input of their sum."""

    log_probs: np.ndarray  # float32 [pieces], each given the prefix and the pieces before it
    source: np.ndarray  # float32 [S], in nats
    prefix: np.ndarray  # float32 [1 + prefix], in nats; the begin mark first


def attribute(
    model: Model, source: np.ndarray, continuations: Sequence[Continuation]
) -> list[Attribution]:
    """Return gradient times input (Shrikumar et al. 2016) of each continuation.

    The log-probability of a word is the sum of those of its pieces, whatever follows them. With the
    embedding e of a token before positions are added, its entry is the sum over d of
    e[d] * (d log p / d e[d]): how fast log p grows, in nats, when the embedding is scaled. Tokens
    are those of the source and of the prefix; the word's own pieces, which later pieces of it read,
    are held fixed, as is the table of embeddings where it scores the outputs. The difference of two
    words is a contrastive explanation (Yin & Neubig 2022, "Interpreting Language Models with
    Contrastive Explanations").

    Args:
        model: a Keras model.
        source: int [S], end mark included.
        continuations: at least one piece each.
    """

    def run(source: Any, target: Any, positions: Any, labels: Any, counted: Any) -> Any:
        rows = ops.shape(target)[0]
        sources = ops.broadcast_to(source, (rows, ops.shape(source)[0]))
        inputs = [model.embed_tokens(ids) for ids in (sources, target)]

        def log_probs(embedded_source: Any, embedded_target: Any) -> Any:
            logits = model.score_embedded(embedded_source, embedded_target, positions)  # [N, P, V]
            chosen = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
            return (chosen - ops.logsumexp(logits, axis=-1)) * ops.cast(counted, "float32")

        values, gradients = _differentiate(log_probs, [embedded for embedded, _ in inputs])
        products = (
            ops.sum(gradient * tokens, axis=-1)
            for gradient, (_, tokens) in zip(gradients, inputs, strict=True)
        )
        return values, *products

    function = _compile_on_jax(model, run, (1, 2, 2, 2, 2))
    attributions = []
    for first in range(0, len(continuations), _ROWS):
        chunk = continuations[first : first + _ROWS]
        outputs = function(source, *arrange(chunk))
        values, source_products, target_products = map(ops.convert_to_numpy, outputs)
        for row, (prefix, tokens) in enumerate(chunk):
            attributions.append(
                Attribution(
                    values[row, : len(tokens)],
                    source_products[row],
                    target_products[row, : 1 + len(prefix)],
                )
            )
    return attributions


def arrange(continuations: Sequence[Continuation]) -> tuple[np.ndarray, ...]:
    """Return the arrays of a batch, int32.

    They are the shifted targets [N, T] and, [N, P] of each piece, its position, its id and whether
    it is one.
    Ids after the last piece are those of the begin mark: no scored position reads them.
    """
    pieces = max(len(tokens) for _, tokens in continuations)
    length = max(len(prefix) + len(tokens) for prefix, tokens in continuations)
    targets = np.full((len(continuations), length), BOS, np.int32)
    positions, labels, counted = np.zeros((3, len(continuations), pieces), np.int32)
    for row, (prefix, tokens) in enumerate(continuations):
        read = [BOS, *prefix, *tokens[:-1]]
        targets[row, : len(read)] = read
        positions[row] = np.minimum(len(prefix) + np.arange(pieces), length - 1)
        labels[row, : len(tokens)] = tokens
        counted[row, : len(tokens)] = 1
    return targets, positions, labels, counted


def make_scorer(
    model: Model, source: np.ndarray
) -> Callable[[Sequence[Sequence[int]]], np.ndarray]:
    """Return what scores the tokens that may follow prefixes: log-probabilities float32 [N, V].

    Raises:
        UserError: the model has no gradients of embeddings, as one of a class from Python may.
    """
    if not hasattr(model, "score_embedded"):
        name = type(model).__name__
        raise UserError(f"an explanation needs embed_tokens and score_embedded, which {name} lacks")

    def run(source: Any, target: Any, positions: Any) -> Any:
        sources = ops.broadcast_to(source, (ops.shape(target)[0], ops.shape(source)[0]))
        (read, _), (written, _) = model.embed_tokens(sources), model.embed_tokens(target)
        logits = model.score_embedded(read, written, positions)[:, 0]
        return logits - ops.logsumexp(logits, axis=-1, keepdims=True)

    function = _compile_on_jax(model, run, (1, 2, 2))

    def score(prefixes: Sequence[Sequence[int]]) -> np.ndarray:
        rows = [Continuation(tuple(prefix), (BOS,)) for prefix in prefixes]
        targets, positions, *_ = arrange(rows)
        return np.asarray(ops.convert_to_numpy(function(source, targets, positions)))

    return score


def _compile_on_jax(
    model: Model, function: Callable[..., Any], ranks: tuple[int, ...]
) -> Callable[..., Any]:
    """Compile a function on JAX: see `compile_over`.

    Outside a compiled function, JAX compiles each operation by itself. TensorFlow runs operations
    once in less time than it takes to trace them.
    """
    return compile_over(model, function, ranks) if keras.config.backend() == "jax" else function


def _differentiate(function: Callable[..., Any], inputs: list[Any]) -> tuple[Any, Any]:
    """Return a function's values at ``inputs``, and the gradients of their sum."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            values = function(*inputs)
            total = ops.sum(values)
        return values, tape.gradient(total, inputs)
    if keras.config.backend() == "jax":
        import jax

        def total_and_values(*inputs: Any) -> tuple[Any, Any]:
            values = function(*inputs)
            return ops.sum(values), values

        derive = jax.grad(total_and_values, argnums=tuple(range(len(inputs))), has_aux=True)
        gradients, values = derive(*inputs)
        return values, gradients
    raise NotImplementedError(f"the {keras.config.backend()} backend is not supported")
