"""One compiled update, as the loop knows it; each backend has its own behind this interface.

`nmt.training.backend.make_step` returns the one of the backend that Keras runs on. Every update
takes sums and token counts, never means, and reduces them over replicas before it divides, so that
one replica and several compute the same.
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


class Update(NamedTuple):
    """What one update measured; device scalars, read only when they are reported."""

    nll: Any  # nats, summed over target tokens
    tokens: Any  # target tokens
    gradient_norm: Any  # of the mean gradient, before clipping
    skipped: Any  # bool: nothing was changed, see `nmt.training.optimizer.is_valid_update`


class Step(Protocol):
    """The compiled functions of one backend.

    Attributes:
        local_rows: of a batch, the rows that this process lays out for `update`; None: all.
    """

    local_rows: RowSelection | None

    def update(
        self,
        batch: Batch,
        learning_rate: float,
        step: int,
        dropout_share: float = 1.0,
        norm_limit: float = math.inf,
    ) -> Update:
        """Change the weights by one update, or by none where the loss or its gradient is unsound.

        Args:
            batch: from `BatchPlan.batch`, of `local_rows`.
            learning_rate: of this update.
            step: counted from 1; keys the dropout masks.
            dropout_share: of the full dropout rates, 0 to 1.
            norm_limit: of the mean gradient; an update whose norm reaches it is skipped.
        """
        ...

    def gradient_norms(
        self, batch: Batch, step: int, dropout_share: float = 1.0
    ) -> dict[str, float]:
        """Return the norm of the mean gradient of each weight, by its name; change nothing.

        It takes a compilation of its own: for finding out what is wrong.
        """
        ...

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """Return (summed negative log-likelihood in nats, target tokens), without dropout."""
        ...

    def reconfigure(self, config: TrainingConfig) -> None:
        """Take the updates in other micro-batches from now on: see `fitting.split_update`."""
        ...

    def is_intact(self) -> bool:
        """Whether the state is there: waits for it.

        An update that has failed may have taken it along, or have been made in part.
        """
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Return weights, averages and optimizer state under stable names."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what `state` returned."""
        ...

    def use_averages(self) -> Any:
        """Return a context in which the model has its averaged weights (if averaging is on)."""
        ...


def make_dropout_key(seed: Any, share: Any, step: Any) -> DropoutKey:
    """Return what the dropout masks of an update are drawn from.

    Args:
        seed: uint32 scalar, of the run.
        share: uint32 scalar, see `DropoutKey`.
        step: uint32 scalar, of the update.
    """
    # The zeros were once a place among epochs, and a replica: runs of then go on with their masks.
    key = DropoutKey(seed, share).at_row(0)
    return cast(DropoutKey, fold(fold(fold(key, step), 0), 0))


def select_local_rows(
    process_group: ProcessGroup, multiple: int, blocks: int = 1
) -> RowSelection | None:
    """Return which rows of a batch belong to a process; None where there is but one.

    Args:
        process_group: who shares the batch, each process as much of it.
        multiple: to which batches are filled up.
        blocks: in which batches are cut, of each of which every process has its part.
    """
    if process_group.processes == 1:
        return None

    def local_rows(rows: int) -> np.ndarray:
        filled = np.arange(-(-rows // multiple) * multiple)
        return filled.reshape(blocks, process_group.processes, -1)[
            :, process_group.process
        ].reshape(-1)

    return local_rows


def pad_rows(batch: Batch, multiple: int) -> Batch:
    """Add empty rows until their number is a multiple: batches do not depend on who shares them."""
    missing = -len(batch["labels"]) % multiple
    if not missing:
        return batch
    return {name: np.pad(array, ((0, missing), (0, 0))) for name, array in batch.items()}


def list_micro_batches(batch: Batch, count: int) -> list[Batch]:
    """Return the rows of a batch in so many parts; the last ones may be of empty rows."""
    filled = pad_rows(batch, count)
    rows = len(filled["labels"]) // count
    return [
        {name: array[i * rows : (i + 1) * rows] for name, array in filled.items()}
        for i in range(count)
    ]


def count_parallel_parts(config: TrainingConfig, rows: int) -> int:
    """Return how many parts of a batch of ``rows`` are worked on at the same time.

    The largest number up to ``training.parallel_parts`` that divides the rows of a micro-batch.
    """
    assert config.parallel_parts is not None, "the configuration is not finished"
    micro_rows = max(1, rows // config.accumulate)
    most = min(config.parallel_parts, micro_rows)
    return next(parts for parts in range(most, 0, -1) if micro_rows % parts == 0)


def list_state_names(
    model: Model, slots: int, averaging: bool
) -> tuple[list[str], list[str], list[str]]:
    """Return the names in a checkpoint of the weights, the optimizer's slots and the averages.

    Weights that are not trained are not in it: they are kept once.
    """
    weights = list(model.trained_weights())
    return (
        [f"model/{name}" for name in weights],
        [f"optimizer/{i:04d}" for i in range(slots)],
        [f"average/{name}" for name in weights] if averaging else [],
    )


def check_state_names(named: Iterable[str], state: Iterable[str]) -> None:
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
