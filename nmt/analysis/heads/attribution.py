"""Which source tokens an output depends on: gradient times input, beside cross-attention.

Attention weights say where a layer read, not which tokens the output depends on: lower layers have
mixed all positions, and quite different weights can give the same output (Jain & Wallace 2019,
"Attention is not Explanation"). Whether weights are an explanation all the same depends on the
definition of explanation (Wiegreffe & Pinter 2019, "Attention is not not Explanation"). A gradient
measures dependence, though only on small changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from nmt.data.tokenizer import BOS, EOS
from nmt.inference.compiled import compile_over
from nmt.inference.results import Translation
from nmt.inference.translator import Translator
from nmt.model.contract import Model


@dataclass(frozen=True)
class Attribution:
    """How much each output token depends on, and attends to, each source token of a sentence."""

    source: list[str]  # S tokens, end mark included
    target: list[str]  # T tokens, end mark included
    gradient_times_input: np.ndarray  # float32 [T, S], signed: see `gradient_times_input`
    attention: np.ndarray  # float32 [T, S]: cross-attention of the last layer, mean of its heads

    @property
    def shares(self) -> np.ndarray:
        """[T, S]: absolute values, divided by their sum over the source; a zero row stays zero."""
        sizes = np.abs(self.gradient_times_input)
        sums = sizes.sum(axis=-1, keepdims=True)
        return np.divide(sizes, sums, out=np.zeros_like(sizes), where=sums > 0)

    @property
    def overlap(self) -> np.ndarray:
        """[T]: agreement of shares and attention, 0 to 1: the sum of the smaller of both.

        It is 1 minus their total variation distance.
        """
        return np.minimum(self.shares, self.attention).sum(axis=-1)


def attribute(
    translator: Translator, text: str, translation: Translation | None = None
) -> Attribution:
    """Attribute a translation to its source.

    Args:
        translator: a translator of a run.
        text: a source sentence.
        translation: a translation of it; None takes the best one.

    Raises:
        UserError: the text is empty or longer than a segment, or no Keras model is available.
    """
    translator = translator.with_keras_engine("gradients")
    model = translator.keras_engine("gradients").model
    ids = translator.segmenter.segment_whole(text).ids
    if translation is None:
        translation = translator.hypotheses([text])[0][0]
    attention = translator.attention(text, translation)
    assert attention is not None  # it is for the same texts that `whole` gives ids
    return Attribution(
        source=attention.source,
        target=attention.target_out,
        gradient_times_input=gradient_times_input(
            model, np.append(ids, EOS), np.asarray(translation.tokens)
        ),
        attention=attention.cross[-1].mean(axis=0),
    )


def gradient_times_input(model: Model, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return gradient times input (Shrikumar et al. 2016) of every output token.

    Entry (t, s) is the sum over d of e[s, d] * (d log p[t] / d e[s, d]), where e [S, D] are the
    source embeddings before positions are added, and p[t] is the probability of token t given the
    source and the tokens before it: how fast log p[t] grows, in nats, when embedding s is scaled.
    The target shares the table of embeddings; that use of it is not differentiated.

    Args:
        model: a Keras model.
        source: int [S], end mark included.
        target: int [T], end mark included.

    Returns:
        float32 [T, S].
    """

    def attribute_copies(source: Any, target_in: Any, target_out: Any) -> Any:
        length, count = ops.shape(source)[0], ops.shape(target_out)[0]
        # One copy of the pair per output token, so that one backward pass gives all gradients.
        sources = ops.broadcast_to(source, (count, length))  # [T, S]
        targets = ops.broadcast_to(target_in, (count, count))  # [T, T]
        read, tokens = model.embed_source(sources)  # [T, S, D] each

        def log_prob(embedded: Any) -> Any:
            logits = model.score_embedded(embedded, targets, ops.arange(count))  # [T, V]
            chosen = ops.take_along_axis(logits, target_out[:, None], axis=-1)[:, 0]
            return ops.sum(chosen - ops.logsumexp(logits, axis=-1))

        return ops.sum(_differentiate(log_prob, read) * tokens, axis=-1)

    # Outside a compiled function, JAX compiles each operation by itself. TensorFlow runs these
    # operations once in less time than it takes to trace them.
    on_jax = keras.config.backend() == "jax"
    run = compile_over(model, attribute_copies, (1, 1, 1)) if on_jax else attribute_copies
    return ops.convert_to_numpy(run(source, np.append(BOS, target[:-1]), target))


def _differentiate(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the gradient of a scalar function at ``x``."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x)
    if keras.config.backend() == "jax":
        import jax

        return jax.grad(function)(x)
    raise NotImplementedError(f"the {keras.config.backend()} backend is not supported")
