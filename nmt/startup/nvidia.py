"""The NVIDIA driver of this machine, found without loading a backend."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_SMI_TIMEOUT = 20.0  # seconds; the driver may have to start first


class NvidiaDriver(NamedTuple):
    """A driver with at least one GPU."""

    version: str
    models: tuple[str, ...]  # one per GPU


def nvidia_driver(system: Path = Path("/")) -> NvidiaDriver | None:
    """Return the driver and its GPUs; None without a GPU that this process may use.

    Reads the driver's files, and runs ``nvidia-smi`` only where they are missing, as on WSL2.

    Args:
        system: root of the file system.
    """
    # A container sees all GPUs in /proc, but only the device files of its own.
    devices = len(list((system / "dev").glob("nvidia[0-9]*")))
    reports = sorted((system / "proc/driver/nvidia/gpus").glob("*/information"))
    if devices and reports:
        models = (_search(r"Model:(.+)", report) for report in reports)
        version = _search(r"\s(\d+\.\d+\S*)\s", system / "proc/driver/nvidia/version")
        return NvidiaDriver(version, tuple(models))
    driver = _query_smi()
    if driver is None and devices:
        return NvidiaDriver("unknown", ("unknown",) * devices)
    return driver


def _search(pattern: str, path: Path) -> str:
    """Return the first group of the first match in a file, or "unknown"."""
    try:
        match = re.search(pattern, path.read_text(encoding="utf-8"))
    except OSError:
        match = None
    return match[1].strip() if match else "unknown"


def _query_smi() -> NvidiaDriver | None:
    """Return the driver that ``nvidia-smi`` reports; None if that is missing or fails."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return None
    query = [smi, "--query-gpu=driver_version,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, check=True, timeout=_SMI_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split(", ", 1) for line in answer.stdout.splitlines() if ", " in line]
    return NvidiaDriver(rows[0][0], tuple(name for _, name in rows)) if rows else None
