"""One GPU check: its settings, its device, its time limit and its results."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_offline import ARCHIVE, REHEARSAL_DATA, override_path
from gpu_processes import ROOT, PartError, describe_error, run_limited, stop
from gpu_tables import TABLES, WIDTH, describe_result

if TYPE_CHECKING:
    from rich.console import Console

TOKENIZER = ["tokenizer=unigram", "tokenizer.vocabulary_size=8000"]  # of experiment=tatoeba_gpu
PROBE_SECONDS = 60  # limit


class Session:
    """What all parts of a check share.

    Attributes:
        arguments: the command line.
        results: one result per figure: part, what, status (ok, failed or skipped), and details.
        is_rehearsal: tiny models on the CPU.
        out: folder for results, tables and the log.
        runs: folder for the training run.
        log: file for the output of all processes.
        data: overrides that select the corpus.
        backend: Keras backend that sees the GPU.
        devices: number of GPUs.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        from rich.console import Console

        folder = ROOT / "runs" / "gpu_check" / time.strftime("%Y-%m-%d_%H-%M-%S")
        self.arguments = arguments
        self.results: list[dict[str, Any]] = []
        self.is_rehearsal: bool = arguments.cpu_rehearsal
        self.out: Path = arguments.out or folder
        self.runs: Path = arguments.runs or folder / "runs"
        self.log = self.out / "log.txt"
        self.data = data_overrides(arguments)
        self.backend = ""
        self.devices = 1
        self._lines = self.out / "results.jsonl"
        self._start = time.monotonic()
        self._seconds = math.inf if self.is_rehearsal else 60 * arguments.minutes
        self._console: Console = Console(highlight=False, markup=False, soft_wrap=True)

    @property
    def has_corpus(self) -> bool:
        """Whether the command line names a corpus."""
        return bool(self.arguments.encoded or self.arguments.archive)

    def seconds_left(self) -> float:
        """Return the seconds until the time limit."""
        return self._seconds - (time.monotonic() - self._start)

    def open(self) -> None:
        """Find the device and record it; start the file of results."""
        name, details = find_device(self.arguments.backend, is_rehearsal=self.is_rehearsal)
        self.backend = details["backend"]
        self.devices = 2 if self.is_rehearsal else len(details["gpus"])
        self.out.mkdir(parents=True, exist_ok=True)
        self._lines.write_text("", encoding="utf-8")
        self.record("devices", name, "ok", details)

    def record(self, part: str, what: str, status: str, details: dict[str, Any]) -> None:
        """Add a result, append its JSON line, and print it."""
        result = {"part": part, "what": what, "status": status, **details}
        if self.is_rehearsal:
            result["rehearsal"] = True
        self.results.append(result)
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in result.items()
        }
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite, ensure_ascii=False) + "\n")
        self._console.print(f"{part}: {what}: {describe_result(result)}")

    def attempt(self, part: str, what: str, measure: Callable[[Session], None]) -> None:
        """Measure a part; record an error as its result, so that the other parts still run."""
        try:
            measure(self)
        except Exception as error:
            self.record(part, what, "failed", {"note": describe_error(error)})

    def print_tables(self) -> None:
        """Print the tables, and write them to a file."""
        from rich.console import Console

        tables = [tabulate(self.results) for tabulate in TABLES]
        with (self.out / "tables.txt").open("w", encoding="utf-8") as file:
            width = None if sys.stdout.isatty() else WIDTH
            for console in (Console(file=file, width=WIDTH), Console(width=width)):
                for table in filter(None, tables):
                    console.print()
                    console.print(table)
        self._console.print(f"\nJSON lines: {self._lines}")


def data_overrides(arguments: argparse.Namespace) -> list[str]:
    """Return the overrides that select the corpus; exit if its file is missing."""
    cache = ROOT / ".cache"
    if arguments.encoded:
        if not (arguments.encoded / ARCHIVE).is_file():
            stop(f"--encoded {arguments.encoded} holds no {ARCHIVE}: make it with --prepare")
        overrides, cache = ["data=tatoeba"], arguments.encoded
    elif arguments.archive:
        if not arguments.archive.is_file():
            stop(f"--archive {arguments.archive} is not a file")
        overrides = ["data=tatoeba", override_path("data.archive", arguments.archive)]
    elif arguments.cpu_rehearsal:
        overrides = ["data=phrasebook", "data.sources.patterns.pairs=0"]
    else:
        overrides = ["data=phrasebook"]
    overrides += [*TOKENIZER, *(REHEARSAL_DATA if arguments.cpu_rehearsal else [])]
    return [*overrides, override_path("cache_dir", cache), "training.devices=1"]


def find_device(backend: str | None, *, is_rehearsal: bool) -> tuple[str, dict[str, Any]]:
    """Return the name of the device, and details such as the backend that sees it.

    Exits with status 2 without one.

    Args:
        backend: the only one to ask; None: TensorFlow, then JAX.
        is_rehearsal: return the CPU instead of a GPU.
    """
    backends = [backend] if backend else ["tensorflow", "jax"]
    installed = [name for name in backends if importlib.util.find_spec(name)]
    if is_rehearsal and installed:
        name = installed[-1]
        return "CPU", {"backend": name, "version": metadata.version(name)}
    if is_rehearsal:
        stop(f"a rehearsal needs {' or '.join(backends)}: install one")
    reasons = [f"{name} is not installed" for name in backends if name not in installed]
    for name in installed:
        command, environment = [sys.executable, __file__, name], {"KERAS_BACKEND": name}
        try:
            output = run_limited(command, PROBE_SECONDS, Path(os.devnull), environment)
        except PartError as error:
            reasons.append(f"{name} failed ({error})")
            continue
        details = json.loads(output.splitlines()[-1])
        if details["gpus"]:
            device = details["gpus"][0]["name"]
            return device, {"backend": name, **details, "driver": query_driver()}
        reasons.append(f"{name} sees none")
    message = ", ".join(reasons)
    return stop(
        f"no CUDA GPU: {message}; --cpu-rehearsal runs all parts in a tiny form without one"
    )


def query_driver() -> str | None:
    """Return the driver's version and the memory of the GPUs; None without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=driver_version,memory.total", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        if not done.returncode:
            return done.stdout.strip()
    return None


def probe(backend: str) -> dict[str, Any]:
    """Return the version of a backend and the GPUs that it sees, as this process initialises it."""
    from nmt.startup.devices import gpus

    return {
        "version": importlib.import_module(backend).__version__,
        "gpus": [
            {"name": gpu.name, "compute_capability": ".".join(map(str, gpu.capability))}
            for gpu in gpus()
        ],
    }


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
