"""Updates that fit into memory, in as many micro-batches as that takes.

What is learned does not depend on it, but for rounding: an update has the same rows, the same
dropout masks and the same sums, whatever parts it is worked on in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import keras
import numpy as np

from nmt.config import Config, TrainingConfig
from nmt.config.training import AUTO
from nmt.data.batches import BatchPlan
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.model.costs import FULL, Batch
from nmt.runs.building import make_sizes
from nmt.startup.devices import gpus
from nmt.startup.memory import available_memory
from nmt.training import backend
from nmt.training.process_group import ProcessGroup
from nmt.training.step import Step

# Of each parameter a float32 copy: gradient, their sum over micro-batches, two slots of the
# optimizer, average, and what each of these becomes while it is worked out.
COPIES = 7
# What updates were measured to need at most on a CPU, beside copies of the parameters, against the
# estimate of what the backward pass keeps. JAX begins an update before it has left the last one.
MARGINS = {"tensorflow": 1.25, "jax": 3.5}
PROGRAMS = 500_000_000  # bytes, of those that are compiled and of what they pass through
FREE_SHARE = 0.1  # of the memory that is free, left so


def make_fitting_step(
    model: Model, config: Config, stages: Sequence[BatchPlan], process_group: ProcessGroup
) -> tuple[Step, Config]:
    """Return the compiled update, and the configuration with micro-batches that fit into memory.

    Where ``training.batch_tokens`` is a number, that is it. For a CPU, memory is estimated; on a
    GPU, updates are made and taken back.

    Args:
        model: whose weights it changes.
        config: of which everything else is settled.
        stages: batches of each; the longest rows are tried.
        process_group: who shares the update, in whose scope this is called.

    Raises:
        UserError: one row is too much.
    """

    def make(training: TrainingConfig) -> Step:
        return backend.make_step(model, training, seed=config.seed, process_group=process_group)

    training = config.training
    if training.batch_tokens != AUTO:
        return make(training), config
    if not gpus():
        training = split_update(training, choose_by_estimate(config, model.vocabulary_size))
        return make(training), replace(config, training=training)
    step = make(split_update(training, 1))
    before = step.state()
    longest = max(stages, key=lambda batches: batches.shapes[-1][1])
    batch = longest.assemble(len(longest.shapes) - 1, np.arange(1))

    def fits(trial: TrainingConfig) -> bool:
        step.reconfigure(trial)
        try:
            float(step.update(batch, 0.0, 1).nll)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            step.restore(before)
        return True

    training = choose_by_trying(training, fits)
    return step, replace(config, training=training)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of the backend in use says that a device's memory could not be had."""
    if keras.config.backend() == "jax":
        import jax

        # What fails because of an update that had failed is an internal error, which quotes it.
        told = str(error).lower()
        known = "resource_exhausted" in told or "out of memory" in told
        return isinstance(error, jax.errors.JaxRuntimeError) and known
    import tensorflow as tf

    return isinstance(error, tf.errors.ResourceExhaustedError)


def split_update(config: TrainingConfig, micro_batches: int) -> TrainingConfig:
    """Return the configuration with updates as large as before, in about so many micro-batches."""
    tokens = config.tokens_per_update
    size = -(-tokens // micro_batches)
    return replace(config, update_tokens=tokens, batch_tokens=size, accumulate=-(-tokens // size))


def split_further(config: TrainingConfig) -> TrainingConfig:
    """Return the configuration with micro-batches of half the size.

    Raises:
        UserError: they have a row each.
    """
    most = max_micro_batches(config)
    if config.accumulate >= most:
        longest = max(config.row_lengths)
        raise UserError(
            f"out of memory with {most} micro-batches an update, and rows of {longest} tokens: one "
            "row does not fit; set shorter training.row_lengths, or a smaller model"
        )
    return split_update(config, min(2 * config.accumulate, most))


def max_micro_batches(config: TrainingConfig) -> int:
    """Return how many micro-batches an update can have: each has a row of the longest at least."""
    return max(1, config.tokens_per_update // max(config.row_lengths))


def estimate_memory(config: Config, vocabulary_size: int, micro_batches: int) -> int:
    """Estimate the bytes that an update needs beside the weights: see `MARGINS`.

    Args:
        config: its precision is settled.
        vocabulary_size: V.
        micro_batches: of an update.
    """
    training = config.training
    costs = make_sizes(config.model, vocabulary_size).costs
    precision = "float32" if training.precision == "float32" else "bfloat16"
    kept = []
    for length in training.row_lengths:
        rows = -(-(training.tokens_per_update // length) // micro_batches)
        kept.append(sum(costs.estimate_activations(Batch(rows, length, precision)).values()))
    parameters = sum(part.parameters for part in costs.list_parts())
    return (
        round(MARGINS[keras.config.backend()] * max(kept)) + PROGRAMS + COPIES * parameters * FULL
    )


def choose_by_estimate(config: Config, vocabulary_size: int) -> int:
    """Return the fewest micro-batches of which one fits into the memory of this machine, estimated.

    Raises:
        UserError: one row is too much.
    """
    room = round((1 - FREE_SHARE) * available_memory())
    most = max_micro_batches(config.training)
    for micro_batches in range(1, most + 1):
        needed = estimate_memory(config, vocabulary_size, micro_batches)
        if needed <= room:
            return micro_batches
    raise UserError(
        f"training.batch_tokens=auto: {room / 1e9:.1f} GB of memory are free, and one row needs "
        f"{needed / 1e9:.1f}: set shorter training.row_lengths, or a smaller model"
    )


def choose_by_trying(
    config: TrainingConfig, fits: Callable[[TrainingConfig], bool]
) -> TrainingConfig:
    """Return the configuration with the fewest micro-batches, of 1, 2, 4, …, that fit.

    Args:
        config: of the updates.
        fits: makes one; returns whether there was room for it.

    Raises:
        UserError: one row is too much.
    """
    trial = split_update(config, 1)
    while not fits(trial):
        trial = split_further(trial)
    return trial
