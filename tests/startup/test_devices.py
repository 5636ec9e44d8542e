"""What there is to compute on, and how it is shared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras
import pytest

from nmt.errors import UserError
from nmt.startup import devices
from nmt.startup.devices import Gpu, cores, gpus, one_thread_per_operation, report_devices
from nmt.startup.nvidia import NvidiaDriver

SETTING = "TF_NUM_INTRAOP_THREADS"
T4 = Gpu("Tesla T4", (7, 5))
H100 = Gpu("NVIDIA H100 80GB HBM3", (9, 0))
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", (12, 0))
DRIVER = NvidiaDriver("535.104.05", ("Tesla T4",))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with a CPU of two cores, and no setting that hides GPUs."""
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices, "gpus", lambda: [])
    monkeypatch.setattr(devices, "nvidia_driver", lambda: None)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    monkeypatch.setattr(devices, "_is_installed", lambda package: False)
    return monkeypatch


@pytest.mark.parametrize(
    ("visible", "count", "line"),
    [
        ([], 1, "device: CPU (2 cores)"),
        ([], 2, "device: CPU (2 cores, divided into 2 devices)"),
        ([H100], 1, "device: NVIDIA H100 80GB HBM3"),
        ([H100] * 4, 1, "device: NVIDIA H100 80GB HBM3"),
        ([H100] * 4, 4, "device: 4 x NVIDIA H100 80GB HBM3"),
        ([H100, T4], 2, "device: NVIDIA H100 80GB HBM3, Tesla T4"),
    ],
)
def test_the_devices_of_a_run_are_named(
    machine: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    visible: list[Gpu],
    count: int,
    line: str,
) -> None:
    machine.setattr(devices, "gpus", lambda: visible)
    lines: list[str] = []
    report_devices(count, lines.append)
    assert lines == [line]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("backend", "package", "extra"),
    [("tensorflow", "nvidia-cudnn-cu12", "gpu"), ("jax", "jax-cuda12-plugin", "jax-gpu")],
)
def test_a_gpu_that_is_not_used_is_a_warning_with_the_missing_package(
    machine: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    backend: str,
    package: str,
    extra: str,
) -> None:
    machine.setattr(devices, "nvidia_driver", lambda: DRIVER)
    machine.setattr(keras.config, "backend", lambda: backend)
    report_devices(1, lambda line: None)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ")
    assert "Tesla T4" in line
    assert f"the package {package} is missing" in line
    assert f"NMT_EXTRAS={extra} bash scripts/setup.sh or pip install 'nmt[{extra}]'" in line

    machine.setattr(devices, "_is_installed", lambda name: name == package)
    report_devices(1, lambda line: None)
    [line] = capsys.readouterr().err.splitlines()
    assert "is missing" not in line
    assert "the driver (version: 535.104.05) may be too old" in line


@pytest.mark.parametrize(
    ("backend", "name", "value", "warned"),
    [
        ("tensorflow", "CUDA_VISIBLE_DEVICES", "", False),
        ("tensorflow", "CUDA_VISIBLE_DEVICES", "-1", False),
        ("tensorflow", "CUDA_VISIBLE_DEVICES", "NoDevFiles", False),
        ("tensorflow", "CUDA_VISIBLE_DEVICES", "0,1", True),
        ("tensorflow", "CUDA_VISIBLE_DEVICES", "GPU-8932f937", True),
        ("tensorflow", "JAX_PLATFORMS", "cpu", True),
        ("jax", "JAX_PLATFORMS", "cpu", False),
        ("jax", "JAX_PLATFORMS", "cuda,cpu", True),
        ("jax", "JAX_PLATFORMS", "", True),
    ],
)
def test_hidden_gpus_are_no_reason_to_warn(
    machine: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    backend: str,
    name: str,
    value: str,
    warned: bool,
) -> None:
    machine.setattr(devices, "nvidia_driver", lambda: DRIVER)
    machine.setattr(keras.config, "backend", lambda: backend)
    machine.setenv(name, value)
    report_devices(1, lambda line: None)
    assert bool(capsys.readouterr().err) == warned


def let_tensorflow_see(
    monkeypatch: pytest.MonkeyPatch, visible: list[Gpu], compiled: list[str]
) -> None:
    """Let TensorFlow, built for the targets ``compiled``, report GPUs."""
    import tensorflow as tf

    def details(gpu: Gpu) -> dict[str, Any]:
        return {"device_name": gpu.name, "compute_capability": gpu.capability}

    build = {"cuda_compute_capabilities": compiled} if compiled else {}
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: visible)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)


def test_tensorflow_has_no_code_for_newer_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    let_tensorflow_see(monkeypatch, [H100, RTX_5090], ["sm_60", "sm_89", "compute_90"])
    with pytest.raises(UserError) as caught:
        gpus()
    message = str(caught.value)
    assert "\n" not in message
    assert "NVIDIA GeForce RTX 5090, of compute capability 12.0 (this build ends at 9.0)" in message
    assert "NMT_EXTRAS=jax-gpu" in message
    assert "KERAS_BACKEND=jax" in message
    assert "CUDA_VISIBLE_DEVICES=-1" in message


@pytest.mark.parametrize(
    ("visible", "compiled"),
    [
        ([T4, H100, Gpu("NVIDIA L4", (8, 9))], ["sm_60", "sm_89", "compute_90"]),
        ([RTX_5090], ["sm_90", "sm_120a"]),  # somebody's own build
        ([RTX_5090], []),  # one that does not say
        ([Gpu("AMD Instinct MI300X", (0, 0))], ["compute_90"]),
    ],
)
def test_gpus_that_tensorflow_has_code_for(
    monkeypatch: pytest.MonkeyPatch, visible: list[Gpu], compiled: list[str]
) -> None:
    let_tensorflow_see(monkeypatch, visible, compiled)
    assert gpus() == visible


def test_cores_are_those_this_process_may_use(tmp_path: Path) -> None:
    if not hasattr(os, "sched_setaffinity"):
        assert cores(tmp_path) == os.cpu_count()
        return
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores(tmp_path) == len(allowed)


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 3),
        ({}, 8),
    ],
)
def test_a_container_has_fewer_cores_than_its_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], count: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == count


def test_a_thread_setting_of_the_users_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    one_thread_per_operation()
    assert os.environ[SETTING] == "1"
    monkeypatch.setenv(SETTING, "7")
    one_thread_per_operation()
    assert os.environ[SETTING] == "7"
