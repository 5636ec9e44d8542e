"""Devices to compute on: those the backend has found, and those it should have found."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from nmt.errors import UserError
from nmt.startup.nvidia import NvidiaDriver, nvidia_driver


class Gpu(NamedTuple):
    """A GPU that the backend can use."""

    name: str
    capability: tuple[int, int]  # compute capability of CUDA; (0, 0) on other makes


def gpus() -> list[Gpu]:
    """Return every GPU that the backend can use; none on a machine with a CPU alone.

    Raises:
        UserError: TensorFlow has no code for one of them.
    """
    import keras  # commands import this module before they import anything heavy

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        details = [
            tf.config.experimental.get_device_details(gpu)
            for gpu in tf.config.list_physical_devices("GPU")
        ]
        found = [
            Gpu(detail.get("device_name", "GPU"), detail.get("compute_capability", (0, 0)))
            for detail in details
        ]
        _reject_newer(found, tf.sysconfig.get_build_info().get("cuda_compute_capabilities", ()))
        return found
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


def _reject_newer(found: Sequence[Gpu], compiled: Sequence[str]) -> None:
    """Reject GPUs of a newer generation than TensorFlow was compiled for.

    An error rather than a warning, for nothing works on them: TensorFlow 2.21 is built with CUDA
    12.5, whose PTX 8.5 has no targets above compute capability 9.0. XLA then aborts the process
    ("PTX version 8.5 does not support target 'sm_120'", tensorflow issue 111958), and operations
    outside XLA fail with CUDA_ERROR_INVALID_HANDLE (issues 89272 and 99592).

    Args:
        found: GPUs that TensorFlow sees.
        compiled: its targets, such as "sm_89" and "compute_90"; empty if its build does not say.
    """
    targets = [int(number) for number in re.findall(r"_(\d+)", " ".join(compiled))]
    if not targets:
        return
    newest = divmod(max(targets), 10)
    for gpu in found:
        if gpu.capability[0] > newest[0]:
            raise UserError(
                f"TensorFlow has no code for {gpu.name}, of compute capability "
                f"{_dotted(gpu.capability)} (this build ends at {_dotted(newest)}): train on JAX "
                "(NMT_EXTRAS=jax-gpu bash scripts/setup.sh or pip install 'nmt[jax-gpu]', then "
                "KERAS_BACKEND=jax), or on the CPU (CUDA_VISIBLE_DEVICES=-1)"
            )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def report_devices(count: int, write: Callable[[str], Any]) -> None:
    """Write which devices this process trains on; warn on standard error of an unused GPU.

    Args:
        count: how many devices share an update in this process.
        write: takes the line.
    """
    used = gpus()[:count]
    if used:
        names = Counter(gpu.name for gpu in used)
        each = (f"{number} x {name}" if number > 1 else name for name, number in names.items())
        write(f"device: {', '.join(each)}")
        return
    number = cores()
    parts = f", divided into {count} devices" if count > 1 else ""
    write(f"device: CPU ({number} core{'s' if number > 1 else ''}{parts})")
    unused = explain_unused_gpu(nvidia_driver())
    if unused is not None:
        print(f"warning: {unused}", file=sys.stderr)


def explain_unused_gpu(driver: NvidiaDriver | None) -> str | None:
    """Return why the backend does not find the driver's GPU, and the remedy.

    Returns None without a driver, and if environment variables hide its GPUs.
    """
    import keras

    if driver is None or _gpus_are_hidden():
        return None
    if keras.config.backend() == "jax":
        backend, extra, packages = "JAX", "jax-gpu", ["jax-cuda12-plugin", "jax-cuda13-plugin"]
    else:
        backend, extra, packages = "TensorFlow", "gpu", ["nvidia-cudnn-cu12"]
    start = f"{backend} finds no GPU, although this machine has one (model: {driver.models[0]}): "
    if any(map(_is_installed, packages)):
        return (
            f"{start}the CUDA packages are installed, but the driver (version: {driver.version}) "
            "may be too old, or the GPU in use; TF_CPP_MIN_LOG_LEVEL=0 shows the cause"
        )
    return (
        f"{start}the package {packages[0]} is missing; it and those beside it come with "
        f"NMT_EXTRAS={extra} bash scripts/setup.sh or pip install 'nmt[{extra}]'"
    )


def _gpus_are_hidden() -> bool:
    """Whether environment variables keep the backend from using GPUs."""
    import keras

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and not re.match(r"\d|GPU-|MIG-", visible):  # empty, -1, NoDevFiles
        return True
    platforms = os.environ.get("JAX_PLATFORMS", "")
    on_jax = keras.config.backend() == "jax"
    return on_jax and bool(platforms) and not re.search("cuda|gpu", platforms)


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


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
