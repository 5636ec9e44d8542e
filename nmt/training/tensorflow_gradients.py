"""Gradients and losses on TensorFlow, summed over the rows of one replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from nmt.config import TrainingConfig
from nmt.model.contract import Model
from nmt.model.dropout import DropoutKey
from nmt.training.objective import apply_word_dropout, compute_loss
from nmt.training.optimizer import Sums, sum_over_parts
from nmt.training.train_step import count_parallel_parts
from nmt.training.weight_groups import WeightGroups


class Gradients:
    """Sums of gradients of the objective (scaled, over ``normalizer``), nll and tokens.

    Args:
        model: the model that is trained.
        groups: the groups that gradients are joined into.
        joined: the variables of the groups.
        config: micro-batches, label smoothing, word dropout, compilation.
        loss: replaces the objective; None: cross-entropy.
        normalizer: a constant that keeps sums within the range of float16.
        scale_loss: multiplies the objective by the scale of mixed precision; None: no scale.
        uses_parallel_parts: whether the cores of a CPU compute parts of a batch in parallel.
    """

    def __init__(
        self,
        model: Model,
        groups: WeightGroups,
        joined: Sequence[keras.Variable],
        config: TrainingConfig,
        *,
        loss: Callable[[Any, Any], Any] | None,
        normalizer: float,
        scale_loss: Callable[[Any], Any] | None,
        uses_parallel_parts: bool,
    ) -> None:
        self._model = model
        self._groups = groups
        self._joined = joined
        self._config = config
        self._loss = loss
        self._normalizer = normalizer
        self._scale_loss = scale_loss
        self._uses_parallel_parts = uses_parallel_parts
        self._weights = list(model.trained_weights().values())
        compiles = config.jit_compile == "on"
        self._compiled_sums = tf.function(
            self._sum_micro_batches, jit_compile=compiles, autograph=False
        )
        self._compiled_nll = tf.function(self._sum_nll, jit_compile=compiles, autograph=False)

    def sum(self, batch: Any, key: DropoutKey) -> Sums:
        """Return the sums over a batch."""
        rows = batch["labels"].shape[0]
        parts = count_parallel_parts(self._config, rows) if self._uses_parallel_parts else 1
        return sum_over_parts(self._compiled_sums, batch, key, parts)

    def sum_nll(self, batch: Any) -> list[Any]:
        """Return nll and tokens of a batch, without dropout and gradients."""
        return list(self._compiled_nll(batch))

    def _sum_micro_batches(self, batch: Any, key: DropoutKey) -> Sums:
        """Return the sums over the micro-batches of one part."""
        micro_batches = self._config.accumulate
        if micro_batches == 1:
            return self._differentiate(batch, key)
        rows = batch["labels"].shape[0] // micro_batches
        split = {
            name: tf.reshape(array, (micro_batches, rows, array.shape[1]))
            for name, array in batch.items()
        }

        def accumulate(index: Any, sums: Any) -> Any:
            micro_batch = {name: array[index] for name, array in split.items()}
            terms = self._differentiate(micro_batch, key.at_row(index * rows))
            return index + 1, tf.nest.map_structure(tf.add, sums, terms)

        zeros = ([tf.zeros_like(variable) for variable in self._joined], 0.0, 0.0)
        _, sums = tf.while_loop(
            lambda index, _: index < micro_batches,
            accumulate,
            (tf.constant(0), tf.nest.map_structure(tf.convert_to_tensor, zeros)),
            maximum_iterations=micro_batches,
        )
        return sums

    def _differentiate(self, batch: Any, key: DropoutKey) -> Sums:
        """Return the sums over one micro-batch."""
        with tf.GradientTape() as tape:
            inputs = apply_word_dropout(batch, self._config.word_dropout, key)
            smoothing = self._config.label_smoothing
            loss = compute_loss(
                self._model, inputs, key=key, label_smoothing=smoothing, loss=self._loss
            )
            # About the mean loss: gradients of a sum over a batch overflow float16.
            objective = loss.objective / self._normalizer
            if self._scale_loss is not None:
                objective = self._scale_loss(objective)
        weights = [weight.value for weight in self._weights]
        # A loss of the user may leave weights out: as on JAX, their gradient is zero.
        zero = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(objective, weights, unconnected_gradients=zero)
        # The table is used twice, once by lookup: its sparse gradient is made dense for the sum.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return self._groups.join(dense), loss.nll, loss.tokens

    def _sum_nll(self, batch: Any) -> tuple[Any, Any]:
        loss = compute_loss(self._model, batch)
        return loss.nll, loss.tokens
