"""What the backend in use has found to compute on."""

from __future__ import annotations

import re
from typing import NamedTuple

import keras


class Gpu(NamedTuple):
    """A GPU that the backend can use."""

    name: str
    capability: tuple[int, int]  # compute capability of CUDA; (0, 0) on other makes


def gpus() -> list[Gpu]:
    """Return every GPU that the backend can use; none on a machine with a CPU alone."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        details = [
            tf.config.experimental.get_device_details(gpu)
            for gpu in tf.config.list_physical_devices("GPU")
        ]
        return [
            Gpu(detail.get("device_name", "GPU"), detail.get("compute_capability", (0, 0)))
            for detail in details
        ]
    if keras.config.backend() == "jax":
        import jax

        found = []
        for device in jax.devices():
            if device.platform == "gpu":
                version = re.fullmatch(r"(\d+)\.(\d+)", str(device.compute_capability))
                capability = (int(version[1]), int(version[2])) if version else (0, 0)
                found.append(Gpu(device.device_kind, capability))
        return found
    return []
