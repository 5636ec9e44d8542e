"""The devices that share every update, and the engine of the backend that joins them.

On TensorFlow that is a strategy of `tf.distribute`, within whose scope variables are made; on JAX,
`jax.distributed` and a mesh over which the arrays of an update are laid. Several processes do the
same things in the same order; the first one alone writes.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import keras
import numpy as np

from nmt.errors import UserError
from nmt.startup.cluster import VARIABLE, Cluster, find_cluster
from nmt.startup.devices import divide_cpu, gpus
from nmt.startup.liveness import TIMEOUT, PeerMonitor

MULTIWORKER = "multiworker"
_HEARING = 3.0  # seconds that news of another process may take
_LEAST = 256  # integers of a message, of which there are few lengths: each is compiled once

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessGroup:
    """Who shares an update; without devices, it is the one that the backend takes by itself.

    Attributes:
        devices: JAX: of all processes, in the order in which they share the rows of a batch.
        strategy: TensorFlow: of `tf.distribute`.
        process: number of this process; the first one, 0, writes.
        processes: how many there are.
    """

    devices: Sequence[Any] = ()
    strategy: Any = None
    process: int = 0
    processes: int = 1
    monitor: PeerMonitor | None = None

    @property
    def replicas(self) -> int:
        """How many devices share an update."""
        if self.strategy is not None:
            return int(self.strategy.num_replicas_in_sync)
        return max(1, len(self.devices))

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes files, and says what is going on."""
        return self.process == 0

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model and its update are made, and are used."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def all_gather(self, value: T) -> list[T]:
        """Return what each process gives here, in their order; all wait for each other.

        Args:
            value: of what JSON knows.
        """
        if self.processes == 1:
            return [value]
        data = json.dumps(value).encode()
        sizes = self._gather(np.array([len(data)], np.int32))[:, 0]
        room = _LEAST
        while 4 * room < sizes.max():
            room *= 2
        message = np.zeros(4 * room, np.uint8)
        message[: len(data)] = np.frombuffer(data, np.uint8)
        found = self._gather(message.view(np.int32))
        return [
            json.loads(row.tobytes()[:size].decode())
            for row, size in zip(found, sizes, strict=True)
        ]

    def shard(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items that this process works on."""
        return items[self.process :: self.processes]

    def gather_shards(self, results: Sequence[T], count: int) -> list[T]:
        """Return the results for all items, from each process those for what `share` gave it."""
        if self.processes == 1:
            return list(results)
        every = self.all_gather(list(results))
        return [every[i % self.processes][i // self.processes] for i in range(count)]

    def check_same_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Check that all processes have the same state, to the bit.

        Raises:
            RuntimeError: they have not, and would go on with different models.
        """
        if self.processes == 1:
            return
        mark = 0
        for name in sorted(state):
            mark = zlib.crc32(state[name].tobytes(), mark)
        marks = self.all_gather(mark)
        if len(set(marks)) > 1:
            raise RuntimeError(f"processes that train together have different weights: {marks}")

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.all_gather(None)

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Begin together and end together: what fails in one process stops all."""
        try:
            yield
            self.barrier()
        except BaseException as error:
            if self.monitor is not None:
                if isinstance(error, Exception) and not isinstance(error, UserError):
                    # The engine may fail because another process is gone: the monitor hears of it
                    # at the same time, and ends this one with the line that says so.
                    time.sleep(_HEARING)
                self.monitor.fail()
            raise
        if self.monitor is not None:
            self.monitor.close()

    def _gather(self, array: np.ndarray) -> np.ndarray:
        """Return int32 [processes, ...] of the arrays int32 [...] of all processes."""
        if self.strategy is None:
            from jax.experimental import multihost_utils

            return np.asarray(multihost_utils.process_allgather(array))
        import tensorflow as tf

        found = self._gather_replicas(tf.constant(array))
        local = self.strategy.num_replicas_in_sync // self.processes
        return np.asarray(self.strategy.experimental_local_results(found)[0])[::local]

    @cached_property
    def _gather_replicas(self) -> Any:
        import tensorflow as tf

        def gather(array: Any) -> Any:
            return tf.distribute.get_replica_context().all_gather(array[None], axis=0)

        return tf.function(lambda array: self.strategy.run(gather, args=(array,)), autograph=False)


def make_process_group(devices: str) -> ProcessGroup:
    """Return the devices that ``training.devices`` names. Must come before anything is computed.

    Args:
        devices: "auto", all GPUs of this machine, or its CPU; how many; or "multiworker".

    Raises:
        UserError: there are not so many, or no others.
    """
    if devices == MULTIWORKER:
        return _join(find_cluster(os.environ))
    undivided = None
    if devices not in ("auto", "1"):
        try:
            divide_cpu(int(devices))  # wanted or not: to look for GPUs is to begin computing
        except UserError as error:
            undivided = error
    found = len(gpus())
    wanted = max(1, found) if devices == "auto" else int(devices)
    if wanted == 1:
        return ProcessGroup()
    if not found and undivided:
        raise undivided
    if found and wanted > found:
        raise UserError(f"training.devices={devices}: there are {found} GPUs")
    kind = "gpu" if found else "cpu"
    if keras.config.backend() == "jax":
        import jax

        return ProcessGroup(devices=jax.devices(kind)[:wanted])
    import tensorflow as tf

    names = [f"{kind.upper()}:{number}" for number in range(wanted)]
    return ProcessGroup(strategy=tf.distribute.MirroredStrategy(names))


def _join(cluster: Cluster) -> ProcessGroup:
    """Join the other processes."""
    process, processes = cluster.index, len(cluster.workers)
    monitor = PeerMonitor(cluster.workers, process)
    if keras.config.backend() == "jax":
        import jax

        jax.distributed.initialize(
            cluster.workers[0],
            num_processes=processes,
            process_id=process,
            heartbeat_timeout_seconds=round(2 * TIMEOUT),  # the monitor is quicker, and says who
        )
        process_group = ProcessGroup(jax.devices(), None, process, processes, monitor)
        process_group.barrier()  # at once: JAX gives up if processes arrive 30 seconds apart
        return process_group
    import tensorflow as tf

    os.environ[VARIABLE] = cluster.as_variable()
    return ProcessGroup(
        (), tf.distribute.MultiWorkerMirroredStrategy(), process, processes, monitor
    )
