"""The update on TensorFlow: forward, backward, all-reduce, clip, apply, average."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.model.contract import Model
from nmt.model.dropout import encode_share
from nmt.startup.devices import gpus
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.optimizer import (
    averaging_decay,
    check_update,
    compute_norm_and_factor,
    make_optimizer,
)
from nmt.training.process_group import ProcessGroup
from nmt.training.tensorflow_gradients import Gradients
from nmt.training.tensorflow_replicas import Replicas
from nmt.training.train_step import (
    UpdateMetrics,
    check_state_names,
    list_state_names,
    make_dropout_key,
    select_local_rows,
)
from nmt.training.weight_groups import WeightGroups


class TensorFlowStep:
    """The update as TensorFlow functions, under the `tf.distribute` strategy in scope.

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
        if config.deterministic:
            tf.config.experimental.enable_op_determinism()
        self._model = model
        self._seed = seed
        self._process_group = process_group or ProcessGroup()
        self._replicas = Replicas(self._process_group)
        self._loss = components.loss
        self._optimizer = make_optimizer(config, components.optimizer)
        self._scales_loss = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._inner = self._optimizer.inner_optimizer if self._scales_loss else self._optimizer
        # The step sums the gradients of all replicas. Keras would sum them a second time, and has
        # no option to turn that off.
        self._inner._all_reduce_sum_gradients = lambda pairs: pairs
        # Whether old and new values are selected elementwise on the device, instead of by a branch.
        # A branch makes the host wait for a GPU, and must not contain operations that cross
        # replicas. On a CPU, the branch is faster.
        self._selects_elementwise = self._scales_loss or self._replicas.count > 1 or bool(gpus())
        self._weights = list(model.trained_weights().values())
        self._groups = WeightGroups(
            self._weights, config.optimizer if components.optimizer is None else None
        )
        self._joined = self._groups.make_variables(self._weights)  # the optimizer updates these
        self._optimizer.build(self._joined)
        averaged = self._joined if config.ema_decay is not None else []
        self._averages = [tf.Variable(variable.value, trainable=False) for variable in averaged]
        self._is_intact = True
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """See `TrainStep.reconfigure`."""
        self._config = config
        # Each replica gets a contiguous part of the batch, and cuts that into micro-batches.
        self.local_rows = select_local_rows(
            self._process_group, config.accumulate * self._process_group.replicas
        )
        self._normalizer = float(config.positions_per_update)  # the same for all shapes of batches
        is_alone = self._replicas.count == 1
        self._gradients = Gradients(
            self._model,
            self._groups,
            self._joined,
            config,
            loss=self._loss,
            normalizer=self._normalizer,
            scale_loss=self._optimizer.scale_loss if self._scales_loss else None,
            uses_parallel_parts=is_alone,
        )
        compiles = config.jit_compile == "on"
        # Not by XLA, whose sum of squares takes five times as long on a CPU.
        self._compiled_check = tf.function(self._check, autograph=False)
        # With several replicas the update crosses them, which a nested function must not do.
        self._compiled_apply = (
            tf.function(self._apply, jit_compile=compiles, autograph=False)
            if is_alone
            else self._apply
        )
        self._compiled_update = self._replicas.make_function(self._replica_update)
        self._compiled_gradients = self._replicas.make_function(self._replica_gradients)
        self._compiled_evaluation = self._replicas.make_function(
            lambda batch: self._replicas.sum(self._gradients.sum_nll(batch))
        )

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
        arguments = (
            self._replicas.distribute(batch, self._config.accumulate, local=local),
            tf.constant(learning_rate, tf.float32),
            tf.constant(number, tf.uint32),
            tf.constant(encode_share(dropout_share), tf.uint32),
            tf.constant(norm_limit, tf.float32),
        )
        try:
            measured = self._compiled_update(*arguments)
        except Exception:
            # A program compiled by XLA changes all variables of its replica or none.
            is_atomic = self._replicas.count == 1 and self._config.jit_compile == "on"
            self._is_intact = self._is_intact and is_atomic
            raise
        return UpdateMetrics(*self._replicas.local_results(measured))

    def gradient_norms(
        self, batch: Batch, number: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """See `TrainStep.gradient_norms`."""
        sums = self._compiled_gradients(
            self._replicas.distribute(batch, self._config.accumulate),
            tf.constant(number, tf.uint32),
            tf.constant(encode_share(dropout_share), tf.uint32),
        )
        *gradients, _, tokens = self._replicas.local_results(sums)
        scale = self._normalizer / (float(tokens) * float(self._loss_scale()))
        norms = [scale * float(tf.norm(gradient)) for gradient in self._groups.split(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """See `TrainStep.evaluate`."""
        sums = self._compiled_evaluation(self._replicas.distribute(batch, 1))
        nll, tokens = self._replicas.local_results(sums)
        return float(nll), float(tokens)

    def _replica_gradients(self, batch: Any, number: Any, share: Any) -> list[Any]:
        """Return the gradients summed over all replicas, the loss, and the number of tokens."""
        first_row = self._replicas.first_row(batch["labels"].shape[0])
        seed = tf.constant(self._seed & 0xFFFFFFFF, tf.uint32)
        key = make_dropout_key(seed, share, number).at_row(first_row)
        gradients, nll, tokens = self._gradients.sum(batch, key)
        return self._replicas.sum([*gradients, nll, tokens])

    def _replica_update(
        self, batch: Any, learning_rate: Any, number: Any, share: Any, norm_limit: Any
    ) -> UpdateMetrics:
        *gradients, nll, tokens = self._replica_gradients(batch, number, share)
        norm, factor, valid, applies = self._compiled_check(gradients, nll, tokens, norm_limit)
        arguments = (valid, applies, gradients, factor, learning_rate)
        if self._selects_elementwise:
            self._compiled_apply(*arguments)
        else:
            # Outside the program that XLA compiles: inside, a branch would copy all variables.
            tf.cond(valid, lambda: self._compiled_apply(*arguments), lambda: tf.constant(False))
        return UpdateMetrics(nll, tokens, norm, tf.logical_not(valid))

    def _check(self, gradients: list[Any], nll: Any, tokens: Any, norm_limit: Any) -> Any:
        """Return norm, factor, whether the update is valid, and whether the optimizer runs."""
        norm, factor = compute_norm_and_factor(
            tf.linalg.global_norm(gradients),
            tokens,
            normalizer=self._normalizer,
            loss_scale=self._loss_scale(),
            clip_norm=self._config.clip_norm,
        )
        return norm, factor, *check_update(nll, norm, norm_limit, scales_loss=self._scales_loss)

    def _apply(
        self, valid: Any, applies: Any, gradients: list[Any], factor: Any, learning_rate: Any
    ) -> Any:
        """Scale the gradients, apply them if ``applies``, and average the weights if ``valid``.

        Returns true: a branch must return a value.
        """
        optimizer = self._optimizer
        conditions = [(variable, applies) for variable in (*self._joined, *optimizer.variables)]
        conditions += [(average, valid) for average in self._averages]
        before = [
            (variable, condition, tf.identity(tf.convert_to_tensor(variable)))
            for variable, condition in (conditions if self._selects_elementwise else ())
        ]
        self._inner.learning_rate.assign(learning_rate)
        optimizer.apply([gradient * factor for gradient in gradients], self._joined)
        if self._config.ema_decay is not None:
            decay = averaging_decay(self._config.ema_decay, self._inner.iterations.value)
            for average, variable in zip(self._averages, self._joined, strict=True):
                average.assign(average + (1 - decay) * (variable.value - average))
        for variable, condition, value in before:
            variable.assign(tf.where(condition, tf.convert_to_tensor(variable), value))
        weights = self._groups.split([variable.value for variable in self._joined])
        for i in self._groups.copied_indices():
            self._weights[i].assign(weights[i])
        return tf.constant(True)

    def _loss_scale(self) -> Any:
        if not self._scales_loss:
            return 1.0
        return tf.cast(self._optimizer.dynamic_scale.value, tf.float32)

    def is_intact(self) -> bool:
        """See `TrainStep.is_intact`."""
        return self._is_intact

    def state(self) -> dict[str, np.ndarray]:
        """See `TrainStep.state`."""
        weights, slots, averages = self._names()
        values: dict[str, Any] = dict(zip(weights, self._weights, strict=True))
        values |= zip(slots, self._optimizer.variables, strict=True)
        if averages:
            values |= zip(averages, self._groups.split(self._averages), strict=True)
        return {name: np.asarray(value) for name, value in values.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `TrainStep.restore`."""
        weights, slots, averages = self._names()
        check_state_names([*weights, *slots, *averages], state)

        def assign(variables: list[Any], names: list[str], *, joined: bool) -> None:
            values = [state[name] for name in names]
            values = self._groups.join(values) if joined else values
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

        assign(self._weights, weights, joined=False)
        assign(self._joined, weights, joined=True)
        assign(self._optimizer.variables, slots, joined=False)
        if averages:
            assign(self._averages, averages, joined=True)
        self._is_intact = True

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        slots = len(self._optimizer.variables)
        return list_state_names(self._model, slots, bool(self._averages))

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """See `TrainStep.use_averages`."""
        if not self._averages:
            yield
            return
        before = [np.asarray(weight) for weight in self._weights]
        try:
            averages = self._groups.split(self._averages)
            for weight, average in zip(self._weights, averages, strict=True):
                weight.assign(average)
            yield
        finally:
            for weight, value in zip(self._weights, before, strict=True):
                weight.assign(value)
