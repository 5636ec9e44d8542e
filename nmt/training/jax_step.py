"""The update on JAX: the same layers, loss and optimizer as on TensorFlow, in one function.

Weights (joined into groups), optimizer state and averages are donated to each update, which reuses
their memory: four copies of the parameters with Adam and averaging. The Keras variables of the
optimizer hold no memory. Those of the model are on the device within `use_averages`, where they are
read, and in host memory otherwise.
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
from nmt.model.dropout import encode_share
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.jax_devices import Devices
from nmt.training.jax_gradients import Arrays, Gradients
from nmt.training.optimizer import (
    averaging_decay,
    check_update,
    compute_norm_and_factor,
    make_optimizer,
)
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import (
    UpdateMetrics,
    check_state_names,
    list_state_names,
    make_dropout_key,
    select_local_rows,
)
from nmt.training.weight_groups import WeightGroups

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
        components: Components = AS_CONFIGURED,
    ) -> None:
        self._model = model
        self._process_group = process_group or ProcessGroup()
        self._devices = Devices(self._process_group)
        self._seed = jnp.uint32(seed & 0xFFFFFFFF)
        self._loss = components.loss
        self._optimizer = make_optimizer(config, components.optimizer)
        self._scales_loss = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._inner = self._optimizer.inner_optimizer if self._scales_loss else self._optimizer
        self._weights = list(model.trained_weights().values())
        self._groups = WeightGroups(
            self._weights, config.optimizer if components.optimizer is None else None
        )
        joined = self._groups.make_variables(self._weights)
        self._optimizer.build(joined)
        self._slots = self._optimizer.variables
        self._averaging = False  # whether the averaged weights are in use
        averages = config.ema_decay is not None
        self._state: State = (
            [self._devices.replicate(variable.value) for variable in joined],
            [self._devices.replicate(slot.value) for slot in self._slots],
            [self._devices.replicate(variable.value) for variable in joined] if averages else [],
        )
        named = model.named_weights().values()
        frozen = [weight.value for weight in named if not weight.trainable]
        is_alone = self._devices.count == 1
        self._frozen = frozen if is_alone else [self._devices.replicate(a) for a in frozen]
        jax.block_until_ready(self._state)  # copies of the variables that are freed here
        for variable in (*joined, *self._slots):
            variable.value.delete()
        self._copy_to_model()
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """See `TrainStep.reconfigure`."""
        self._config = config
        # Devices share the rows of each micro-batch.
        multiple = config.accumulate * self._devices.count
        self.local_rows = select_local_rows(self._process_group, multiple, blocks=config.accumulate)
        self._normalizer = float(config.positions_per_update)  # the same for all shapes of batches
        self._gradients = Gradients(
            self._model,
            self._groups,
            config,
            loss=self._loss,
            normalizer=self._normalizer,
            uses_parallel_parts=self._devices.count == 1,
        )
        replicated = self._devices.replicated
        shardings = {} if replicated is None else {"out_shardings": replicated}
        self._compiled_update = jax.jit(self._compute_update, donate_argnums=0, **shardings)
        self._compiled_nll = jax.jit(self._gradients.sum_nll, **shardings)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        number: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> UpdateMetrics:
        """See `TrainStep.update`."""
        local = self.local_rows is not None
        self._state, measured = self._compiled_update(
            self._state,
            self._frozen,
            self._devices.distribute(batch, self._config.accumulate, local=local),
            np.float32(learning_rate),
            np.uint32(number),
            np.uint32(encode_share(dropout_share)),
            np.float32(norm_limit),
        )
        return measured

    def gradient_norms(
        self, batch: Batch, number: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """See `TrainStep.gradient_norms`."""
        weights, slots, _ = self._state
        share = jnp.uint32(encode_share(dropout_share))
        key = make_dropout_key(self._seed, share, jnp.uint32(number))
        rows = self._devices.distribute(batch, self._config.accumulate)
        loss_scale = self._loss_scale(slots)
        sums = jax.jit(self._gradients.sum)(weights, self._frozen, rows, key, loss_scale)
        gradients, _, tokens = sums
        scale = self._normalizer / (float(tokens) * float(loss_scale))
        norms = [scale * float(jnp.linalg.norm(part)) for part in self._groups.split(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """See `TrainStep.evaluate`."""
        weights = self._state[2 if self._averaging else 0]
        rows = self._devices.distribute(batch, 1)
        nll, tokens = self._compiled_nll(weights, self._frozen, rows)
        return float(nll), float(tokens)

    def _compute_update(
        self,
        state: State,
        frozen: Arrays,
        batch: Any,
        learning_rate: Any,
        number: Any,
        share: Any,
        norm_limit: Any,
    ) -> tuple[State, UpdateMetrics]:
        weights, slots, _ = state
        key = make_dropout_key(self._seed, share, number)
        loss_scale = self._loss_scale(slots)
        gradients, nll, tokens = self._gradients.sum(weights, frozen, batch, key, loss_scale)
        norm, factor = compute_norm_and_factor(
            jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients)),
            tokens,
            normalizer=self._normalizer,
            loss_scale=loss_scale,
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
        return (weights, slots, averages), UpdateMetrics(nll, tokens, norm, jnp.logical_not(valid))

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
        """See `TrainStep.is_intact`: each update donates the state."""
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
        self._state = jax.tree.map(self._devices.replicate, joined)
        self._copy_to_model()

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """See `TrainStep.use_averages`; without averages, the model has the current weights."""
        averages = self._state[2]
        joined = averages or self._state[0]
        for variable, array in zip(self._weights, self._groups.split(joined), strict=True):
            # A copy for this process: the next update reuses the memory of the array.
            variable.assign(jnp.array(array if self._devices.mesh is None else np.asarray(array)))
        self._averaging = bool(averages)
        try:
            yield
        finally:
            self._averaging = False
            self._copy_to_model()


def _host() -> jax.Device:
    """Return the device whose memory is the host's, or the first one if JAX_PLATFORMS hides it."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:
        return jax.devices()[0]
