"""The update on JAX: layers, loss and optimizer of the TensorFlow one, in one compiled function.

Weights (joined into groups), optimizer state and averages live in arrays that the compiled update
takes and gives back (their memory is reused). The Keras variables are brought up to date where
somebody reads them: for evaluation, and for a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.model.contract import Model
from nmt.model.dropout import FULL_SHARE, DropoutKey, fold
from nmt.training.groups import Groups
from nmt.training.objective import TokenLoss, cross_entropy, hide_words
from nmt.training.optimizer import (
    averaging_decay,
    compute_norm_and_factor,
    is_sound,
    make_optimizer,
    sum_in_parts,
)
from nmt.training.step import Update, check_fits, count_parts, name_state

Arrays = list[Any]


class JaxStep:
    """The update of one process on one device."""

    def __init__(self, model: Model, config: TrainingConfig, *, seed: int) -> None:
        self._model = model
        self._config = config
        self._seed = jnp.uint32(seed & 0xFFFFFFFF)
        self._normalizer = float(config.batch_tokens)  # one for all shapes of batches
        self._optimizer = make_optimizer(config)
        self._weights = list(model.trained_weights().values())
        self._frozen = [weight for weight in model.named_weights().values() if not weight.trainable]
        self._groups = Groups(self._weights, config.optimizer)
        joined = self._groups.make_variables(self._weights)
        self._optimizer.build(joined)
        scaled = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._scaled = scaled
        self._inner = self._optimizer.inner_optimizer if scaled else self._optimizer
        self._slots = self._optimizer.variables
        self._averaging = False  # whether the averaged weights are in use
        averages = config.ema_decay is not None
        self._state: tuple[Arrays, Arrays, Arrays] = (
            [jnp.array(variable.value) for variable in joined],
            [jnp.array(slot.value) for slot in self._slots],
            [jnp.array(variable.value) for variable in joined] if averages else [],
        )
        self._update = jax.jit(self._make_update, donate_argnums=0)
        self._evaluate = jax.jit(self._nll)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        step: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """Change the weights by one update, unless it is unsound."""
        share = jnp.uint32(round(dropout_share * FULL_SHARE))
        rate, limit = jnp.float32(learning_rate), jnp.float32(norm_limit)
        self._state, measured = self._update(
            self._state, self._fixed(), batch, rate, jnp.uint32(step), share, limit
        )
        return measured

    def gradient_norms(
        self, batch: Batch, step: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """Return the norm of the mean gradient of each weight, by its name."""
        weights, slots, _ = self._state
        key = self._key(jnp.uint32(step), jnp.uint32(round(dropout_share * FULL_SHARE)))
        gradients, _, tokens = jax.jit(self._gradients)(weights, slots, self._fixed(), batch, key)
        scale = self._normalizer / (float(tokens) * float(self._loss_scale(slots)))
        norms = [scale * float(jnp.linalg.norm(part)) for part in self._groups.part(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens)."""
        weights = self._state[2 if self._averaging else 0]
        nll, tokens = self._evaluate(weights, self._fixed(), batch)
        return float(nll), float(tokens)

    def _fixed(self) -> Arrays:
        """Return what is not trained, an input of what is compiled and no constant in it."""
        return [weight.value for weight in self._frozen]

    def _make_update(
        self,
        state: tuple[Arrays, Arrays, Arrays],
        fixed: Arrays,
        batch: Any,
        learning_rate: Any,
        step: Any,
        share: Any,
        norm_limit: Any,
    ) -> tuple[tuple[Arrays, Arrays, Arrays], Update]:
        weights, slots, _ = state
        key = self._key(step, share)
        gradients, nll, tokens = self._gradients(weights, slots, fixed, batch, key)
        scale = self._loss_scale(slots)
        norm, factor = compute_norm_and_factor(
            gradients,
            tokens,
            normalizer=self._normalizer,
            loss_scale=scale,
            clip_norm=self._config.clip_norm,
        )
        sound = is_sound(nll, norm, norm_limit)
        made = sound
        if self._scaled:  # its optimizer skips what overflows, and needs to see it
            made = jnp.logical_or(sound, jnp.logical_not(jnp.isfinite(norm)))

        changed = self._change(state, [gradient * factor for gradient in gradients], learning_rate)
        # Fused into the update, where a branch would cost copies of all arrays.
        state = jax.tree.map(lambda new, old: jnp.where(made, new, old), changed, state)
        return state, Update(nll, tokens, norm, jnp.logical_not(sound))

    def _key(self, step: Any, share: Any) -> Any:
        # As the first replica of several.
        return fold(fold(fold(DropoutKey(self._seed, share), step), 0), 0)

    def _change(
        self, state: tuple[Arrays, Arrays, Arrays], gradients: Arrays, learning_rate: Any
    ) -> tuple[Arrays, Arrays, Arrays]:
        """Apply the gradients, and average."""
        weights, slots, averages = state
        rate = self._find_slot(self._inner._learning_rate)
        slots = [*slots[:rate], learning_rate, *slots[rate + 1 :]]
        weights, slots = self._optimizer.stateless_apply(slots, gradients, weights)
        if self._config.ema_decay is not None:
            updates = slots[self._find_slot(self._inner.iterations)]
            decay = averaging_decay(self._config.ema_decay, updates)
            averages = [
                average + (1 - decay) * (weight - average)
                for average, weight in zip(averages, weights, strict=True)
            ]
        return list(weights), list(slots), list(averages)

    def _gradients(
        self, weights: Arrays, slots: Arrays, fixed: Arrays, batch: Any, key: Any
    ) -> Any:
        """Sum gradients of the (scaled) objective, nll and tokens over parts and micro-batches."""
        scale = self._loss_scale(slots)
        parted = self._groups.part(weights)

        def objective(weights: Arrays, part: Any, key: Any) -> Any:
            read = hide_words(part, self._config.word_dropout, key)
            loss = self._loss(weights, fixed, read, key, self._config.label_smoothing)
            # Sums over a batch overflow float16: gradients are taken of about the mean.
            return loss.objective / self._normalizer * scale, (loss.nll, loss.tokens)

        def differentiate(part: Any, key: Any) -> Any:
            gradients, (nll, tokens) = jax.grad(objective, has_aux=True)(parted, part, key)
            return self._groups.join(gradients), nll, tokens

        def sum_micro_batches(batch: Any, key: Any) -> Any:
            micro_batches = self._config.accumulate
            if micro_batches == 1:
                return differentiate(batch, key)
            split = {
                name: array.reshape(micro_batches, -1, array.shape[1])
                for name, array in batch.items()
            }

            def accumulate(sums: Any, index: Any) -> Any:
                part = {name: array[index] for name, array in split.items()}
                return jax.tree.map(jnp.add, sums, differentiate(part, fold(key, index))), None

            zeros = ([jnp.zeros_like(weight) for weight in weights], jnp.zeros(()), jnp.zeros(()))
            return jax.lax.scan(accumulate, zeros, jnp.arange(micro_batches))[0]

        parts = count_parts(self._config, batch["labels"].shape[0])
        return sum_in_parts(sum_micro_batches, batch, key, parts)

    def _loss(
        self, weights: Arrays, fixed: Arrays, batch: Any, key: Any, label_smoothing: float
    ) -> TokenLoss:
        values = zip([*self._weights, *self._frozen], [*weights, *fixed], strict=True)
        with keras.StatelessScope(state_mapping=values):
            logits = self._model(batch, dropout_key=key)
        counted = batch["target_segments"] > 0
        return cross_entropy(
            logits,
            batch["labels"],
            counted,
            label_smoothing=label_smoothing,
            weights=batch.get("weights"),
        )

    def _nll(self, weights: Arrays, fixed: Arrays, batch: Any) -> tuple[Any, Any]:
        loss = self._loss(self._groups.part(weights), fixed, batch, None, 0.0)
        return loss.nll, loss.tokens

    def _loss_scale(self, slots: Arrays) -> Any:
        if not self._scaled:
            return 1.0
        return slots[self._find_slot(self._optimizer.dynamic_scale)].astype(jnp.float32)

    def _find_slot(self, variable: Any) -> int:
        return next(i for i, slot in enumerate(self._slots) if slot is variable)

    def _synchronise(self) -> None:
        """Give the Keras variables the values of the arrays."""
        weights = self._groups.part(self._state[0])
        for variables, arrays in ((self._weights, weights), (self._slots, self._state[1])):
            for variable, array in zip(variables, arrays, strict=True):
                variable.assign(jnp.array(array))  # a copy: the array's memory is reused

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        return name_state(self._model, len(self._slots), bool(self._state[2]))

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state."""
        weights, slots, averages = self._state
        now = (
            self._groups.part(averages if self._averaging else weights),
            slots,
            self._groups.part(averages) if averages else [],
        )
        return {
            name: np.asarray(array)
            for names, arrays in zip(self._names(), now, strict=True)
            for name, array in zip(names, arrays, strict=True)
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
        names = self._names()
        check_fits([name for part in names for name in part], state)
        weights, slots, averages = ([jnp.array(state[name]) for name in part] for part in names)
        join = self._groups.join
        self._state = (join(weights), slots, join(averages) if averages else [])
        self._synchronise()

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """Give the model its averaged weights (if averaging is on) for a while."""
        self._synchronise()
        if not self._state[2]:
            yield
            return
        try:
            self._averaging = True
            averages = self._groups.part(self._state[2])
            for weight, average in zip(self._weights, averages, strict=True):
                weight.assign(jnp.array(average))
            yield
        finally:
            self._averaging = False
            self._synchronise()
