"""The devices and processes that share every update.

On TensorFlow they are joined by a `tf.distribute` strategy, in whose scope variables are made; on
JAX by `jax.distributed` and a mesh that the arrays of an update are spread over. All processes do
the same things in the same order; only the main process writes.
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

from nmt.config.training import MULTIWORKER
from nmt.errors import UserError
from nmt.startup.cluster import VARIABLE, Cluster, find_cluster
from nmt.startup.devices import divide_cpu, gpus
from nmt.startup.liveness import TIMEOUT, PeerMonitor

_NOTICE_SECONDS = 3.0  # until the monitor has noticed that another process is gone
_MIN_MESSAGE = 256  # integers; lengths are powers of two, because each length is compiled once

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessGroup:
    """The devices and processes that share every update; by default, the default device alone.

    Attributes:
        devices: on JAX, the devices of all processes, in the order in which they share a batch.
        strategy: on TensorFlow, the `tf.distribute` strategy.
        process: index of this process; process 0 is the main process.
        processes: number of processes.
        monitor: ends this process when another one is gone; None: a single process.
    """

    devices: Sequence[Any] = ()
    strategy: Any = None
    process: int = 0
    processes: int = 1
    monitor: PeerMonitor | None = None

    @property
    def replicas(self) -> int:
        """Number of devices that share an update."""
        if self.strategy is not None:
            return int(self.strategy.num_replicas_in_sync)
        return max(1, len(self.devices))

    @property
    def local_replicas(self) -> int:
        """Number of these devices that belong to this process."""
        return self.replicas // self.processes

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.process == 0

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model and its update are made and used."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def all_gather(self, value: T) -> list[T]:
        """Return the values that all processes pass, by process; waits for all of them.

        Args:
            value: anything that JSON can encode.
        """
        if self.processes == 1:
            return [value]
        data = json.dumps(value).encode()
        sizes = self._gather(np.array([len(data)], np.int32))[:, 0]
        length = _MIN_MESSAGE
        while 4 * length < sizes.max():
            length *= 2
        message = np.zeros(4 * length, np.uint8)
        message[: len(data)] = np.frombuffer(data, np.uint8)
        messages = self._gather(message.view(np.int32))
        return [
            json.loads(row.tobytes()[:size].decode())
            for row, size in zip(messages, sizes, strict=True)
        ]

    def broadcast(self, value: T) -> T:
        """Return the main process's value in every process; waits for all of them."""
        return self.all_gather(value)[0]

    def shard(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items that this process works on."""
        return items[self.process :: self.processes]

    def gather_shards(self, results: Sequence[T], count: int) -> list[T]:
        """Return the results for all items, in order.

        Args:
            results: the results for the items that `shard` returned to this process.
            count: number of all items.
        """
        shards = self.all_gather(list(results))
        return [shards[i % self.processes][i // self.processes] for i in range(count)]

    def check_same_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Check that all processes have the same state, bit for bit.

        Raises:
            RuntimeError: the states differ.
        """
        if self.processes == 1:
            return
        checksum = 0
        for name in sorted(state):
            checksum = zlib.crc32(state[name].tobytes(), checksum)
        checksums = self.all_gather(checksum)
        if len(set(checksums)) > 1:
            raise RuntimeError(f"processes that train together have different weights: {checksums}")

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.all_gather(None)

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Make an error in one process stop all processes, and wait for all at the end."""
        try:
            yield
            self.barrier()
        except BaseException as error:
            if self.monitor is not None:
                if isinstance(error, Exception) and not isinstance(error, UserError):
                    # The error may be a consequence: if another process is gone, the monitor
                    # notices now, names it, and ends this process.
                    time.sleep(_NOTICE_SECONDS)
                self.monitor.fail()
            raise
        if self.monitor is not None:
            self.monitor.close()

    def _gather(self, array: np.ndarray) -> np.ndarray:
        """Return the arrays int32 [...] of all processes as int32 [processes, ...]."""
        if self.strategy is None:
            from jax.experimental import multihost_utils

            return np.asarray(multihost_utils.process_allgather(array))
        import tensorflow as tf

        gathered = self._gather_replicas(tf.constant(array))
        values = self.strategy.experimental_local_results(gathered)
        return np.asarray(values[0])[:: self.local_replicas]

    @cached_property
    def _gather_replicas(self) -> Any:
        import tensorflow as tf

        def gather(array: Any) -> Any:
            return tf.distribute.get_replica_context().all_gather(array[None], axis=0)

        return tf.function(lambda array: self.strategy.run(gather, args=(array,)), autograph=False)


def make_process_group(devices: str) -> ProcessGroup:
    """Return the process group that ``training.devices`` names.

    Must be called before anything is computed.

    Args:
        devices: "auto", all GPUs of this machine, or its CPU; a number of devices; "multiworker".

    Raises:
        UserError: devices are missing, or other workers.
    """
    if devices == MULTIWORKER:
        return _join_cluster(find_cluster(os.environ))
    division_error = None
    if devices not in ("auto", "1"):
        try:
            divide_cpu(int(devices))  # in any case: looking for GPUs initialises the devices
        except UserError as error:
            division_error = error
    available = len(gpus())
    count = max(1, available) if devices == "auto" else int(devices)
    if count == 1:
        return ProcessGroup()
    if not available and division_error:
        raise division_error
    if available and count > available:
        raise UserError(
            f"training.devices={devices}: this machine has {available} GPUs; set a smaller number, "
            "or auto"
        )
    kind = "gpu" if available else "cpu"
    if keras.config.backend() == "jax":
        import jax

        return ProcessGroup(devices=jax.devices(kind)[:count])
    import tensorflow as tf

    names = [f"{kind.upper()}:{number}" for number in range(count)]
    return ProcessGroup(strategy=tf.distribute.MirroredStrategy(names))


def _join_cluster(cluster: Cluster) -> ProcessGroup:
    """Return the group of all processes of a cluster; waits for all of them."""
    process, processes = cluster.index, len(cluster.workers)
    monitor = PeerMonitor(cluster.workers, process)
    if keras.config.backend() == "jax":
        import jax

        jax.distributed.initialize(
            cluster.workers[0],
            num_processes=processes,
            process_id=process,
            # The monitor is faster, and names the process that is gone.
            heartbeat_timeout_seconds=round(2 * TIMEOUT),
        )
        process_group = ProcessGroup(jax.devices(), None, process, processes, monitor)
        process_group.barrier()  # at once: JAX gives up if processes arrive 30 seconds apart
        return process_group
    import tensorflow as tf

    os.environ[VARIABLE] = cluster.to_tf_config()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return ProcessGroup((), strategy, process, processes, monitor)
