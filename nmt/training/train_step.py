"""The interface of the compiled update that the training loop calls; each backend implements it.

`nmt.training.backend.make_step` returns the implementation for the backend that Keras runs on. An
update adds up gradients, losses and token counts over all replicas and divides last: one replica
and several compute the same update.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from nmt.config import TrainingConfig
from nmt.data.batches import Batch, RowSelection
from nmt.errors import UserError
from nmt.model.contract import Model
from nmt.model.dropout import DropoutKey, fold
from nmt.training.process_group import ProcessGroup


class UpdateMetrics(NamedTuple):
    """Measurements of one update: device scalars, which only a report reads."""

    nll: Any  # nats, summed over target tokens
    tokens: Any  # target tokens
    gradient_norm: Any  # of the mean gradient, before clipping
    skipped: Any  # bool: no weight has changed, see `nmt.training.optimizer.check_update`


class TrainStep(Protocol):
    """The compiled functions of one backend, and the state they change.

    Attributes:
        local_rows: selects the rows of a batch that this process builds for `update`; None: all.
    """

    local_rows: RowSelection | None

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        number: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> UpdateMetrics:
        """Update the weights; skip the update if its loss or gradient is not finite, or too large.

        Args:
            batch: from `BatchPlan.batch`, with the rows of `local_rows`.
            learning_rate: the rate of this update.
            number: counts updates from 1; selects the dropout masks.
            dropout_share: scale of the dropout rates, 0 to 1.
            norm_limit: the update is skipped if the norm of the mean gradient reaches it.
        """
        ...

    def gradient_norms(
        self, batch: Batch, number: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """Return the norm of the mean gradient of each weight by name; the state stays unchanged.

        For diagnosis: it may compile a program of its own.
        """
        ...

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens), without dropout."""
        ...

    def reconfigure(self, config: TrainingConfig) -> None:
        """Use another number of micro-batches from now on: see `update_sizing.split_update`."""
        ...

    def is_intact(self) -> bool:
        """Whether the state is complete; waits for the device.

        A failed update may have freed the state, or changed a part of it.
        """
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state under stable names."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Load a state that `state` returned.

        Raises:
            UserError: its names are not those of this configuration.
        """
        ...

    def use_averages(self) -> Any:
        """Return a context in which the model has its averaged weights, if there are averages."""
        ...


def make_dropout_key(seed: Any, share: Any, number: Any) -> DropoutKey:
    """Return the key that all dropout masks of one update derive from.

    Args:
        seed: uint32 scalar, the run's seed.
        share: uint32 scalar, see `DropoutKey`.
        number: uint32 scalar, counts updates from 1.
    """
    # The two zeros are reserved: without them, runs of earlier versions would resume with other
    # masks.
    key = DropoutKey(seed, share).at_row(0)
    return cast(DropoutKey, fold(fold(fold(key, number), 0), 0))


def select_local_rows(
    process_group: ProcessGroup, multiple: int, blocks: int = 1
) -> RowSelection | None:
    """Return the selection of the rows that this process builds; None for a single process.

    Args:
        process_group: its processes get equal shares of every batch.
        multiple: batches are padded to a multiple of this number of rows.
        blocks: each batch is cut into this many blocks; every process gets its share of each.
    """
    processes, process = process_group.processes, process_group.process
    if processes == 1:
        return None

    def local_rows(rows: int) -> np.ndarray:
        padded = np.arange(-(-rows // multiple) * multiple)
        return padded.reshape(blocks, processes, -1)[:, process].reshape(-1)

    return local_rows


def pad_rows(batch: Batch, multiple: int) -> Batch:
    """Return the batch with empty rows added up to a multiple, so that it can be shared evenly."""
    missing = -len(batch["labels"]) % multiple
    if not missing:
        return batch
    return {name: np.pad(array, ((0, missing), (0, 0))) for name, array in batch.items()}


def list_micro_batches(batch: Batch, count: int) -> list[Batch]:
    """Return the batch cut into ``count`` micro-batches of equal size, padded with empty rows."""
    padded = pad_rows(batch, count)
    rows = len(padded["labels"]) // count
    return [
        {name: array[i * rows : (i + 1) * rows] for name, array in padded.items()}
        for i in range(count)
    ]


def count_parallel_parts(config: TrainingConfig, rows: int) -> int:
    """Return how many parts of a micro-batch are computed in parallel.

    The largest number up to ``training.parallel_parts`` that divides the rows of a micro-batch.

    Args:
        config: resolved.
        rows: rows of the batch.
    """
    assert config.parallel_parts is not None, "the configuration is not resolved"
    micro_rows = max(1, rows // config.accumulate)
    max_parts = min(config.parallel_parts, micro_rows)
    return next(parts for parts in range(max_parts, 0, -1) if micro_rows % parts == 0)


def list_state_names(
    model: Model, slots: int, averaging: bool
) -> tuple[list[str], list[str], list[str]]:
    """Return the names in a checkpoint of the weights, the optimizer's slots and the averages.

    Frozen weights are missing: they are stored once, apart from the checkpoints.
    """
    weights = list(model.trained_weights())
    return (
        [f"model/{name}" for name in weights],
        [f"optimizer/{i:04d}" for i in range(slots)],
        [f"average/{name}" for name in weights] if averaging else [],
    )


def check_state_names(expected: Iterable[str], state: Iterable[str]) -> None:
    """Check that a stored state has exactly the expected names.

    Raises:
        UserError: a name is missing or unexpected.
    """
    different = sorted(set(expected) ^ set(state))
    if different:
        raise UserError(
            f"the checkpoint does not fit this configuration: {different[0]} is on one side "
            "only (was the optimizer, the averaging or the model changed?)"
        )
