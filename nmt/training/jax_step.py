"""The update on JAX: layers, loss and optimizer of the TensorFlow one, in one compiled function.

Weights (joined into groups), optimizer state and averages live in arrays that the compiled update
takes and gives back (their memory is reused): four copies of the parameters with Adam and
averaging. The Keras variables of the optimizer hold nothing beside them. Those of the model are
on the device within `use_averages`, where somebody reads them, and in host memory otherwise.
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
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.model.contract import Model
from nmt.model.dropout import FULL_SHARE
from nmt.training.objective import TokenLoss, cross_entropy, hide_words
from nmt.training.optimizer import (
    averaging_decay,
    compute_norm_and_factor,
    is_valid_update,
    make_optimizer,
    sum_in_parts,
)
from nmt.training.process_group import ProcessGroup
from nmt.training.step import (
    Update,
    check_state_names,
    count_parallel_parts,
    list_state_names,
    make_dropout_key,
    pad_rows,
    select_local_rows,
)
from nmt.training.weight_groups import WeightGroups

Arrays = list[Any]


class JaxStep:
    """The update of one device, or of several that share each batch.

    Args:
        model: whose weights it changes.
        config: the ``training`` group of a finished configuration.
        seed: of the dropout masks.
        process_group: who shares each batch; None: one device, the first one.
    """

    def __init__(
        self,
        model: Model,
        config: TrainingConfig,
        *,
        seed: int,
        process_group: ProcessGroup | None = None,
    ) -> None:
        self._model = model
        self._process_group = process_group or ProcessGroup()
        self._replicas = self._process_group.replicas
        devices = np.array(self._process_group.devices)
        self._mesh = Mesh(devices, ("rows",)) if self._replicas > 1 else None
        self._whole = NamedSharding(self._mesh, PartitionSpec()) if self._mesh else None
        self._seed = jnp.uint32(seed & 0xFFFFFFFF)
        self._optimizer = make_optimizer(config)
        self._weights = list(model.trained_weights().values())
        self._frozen = [weight for weight in model.named_weights().values() if not weight.trainable]
        self._groups = WeightGroups(self._weights, config.optimizer)
        joined = self._groups.make_variables(self._weights)
        self._optimizer.build(joined)
        scaled = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._scaled = scaled
        self._inner = self._optimizer.inner_optimizer if scaled else self._optimizer
        self._slots = self._optimizer.variables
        self._averaging = False  # whether the averaged weights are in use
        averages = config.ema_decay is not None
        self._state: tuple[Arrays, Arrays, Arrays] = (
            [self._place(variable.value) for variable in joined],
            [self._place(slot.value) for slot in self._slots],
            [self._place(variable.value) for variable in joined] if averages else [],
        )
        fixed = [weight.value for weight in self._frozen]
        self._fixed = fixed if self._whole is None else [self._place(array) for array in fixed]
        jax.block_until_ready(self._state)  # a copy of what is freed here
        for variable in (*joined, *self._slots):
            variable.value.delete()
        self._synchronise()
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """Take the updates in other micro-batches from now on."""
        self._config = config
        # Devices share each micro-batch.
        multiple = config.accumulate * self._replicas
        self.local_rows = select_local_rows(self._process_group, multiple, blocks=config.accumulate)
        self._normalizer = float(config.tokens_together)  # one for all shapes of batches
        everywhere = {} if self._whole is None else {"out_shardings": self._whole}
        self._update = jax.jit(self._make_update, donate_argnums=0, **everywhere)
        self._evaluate = jax.jit(self._nll, **everywhere)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        step: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """Change the weights by one update, unless it is unsound."""
        share = np.uint32(round(dropout_share * FULL_SHARE))
        rate, limit = np.float32(learning_rate), np.float32(norm_limit)
        self._state, measured = self._update(
            self._state,
            self._fixed,
            self._share(batch, self._config.accumulate, own=self.local_rows is not None),
            rate,
            np.uint32(step),
            share,
            limit,
        )
        return measured

    def gradient_norms(
        self, batch: Batch, step: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """Return the norm of the mean gradient of each weight, by its name."""
        weights, slots, _ = self._state
        key = self._key(jnp.uint32(step), jnp.uint32(round(dropout_share * FULL_SHARE)))
        gradients, _, tokens = jax.jit(self._gradients)(
            weights, slots, self._fixed, self._share(batch, self._config.accumulate), key
        )
        scale = self._normalizer / (float(tokens) * float(self._loss_scale(slots)))
        norms = [scale * float(jnp.linalg.norm(part)) for part in self._groups.split(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens)."""
        weights = self._state[2 if self._averaging else 0]
        nll, tokens = self._evaluate(weights, self._fixed, self._share(batch, 1))
        return float(nll), float(tokens)

    def _place(self, array: Any) -> Any:
        """Return a copy on every device."""
        if self._whole is None:
            return jnp.array(array)
        whole = np.array(array)
        return jax.make_array_from_callback(whole.shape, self._whole, lambda index: whole[index])

    def _share(self, batch: Batch, micro_batches: int, *, own: bool = False) -> Any:
        """Return rows that micro-batches and devices can share; of devices, each has its own.

        Several devices get each of several micro-batches apart, [micro-batches, rows, L], of which
        they share the rows.

        Args:
            batch: whole, or of the rows of this process, its ``own``, alone.
            micro_batches: of the batch.
            own: which of the two.
        """
        here = self._replicas // self._process_group.processes if own else self._replicas
        filled = pad_rows(batch, micro_batches * here)
        if self._mesh is None:
            return filled
        if micro_batches > 1:
            filled = {
                name: array.reshape(micro_batches, -1, array.shape[1])
                for name, array in filled.items()
            }
        axes = (None, "rows") if micro_batches > 1 else ("rows",)
        sharding = NamedSharding(self._mesh, PartitionSpec(*axes))
        if own:
            return {
                name: jax.make_array_from_process_local_data(sharding, array)
                for name, array in filled.items()
            }
        return {
            name: jax.make_array_from_callback(array.shape, sharding, array.__getitem__)
            for name, array in filled.items()
        }

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
        sound = applies = is_valid_update(nll, norm, norm_limit)
        if self._scaled:  # its optimizer skips what overflows, and needs to see it
            applies = jnp.logical_or(sound, jnp.logical_not(jnp.isfinite(norm)))

        changed = self._change(state, [gradient * factor for gradient in gradients], learning_rate)
        # Fused into the update, where a branch would cost copies of all arrays.
        weights, slots, averages = (
            [jnp.where(condition, new, old) for new, old in zip(*arrays, strict=True)]
            for condition, *arrays in zip((applies, applies, sound), changed, state, strict=True)
        )
        return (weights, slots, averages), Update(nll, tokens, norm, jnp.logical_not(sound))

    def _key(self, step: Any, share: Any) -> Any:
        return make_dropout_key(self._seed, share, step)

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
        parted = self._groups.split(weights)

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
            length = batch["labels"].shape[-1]
            split = {
                name: array.reshape(micro_batches, -1, length) for name, array in batch.items()
            }
            rows = split["labels"].shape[1]

            def accumulate(sums: Any, index: Any) -> Any:
                part = {name: array[index] for name, array in split.items()}
                of_part = differentiate(part, key.at_row(index * rows))
                return jax.tree.map(jnp.add, sums, of_part), None

            zeros = ([jnp.zeros_like(weight) for weight in weights], jnp.zeros(()), jnp.zeros(()))
            return jax.lax.scan(accumulate, zeros, jnp.arange(micro_batches))[0]

        alone = self._replicas == 1
        parts = count_parallel_parts(self._config, batch["labels"].shape[0]) if alone else 1
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
        loss = self._loss(self._groups.split(weights), fixed, batch, None, 0.0)
        return loss.nll, loss.tokens

    def _loss_scale(self, slots: Arrays) -> Any:
        if not self._scaled:
            return 1.0
        return slots[self._find_slot(self._optimizer.dynamic_scale)].astype(jnp.float32)

    def _find_slot(self, variable: Any) -> int:
        return next(i for i, slot in enumerate(self._slots) if slot is variable)

    def _synchronise(self) -> None:
        """Give the variables of the model the values of the arrays, in host memory."""
        weights = self._groups.split(self._state[0])
        with jax.default_device(_host()):
            for variable, array in zip(self._weights, weights, strict=True):
                variable.assign(jnp.array(np.asarray(array)))

    def _copy(self, array: Any) -> Any:
        """Return a copy for this process alone: the array's memory is reused."""
        return jnp.array(array if self._whole is None else np.asarray(array))

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        return list_state_names(self._model, len(self._slots), bool(self._state[2]))

    def is_intact(self) -> bool:
        """Whether the state is there: its memory is given to each update, which may fail."""
        try:
            jax.block_until_ready(self._state)
        except RuntimeError:  # an array was deleted, or is of an update that failed
            return False
        return True

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state."""
        weights, slots, averages = self._state
        now = (
            self._groups.split(averages if self._averaging else weights),
            slots,
            self._groups.split(averages) if averages else [],
        )
        return {
            name: np.asarray(array)
            for names, arrays in zip(self._names(), now, strict=True)
            for name, array in zip(names, arrays, strict=True)
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
        names = self._names()
        check_state_names([name for part in names for name in part], state)
        weights, slots, averages = ([jnp.array(state[name]) for name in part] for part in names)
        join = self._groups.join
        found = (join(weights), slots, join(averages) if averages else [])
        self._state = jax.tree.map(self._place, found)
        self._synchronise()

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """Give the model its averaged weights, or those of training without averaging."""
        averages = self._state[2]
        for weight, array in zip(
            self._weights, self._groups.split(averages or self._state[0]), strict=True
        ):
            weight.assign(self._copy(array))
        self._averaging = bool(averages)
        try:
            yield
        finally:
            self._averaging = False
            self._synchronise()


def _host() -> jax.Device:
    """Return the device whose memory is the host's."""
    return jax.devices("cpu")[0]
