"""Gradients and losses on JAX as pure functions of arrays, summed over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras

from nmt.config import TrainingConfig
from nmt.model.contract import Model
from nmt.model.dropout import DropoutKey
from nmt.training.objective import TokenLoss, apply_word_dropout, compute_loss
from nmt.training.optimizer import Sums, sum_over_parts
from nmt.training.train_step import count_parallel_parts
from nmt.training.weight_groups import WeightGroups

Arrays = list[Any]


class Gradients:
    """Sums of gradients of the objective (scaled, over ``normalizer``), nll and tokens.

    Args:
        model: the model that is trained.
        groups: the groups that weights and gradients are joined into.
        config: micro-batches, label smoothing, word dropout.
        loss: replaces the objective; None: cross-entropy.
        normalizer: a constant that keeps sums within the range of float16.
        uses_parallel_parts: whether a batch is computed in parts of its rows.
    """

    def __init__(
        self,
        model: Model,
        groups: WeightGroups,
        config: TrainingConfig,
        *,
        loss: Callable[[Any, Any], Any] | None,
        normalizer: float,
        uses_parallel_parts: bool,
    ) -> None:
        self._model = model
        self._groups = groups
        self._config = config
        self._loss = loss
        self._normalizer = normalizer
        self._uses_parallel_parts = uses_parallel_parts
        frozen = [weight for weight in model.named_weights().values() if not weight.trainable]
        self._variables = [*model.trained_weights().values(), *frozen]

    def sum(self, weights: Arrays, frozen: Arrays, batch: Any, key: DropoutKey, scale: Any) -> Sums:
        """Return the sums over a batch.

        Args:
            weights: joined weights.
            frozen: weights that are not trained.
            batch: rows, or micro-batches of rows.
            key: dropout key of the update.
            scale: the scale of mixed precision; 1 without.
        """
        split_weights = self._groups.split(weights)

        def compute_objective(weights: Arrays, batch: Any, key: Any) -> Any:
            inputs = apply_word_dropout(batch, self._config.word_dropout, key)
            smoothing = self._config.label_smoothing
            loss = self._compute_loss(
                weights, frozen, inputs, key=key, label_smoothing=smoothing, loss=self._loss
            )
            # About the mean loss: gradients of a sum over a batch overflow float16.
            return loss.objective / self._normalizer * scale, (loss.nll, loss.tokens)

        def differentiate(batch: Any, key: Any) -> Any:
            gradient = jax.grad(compute_objective, has_aux=True)
            gradients, (nll, tokens) = gradient(split_weights, batch, key)
            return self._groups.join(gradients), nll, tokens

        def sum_micro_batches(batch: Any, key: Any) -> Any:
            micro_batches = self._config.accumulate
            if micro_batches == 1:
                return differentiate(batch, key)
            length = batch["labels"].shape[-1]
            split = {
                name: array.reshape(micro_batches, -1, length) for name, array in batch.items()
            }
            rows = split["labels"].shape[1]

            def accumulate(sums: Any, index: Any) -> Any:
                micro_batch = {name: array[index] for name, array in split.items()}
                terms = differentiate(micro_batch, key.at_row(index * rows))
                return jax.tree.map(jnp.add, sums, terms), None

            zeros = ([jnp.zeros_like(weight) for weight in weights], jnp.zeros(()), jnp.zeros(()))
            return jax.lax.scan(accumulate, zeros, jnp.arange(micro_batches))[0]

        rows = batch["labels"].shape[0]
        parts = count_parallel_parts(self._config, rows) if self._uses_parallel_parts else 1
        return sum_over_parts(sum_micro_batches, batch, key, parts)

    def sum_nll(self, weights: Arrays, frozen: Arrays, batch: Any) -> tuple[Any, Any]:
        """Return nll and tokens of a batch, without dropout and gradients."""
        loss = self._compute_loss(self._groups.split(weights), frozen, batch)
        return loss.nll, loss.tokens

    def _compute_loss(
        self, weights: Arrays, frozen: Arrays, batch: Any, **arguments: Any
    ) -> TokenLoss:
        """Return `compute_loss` of the model with these weights."""
        values = zip(self._variables, [*weights, *frozen], strict=True)
        with keras.StatelessScope(state_mapping=values):
            return compute_loss(self._model, batch, **arguments)
