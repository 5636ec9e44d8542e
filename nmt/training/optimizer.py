"""The optimizer, and the backend-independent arithmetic around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.errors import UserError
from nmt.model.dropout import DropoutKey

Tensor = Any
Sums = tuple[list[Tensor], Tensor, Tensor]  # summed gradients, nll in nats, target tokens

EMA_WARMUP = 10  # an average over t updates decays by at most (1 + t) / (EMA_WARMUP + t)


def make_optimizer(
    config: TrainingConfig, replacement: keras.optimizers.Optimizer | None = None
) -> keras.optimizers.Optimizer:
    """Build the optimizer, without clipping, averaging and accumulation: the step does those.

    Args:
        config: the ``training`` group.
        replacement: an optimizer that is copied instead, see `check_optimizer`.
    """
    optimizer = _build(config) if replacement is None else _copy(replacement)
    if config.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def _build(config: TrainingConfig) -> keras.optimizers.Optimizer:
    """Build the configured optimizer."""
    arguments: dict[str, Any] = {
        "learning_rate": 0.0,  # set at every update
        "epsilon": config.epsilon,
    }
    betas = {"beta_1": config.beta_1, "beta_2": config.beta_2}
    if config.optimizer == "muon":
        # Orthogonal updates for the kernels of attention and feed-forward, Adam for the rest. With
        # Keras's scaling (Liu et al. 2025, equation 4) both use the same learning rate.
        optimizer = keras.optimizers.Muon(
            exclude_layers=["table"],
            weight_decay=config.weight_decay or None,
            adam_weight_decay=None,
            **{f"adam_{name}": value for name, value in betas.items()},
            **arguments,
        )
    elif config.optimizer == "adamw":
        optimizer = keras.optimizers.AdamW(weight_decay=config.weight_decay, **betas, **arguments)
    else:
        optimizer = keras.optimizers.Adam(**betas, **arguments)
    # Only kernels decay: not biases, norms, the tied table and the group of those (`WeightGroups`).
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "table", "^undecayed"])
    return optimizer


# Options of Keras optimizers that the step replaces, and the keys that do the same.
_REPLACED = {
    "use_ema": "training.ema_decay",
    "gradient_accumulation_steps": "training.accumulate",
    "loss_scale_factor": "training.precision=mixed_float16",
}


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Check that an optimizer can replace the configured one.

    Raises:
        UserError: it is none of Keras, cannot be copied, or has an option that a key of
            ``training`` replaces.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise UserError(
            f"optimizer={optimizer!r} is not a Keras optimizer: pass one, such as "
            "keras.optimizers.Adam(1e-3)"
        )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise UserError(
            "optimizer: pass its inner_optimizer, with training.precision=mixed_float16"
        )
    try:
        settings = _copy(optimizer).get_config()
    except (TypeError, NotImplementedError) as error:
        raise UserError(
            f"optimizer: {type(optimizer).__name__} cannot be copied by its get_config ({error}): "
            "return all arguments there, or pass the learning rates as schedule"
        ) from error
    for option, key in _REPLACED.items():
        if settings.get(option):
            raise UserError(f"optimizer: leave out {option}={settings[option]}, and set {key}")


def _copy(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return an unused copy of an optimizer, whose learning rate is set at every update."""
    settings = optimizer.get_config() | {"learning_rate": 0.0}
    copied = type(optimizer).from_config(settings)
    # Not part of the configuration of a Keras optimizer.
    excluded = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    if excluded is not None:
        copied.exclude_from_weight_decay(var_names=[excluded.pattern])
    return copied


def sum_over_parts(
    compute_sums: Callable[[Batch, DropoutKey], Sums], batch: Batch, key: DropoutKey, parts: int
) -> Sums:
    """Return the sums over a batch, computed on independent parts that can run in parallel.

    Args:
        compute_sums: called with a part, each array [rows / parts, L], and its dropout key.
        batch: arrays [rows, L].
        key: the dropout key of the batch.
        parts: number of parts of equal size; divides the number of rows.
    """
    if parts == 1:
        return compute_sums(batch, key)
    split = {name: ops.split(array, parts) for name, array in batch.items()}
    rows = batch["labels"].shape[0] // parts
    sums = [
        compute_sums({name: arrays[i] for name, arrays in split.items()}, key.at_row(i * rows))
        for i in range(parts)
    ]
    return keras.tree.map_structure(lambda *values: sum(values[1:], values[0]), *sums)


def compute_norm_and_factor(
    gradient_norm: Tensor,
    tokens: Tensor,
    *,
    normalizer: float,
    loss_scale: Tensor | float,
    clip_norm: float | None,
) -> tuple[Tensor, Tensor]:
    """Return the gradient norm, and the factor that turns summed gradients into clipped means.

    Args:
        gradient_norm: global norm of the gradients of the summed loss, times ``loss_scale``, over
            ``normalizer``.
        tokens: target tokens that the loss was summed over.
        normalizer: a constant that keeps sums within the range of float16.
        loss_scale: the scale of mixed precision, which the optimizer divides by; 1 without.
        clip_norm: upper limit of the global gradient norm (Pascanu et al. 2013, algorithm 1).

    Returns:
        The norm of the mean gradient per token before clipping, and the factor.
    """
    norm = gradient_norm * normalizer / (tokens * loss_scale)
    factor = normalizer / tokens
    if clip_norm is not None:
        factor *= ops.minimum(1.0, clip_norm / norm)
    return norm, factor


def check_update(
    nll: Tensor, norm: Tensor, norm_limit: Tensor, *, scales_loss: bool
) -> tuple[Tensor, Tensor]:
    """Return whether an update is valid, and whether the optimizer is applied.

    A valid update has a finite loss, and a gradient norm below the limit.

    Args:
        nll: in nats, summed over target tokens.
        norm: norm of the mean gradient; NaN or infinite if any element is.
        norm_limit: may be infinite; an infinite norm is invalid all the same.
        scales_loss: whether the optimizer scales the loss. It is then applied to non-finite
            gradients, too: it skips them itself, and lowers its scale.
    """
    valid = ops.logical_and(ops.isfinite(nll), ops.less(norm, norm_limit))
    if not scales_loss:
        return valid, valid
    return valid, ops.logical_or(valid, ops.logical_not(ops.isfinite(norm)))


def averaging_decay(limit: float, updates: Tensor) -> Tensor:
    """Return the decay of the exponential moving average of the weights after an update.

    The decay grows from about 0.2, so that the average soon forgets the initial weights.

    Args:
        limit: the decay of a long run.
        updates: number of updates so far, this one included.
    """
    count = ops.cast(updates, "float32")
    return ops.minimum(limit, (1 + count) / (EMA_WARMUP + count))
