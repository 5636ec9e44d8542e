"""One compiled update: forward, backward, all-reduce, clip, apply, average.

`make_step` returns the update of the backend that Keras runs on; the loop knows only the `Step`
interface. Every function here takes sums and token counts, never means, and reduces them over
replicas before it divides, so that one replica and several compute the same update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.model.dropout import fold
from nmt.model.transformer import Transformer
from nmt.training.objective import cross_entropy

EMA_WARMUP = 10  # an average over t updates decays by at most (1 + t) / (EMA_WARMUP + t)


class Update(NamedTuple):
    """What one update measured; device scalars, read only when they are reported."""

    nll: Any  # nats, summed over target tokens
    tokens: Any  # target tokens
    gradient_norm: Any  # of the mean gradient, before clipping


class Step(Protocol):
    """The compiled functions of one backend."""

    def update(self, batch: Batch, learning_rate: float, step: int) -> Update:
        """Change the weights by one update. ``step`` (from 1) keys the dropout masks."""
        ...

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens), without dropout."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state under stable names."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
        ...

    def averaged(self) -> Any:
        """Return a context in which the model has its averaged weights (if averaging is on)."""
        ...


def resolve_precision(precision: str) -> str:
    """Return the dtype policy that ``auto`` stands for on this machine's devices."""
    if precision != "auto":
        return precision
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        if not gpus:
            return "float32"
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        # bfloat16 units came with compute capability 8.0 (Ampere).
        capable = all(detail.get("compute_capability", (0, 0)) >= (8, 0) for detail in details)
        return "mixed_bfloat16" if capable else "mixed_float16"
    if keras.config.backend() == "jax":
        import jax

        devices = jax.devices()
        if devices[0].platform != "gpu":
            return "float32"
        capable = all(float(device.compute_capability) >= 8 for device in devices)
        return "mixed_bfloat16" if capable else "mixed_float16"
    return "float32"


def make_optimizer(config: TrainingConfig, precision: str) -> keras.optimizers.Optimizer:
    """Build the optimizer; clipping, averaging and accumulation are the step's, not its."""
    arguments: dict[str, Any] = {
        "learning_rate": 0.0,  # set at every update
        "beta_1": config.beta_1,
        "beta_2": config.beta_2,
        "epsilon": config.epsilon,
    }
    if config.optimizer == "adamw":
        optimizer = keras.optimizers.AdamW(weight_decay=config.weight_decay, **arguments)
        # Decay is for matrices that map; not for biases, norms and the tied table.
        optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "table"])
    else:
        optimizer = keras.optimizers.Adam(**arguments)
    if precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def check_fits(named: Iterable[str], state: Iterable[str]) -> None:
    """Check that a stored state has just the names of this one.

    Raises:
        UserError: it does not.
    """
    different = sorted(set(named) ^ set(state))
    if different:
        raise UserError(
            f"the checkpoint does not fit this configuration: {different[0]} is on one side "
            "only (was the optimizer, the averaging or the model changed?)"
        )


def make_step(model: Transformer, config: TrainingConfig, *, precision: str, seed: int) -> Step:
    """Return the compiled update for the backend in use.

    Raises:
        UserError: training is not available on that backend.
    """
    if keras.config.backend() == "tensorflow":
        return TensorFlowStep(model, config, precision=precision, seed=seed)
    if keras.config.backend() == "jax":
        from nmt.training.jax_step import JaxStep

        return JaxStep(model, config, precision=precision, seed=seed)
    raise UserError(
        f"training does not run on the {keras.config.backend()} backend: set "
        "KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax"
    )


class TensorFlowStep:
    """The update as TensorFlow functions, under whichever `tf.distribute` strategy is in scope."""

    def __init__(
        self, model: Transformer, config: TrainingConfig, *, precision: str, seed: int
    ) -> None:
        import tensorflow as tf

        self._tf = tf
        self._model = model
        self._config = config
        self._seed = seed
        self._normalizer = float(config.batch_tokens)  # one for all shapes of batches
        self._strategy = tf.distribute.get_strategy()
        self._optimizer = make_optimizer(config, precision)
        self._weights = list(model.named_weights().values())
        self._optimizer.build(self._weights)
        self._averages = (
            None
            if config.ema_decay is None
            else [tf.Variable(weight.value, trainable=False) for weight in self._weights]
        )
        compiles = config.jit_compile != "off"
        self._gradients = tf.function(self._gradients_of, jit_compile=compiles, autograph=False)
        # With several replicas the update crosses them, which no nested function may do.
        self._apply = (
            tf.function(self._apply_gradients, jit_compile=compiles, autograph=False)
            if self._strategy.num_replicas_in_sync == 1
            else self._apply_gradients
        )
        self._update = tf.function(self._distributed_update, autograph=False)
        self._evaluate = tf.function(self._nll, jit_compile=compiles, autograph=False)

    def update(self, batch: Batch, learning_rate: float, step: int) -> Update:
        """Change the weights by one update."""
        tf = self._tf
        return self._update(
            {name: tf.constant(array) for name, array in batch.items()},
            tf.constant(learning_rate, tf.float32),
            tf.constant(step, tf.uint32),
        )

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens)."""
        tf = self._tf
        nll, tokens = self._evaluate({name: tf.constant(array) for name, array in batch.items()})
        return float(nll), float(tokens)

    def _distributed_update(self, batch: Any, learning_rate: Any, step: Any) -> Update:
        return self._strategy.run(self._replica_update, args=(batch, learning_rate, step))

    def _replica_update(self, batch: Any, learning_rate: Any, step: Any) -> Update:
        tf = self._tf
        replica = tf.distribute.get_replica_context()
        key = fold(fold(tf.constant(self._seed & 0xFFFFFFFF, tf.uint32), step), 0)
        key = fold(key, tf.cast(replica.replica_id_in_sync_group, tf.uint32))
        gradients, nll, tokens = self._gradients(batch, key)
        gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        nll, tokens = replica.all_reduce(tf.distribute.ReduceOp.SUM, [nll, tokens])
        norm = self._apply(gradients, tokens, learning_rate)
        return Update(nll, tokens, norm)

    def _gradients_of(self, batch: Any, key: Any) -> tuple[list[Any], Any, Any]:
        """Sum gradients of the (scaled) objective, nll and tokens over the micro-batches."""
        tf = self._tf
        micro_batches = self._config.accumulate
        if micro_batches == 1:
            return self._micro_gradients(batch, key)
        split = {
            name: tf.reshape(array, (micro_batches, -1, array.shape[1]))
            for name, array in batch.items()
        }

        def accumulate(index: Any, sums: Any) -> Any:
            part = {name: array[index] for name, array in split.items()}
            more = self._micro_gradients(part, fold(key, index))
            return index + 1, tf.nest.map_structure(tf.add, sums, more)

        zeros = ([tf.zeros_like(weight) for weight in self._weights], 0.0, 0.0)
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
            logits = self._model(batch, dropout_key=key)
            loss = cross_entropy(
                logits,
                batch["labels"],
                tf.greater(batch["target_segments"], 0),
                label_smoothing=self._config.label_smoothing,
            )
            # Sums over a batch overflow float16: gradients are taken of about the mean.
            objective = loss.objective / self._normalizer
            if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
                objective = self._optimizer.scale_loss(objective)
        gradients = tape.gradient(objective, [weight.value for weight in self._weights])
        # The table is used twice, once by row: its gradient must be one dense tensor to be summed.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], loss.nll, loss.tokens

    def _apply_gradients(self, gradients: list[Any], tokens: Any, learning_rate: Any) -> Any:
        """Divide, clip and apply; return the norm of the mean gradient."""
        tf = self._tf
        optimizer = self._optimizer
        scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        loss_scale = tf.cast(optimizer.dynamic_scale.value, tf.float32) if scaled else 1.0
        # From "sum over the normalizer, scaled" to "mean per token": what is clipped and applied.
        norm = tf.linalg.global_norm(gradients) * self._normalizer / (tokens * loss_scale)
        factor = self._normalizer / tokens
        if self._config.clip_norm is not None:
            factor *= tf.minimum(1.0, self._config.clip_norm / norm)
        # Keras sums the gradients of the replicas once more.
        factor /= self._strategy.num_replicas_in_sync
        gradients = [gradient * factor for gradient in gradients]
        inner = optimizer.inner_optimizer if scaled else optimizer
        inner.learning_rate.assign(learning_rate)
        optimizer.apply(gradients, self._weights)
        if self._averages is not None:
            count = tf.cast(inner.iterations.value, tf.float32)
            decay = tf.minimum(self._config.ema_decay, (1 + count) / (EMA_WARMUP + count))
            for average, weight in zip(self._averages, self._weights, strict=True):
                average.assign(average + (1 - decay) * (weight.value - average))
        return norm

    def _nll(self, batch: Any) -> tuple[Any, Any]:
        loss = cross_entropy(
            self._model(batch),
            batch["labels"],
            self._tf.greater(batch["target_segments"], 0),
            label_smoothing=0.0,
        )
        return loss.nll, loss.tokens

    def _named(self) -> dict[str, Any]:
        weights = self._model.named_weights()
        named = {f"model/{name}": weight for name, weight in weights.items()}
        named |= {f"optimizer/{i:04d}": v for i, v in enumerate(self._optimizer.variables)}
        if self._averages is not None:
            averages = zip(weights, self._averages, strict=True)
            named |= {f"average/{name}": average for name, average in averages}
        return named

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state."""
        return {name: np.asarray(variable) for name, variable in self._named().items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
        named = self._named()
        check_fits(named, state)
        for name, variable in named.items():
            variable.assign(state[name])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Give the model its averaged weights for a while."""
        if self._averages is None:
            yield
            return
        kept = [np.asarray(weight) for weight in self._weights]
        try:
            for weight, average in zip(self._weights, self._averages, strict=True):
                weight.assign(average)
            yield
        finally:
            for weight, value in zip(self._weights, kept, strict=True):
                weight.assign(value)
