"""The update on JAX: the same layers, loss and optimizer as on TensorFlow, in one function.

Weights (joined into groups), optimizer state and averages are arrays whose memory each update takes
over: four copies of the parameters with Adam and averaging. The Keras variables of the optimizer
hold no memory. Those of the model are on the device within `use_averages`, where they are read, and
in host memory otherwise.
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
from nmt.training.objective import TokenLoss, compute_loss, hide_words
from nmt.training.optimizer import (
    averaging_decay,
    check_update,
    compute_norm_and_factor,
    make_optimizer,
    sum_over_parts,
)
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import (
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
State = tuple[Arrays, Arrays, Arrays]  # joined weights, optimizer slots, joined averages


class JaxStep:
    """The update of one device, or of several that share each batch.

    See `TrainStep` for the methods, and `make_step` for the arguments.
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
        self._replicated = NamedSharding(self._mesh, PartitionSpec()) if self._mesh else None
        self._seed = jnp.uint32(seed & 0xFFFFFFFF)
        self._optimizer = make_optimizer(config)
        self._scales_loss = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._inner = self._optimizer.inner_optimizer if self._scales_loss else self._optimizer
        self._weights = list(model.trained_weights().values())
        self._frozen = [weight for weight in model.named_weights().values() if not weight.trainable]
        self._groups = WeightGroups(self._weights, config.optimizer)
        joined = self._groups.make_variables(self._weights)
        self._optimizer.build(joined)
        self._slots = self._optimizer.variables
        self._averaging = False  # whether the averaged weights are in use
        averages = config.ema_decay is not None
        self._state: State = (
            [self._replicate(variable.value) for variable in joined],
            [self._replicate(slot.value) for slot in self._slots],
            [self._replicate(variable.value) for variable in joined] if averages else [],
        )
        frozen = [weight.value for weight in self._frozen]
        self._frozen_arrays = [self._replicate(a) for a in frozen] if self._mesh else frozen
        jax.block_until_ready(self._state)  # copies of the variables that are freed here
        for variable in (*joined, *self._slots):
            variable.value.delete()
        self._copy_to_model()
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """See `TrainStep.reconfigure`."""
        self._config = config
        # Devices share the rows of each micro-batch.
        multiple = config.accumulate * self._replicas
        self.local_rows = select_local_rows(self._process_group, multiple, blocks=config.accumulate)
        self._normalizer = float(config.positions_per_update)  # the same for all shapes of batches
        shardings = {} if self._replicated is None else {"out_shardings": self._replicated}
        self._update = jax.jit(self._compute_update, donate_argnums=0, **shardings)
        self._evaluate = jax.jit(self._nll, **shardings)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        number: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """See `TrainStep.update`."""
        self._state, measured = self._update(
            self._state,
            self._frozen_arrays,
            self._distribute(batch, self._config.accumulate, local=self.local_rows is not None),
            np.float32(learning_rate),
            np.uint32(number),
            np.uint32(round(dropout_share * FULL_SHARE)),
            np.float32(norm_limit),
        )
        return measured

    def gradient_norms(
        self, batch: Batch, number: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """See `TrainStep.gradient_norms`."""
        weights, slots, _ = self._state
        share = jnp.uint32(round(dropout_share * FULL_SHARE))
        key = make_dropout_key(self._seed, share, jnp.uint32(number))
        rows = self._distribute(batch, self._config.accumulate)
        gradients, _, tokens = jax.jit(self._sums)(weights, slots, self._frozen_arrays, rows, key)
        scale = self._normalizer / (float(tokens) * float(self._loss_scale(slots)))
        norms = [scale * float(jnp.linalg.norm(part)) for part in self._groups.split(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """See `TrainStep.evaluate`."""
        weights = self._state[2 if self._averaging else 0]
        nll, tokens = self._evaluate(weights, self._frozen_arrays, self._distribute(batch, 1))
        return float(nll), float(tokens)

    def _replicate(self, array: Any) -> Any:
        """Return a copy on every device."""
        if self._replicated is None:
            return jnp.array(array)
        host = np.array(array)
        return jax.make_array_from_callback(host.shape, self._replicated, lambda index: host[index])

    def _distribute(self, batch: Batch, micro_batches: int, *, local: bool = False) -> Any:
        """Return the batch, padded to equal micro-batches and spread over the devices by rows.

        On several devices, several micro-batches have an axis of their own: arrays are
        [micro-batches, rows, L], and the devices share the rows.

        Args:
            batch: all rows.
            micro_batches: number in the batch.
            local: whether the batch has only the rows of this process.
        """
        replicas = self._replicas // self._process_group.processes if local else self._replicas
        padded = pad_rows(batch, micro_batches * replicas)
        if self._mesh is None:
            return padded
        if micro_batches > 1:
            padded = {
                name: array.reshape(micro_batches, -1, array.shape[1])
                for name, array in padded.items()
            }
        axes = (None, "rows") if micro_batches > 1 else ("rows",)
        sharding = NamedSharding(self._mesh, PartitionSpec(*axes))
        if local:
            return {
                name: jax.make_array_from_process_local_data(sharding, array)
                for name, array in padded.items()
            }
        return {
            name: jax.make_array_from_callback(array.shape, sharding, array.__getitem__)
            for name, array in padded.items()
        }

    def _compute_update(
        self,
        state: State,
        frozen: Arrays,
        batch: Any,
        learning_rate: Any,
        number: Any,
        share: Any,
        norm_limit: Any,
    ) -> tuple[State, Update]:
        weights, slots, _ = state
        key = make_dropout_key(self._seed, share, number)
        gradients, nll, tokens = self._sums(weights, slots, frozen, batch, key)
        norm, factor = compute_norm_and_factor(
            gradients,
            tokens,
            normalizer=self._normalizer,
            loss_scale=self._loss_scale(slots),
            clip_norm=self._config.clip_norm,
        )
        valid, applies = check_update(nll, norm, norm_limit, scales_loss=self._scales_loss)
        scaled = [gradient * factor for gradient in gradients]
        changed = self._apply_gradients(state, scaled, learning_rate)
        # The selection is fused into the update; a branch would copy all arrays.
        weights, slots, averages = (
            [jnp.where(condition, new, old) for new, old in zip(*arrays, strict=True)]
            for condition, *arrays in zip((applies, applies, valid), changed, state, strict=True)
        )
        return (weights, slots, averages), Update(nll, tokens, norm, jnp.logical_not(valid))

    def _apply_gradients(self, state: State, gradients: Arrays, learning_rate: Any) -> State:
        """Return the state after the optimizer's update and the averaging."""
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

    def _sums(self, weights: Arrays, slots: Arrays, frozen: Arrays, batch: Any, key: Any) -> Any:
        """Return gradients of the (scaled) objective, nll and tokens, summed over the batch."""
        scale = self._loss_scale(slots)
        split_weights = self._groups.split(weights)

        def compute_objective(weights: Arrays, batch: Any, key: Any) -> Any:
            inputs = hide_words(batch, self._config.word_dropout, key)
            loss = self._loss(weights, frozen, inputs, key, self._config.label_smoothing)
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
        parts = count_parallel_parts(self._config, rows) if self._replicas == 1 else 1
        return sum_over_parts(sum_micro_batches, batch, key, parts)

    def _loss(
        self, weights: Arrays, frozen: Arrays, batch: Any, key: Any, label_smoothing: float
    ) -> TokenLoss:
        values = zip([*self._weights, *self._frozen], [*weights, *frozen], strict=True)
        with keras.StatelessScope(state_mapping=values):
            return compute_loss(self._model, batch, key=key, label_smoothing=label_smoothing)

    def _nll(self, weights: Arrays, frozen: Arrays, batch: Any) -> tuple[Any, Any]:
        loss = self._loss(self._groups.split(weights), frozen, batch, None, 0.0)
        return loss.nll, loss.tokens

    def _loss_scale(self, slots: Arrays) -> Any:
        if not self._scales_loss:
            return 1.0
        return slots[self._find_slot(self._optimizer.dynamic_scale)].astype(jnp.float32)

    def _find_slot(self, variable: Any) -> int:
        return next(i for i, slot in enumerate(self._slots) if slot is variable)

    def _copy_to_model(self) -> None:
        """Copy the weights into the model's variables, in host memory."""
        weights = self._groups.split(self._state[0])
        with jax.default_device(_host()):
            for variable, array in zip(self._weights, weights, strict=True):
                variable.assign(jnp.array(np.asarray(array)))

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        return list_state_names(self._model, len(self._slots), bool(self._state[2]))

    def is_intact(self) -> bool:
        """See `TrainStep.is_intact`: each update takes over the memory of the state."""
        try:
            jax.block_until_ready(self._state)
        except RuntimeError:  # an array was deleted, or is the result of a failed update
            return False
        return True

    def state(self) -> dict[str, np.ndarray]:
        """See `TrainStep.state`."""
        weights, slots, averages = self._state
        values = (
            self._groups.split(averages if self._averaging else weights),
            slots,
            self._groups.split(averages) if averages else [],
        )
        return {
            name: np.asarray(array)
            for names, arrays in zip(self._names(), values, strict=True)
            for name, array in zip(names, arrays, strict=True)
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `TrainStep.restore`."""
        names = self._names()
        check_state_names([name for group in names for name in group], state)
        weights, slots, averages = ([jnp.array(state[name]) for name in group] for group in names)
        join = self._groups.join
        joined = (join(weights), slots, join(averages) if averages else [])
        self._state = jax.tree.map(self._replicate, joined)
        self._copy_to_model()

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """See `TrainStep.use_averages`; without averages, the model gets the current weights."""
        averages = self._state[2]
        joined = averages or self._state[0]
        for variable, array in zip(self._weights, self._groups.split(joined), strict=True):
            # A copy for this process: the next update reuses the memory of the array.
            variable.assign(jnp.array(array if self._mesh is None else np.asarray(array)))
        self._averaging = bool(averages)
        try:
            yield
        finally:
            self._averaging = False
            self._copy_to_model()


def _host() -> jax.Device:
    """Return the device whose memory is the host's."""
    return jax.devices("cpu")[0]
