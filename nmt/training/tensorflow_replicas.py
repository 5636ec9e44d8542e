"""The replicas of `tf.distribute` that share an update: their rows, and sums over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from nmt.data.batches import Batch
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import pad_rows


class Replicas:
    """The replicas of the strategy in scope.

    Args:
        process_group: the processes that the replicas belong to.
    """

    def __init__(self, process_group: ProcessGroup) -> None:
        self._process_group = process_group
        self._strategy = tf.distribute.get_strategy()
        self.count: int = self._strategy.num_replicas_in_sync

    def distribute(self, batch: Batch, micro_batches: int, *, local: bool = False) -> Any:
        """Return tensors with the rows of each replica, padded to equal micro-batches.

        Args:
            batch: all rows.
            micro_batches: number for each replica.
            local: whether the batch has only the rows of this process.
        """
        replicas = self._process_group.local_replicas if local else self.count
        first = self._process_group.process * replicas if local else 0
        padded = pad_rows(batch, micro_batches * replicas)
        rows = len(padded["labels"]) // replicas

        def select(replica: int) -> dict[str, Any]:
            share = slice((replica - first) * rows, (replica - first + 1) * rows)
            return {name: tf.constant(array[share]) for name, array in padded.items()}

        if self.count == 1:
            return select(0)
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: select(context.replica_id_in_sync_group)
        )

    def make_function(self, function: Callable[..., Any]) -> Any:
        """Return a `tf.function` that runs ``function`` on every replica."""

        def run(*arguments: Any) -> Any:
            return self._strategy.run(function, args=arguments)

        return tf.function(run, autograph=False)

    def local_results(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of the first replica of this process."""
        return [self._strategy.experimental_local_results(value)[0] for value in values]

    def sum(self, tensors: list[Any]) -> list[Any]:
        """Return the sums over all replicas; called within a function that replicas run."""
        if self.count == 1:
            return tensors
        replica = tf.distribute.get_replica_context()
        return list(replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors))

    def first_row(self, rows: int) -> Any:
        """Return the index in the whole batch of this replica's first row; each has ``rows``."""
        return tf.distribute.get_replica_context().replica_id_in_sync_group * rows
