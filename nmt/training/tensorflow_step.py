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
from nmt.training.objective import cross_entropy, hide_words
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


class TensorFlowStep:
    """The update as TensorFlow functions, under whichever `tf.distribute` strategy is in scope."""

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
        self._process_group = process_group or ProcessGroup()
        self._optimizer = make_optimizer(config)
        self._scaled = isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)
        inner = self._optimizer.inner_optimizer if self._scaled else self._optimizer
        # The step sums the gradients of all replicas. Keras would do so again, and has no option
        # against it.
        inner._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables
        # Whether new and old values are selected on the device, instead of in a branch. The host
        # would wait for a GPU to decide a branch, and nothing that crosses replicas may stand in
        # one. On a CPU, the selection takes 2% of an update.
        replicas = self._strategy.num_replicas_in_sync
        self._selects = self._scaled or replicas > 1 or bool(gpus())
        self._weights = list(model.trained_weights().values())
        self._groups = WeightGroups(self._weights, config.optimizer)
        self._joined = self._groups.make_variables(self._weights)  # what the optimizer updates
        self._optimizer.build(self._joined)
        averaged = self._joined if config.ema_decay is not None else []
        self._whole = True
        self._averages = [tf.Variable(variable.value, trainable=False) for variable in averaged]
        self.reconfigure(config)

    def reconfigure(self, config: TrainingConfig) -> None:
        """Take the updates in other micro-batches from now on."""
        tf = self._tf
        self._config = config
        # A replica has a part of the whole batch, of which it makes its micro-batches.
        self.local_rows = select_local_rows(
            self._process_group, config.accumulate * self._process_group.replicas
        )
        self._normalizer = float(config.tokens_together)  # one for all shapes of batches
        compiles = config.jit_compile == "on"
        self._gradients = tf.function(self._gradients_of, jit_compile=compiles, autograph=False)
        self._norms = tf.function(self._measure, jit_compile=compiles, autograph=False)
        # With several replicas the update crosses them, which no nested function may do.
        self._apply = (
            tf.function(self._apply_gradients, jit_compile=compiles, autograph=False)
            if self._strategy.num_replicas_in_sync == 1
            else self._apply_gradients
        )
        self._update = tf.function(self._distributed_update, autograph=False)
        self._nll = tf.function(self._sum_nll, jit_compile=compiles, autograph=False)
        self._evaluate = tf.function(self._distributed_evaluation, autograph=False)

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        step: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """Change the weights by one update, unless it is unsound."""
        tf = self._tf
        arguments = (
            self._take(batch, self._config.accumulate, own=self.local_rows is not None),
            tf.constant(learning_rate, tf.float32),
            tf.constant(step, tf.uint32),
            tf.constant(round(dropout_share * FULL_SHARE), tf.uint32),
            tf.constant(norm_limit, tf.float32),
        )
        try:
            measured = self._update(*arguments)
        except Exception:
            # What XLA compiled has changed all variables or none.
            alone = self._strategy.num_replicas_in_sync == 1
            self._whole = self._whole and alone and self._config.jit_compile == "on"
            raise
        return Update(*(self._strategy.experimental_local_results(one)[0] for one in measured))

    def gradient_norms(
        self, batch: Batch, step: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """Return the norm of the mean gradient of each weight, by its name."""
        tf = self._tf
        share = tf.constant(round(dropout_share * FULL_SHARE), tf.uint32)
        filled = pad_rows(batch, self._config.accumulate)
        tensors = {name: tf.constant(array) for name, array in filled.items()}
        key = self._key(tf.constant(step, tf.uint32), share)
        gradients, _, tokens = self._sums(tensors, key)
        scale = self._normalizer / (float(tokens) * float(self._loss_scale()))
        names = self._model.trained_weights()
        norms = [scale * float(tf.norm(part)) for part in self._groups.split(gradients)]
        return dict(zip(names, norms, strict=True))

    def _take(self, batch: Batch, micro_batches: int, *, own: bool = False) -> Any:
        """Return tensors of the rows of each replica, which micro-batches can share.

        Args:
            batch: whole, or of the rows of this process, its ``own``, alone.
            micro_batches: of a replica.
            own: which of the two.
        """
        replicas = self._strategy.num_replicas_in_sync
        here = replicas // self._process_group.processes if own else replicas
        first = self._process_group.process * here if own else 0
        filled = pad_rows(batch, micro_batches * here)
        rows = len(filled["labels"]) // here

        def take(replica: int) -> dict[str, Any]:
            part = slice((replica - first) * rows, (replica - first + 1) * rows)
            return {name: self._tf.constant(array[part]) for name, array in filled.items()}

        if replicas == 1:
            return take(0)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: take(context.replica_id_in_sync_group)
        )

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens)."""
        summed = self._evaluate(self._take(batch, 1))
        nll, tokens = (self._strategy.experimental_local_results(one)[0] for one in summed)
        return float(nll), float(tokens)

    def _distributed_update(
        self, batch: Any, rate: Any, step: Any, share: Any, norm_limit: Any
    ) -> Update:
        arguments = (batch, rate, step, share, norm_limit)
        return self._strategy.run(self._replica_update, args=arguments)

    def _distributed_evaluation(self, batch: Any) -> tuple[Any, Any]:
        return self._strategy.run(self._replica_evaluation, args=(batch,))

    def _replica_evaluation(self, batch: Any) -> Any:
        replica = self._tf.distribute.get_replica_context()
        return replica.all_reduce(self._tf.distribute.ReduceOp.SUM, list(self._nll(batch)))

    def _replica_update(
        self, batch: Any, learning_rate: Any, step: Any, share: Any, norm_limit: Any
    ) -> Update:
        tf = self._tf
        replica = tf.distribute.get_replica_context()
        rows = batch["labels"].shape[0]
        key = self._key(step, share).at_row(replica.replica_id_in_sync_group * rows)
        gradients, nll, tokens = self._sums(batch, key)
        if self._strategy.num_replicas_in_sync > 1:
            sums = [*gradients, nll, tokens]
            *gradients, nll, tokens = replica.all_reduce(tf.distribute.ReduceOp.SUM, sums)
        norm, factor, sound, applies = self._norms(gradients, nll, tokens, norm_limit)
        arguments = (sound, applies, gradients, factor, learning_rate)
        if self._selects:
            self._apply(*arguments)
        else:
            # Outside of what XLA compiles: inside, a branch would copy all variables.
            tf.cond(sound, lambda: self._apply(*arguments), lambda: tf.constant(False))
        return Update(nll, tokens, norm, tf.logical_not(sound))

    def _key(self, step: Any, share: Any) -> DropoutKey:
        seed = self._tf.constant(self._seed & 0xFFFFFFFF, self._tf.uint32)
        return make_dropout_key(seed, share, step)

    def _sums(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Sum gradients of the (scaled) objective, nll and tokens over one replica's batch."""
        alone = self._strategy.num_replicas_in_sync == 1
        parts = count_parallel_parts(self._config, batch["labels"].shape[0]) if alone else 1
        return sum_in_parts(self._gradients, batch, key, parts)

    def _gradients_of(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Sum gradients of the (scaled) objective, nll and tokens over the micro-batches."""
        tf = self._tf
        micro_batches = self._config.accumulate
        if micro_batches == 1:
            return self._micro_gradients(batch, key)
        rows = batch["labels"].shape[0] // micro_batches
        split = {
            name: tf.reshape(array, (micro_batches, rows, array.shape[1]))
            for name, array in batch.items()
        }

        def accumulate(index: Any, sums: Any) -> Any:
            part = {name: array[index] for name, array in split.items()}
            more = self._micro_gradients(part, key.at_row(index * rows))
            return index + 1, tf.nest.map_structure(tf.add, sums, more)

        zeros = ([tf.zeros_like(variable) for variable in self._joined], 0.0, 0.0)
        _, sums = tf.while_loop(
            lambda index, _: index < micro_batches,
            accumulate,
            (tf.constant(0), tf.nest.map_structure(tf.convert_to_tensor, zeros)),
            maximum_iterations=micro_batches,
        )
        return sums

    def _micro_gradients(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        tf = self._tf
        with tf.GradientTape() as tape:
            read = hide_words(batch, self._config.word_dropout, key)
            loss = cross_entropy(
                self._model(read, dropout_key=key),
                batch["labels"],
                tf.greater(batch["target_segments"], 0),
                label_smoothing=self._config.label_smoothing,
                weights=batch.get("weights"),
            )
            # Sums over a batch overflow float16: gradients are taken of about the mean.
            objective = loss.objective / self._normalizer
            if self._scaled:
                objective = self._optimizer.scale_loss(objective)
        gradients = tape.gradient(objective, [weight.value for weight in self._weights])
        # The table is used twice, once by row: its gradient must be one dense tensor to be summed.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        return self._groups.join(dense), loss.nll, loss.tokens

    def _measure(self, gradients: list[Any], nll: Any, tokens: Any, norm_limit: Any) -> Any:
        """Return norm, factor, whether the update is sound, and whether it is applied."""
        tf = self._tf
        norm, factor = compute_norm_and_factor(
            gradients,
            tokens,
            normalizer=self._normalizer,
            loss_scale=self._loss_scale(),
            clip_norm=self._config.clip_norm,
        )
        sound = applies = is_valid_update(nll, norm, norm_limit)
        if self._scaled:  # its optimizer skips what overflows, and needs to see it
            applies = tf.logical_or(sound, tf.logical_not(tf.math.is_finite(norm)))
        return norm, factor, sound, applies

    def _apply_gradients(
        self, sound: Any, applies: Any, gradients: list[Any], factor: Any, learning_rate: Any
    ) -> Any:
        """Scale the gradients, apply them if ``applies``, and average the weights if ``sound``.

        Returns true: a branch must return something.
        """
        tf, optimizer = self._tf, self._optimizer
        updated = [*self._joined, *optimizer.variables]
        conditions = [(variable, applies) for variable in updated]
        conditions += [(average, sound) for average in self._averages]
        before = [
            (variable, condition, tf.identity(tf.convert_to_tensor(variable)))
            for variable, condition in (conditions if self._selects else ())
        ]
        inner = optimizer.inner_optimizer if self._scaled else optimizer
        inner.learning_rate.assign(learning_rate)
        optimizer.apply([gradient * factor for gradient in gradients], self._joined)
        if self._config.ema_decay is not None:
            decay = averaging_decay(self._config.ema_decay, inner.iterations.value)
            for average, variable in zip(self._averages, self._joined, strict=True):
                average.assign(average + (1 - decay) * (variable.value - average))
        for variable, condition, value in before:
            variable.assign(tf.where(condition, tf.convert_to_tensor(variable), value))
        weights = self._groups.split([variable.value for variable in self._joined])
        for i in self._groups.copied_indices():
            self._weights[i].assign(weights[i])
        return tf.constant(True)

    def _loss_scale(self) -> Any:
        if not self._scaled:
            return 1.0
        return self._tf.cast(self._optimizer.dynamic_scale.value, self._tf.float32)

    def _sum_nll(self, batch: Any) -> tuple[Any, Any]:
        loss = cross_entropy(
            self._model(batch),
            batch["labels"],
            self._tf.greater(batch["target_segments"], 0),
            label_smoothing=0.0,
        )
        return loss.nll, loss.tokens

    def is_intact(self) -> bool:
        """Whether the state is there, and not that of an update which was made in part."""
        return self._whole

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state."""
        weights, slots, averages = self._names()
        values: dict[str, Any] = dict(zip(weights, self._weights, strict=True))
        values |= zip(slots, self._optimizer.variables, strict=True)
        if averages:
            values |= zip(averages, self._groups.split(self._averages), strict=True)
        return {name: np.asarray(value) for name, value in values.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
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
        self._whole = True

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        return list_state_names(self._model, len(self._optimizer.variables), bool(self._averages))

    @contextmanager
    def use_averages(self) -> Iterator[None]:
        """Give the model its averaged weights for a while."""
        if not self._averages:
            yield
            return
        kept = [np.asarray(weight) for weight in self._weights]
        try:
            averages = self._groups.split(self._averages)
            for weight, average in zip(self._weights, averages, strict=True):
                weight.assign(average)
            yield
        finally:
            for weight, value in zip(self._weights, kept, strict=True):
                weight.assign(value)
