"""Updates that suit the corpus, and the number of micro-batches with which they fit into memory.

That number changes an update by rounding only: the rows, the dropout masks and the sums stay the
same.
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
from nmt.model.costs import FULL, BatchShape
from nmt.startup.devices import gpus
from nmt.startup.memory import available_memory
from nmt.training import backend
from nmt.training.components import AS_CONFIGURED, Components
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import TrainStep

# The fewest updates of an epoch, and the fewest positions per side of an update, where its size is
# open: more updates learn more from a small corpus (docs/experiments.md).
EPOCH_UPDATES, SMALLEST_UPDATE = 50, 512
CPU_UPDATE = 768  # positions per side: on a CPU, small batches learn more per minute
# The interval of evaluations, where it is open: epochs, and the most updates.
EVALUATION_EPOCHS, LONGEST_INTERVAL = 20, 5000

# Float32 copies of each parameter: gradient, its sum over micro-batches, two optimizer slots,
# average, and intermediate values of these. Each further parallel part has gradients of its own.
COPIES = 7
# Those that training needs at least: weight, gradient, and a moment (of Muon; Adam has two).
MIN_COPIES = 3
# Memory of an update on a CPU, without those copies, in multiples of the estimated activations.
# JAX starts an update before it has freed the memory of the previous one.
MARGINS = {"tensorflow": 1.25, "jax": 3.5}
PROGRAMS = 500_000_000  # bytes of compiled programs and their temporary buffers
FREE_SHARE = 0.1  # share of the available memory that stays free


def size_updates(config: Config, stages: Sequence[BatchPlan]) -> Config:
    """Return the configuration with an update and an interval of evaluations for the corpus.

    Args:
        config: resolved; only its open keys are chosen.
        stages: batches of ``config.training.positions_per_update``; the smallest stage counts.
    """
    training, tokens = config.training, config.training.positions_per_update
    epoch_tokens = min(plan.tokens_per_epoch for plan in stages) // 2  # per side
    if training.batch_tokens == AUTO and training.update_tokens is None:
        min_tokens = max(SMALLEST_UPDATE, *training.row_lengths)
        tokens = min(tokens, max(epoch_tokens // EPOCH_UPDATES, min_tokens))
        training = replace(training, update_tokens=tokens)
    if training.evaluate_every is None:
        updates = -(-epoch_tokens // tokens)
        interval = min(EVALUATION_EPOCHS * updates, LONGEST_INTERVAL)
        training = replace(training, evaluate_every=interval)
    return replace(config, training=training)


def check_memory(config: Config, vocabulary_size: int, components: Components) -> None:
    """Check that memory has room for a model, before it is built; a GPU reports that itself.

    Raises:
        UserError: it has no room for the parameters, or, where all of them are trained by a
            configured optimizer, for what comes with each.
    """
    if gpus() or components.model is not None:
        return
    is_partly_trained = bool(config.training.freeze) or config.model.lora_rank is not None
    copies = 1 if is_partly_trained or components.optimizer is not None else MIN_COPIES
    parameters = _count_parameters(config, vocabulary_size)
    needed, available = copies * parameters * FULL, available_memory()
    if needed > available:
        raise UserError(
            f"the model has {parameters:,} parameters, which need at least {needed / 1e9:,.1f} GB "
            f"of memory, and {available / 1e9:,.1f} GB are free: set a smaller model"
        )


def make_step_within_memory(
    model: Model,
    config: Config,
    stages: Sequence[BatchPlan],
    process_group: ProcessGroup,
    components: Components = AS_CONFIGURED,
) -> tuple[TrainStep, Config]:
    """Return the compiled update, and the configuration with micro-batches that fit into memory.

    Only ``training.batch_tokens=auto`` is resolved here: by an estimate for a CPU, and by trial
    updates, which are undone, on a GPU. Where several processes have GPUs, an update stays whole:
    a trial that fails in one process would leave the others waiting for it.

    Args:
        model: the model to train.
        config: resolved, except for the micro-batches.
        stages: the batches of each stage; the longest rows are tried.
        process_group: the devices that share the update; its scope must be entered.
        components: see `nmt.training.backend.make_step`.

    Raises:
        UserError: a single row does not fit.
    """

    def make(training: TrainingConfig) -> TrainStep:
        return backend.make_step(
            model, training, seed=config.seed, process_group=process_group, components=components
        )

    training = config.training
    if training.batch_tokens != AUTO:
        return make(training), config
    if not gpus() or process_group.processes > 1:
        needed = 1 if gpus() else choose_by_estimate(config, model.vocabulary_size)
        training = split_update(training, max(process_group.all_gather(needed)))
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
    """Whether an error of the backend in use says that a device is out of memory."""
    if keras.config.backend() == "jax":
        import jax

        # An error that follows from an earlier failed update is internal, and quotes that one.
        message = str(error).lower()
        reports_memory = "resource_exhausted" in message or "out of memory" in message
        return isinstance(error, jax.errors.JaxRuntimeError) and reports_memory
    import tensorflow as tf

    return isinstance(error, tf.errors.ResourceExhaustedError)


def split_update(config: TrainingConfig, micro_batches: int) -> TrainingConfig:
    """Return the configuration with the same updates in about ``micro_batches`` micro-batches.

    Each has room for the longest row.
    """
    size = -(-config.positions_per_update // micro_batches)
    return _set_micro_batch(config, max(size, *config.row_lengths))


def _set_micro_batch(config: TrainingConfig, size: int) -> TrainingConfig:
    """Return the configuration with the same updates in micro-batches of this many positions."""
    tokens = config.positions_per_update
    return replace(config, update_tokens=tokens, batch_tokens=size, accumulate=-(-tokens // size))


def split_further(config: TrainingConfig) -> TrainingConfig:
    """Return the configuration with micro-batches of half the size.

    Raises:
        UserError: each has only one row already.
    """
    longest = max(config.row_lengths)
    if config.max_batch_positions <= longest:
        raise UserError(
            f"out of memory with a micro-batch of one row of {longest} tokens: "
            "set shorter training.row_lengths, or a smaller model"
        )
    return _set_micro_batch(config, max(longest, -(-config.max_batch_positions // 2)))


def max_micro_batches(config: TrainingConfig) -> int:
    """Return the number of micro-batches of an update if each has one of the longest rows."""
    return max(1, config.positions_per_update // max(config.row_lengths))


def estimate_memory(config: Config, vocabulary_size: int, micro_batches: int) -> int:
    """Return an estimate of the bytes that an update needs in addition to the weights.

    Args:
        config: with a resolved precision.
        vocabulary_size: V.
        micro_batches: number in an update.
    """
    training = config.training
    costs = config.model.make_sizes(vocabulary_size).costs
    precision = "float32" if training.precision == "float32" else "bfloat16"
    activations = []
    for length in training.row_lengths:
        rows = -(-(training.positions_per_update // length) // micro_batches)
        batch = BatchShape(rows, length, precision)
        activations.append(sum(costs.estimate_activations(batch).values()))
    parameters = _count_parameters(config, vocabulary_size)
    margin = MARGINS[keras.config.backend()]
    copies = COPIES + (training.parallel_parts or 1) - 1
    return round(margin * max(activations)) + PROGRAMS + copies * parameters * FULL


def _count_parameters(config: Config, vocabulary_size: int) -> int:
    costs = config.model.make_sizes(vocabulary_size).costs
    return sum(part.parameters for part in costs.list_parts())


def choose_by_estimate(config: Config, vocabulary_size: int) -> int:
    """Return the fewest micro-batches whose estimated memory this machine has.

    Raises:
        UserError: a single row does not fit.
    """
    available = round((1 - FREE_SHARE) * available_memory())
    for micro_batches in range(1, max_micro_batches(config.training) + 1):
        needed = estimate_memory(config, vocabulary_size, micro_batches)
        if needed <= available:
            return micro_batches
    raise UserError(
        f"training.batch_tokens=auto: one row needs {needed / 1e9:.1f} GB of memory, and "
        f"{available / 1e9:.1f} GB are free: set shorter training.row_lengths, or a smaller model"
    )


def choose_by_trying(
    config: TrainingConfig, fits: Callable[[TrainingConfig], bool]
) -> TrainingConfig:
    """Return the configuration with the fewest micro-batches, of 1, 2, 4, …, that fit.

    Args:
        config: the ``training`` group of the run's configuration.
        fits: tries an update, and returns whether it fits.

    Raises:
        UserError: a single row does not fit.
    """
    trial = split_update(config, 1)
    while not fits(trial):
        trial = split_further(trial)
    return trial
