"""The devices that share an update on JAX: copies on each, and batches spread over them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from nmt.data.batches import Batch
from nmt.training.process_group import ProcessGroup
from nmt.training.train_step import pad_rows


class Devices:
    """The devices of a process group.

    Attributes:
        count: number of devices, over all processes.
        mesh: the devices along one axis, "rows"; None for a single one.
        replicated: sharding of arrays that every device has a copy of; None for a single one.
    """

    def __init__(self, process_group: ProcessGroup) -> None:
        self._process_group = process_group
        self.count = process_group.replicas
        devices = np.array(process_group.devices)
        self.mesh = Mesh(devices, ("rows",)) if self.count > 1 else None
        self.replicated = NamedSharding(self.mesh, PartitionSpec()) if self.mesh else None

    def replicate(self, array: Any) -> Any:
        """Return a copy on every device."""
        if self.replicated is None:
            return jnp.array(array)
        host = np.array(array)
        return jax.make_array_from_callback(host.shape, self.replicated, lambda index: host[index])

    def distribute(self, batch: Batch, micro_batches: int, *, local: bool = False) -> Any:
        """Return the batch, padded to equal micro-batches and spread over the devices by rows.

        On several devices, several micro-batches have an axis of their own: arrays are
        [micro-batches, rows, L], and the devices share the rows.

        Args:
            batch: all rows.
            micro_batches: number in the batch.
            local: whether the batch has only the rows of this process.
        """
        replicas = self._process_group.local_replicas if local else self.count
        padded = pad_rows(batch, micro_batches * replicas)
        if self.mesh is None:
            return padded
        if micro_batches > 1:
            padded = {
                name: array.reshape(micro_batches, -1, array.shape[1])
                for name, array in padded.items()
            }
        axes = (None, "rows") if micro_batches > 1 else ("rows",)
        sharding = NamedSharding(self.mesh, PartitionSpec(*axes))
        if local:
            return {
                name: jax.make_array_from_process_local_data(sharding, array)
                for name, array in padded.items()
            }
        return {
            name: jax.make_array_from_callback(array.shape, sharding, array.__getitem__)
            for name, array in padded.items()
        }
