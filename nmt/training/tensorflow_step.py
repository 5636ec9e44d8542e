"""The update on TensorFlow: forward, backward, all-reduce, clip, apply, average."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.model.contract import Model
from nmt.model.dropout import FULL_SHARE, DropoutKey
from nmt.startup.devices import gpus
from nmt.training.objective import compute_loss, hide_words
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
    ) -> None:
        import tensorflow as tf

        self._tf = tf
        if config.deterministic:
            tf.config.experimental.enable_op_determinism()
        self._model = model
        self._seed = seed
        self._strategy = tf.distribute.get_strategy()
        self._replicas = self._strategy.num_replicas_in_sync
        self._process_group = process_group or ProcessGroup()
        self._optimizer = make_optimizer(config)
        self._scales_loss = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        self._inner = self._optimizer.inner_optimizer if self._scales_loss else self._optimizer
        # The step sums the gradients of all replicas. Keras would sum them a second time, and has
        # no option to turn that off.
        self._inner._all_reduce_sum_gradients = lambda pairs: pairs
        # Whether old and new values are selected elementwise on the device, instead of by a branch.
        # A branch makes the host wait for a GPU, and must not contain operations that cross
        # replicas. On a CPU, the branch is faster.
        self._selects_elementwise = self._scales_loss or self._replicas > 1 or bool(gpus())
        self._weights = list(model.trained_weights().values())
        self._groups = WeightGroups(self._weights, config.optimizer)
        self._joined = self._groups.make_variables(self._weights)  # the optimizer updates these
        self._optimizer.build(self._joined)
        averaged = self._joined if config.ema_decay is not None else []
        self._averages = [tf.Variable(variable.value, trainable=False) for variable in averaged]
        self._is_intact = True
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """See `TrainStep.reconfigure`."""
        tf = self._tf
        self._config = config
        # Each replica gets a contiguous part of the batch, and cuts that into micro-batches.
        self.local_rows = select_local_rows(
            self._process_group, config.accumulate * self._process_group.replicas
        )
        self._normalizer = float(config.positions_per_update)  # the same for all shapes of batches
        compiles = config.jit_compile == "on"
        self._gradients = tf.function(
            self._sum_micro_batches, jit_compile=compiles, autograph=False
        )
        self._norms = tf.function(self._measure, jit_compile=compiles, autograph=False)
        # With several replicas the update crosses them, which a nested function must not do.
        self._apply = (
            tf.function(self._apply_gradients, jit_compile=compiles, autograph=False)
            if self._replicas == 1
            else self._apply_gradients
        )
        self._update = tf.function(self._distributed_update, autograph=False)
        self._nll = tf.function(self._sum_nll, jit_compile=compiles, autograph=False)
        self._evaluate = tf.function(self._distributed_evaluation, autograph=False)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        number: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """See `TrainStep.update`."""
        tf = self._tf
        arguments = (
            self._distribute(batch, self._config.accumulate, local=self.local_rows is not None),
            tf.constant(learning_rate, tf.float32),
            tf.constant(number, tf.uint32),
            tf.constant(round(dropout_share * FULL_SHARE), tf.uint32),
            tf.constant(norm_limit, tf.float32),
        )
        try:
            measured = self._update(*arguments)
        except Exception:
            # A program compiled by XLA changes all variables of its replica or none.
            is_atomic = self._replicas == 1 and self._config.jit_compile == "on"
            self._is_intact = self._is_intact and is_atomic
            raise
        return Update(*map(self._local_result, measured))

    def gradient_norms(
        self, batch: Batch, number: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """See `TrainStep.gradient_norms`."""
        tf = self._tf
        share = tf.constant(round(dropout_share * FULL_SHARE), tf.uint32)
        padded = pad_rows(batch, self._config.accumulate)
        tensors = {name: tf.constant(array) for name, array in padded.items()}
        key = self._key(tf.constant(number, tf.uint32), share)
        gradients, _, tokens = self._sums(tensors, key)
        scale = self._normalizer / (float(tokens) * float(self._loss_scale()))
        norms = [scale * float(tf.norm(gradient)) for gradient in self._groups.split(gradients)]
        return dict(zip(self._model.trained_weights(), norms, strict=True))

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """See `TrainStep.evaluate`."""
        nll, tokens = map(self._local_result, self._evaluate(self._distribute(batch, 1)))
        return float(nll), float(tokens)

    def _distribute(self, batch: Batch, micro_batches: int, *, local: bool = False) -> Any:
        """Return tensors with the rows of each replica, padded to equal micro-batches.

        Args:
            batch: all rows.
            micro_batches: number for each replica.
            local: whether the batch has only the rows of this process.
        """
        replicas = self._replicas // self._process_group.processes if local else self._replicas
        first = self._process_group.process * replicas if local else 0
        padded = pad_rows(batch, micro_batches * replicas)
        rows = len(padded["labels"]) // replicas

        def select(replica: int) -> dict[str, Any]:
            share = slice((replica - first) * rows, (replica - first + 1) * rows)
            return {name: self._tf.constant(array[share]) for name, array in padded.items()}

        if self._replicas == 1:
            return select(0)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: select(context.replica_id_in_sync_group)
        )

    def _local_result(self, value: Any) -> Any:
        """Return the value of the first replica of this process."""
        return self._strategy.experimental_local_results(value)[0]

    def _distributed_update(self, *arguments: Any) -> Update:
        return self._strategy.run(self._replica_update, args=arguments)

    def _distributed_evaluation(self, batch: Any) -> tuple[Any, Any]:
        return self._strategy.run(self._replica_evaluation, args=(batch,))

    def _replica_evaluation(self, batch: Any) -> Any:
        replica = self._tf.distribute.get_replica_context()
        return replica.all_reduce(self._tf.distribute.ReduceOp.SUM, list(self._nll(batch)))

    def _replica_update(
        self, batch: Any, learning_rate: Any, number: Any, share: Any, norm_limit: Any
    ) -> Update:
        tf = self._tf
        replica = tf.distribute.get_replica_context()
        rows = batch["labels"].shape[0]
        key = self._key(number, share).at_row(replica.replica_id_in_sync_group * rows)
        gradients, nll, tokens = self._sums(batch, key)
        if self._replicas > 1:
            sums = [*gradients, nll, tokens]
            *gradients, nll, tokens = replica.all_reduce(tf.distribute.ReduceOp.SUM, sums)
        norm, factor, valid, applies = self._norms(gradients, nll, tokens, norm_limit)
        arguments = (valid, applies, gradients, factor, learning_rate)
        if self._selects_elementwise:
            self._apply(*arguments)
        else:
            # Outside the program that XLA compiles: inside, a branch would copy all variables.
            tf.cond(valid, lambda: self._apply(*arguments), lambda: tf.constant(False))
        return Update(nll, tokens, norm, tf.logical_not(valid))

    def _key(self, number: Any, share: Any) -> DropoutKey:
        seed = self._tf.constant(self._seed & 0xFFFFFFFF, self._tf.uint32)
        return make_dropout_key(seed, share, number)

    def _sums(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Return gradients of the (scaled) objective, nll and tokens, summed over a replica."""
        rows = batch["labels"].shape[0]
        parts = count_parallel_parts(self._config, rows) if self._replicas == 1 else 1
        return sum_over_parts(self._gradients, batch, key, parts)

    def _sum_micro_batches(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Return the same sums over the micro-batches of one part."""
        tf = self._tf
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

    def _differentiate(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Return the same sums of one micro-batch."""
        tf = self._tf
        with tf.GradientTape() as tape:
            inputs = hide_words(batch, self._config.word_dropout, key)
            smoothing = self._config.label_smoothing
            loss = compute_loss(self._model, inputs, key=key, label_smoothing=smoothing)
            # About the mean loss: gradients of a sum over a batch overflow float16.
            objective = loss.objective / self._normalizer
            if self._scales_loss:
                objective = self._optimizer.scale_loss(objective)
        gradients = tape.gradient(objective, [weight.value for weight in self._weights])
        # The table is used twice, once by lookup: its sparse gradient is made dense for the sum.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return self._groups.join(dense), loss.nll, loss.tokens

    def _measure(self, gradients: list[Any], nll: Any, tokens: Any, norm_limit: Any) -> Any:
        """Return norm, factor, whether the update is valid, and whether the optimizer runs."""
        norm, factor = compute_norm_and_factor(
            gradients,
            tokens,
            normalizer=self._normalizer,
            loss_scale=self._loss_scale(),
            clip_norm=self._config.clip_norm,
        )
        return norm, factor, *check_update(nll, norm, norm_limit, scales_loss=self._scales_loss)

    def _apply_gradients(
        self, valid: Any, applies: Any, gradients: list[Any], factor: Any, learning_rate: Any
    ) -> Any:
        """Scale the gradients, apply them if ``applies``, and average the weights if ``valid``.

        Returns true: a branch must return a value.
        """
        tf, optimizer = self._tf, self._optimizer
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
        return self._tf.cast(self._optimizer.dynamic_scale.value, self._tf.float32)

    def _sum_nll(self, batch: Any) -> tuple[Any, Any]:
        loss = compute_loss(self._model, batch)
        return loss.nll, loss.tokens

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
