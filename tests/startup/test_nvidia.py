"""The driver is found by its files, else by its command; on other machines there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.startup.nvidia import NvidiaDriver, nvidia_driver

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


def make_system(root: Path, *models: str, devices: int, version: str = VERSION) -> Path:
    """Write the files of a driver; ``devices`` is how many GPUs a container was given."""
    driver = root / "proc" / "driver" / "nvidia"
    driver.mkdir(parents=True)
    (driver / "version").write_text(version)
    for number, model in enumerate(models):
        folder = driver / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 64\n")
    (root / "dev").mkdir()
    for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(devices))]:
        (root / "dev" / name).touch()
    return root


def make_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a stand-in for nvidia-smi on the path, and nothing else."""
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_files_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_smi(tmp_path / "bin", monkeypatch, f": >{tmp_path}/asked")
    system = make_system(tmp_path, "NVIDIA H100 80GB HBM3", "Tesla T4", devices=2)
    assert nvidia_driver(system) == NvidiaDriver("570.86.15", ("NVIDIA H100 80GB HBM3", "Tesla T4"))
    assert not (tmp_path / "asked").exists()


def test_a_container_without_device_files_has_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert nvidia_driver(make_system(tmp_path, "Tesla T4", devices=0)) is None


def test_the_command_is_asked_where_there_are_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = "560.94, NVIDIA GeForce RTX 4070, Laptop GPU"
    make_smi(tmp_path, monkeypatch, f'echo "$1 $2" >{tmp_path}/asked; echo "{row}"')
    assert nvidia_driver(tmp_path) == NvidiaDriver(
        "560.94", ("NVIDIA GeForce RTX 4070, Laptop GPU",)
    )
    asked = (tmp_path / "asked").read_text()
    assert asked == "--query-gpu=driver_version,name --format=csv,noheader\n"


@pytest.mark.parametrize("script", ["echo 'NVIDIA-SMI has failed'; exit 9", "echo", "exit 0"])
def test_a_command_that_fails_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    make_smi(tmp_path, monkeypatch, script)
    assert nvidia_driver(tmp_path) is None


def test_a_device_file_alone_is_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    assert nvidia_driver(tmp_path) == NvidiaDriver("unknown", ("unknown",))
