"""The devices that share every update, and the engine of the backend that joins them.

On TensorFlow that is a strategy of `tf.distribute`, within whose scope variables are made; on JAX,
a mesh over which the arrays of an update are laid.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import keras

from nmt.errors import UserError
from nmt.startup.devices import gpus


@dataclass(frozen=True)
class Team:
    """Who shares an update; without devices, it is the one that the backend takes by itself."""

    devices: Sequence[Any] = ()  # JAX: in the order in which they share the rows of a batch
    strategy: Any = None  # TensorFlow: of `tf.distribute`

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model and its update are made, and are used."""
        return nullcontext() if self.strategy is None else self.strategy.scope()


def make_team(devices: str) -> Team:
    """Return the devices of this machine that ``training.devices`` names.

    Args:
        devices: "auto", all GPUs or the CPU; or how many. Of a CPU, `divide_cpu` makes several.

    Raises:
        UserError: there are not so many.
    """
    found = len(gpus())
    wanted = max(1, found) if devices == "auto" else int(devices)
    if wanted == 1:
        return Team()
    if found and wanted > found:
        raise UserError(f"training.devices={devices}: there are {found} GPUs")
    kind = "gpu" if found else "cpu"
    if keras.config.backend() == "jax":
        import jax

        return Team(devices=jax.devices(kind)[:wanted])
    import tensorflow as tf

    names = [f"{kind.upper()}:{number}" for number in range(wanted)]
    return Team(strategy=tf.distribute.MirroredStrategy(names))
