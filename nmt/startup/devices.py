"""The devices that the backend can use, and why it misses a GPU."""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import UserError
from nmt.startup.nvidia import NvidiaDriver, nvidia_driver

# Files of a Linux control group, version 2 and 1: microseconds of CPU time in each period, and
# those of a period.
_CPU_QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


class Gpu(NamedTuple):
    """A GPU that the backend can use."""

    name: str
    capability: tuple[int, int]  # compute capability of CUDA; (0, 0) for other vendors


def gpus() -> list[Gpu]:
    """Return the GPUs that the backend can use; an empty list without any.

    Raises:
        UserError: TensorFlow was built without support for one of them.
    """
    import keras  # commands import this module before they import anything heavy

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        details = [
            tf.config.experimental.get_device_details(gpu)
            for gpu in tf.config.list_physical_devices("GPU")
        ]
        devices = [
            Gpu(detail.get("device_name", "GPU"), detail.get("compute_capability", (0, 0)))
            for detail in details
        ]
        _check_support(devices, tf.sysconfig.get_build_info().get("cuda_compute_capabilities", ()))
        return devices
    if keras.config.backend() == "jax":
        import jax

        devices = []
        for device in jax.devices():
            if device.platform == "gpu":
                version = re.fullmatch(r"(\d+)\.(\d+)", str(device.compute_capability))
                capability = (int(version[1]), int(version[2])) if version else (0, 0)
                devices.append(Gpu(device.device_kind, capability))
        return devices
    return []


def _check_support(devices: Sequence[Gpu], targets: Sequence[str]) -> None:
    """Raise an error if a GPU is of a newer generation than TensorFlow was compiled for.

    An error and not a warning, because nothing works on such a GPU: TensorFlow 2.21 is built with
    CUDA 12.5, whose PTX 8.5 has no targets above compute capability 9.0. XLA aborts the process
    ("PTX version 8.5 does not support target 'sm_120'", tensorflow issue 111958), and operations
    outside XLA fail with CUDA_ERROR_INVALID_HANDLE (issues 89272 and 99592).

    Args:
        devices: GPUs that TensorFlow sees.
        targets: its compilation targets, such as "sm_89" and "compute_90"; empty if unknown.
    """
    numbers = [int(number) for number in re.findall(r"_(\d+)", " ".join(targets))]
    if not numbers:
        return
    newest = divmod(max(numbers), 10)
    for gpu in devices:
        if gpu.capability[0] > newest[0]:
            raise UserError(
                f"TensorFlow does not support {gpu.name}, of compute capability "
                f"{_dotted(gpu.capability)} (this build ends at {_dotted(newest)}): use JAX "
                "(NMT_EXTRAS=jax-gpu bash scripts/setup.sh or pip install 'nmt[jax-gpu]', then "
                "KERAS_BACKEND=jax), or on the CPU (CUDA_VISIBLE_DEVICES=-1)"
            )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def report_devices(count: int, log: Callable[[str], Any]) -> None:
    """Log the devices that this process trains on; warn on standard error of an unused GPU.

    Args:
        count: number of devices that share an update in this process.
        log: called with one line.
    """
    used = gpus()[:count]
    if used:
        names = Counter(gpu.name for gpu in used)
        items = (f"{number} x {name}" if number > 1 else name for name, number in names.items())
        log(f"device: {', '.join(items)}")
        return
    number = cores()
    division = f", divided into {count} devices" if count > 1 else ""
    log(f"device: CPU ({number} core{'s' if number > 1 else ''}{division})")
    unused = explain_unused_gpu(nvidia_driver())
    if unused is not None:
        print(f"warning: {unused}", file=sys.stderr)


def explain_unused_gpu(driver: NvidiaDriver | None) -> str | None:
    """Return why the backend does not find the driver's GPU, and the remedy.

    None without a driver, or if environment variables hide its GPUs.
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
        f"{start}the package {packages[0]} is missing; install the CUDA packages with "
        f"NMT_EXTRAS={extra} bash scripts/setup.sh or pip install 'nmt[{extra}]'"
    )


def _gpus_are_hidden() -> bool:
    """Whether environment variables hide the GPUs from the backend."""
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
    """Divide the CPU into several devices, to rehearse training on several GPUs.

    Raises:
        UserError: the devices are initialised already, and there are fewer.
    """
    import keras

    try:
        if keras.config.backend() == "jax":
            import jax

            jax.config.update("jax_num_cpu_devices", count)
        else:
            import tensorflow as tf

            [cpu] = tf.config.list_physical_devices("CPU")
            divisions = [tf.config.LogicalDeviceConfiguration()] * count
            tf.config.set_logical_device_configuration(cpu, divisions)
    except RuntimeError as error:
        if _count_cpus() < count:
            raise UserError(
                f"training.devices={count}: the CPU cannot be divided after the first computation; "
                "start a new process"
            ) from error


def _count_cpus() -> int:
    """Return the number of CPU devices; initialises the backend."""
    import keras

    if keras.config.backend() == "jax":
        import jax

        return len(jax.devices("cpu"))
    import tensorflow as tf

    return len(tf.config.list_logical_devices("CPU"))


def cores(system: Path = Path("/")) -> int:
    """Return the number of CPU cores that this process and its container may use, at least 1.

    The quota of a container is rounded up to whole cores.

    Args:
        system: root of the file system.
    """
    has_mask = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    for files in _CPU_QUOTAS:
        paths = [system / "sys/fs/cgroup" / name for name in files]
        if all(path.is_file() for path in paths):
            quota, period = " ".join(path.read_text("ascii") for path in paths).split()
            if quota.isdigit():  # otherwise "max" or -1: no quota
                count = min(count, math.ceil(int(quota) / int(period)))
    return max(1, count)


def one_thread_per_operation() -> None:
    """Make TensorFlow compute each operation on one CPU core, unless the user has set a number.

    The matrix products of decoding are too small to share among cores; translating several batches
    at once uses the cores better. Must be called before TensorFlow is imported.
    """
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
