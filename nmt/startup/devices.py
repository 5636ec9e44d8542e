"""What the backend in use has found to compute on."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from nmt.errors import UserError


class Gpu(NamedTuple):
    """A GPU that the backend can use."""

    name: str
    capability: tuple[int, int]  # compute capability of CUDA; (0, 0) on other makes


def gpus() -> list[Gpu]:
    """Return every GPU that the backend can use; none on a machine with a CPU alone."""
    import keras  # commands import this module before they import anything heavy

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


def divide_cpu(count: int) -> None:
    """Let the CPU be so many devices, to rehearse on.

    Raises:
        UserError: something has been computed already, on fewer.
    """
    import keras

    try:
        if keras.config.backend() == "jax":
            import jax

            jax.config.update("jax_num_cpu_devices", count)
        else:
            import tensorflow as tf

            [cpu] = tf.config.list_physical_devices("CPU")
            parts = [tf.config.LogicalDeviceConfiguration()] * count
            tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        if _count_cpus() < count:
            raise UserError(
                f"training.devices={count}: a CPU is divided before anything is computed: start a "
                "new process"
            ) from error


def _count_cpus() -> int:
    """Count the devices that the CPU is, once something has been computed."""
    import keras

    if keras.config.backend() == "jax":
        import jax

        return len(jax.devices("cpu"))
    import tensorflow as tf

    return len(tf.config.list_logical_devices("CPU"))


def cores() -> int:
    """Count the CPU cores that this process may run on; where the system does not tell, all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_thread_per_operation() -> None:
    """Let TensorFlow compute every operation on one core of a CPU; a setting of the user's stays.

    The products of decoding are too small to share: one sentence is translated in two thirds of the
    time, and cores are kept busy by translating several batches at once. Must be called before
    TensorFlow is imported.
    """
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
