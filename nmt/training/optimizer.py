"""The optimizer, and the arithmetic around it that is the same on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from nmt.config import TrainingConfig
from nmt.data.batches import Batch
from nmt.model.dropout import DropoutKey

Tensor = Any
Sums = tuple[list[Tensor], Tensor, Tensor]  # of gradients, nll in nats, and target tokens

EMA_WARMUP = 10  # an average over t updates decays by at most (1 + t) / (EMA_WARMUP + t)


def make_optimizer(config: TrainingConfig) -> keras.optimizers.Optimizer:
    """Build the optimizer; clipping, averaging and accumulation are the step's, not its."""
    arguments: dict[str, Any] = {
        "learning_rate": 0.0,  # set at every update
        "epsilon": config.epsilon,
    }
    betas = {"beta_1": config.beta_1, "beta_2": config.beta_2}
    if config.optimizer == "muon":
        # Orthogonal updates for the kernels of attention and feed-forward, Adam for the rest. With
        # Keras's scaling (Liu et al. 2025, equation 4) the two take the same learning rate.
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
    # Decay is for matrices that map; not for biases, norms and the tied table.
    optimizer.exclude_from_weight_decay(
        var_names=["bias", "gamma", "beta", "table", "^undecayed"]  # the last one: `WeightGroups`
    )
    if config.precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def sum_in_parts(
    sums_of: Callable[[Batch, DropoutKey], Sums], batch: Batch, key: DropoutKey, parts: int
) -> Sums:
    """Return the sums over a batch from those of its parts, none of which waits for another.

    Args:
        sums_of: takes a part, each array [rows / parts, L], and its dropout key.
        batch: arrays [rows, L].
        key: of the batch.
        parts: how many, of equal size; divides the number of rows.
    """
    if parts == 1:
        return sums_of(batch, key)
    split = {name: ops.split(array, parts) for name, array in batch.items()}
    rows = batch["labels"].shape[0] // parts
    found = [
        sums_of({name: arrays[i] for name, arrays in split.items()}, key.at_row(i * rows))
        for i in range(parts)
    ]
    return keras.tree.map_structure(lambda *values: sum(values[1:], values[0]), *found)


def compute_norm_and_factor(
    gradients: Sequence[Tensor],
    tokens: Tensor,
    *,
    normalizer: float,
    loss_scale: Tensor | float,
    clip_norm: float | None,
) -> tuple[Tensor, Tensor]:
    """Return what turns summed gradients into those of the mean loss per token, clipped.

    Args:
        gradients: of the summed loss, times ``loss_scale``, over ``normalizer``.
        tokens: over which the loss was summed.
        normalizer: a constant that keeps sums within the range of float16.
        loss_scale: of mixed precision, which the optimizer divides by itself; 1 without.
        clip_norm: the largest norm of all gradients together (Pascanu et al. 2013, algorithm 1).

    Returns:
        The norm of the mean gradient before clipping, and the factor to multiply gradients by.
    """
    squares = sum(ops.sum(ops.square(gradient)) for gradient in gradients)
    norm = ops.sqrt(squares) * normalizer / (tokens * loss_scale)
    factor = normalizer / tokens
    if clip_norm is not None:
        factor *= ops.minimum(1.0, clip_norm / norm)
    return norm, factor


def is_valid_update(nll: Tensor, norm: Tensor, norm_limit: Tensor) -> Tensor:
    """Whether an update may be made: its loss is finite, its gradient's norm below the limit.

    Args:
        nll: in nats, summed over target tokens.
        norm: of the mean gradient; NaN or infinite if any of its numbers is.
        norm_limit: may be infinite, which no infinite norm is below.
    """
    return ops.logical_and(ops.isfinite(nll), ops.less(norm, norm_limit))


def averaging_decay(most: float, updates: Tensor) -> Tensor:
    """Return the decay of the exponential moving average of the weights after an update.

    Early averages forget faster, so that the first weights do not weigh for long.

    Args:
        most: the decay of a long run.
        updates: made so far, this one included.
    """
    count = ops.cast(updates, "float32")
    return ops.minimum(most, (1 + count) / (EMA_WARMUP + count))
