"""Prepare a folder for a GPU machine without network, and install its wheels there."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import bench_train
from gpu_processes import find_error_line, stop

ARCHIVE = "spa-eng-cd7b240980a01dc3.zip"  # the name that `data=tatoeba` gives it in its cache
# Requirements of nmt that the GPU machine has, or that training on JAX does without.
PRESENT = {
    *("ctranslate2", "matplotlib", "numpy", "pillow", "pyyaml", "rich", "sacrebleu", "safetensors"),
    *("scipy", "sentencepiece", "tensorboard", "tensorflow", "tensorflow-text"),
}
INDIRECT = ("namex", "omegaconf", "optree")  # required by Keras and Hydra
SOURCES = ("antlr4-python3-runtime",)  # published without a wheel
TRANSFER_LIMIT = 64 * 2**20  # bytes
REHEARSAL_DATA = ["data.dev=16", "data.test=16", "tokenizer.vocabulary_size=500"]


def install(wheels: Path, site: Path) -> None:
    """Install the wheels that this Python lacks into a separate folder, and import from it."""
    if not any(wheels.glob("*.whl")):
        stop(f"--wheels {wheels} holds no wheel: make them with --prepare FOLDER --python 3.X")
    missing = []
    for wheel in sorted(wheels.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        with contextlib.suppress(metadata.PackageNotFoundError):
            if metadata.version(name) == version:
                continue
        missing.append(f"{name}=={version}")
    if missing:
        command = ["install", "--no-index", "--no-deps", "--find-links", str(wheels)]
        pip(*command, "--target", str(site), *missing)
        inherited = filter(None, [os.environ.get("PYTHONPATH")])
        os.environ["PYTHONPATH"] = os.pathsep.join([str(site), *inherited])
        sys.path.insert(0, str(site))
        importlib.invalidate_caches()


def pip(*arguments: str) -> None:
    """Run pip; if it fails, exit with its last error line."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(f"pip {arguments[0]} failed: {find_error_line(done.stderr)}")


def prepare(arguments: argparse.Namespace) -> None:
    """Fill a folder with everything that a machine without network needs besides the checkout."""
    folder: Path = arguments.prepare
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.archive:
        with contextlib.suppress(shutil.SameFileError):
            try:
                shutil.copyfile(arguments.archive, folder / ARCHIVE)
            except OSError as error:
                stop(f"--archive {arguments.archive} cannot be copied: {error.strerror}")
    if importlib.util.find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "jax"
    overrides = ["experiment=tatoeba_gpu", override_path("cache_dir", folder)]
    overrides += REHEARSAL_DATA if arguments.cpu_rehearsal else []
    bench_train.prepare([*overrides, *arguments.override])
    if arguments.python:
        fetch_wheels(folder / "wheels", arguments.python)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB")
    if size > TRANSFER_LIMIT:
        stop(f"{folder} is larger than {TRANSFER_LIMIT // 2**20} MiB: begin with an empty folder")


def fetch_wheels(folder: Path, python: str) -> None:
    """Fetch wheels of the installed versions, for Linux on this machine's architecture."""

    def pinned(names: Sequence[str]) -> list[str]:
        return [f"{name}=={metadata.version(name)}" for name in names]

    lines = [line for line in metadata.requires("nmt") or () if "extra ==" not in line]
    required = {re.split(r"[^\w.-]", line)[0].lower() for line in lines}
    wheels = sorted({*required - PRESENT, *INDIRECT})
    machine = platform.machine()
    tags = [f"{tag}_{machine}" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    platforms = [argument for tag in tags for argument in ("--platform", tag)]
    target = ["--python-version", python, "--implementation", "cp", *platforms]
    destination = ["--no-deps", "--dest", str(folder)]
    pip("download", *destination, "--only-binary=:all:", *target, *pinned(wheels))
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), *pinned(SOURCES))


def override_path(key: str, path: Path) -> str:
    """Return a Hydra override, quoted for any characters in the path."""
    # Hydra reads a backslash literally, except before a quotation mark.
    text = re.sub(r"(\\*)'", r"\1\1\\'", str(path.resolve()))
    return f"{key}='{text}'"
