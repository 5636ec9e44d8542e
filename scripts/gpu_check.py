"""Make every GPU figure of the project in one go: tables, and one JSON line per figure.

    bash scripts/gpu_check.sh --archive /path/to/spa-eng.zip
    bash scripts/gpu_check.sh --parts speed --rows small,float    # some of the speeds alone
    bash scripts/gpu_check.sh --cpu-rehearsal    # the whole way in a tiny form, without a GPU
    bash scripts/gpu_check.sh --lower    # lower for CUDA what would be compiled, without a GPU

Parts, in this order:

    devices  what the GPU is, and the backend: TensorFlow where it sees the GPU, else JAX
    parity   loss and gradient norm of one update against float32 on the CPU
    speed    tokens per second, utilisation and peak memory of `small`, `base` and `big` in each
             precision, with explicit and fused attention, with XLA on and off
    train    four minutes of `experiment=tatoeba_gpu`, and its BLEU

and where --parts names them

    scaling  tokens per second of `base` on 1, 2, 4, … and all GPUs, which share one batch, or have
             as much each as one has alone; and whether those that share one have its loss
    precision  the loss of `compact` after 2,000 updates in each precision: compare_precisions.py

All but `scaling` use one GPU. Each has processes of its own and a limit of time; what fails is
reported with its last error line and stops nothing else. The less telling speeds give way to the
training run, and are made after it if there is time; a second call can make what is missing. Exit
status: 0, 1 if anything failed, 2 without a GPU.

A machine without network, without TensorFlow and without an installed environment needs the
checkout, Python with JAX, NumPy, matplotlib, rich, sacrebleu, sentencepiece and tensorboard, and a
folder that is made beforehand on a machine with the environment and with network:

    bash scripts/gpu_check.sh --prepare FOLDER --python 3.12 --archive /path/to/spa-eng.zip
    bash scripts/gpu_check.sh --wheels FOLDER/wheels --encoded FOLDER    # over there

FOLDER then holds the archive (downloaded without --archive), the tokenizer, the encoded corpus and,
with --python, wheels of the packages that such a machine lacks, for its version of Python: 15 MiB
in all. Wheels are installed into a temporary folder and leave that Python as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import bench_train
import gpu_lowering
from bench_train import Worker
from gpu_lowering import NO_GPU
from gpu_tables import (
    PRECISIONS,
    SIZES,
    WIDTH,
    say,
    tabulate_parity,
    tabulate_precisions,
    tabulate_run,
    tabulate_scaling,
    tabulate_speeds,
)

if TYPE_CHECKING:
    from rich.console import Console

    from nmt.training.step import Step

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("devices", "parity", "speed", "train")
MORE_PARTS = ("scaling", "precision")
ARCHIVE = "spa-eng-cd7b240980a01dc3.zip"  # as `data=tatoeba` names it in its cache

MODULES = (
    "absl h5py hydra keras matplotlib ml_dtypes namex numpy omegaconf optree rich sacrebleu "
    "sentencepiece tensorboard yaml"
).split()
# What a machine for numerical work on JAX usually lacks.
WHEELS = ("hydra-core", "keras", "namex", "omegaconf", "optree")
SOURCES = ("antlr4-python3-runtime",)  # published without a wheel
TRANSFER_LIMIT = 64 * 2**20  # bytes

# Positions per side. Each fills a large GPU for 5 to 30 ms, and fits into 16 GB in float32.
BATCH_TOKENS = dict(zip(SIZES, (16384, 8192, 4096, 256), strict=True))
VOCABULARY = "tokenizer.vocabulary_size=8000"  # as in experiment=tatoeba_gpu
UPDATES, TURNS = 50, 3

# Largest relative difference from the CPU in (loss, gradient norm). By default, matrix products of
# float32 read 10 bits of each number's mantissa on GPUs that have TF32, as many as float16 has;
# bfloat16 has 7.
TOLERANCES = {
    "float32, full products": (1e-4, 1e-3),
    "float32": (1e-3, 1e-2),
    "mixed_bfloat16": (1e-2, 5e-2),
    "mixed_float16": (1e-3, 1e-2),
}
FULL = ", full products"
SAME_LOSS = 1e-3  # relative: of several devices that share a batch, from one's
PRECISION_UPDATES, PRECISION_WITHIN = 2000, 0.01  # relative: of the loss on the dev split
SCALE_HALVINGS = 12  # of float16's loss scale, before its first finite gradient

PROBE_SECONDS, PARITY_SECONDS, ROW_SECONDS, PRECISION_SECONDS = 60, 240, 150, 540  # limits
EXPECTED_ROW_SECONDS = 45  # until the first row is made
FINISH_SECONDS = 75  # of a training run, beside its minutes: corpus, test split
TRAIN_MARGIN_SECONDS = 300  # beside its minutes, after which it is stopped

TABLES = (tabulate_parity, tabulate_speeds, tabulate_run, tabulate_scaling, tabulate_precisions)

REHEARSAL_DATA = ["data.dev=16", "data.test=16", "tokenizer.vocabulary_size=500"]
REHEARSAL_RUN = [
    *("model.d_model=32", "model.num_heads=2", "model.ffn_width=64"),
    *("model.encoder_layers=1", "model.decoder_layers=1", "training.batch_tokens=256"),
    *("training.max_minutes=null", "training.max_steps=4", "training.evaluate_every=4"),
    *("training.log_every=2", "training.evaluation_sentences=8", "training.probes=[]"),
    *("decoding.beam_size=2", "decoding.max_length_margin=4", "decoding.max_length_ratio=0.5"),
]


class PartError(Exception):
    """Why a part failed, in one line."""


def main() -> None:
    arguments = parse_arguments()
    os.environ["PYTHONPATH"] = join_paths(str(ROOT))
    sys.path.insert(0, str(ROOT))
    if arguments.probe:
        print(json.dumps(probe(arguments.probe)))
        return
    if arguments.step:
        step(arguments.override, arguments.step, arguments.precisions)
        return
    with tempfile.TemporaryDirectory(prefix="gpu_check-") as site:
        if arguments.wheels:
            install(arguments.wheels, Path(site))
        missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
        if missing:
            stop(
                f"these Python packages are missing: {', '.join(missing)}; install them, or give "
                "their wheels with --wheels FOLDER (see --help)"
            )
        if arguments.prepare:
            prepare(arguments)
            return
        if arguments.lower:
            backends = [arguments.backend] if arguments.backend else gpu_lowering.BACKENDS
            rows, overrides = arguments.rows, arguments.override
            sys.exit(gpu_lowering.check(backends, rows, overrides, arguments.out))
        sys.exit(Check(arguments).run())


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="gpu_check.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--archive", type=Path, metavar="ZIP", help="the Tatoeba pairs")
    parser.add_argument("--encoded", type=Path, metavar="FOLDER", help="what --prepare made")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="missing packages")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="fill it, and no more")
    parser.add_argument("--python", metavar="3.X", help="with --prepare: fetch wheels for it, too")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="tables, JSON lines and log")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="of the training run")
    parser.add_argument("--parts", type=parts, default=PARTS, help="default: " + ",".join(PARTS))
    parser.add_argument("--rows", default="", help="such as small,'base float32',fused")
    parser.add_argument("--backend", choices=("tensorflow", "jax"), help="default: see above")
    parser.add_argument("--minutes", type=float, default=9.5, help="in all (default: 9.5)")
    parser.add_argument("--train-minutes", type=float, default=4.0, help="default: 4")
    parser.add_argument(
        *("--override", "-o"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of every configuration; may be repeated",
    )
    parser.add_argument("--cpu-rehearsal", action="store_true", help="without a GPU, tiny")
    parser.add_argument("--lower", action="store_true", help="for a GPU, without one")
    for internal in ("--probe", "--precisions"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    parser.add_argument("--step", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.python and not re.fullmatch(r"3\.\d+", arguments.python):
        parser.error(f"--python {arguments.python}: give a version such as 3.12")
    return arguments


def parts(text: str) -> tuple[str, ...]:
    """Read the value of --parts."""
    names = text.split(",")
    known = PARTS + MORE_PARTS
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return tuple(names)


def stop(message: str) -> NoReturn:
    """End with one line and status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def join_paths(*folders: str) -> str:
    """Return PYTHONPATH with folders put before it."""
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


# --- What a machine without network needs -------------------------------------------------------


def install(wheels: Path, site: Path) -> None:
    """Install the wheels of a folder that this Python lacks, into a folder of their own."""
    wanted = []
    for wheel in sorted(wheels.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        with contextlib.suppress(metadata.PackageNotFoundError):
            if metadata.version(name) == version:
                continue
        wanted.append(f"{name}=={version}")
    if not any(wheels.glob("*.whl")):
        stop(f"--wheels {wheels} holds no wheel: make them with --prepare FOLDER --python 3.X")
    if wanted:
        command = ["install", "--no-index", "--no-deps", "--find-links", str(wheels)]
        pip(*command, "--target", str(site), *wanted)
        os.environ["PYTHONPATH"] = join_paths(str(site))
        sys.path.insert(0, str(site))
        importlib.invalidate_caches()


def pip(*arguments: str) -> None:
    """Run pip; end with its last error line if it fails."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(f"pip {arguments[0]} failed: {find_last_error(done.stderr)}")


def prepare(arguments: argparse.Namespace) -> None:
    """Fill a folder with all that a machine without network needs beside the checkout."""
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
    data = ["experiment=tatoeba_gpu", override_path("cache_dir", folder)]
    bench_train.prepare(
        [*data, *(REHEARSAL_DATA if arguments.cpu_rehearsal else []), *arguments.override]
    )
    if arguments.python:
        fetch_wheels(folder / "wheels", arguments.python)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB")
    if size > TRANSFER_LIMIT:
        stop(f"{folder} is larger than {TRANSFER_LIMIT // 2**20} MiB: begin with an empty folder")


def fetch_wheels(folder: Path, python: str) -> None:
    """Fetch wheels of the versions in use here, for Linux on this machine's architecture."""

    def pinned(names: Sequence[str]) -> list[str]:
        return [f"{name}=={metadata.version(name)}" for name in names]

    machine = platform.machine()
    tags = [f"{tag}_{machine}" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    platforms = [argument for tag in tags for argument in ("--platform", tag)]
    target = ["--python-version", python, "--implementation", "cp", *platforms]
    where = ["--no-deps", "--dest", str(folder)]
    pip("download", *where, "--only-binary=:all:", *target, *pinned(WHEELS))
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), *pinned(SOURCES))


def override_path(key: str, path: Path) -> str:
    """Return a Hydra override, quoted for whatever a path may hold."""
    # Hydra reads a backslash as itself, except before a quotation mark.
    text = re.sub(r"(\\*)'", r"\1\1\\'", str(path.resolve()))
    return f"{key}='{text}'"


# --- In processes of their own ------------------------------------------------------------------


def probe(backend: str) -> dict[str, Any]:
    """Return the version of a backend and the GPUs that it sees."""
    from nmt.startup.devices import gpus

    return {
        "version": importlib.import_module(backend).__version__,
        "gpus": [
            {"name": gpu.name, "compute_capability": ".".join(map(str, gpu.capability))}
            for gpu in gpus()
        ],
    }


def step(overrides: list[str], weights: Path, precisions: str) -> None:
    """Make the first update once per precision; print its loss and gradient norm as JSON lines.

    Args:
        overrides: of the configuration.
        weights: a file of weights to begin with; written from the seed if it is missing.
        precisions: keys of `TOLERANCES`, separated by semicolons.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with contextlib.redirect_stdout(sys.stderr):
        ready = bench_train.prepare(overrides)
        batch = ready.batches.batch(0)
        for name in precisions.split(";"):
            with use_full_products(name.endswith(FULL)):
                _, _, update = ready.build(precision=name.removesuffix(FULL))
                begin_with(update, weights)
                for _ in range(SCALE_HALVINGS):
                    # An update whose gradients overflow float16 changes the loss scale alone.
                    measured = update.update(batch, 1e-4, 1)
                    norm = float(measured.gradient_norm)
                    if math.isfinite(norm):
                        break
            loss = float(measured.nll) / float(measured.tokens)
            answer = {"what": name, "loss": loss, "gradient_norm": norm}
            print(json.dumps(answer), file=answers, flush=True)


def begin_with(update: Step, weights: Path) -> None:
    """Let a model begin with the weights of a file; write its own where there is none."""
    import numpy as np

    state = update.state()
    if weights.exists():
        update.restore(state | dict(np.load(weights)))
    else:
        own = {name: array for name, array in state.items() if name.startswith("model/")}
        np.savez(weights, **own)


@contextlib.contextmanager
def use_full_products(wanted: bool) -> Iterator[None]:
    """Let float32 products read all bits of their operands."""
    import keras

    if not wanted:
        yield
    elif keras.config.backend() == "jax":
        import jax

        with jax.default_matmul_precision("highest"):
            yield
    else:
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(True)


def run_limited(
    command: Sequence[str], seconds: float, log: Path, environment: dict[str, str] | None = None
) -> str:
    """Run a command in a process group of its own; return its standard output.

    Args:
        command: its words.
        seconds: after which the whole group is killed.
        log: where both outputs are appended.
        environment: variables to add.

    Raises:
        PartError: with the last error line of the command, or the limit.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            env=os.environ | (environment or {}),
            start_new_session=True,
        )
        late = False
        try:
            output, _ = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        said = errors.read()
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {' '.join(command)}\n{output}{said}")
    if late:
        raise PartError(f"stopped after {seconds:.0f} s")
    if process.returncode:
        raise PartError(describe_end(process.returncode, said))
    return output


def describe_end(status: int, said: str) -> str:
    """Return why a process ended, from its status and what it wrote to standard error."""
    line = find_last_error(said)
    if status < 0:
        line = f"killed by {signal.Signals(-status).name}" + (f": {line}" if line else "")
    return line or f"exit status {status}"


def describe_error(error: Exception) -> str:
    """Return why a part failed, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PartError) else f"{type(error).__name__}: {text}"


def find_last_error(said: str) -> str:
    """Return the last line that names an error, else the last line; tracebacks may end in notes."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?i)error: |[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or [""])[-1]


# --- The check ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One configuration whose speed is measured."""

    model: str
    precision: str
    attention: str = "explicit"
    xla: bool = True
    devices: int = 1
    fold: int = 1  # how many times the usual tokens per update

    @property
    def what(self) -> str:
        """Its name, for lines and JSON."""
        changes = [self.attention] * (self.attention != "explicit") + ["XLA off"] * (not self.xla)
        changes += [f"{self.devices} devices"] * (self.devices > 1)
        changes += [f"{self.fold} times the batch"] * (self.fold > 1)
        return ", ".join([f"{self.model} {self.precision}", *changes])

    @property
    def overrides(self) -> list[str]:
        """What sets it apart from the default configuration."""
        return [
            f"model={self.model}",
            f"training.batch_tokens={self.fold * BATCH_TOKENS[self.model]}",
            f"training.devices={self.devices}",
            f"training.precision={self.precision}",
            f"model.attention_kernel={self.attention}",
            f"training.jit_compile={'on' if self.xla else 'off'}",
        ]


def list_speeds(models: Sequence[str]) -> list[Row]:
    """Return the configurations to measure, the most telling first.

    Args:
        models: names of sizes; the first is the one that attention and XLA are varied on.
    """
    first = models[0]
    rows = [Row(model, "mixed_bfloat16") for model in models]
    rows += [Row(first, "mixed_bfloat16", "fused"), Row(first, "mixed_bfloat16", xla=False)]
    rest = [name for name in PRECISIONS if name != "mixed_bfloat16"]
    rows += [Row(model, precision) for model in models for precision in rest]
    return rows + [Row(model, "mixed_bfloat16", "fused") for model in models[1:]]


def list_scaling(model: str, devices: int) -> list[Row]:
    """Return a row for 1, 2, 4, … and all devices: with the same batch, and with one as large each.

    Args:
        model: name of a size.
        devices: how many there are.
    """
    counts = [2**power for power in range(devices.bit_length()) if 2**power < devices] + [devices]
    rows = [Row(model, "mixed_bfloat16", devices=count) for count in counts]
    more = [count for count in counts if count > 1]
    return rows + [Row(model, "mixed_bfloat16", devices=count, fold=count) for count in more]


class Check:
    """One pass over the parts.

    Attributes:
        found: a result per figure: part, what, status (ok, failed or skipped), and details.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        from rich.console import Console

        self.found: list[dict[str, Any]] = []
        self._arguments = arguments
        self._began = time.monotonic()
        folder = ROOT / "runs" / "gpu_check" / time.strftime("%Y-%m-%d_%H-%M-%S")
        self._runs = arguments.runs or folder / "runs"
        self._out = arguments.out or folder
        self._lines = self._out / "results.jsonl"
        self._log = self._out / "log.txt"
        self._rehearsal = arguments.cpu_rehearsal
        self._seconds = math.inf if self._rehearsal else 60 * arguments.minutes
        self._console: Console = Console(highlight=False, markup=False, soft_wrap=True)
        self._data = self._data_overrides()
        self._row_seconds: list[float] = []
        self._backend = ""
        self._devices = 1

    def run(self) -> int:
        """Make all parts; return the exit status."""
        if self._rehearsal:
            os.environ |= NO_GPU
        name, details = self._device()
        self._backend = details["backend"]
        self._devices = 2 if self._rehearsal else len(details["gpus"])
        self._out.mkdir(parents=True, exist_ok=True)
        self._lines.write_text("", encoding="utf-8")
        self._record("devices", name, "ok", details)
        wanted = self._arguments.parts
        if "parity" in wanted:
            self._attempt("parity", "one update", self._parity)
        rows = list_speeds(("tiny",) if self._rehearsal else ("base", "big", "small"))
        named = self._arguments.rows.split(",")
        rows = [row for row in rows if any(name in row.what for name in named)]
        late = self._speed(rows, reserve=self._reserve()) if "speed" in wanted else []
        if "train" in wanted:
            self._attempt("train", "experiment=tatoeba_gpu", self._train)
        for row in self._speed(late, reserve=0.0):
            note = f"not reached in {self._arguments.minutes:g} minutes: see --minutes, --rows"
            self._record("speed", row.what, "skipped", vars(row) | {"note": note})
        if "scaling" in wanted:
            self._attempt("scaling", "several devices", self._scaling)
        if "precision" in wanted:
            self._attempt("precision", "compact", self._precision)
        self._show()
        failed = sum(result["status"] == "failed" for result in self.found)
        return 1 if failed else 0

    def _left(self) -> float:
        return self._seconds - (time.monotonic() - self._began)

    def _reserve(self) -> float:
        """Seconds that are kept for the training run."""
        if "train" not in self._arguments.parts or not self._has_corpus():
            return 0.0
        return 60 * self._arguments.train_minutes + FINISH_SECONDS

    def _has_corpus(self) -> bool:
        return bool(self._arguments.encoded or self._arguments.archive)

    def _data_overrides(self) -> list[str]:
        arguments = self._arguments
        cache = ROOT / ".cache"
        if arguments.encoded:
            if not (arguments.encoded / ARCHIVE).is_file():
                stop(f"--encoded {arguments.encoded} holds no {ARCHIVE}: make it with --prepare")
            data, cache = ["data=tatoeba"], arguments.encoded
        elif arguments.archive:
            if not arguments.archive.is_file():
                stop(f"--archive {arguments.archive} is no file")
            data = ["data=tatoeba", override_path("data.archive", arguments.archive)]
        else:
            data = ["data=phrasebook", *["data.sources.patterns.pairs=0"] * self._rehearsal]
        data += REHEARSAL_DATA if self._rehearsal else [VOCABULARY]
        return [*data, override_path("cache_dir", cache), "training.devices=1"]

    def _record(self, part: str, what: str, status: str, details: dict[str, Any]) -> None:
        """Keep a result, write its JSON line, and say it."""
        result = {"part": part, "what": what, "status": status, **details}
        if self._rehearsal:
            result["rehearsal"] = True
        self.found.append(result)
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in result.items()
        }
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite, ensure_ascii=False) + "\n")
        self._console.print(f"{part}: {what}: {say(result)}")

    def _attempt(self, part: str, what: str, make: Callable[[], None]) -> None:
        try:
            make()
        except Exception as error:
            # Whatever goes wrong in one part, the others are still worth having.
            self._record(part, what, "failed", {"note": describe_error(error)})

    # --- devices

    def _device(self) -> tuple[str, dict[str, Any]]:
        """Return the name of the device, the backend that sees it, and more of both.

        Ends the process with status 2 where no backend sees a GPU.
        """
        backends = [self._arguments.backend] if self._arguments.backend else ["tensorflow", "jax"]
        if self._rehearsal:
            for backend in reversed(backends):
                if importlib.util.find_spec(backend):
                    return "CPU", {"backend": backend, "version": metadata.version(backend)}
            stop(f"a rehearsal needs {' or '.join(backends)}: install one")
        seen = []
        for backend in backends:
            if importlib.util.find_spec(backend) is None:
                seen.append(f"{backend} is not installed")
                continue
            command = [sys.executable, __file__, "--probe", backend]
            try:
                backend_set = {"KERAS_BACKEND": backend}
                said = run_limited(command, PROBE_SECONDS, Path(os.devnull), backend_set)
            except PartError as error:
                seen.append(f"{backend} failed ({error})")
                continue
            found = json.loads(said.splitlines()[-1])
            if found["gpus"]:
                return found["gpus"][0]["name"], {
                    "backend": backend,
                    **found,
                    "driver": ask_driver(),
                }
            seen.append(f"{backend} sees none")
        stop(
            f"no CUDA GPU: {', '.join(seen)}; --cpu-rehearsal runs the whole way in a tiny form "
            "without one"
        )

    # --- parity

    def _parity(self) -> None:
        """Compare loss and gradient norm of one update with float32 on the CPU."""
        model = "tiny" if self._rehearsal else "compact"
        overrides = [f"model={model}", "training.batch_tokens=2048", "model.dropout=0.1"]
        overrides += ["training.jit_compile=off"] * self._rehearsal  # minutes on a CPU
        overrides = [*self._data, *overrides, *self._arguments.override]
        with tempfile.TemporaryDirectory() as folder:
            weights = Path(folder) / "weights.npz"
            (reference,) = self._steps(overrides, weights, ["float32"], NO_GPU)
            measured = self._steps(overrides, weights, list(TOLERANCES), {})
        for result in measured:
            tolerances = TOLERANCES[result["what"]]
            pairs = [(result[key], reference[key]) for key in ("loss", "gradient_norm")]
            errors = [abs(value - expected) / expected for value, expected in pairs]
            within = all(error <= most for error, most in zip(errors, tolerances, strict=True))
            details = {
                "model": model,
                "loss": result["loss"],
                "gradient_norm": result["gradient_norm"],
                "cpu_loss": reference["loss"],
                "cpu_gradient_norm": reference["gradient_norm"],
                "loss_error": errors[0],
                "gradient_norm_error": errors[1],
                "loss_tolerance": tolerances[0],
                "gradient_norm_tolerance": tolerances[1],
            }
            if not within:
                details["note"] = "differs from the CPU by more than the tolerance"
            self._record("parity", result["what"], "ok" if within else "failed", details)

    def _steps(
        self, overrides: list[str], weights: Path, precisions: list[str], more: dict[str, str]
    ) -> list[dict[str, Any]]:
        command = [sys.executable, __file__, "--step", str(weights)]
        command += ["--precisions", ";".join(precisions)]
        command += [f"--override={override}" for override in overrides]
        environment = {"KERAS_BACKEND": self._backend} | more
        limit = min(PARITY_SECONDS, self._left())
        output = run_limited(command, limit, self._log, environment)
        return [json.loads(line) for line in output.splitlines()]

    # --- speed

    def _speed(self, rows: Sequence[Row], *, reserve: float) -> list[Row]:
        """Measure rows while there is time beside ``reserve`` seconds; return those left over.

        While one is measured, the next reads its corpus.
        """
        waiting: Worker | None = None
        errors: Any = None
        left_over: list[Row] = []
        rows = [row for row in rows if not self._impossible(row)]
        try:
            for number, row in enumerate(rows):
                expected = max(self._row_seconds[-3:], default=EXPECTED_ROW_SECONDS)
                if self._left() - reserve < expected:
                    left_over = rows[number:]
                    break
                worker, said = (waiting, errors) if waiting else self._worker(row)
                waiting = None
                if number + 1 < len(rows):
                    waiting, errors = self._worker(rows[number + 1])
                begin = time.monotonic()
                self._measure(row, worker, said)
                self._row_seconds.append(time.monotonic() - begin)
        finally:
            if waiting:
                waiting.process.kill()
                waiting.process.wait()
        return left_over

    def _impossible(self, row: Row) -> bool:
        """Report a row that this backend cannot have."""
        if row.xla or self._backend != "jax":
            return False
        note = "cannot be off on JAX: every update is compiled by XLA"
        self._record("speed", row.what, "skipped", vars(row) | {"note": note})
        return True

    def _worker(self, row: Row) -> tuple[Worker, Any]:
        errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  (the worker's)
        overrides = [*self._data, *row.overrides, *self._arguments.override]
        return Worker(self._backend, overrides, errors), errors

    def _measure(self, row: Row, worker: Worker, errors: Any, part: str = "speed") -> None:
        late = threading.Event()

        def stop_it() -> None:
            late.set()
            worker.process.kill()

        limit = max(1.0, min(ROW_SECONDS, self._left()))
        timer = threading.Timer(limit, stop_it)
        timer.start()
        question = {"updates": 2, "product": 256} if self._rehearsal else {"updates": UPDATES}
        try:
            worker.start()
            turns = [worker.ask(question) for _ in range(1 if self._rehearsal else TURNS)]
            summary = worker.summarize(turns)
            summary = {key: value for key, value in summary.items() if key != "overrides"}
            self._record(part, row.what, "ok", vars(row) | summary)
        except SystemExit:
            errors.seek(0)
            note = f"stopped after {limit:.0f} s" if late.is_set() else ""
            note = note or describe_end(worker.process.wait(), errors.read())
            self._record(part, row.what, "failed", vars(row) | {"note": note})
        except Exception as error:
            self._record(part, row.what, "failed", vars(row) | {"note": describe_error(error)})
        finally:
            timer.cancel()
            worker.process.kill()
            worker.process.wait()
            errors.seek(0)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"\n# {row.what}\n{errors.read()}")
            errors.close()

    # --- train

    def _train(self) -> None:
        """Train `experiment=tatoeba_gpu` for some minutes, and read its scores."""
        what = "experiment=tatoeba_gpu"
        asked = self._arguments.train_minutes
        minutes = min(asked, (self._left() - FINISH_SECONDS) / 60)
        if not self._has_corpus():
            note = "no corpus was given: name one with --archive or --encoded"
            self._record("train", what, "skipped", {"note": note})
            return
        if minutes < min(1.0, asked):
            note = f"no time is left of {self._arguments.minutes:g} minutes: raise --minutes"
            self._record("train", what, "skipped", {"note": note})
            return
        ends = REHEARSAL_RUN if self._rehearsal else [f"training.max_minutes={minutes:.2f}"]
        command = [sys.executable, "-m", "nmt.train", what, *self._data, *ends]
        command += [override_path("runs_dir", self._runs), *self._arguments.override]
        limit = min(self._left(), 60 * minutes + TRAIN_MARGIN_SECONDS)
        begin = time.monotonic()
        details: dict[str, Any] = {}
        try:
            run_limited(command, limit, self._log, {"KERAS_BACKEND": self._backend})
        except PartError as error:
            details["note"] = str(error)
        details["seconds"] = round(time.monotonic() - begin)
        with contextlib.suppress(OSError, ValueError):  # how far it has got, if it failed
            details |= read_figures(self._runs / "latest")
            details |= read_scores(self._runs / "latest")
        if "scores" not in details:
            details.setdefault("note", "it left no scores")
            if details.get("dev_bleu") is not None:
                details["note"] += f"; its best dev BLEU was {details['dev_bleu']:.2f}"
        self._record("train", what, "failed" if "note" in details else "ok", details)

    # --- scaling

    def _scaling(self) -> None:
        """Measure `base` on ever more devices, and compare their losses with that of one."""
        if self._devices == 1:
            self._record("scaling", "several devices", "skipped", {"note": "there is one GPU"})
            return
        for row in list_scaling("tiny" if self._rehearsal else "base", self._devices):
            if self._left() < EXPECTED_ROW_SECONDS:
                note = f"not reached in {self._arguments.minutes:g} minutes: see --minutes"
                self._record("scaling", row.what, "skipped", vars(row) | {"note": note})
            else:
                self._measure(row, *self._worker(row), part="scaling")
        self._compare_losses()

    def _compare_losses(self) -> None:
        """Report devices that share a batch and have another loss than one alone."""
        losses = {
            result["devices"]: result["loss"]
            for result in self.found
            if result["part"] == "scaling" and result.get("fold") == 1 and "loss" in result
        }
        apart = [abs(loss / losses.get(1, math.nan) - 1) for loss in losses.values()]
        details = {"within": max(apart, default=math.nan), "tolerance": SAME_LOSS}
        same = all(error <= SAME_LOSS for error in apart) and len(losses) > 1
        if not same:
            details["note"] = "devices that share a batch differ from one alone"
        self._record("scaling", "losses", "ok" if same else "failed", details)

    # --- precision

    def _precision(self) -> None:
        """Train in each precision, and compare the losses on the dev split."""
        script = str(ROOT / "scripts" / "compare_precisions.py")
        updates = 4 if self._rehearsal else PRECISION_UPDATES
        given = [*self._data, *["model=tiny"] * self._rehearsal, *self._arguments.override]
        command = [sys.executable, script, *given, "--out", str(self._out / "precision")]
        # What is apart is for this script to judge.
        command += [f"--updates={updates}", "--within=inf"]
        limit = min(PRECISION_SECONDS, self._left())
        output = run_limited(command, limit, self._log, {"KERAS_BACKEND": self._backend})
        for line in output.splitlines():
            result = json.loads(line)
            within = result["apart"] <= PRECISION_WITHIN
            if not within:
                result["note"] = "is further from float32 than the tolerance"
            result["tolerance"] = PRECISION_WITHIN
            status = "ok" if within else "failed"
            self._record("precision", result.pop("precision"), status, result)

    # --- tables

    def _show(self) -> None:
        """Print the tables, and write them to a file."""
        from rich.console import Console

        shown = [table(self.found) for table in TABLES]
        with (self._out / "tables.txt").open("w", encoding="utf-8") as file:
            width = None if sys.stdout.isatty() else WIDTH
            for console in (Console(file=file, width=WIDTH), Console(width=width)):
                for part in filter(None, shown):
                    console.print()
                    console.print(part)
        self._console.print(f"\nJSON lines: {self._lines}")


def ask_driver() -> str | None:
    """Return the driver's version and the memory of the GPUs, where nvidia-smi says them."""
    command = ["nvidia-smi", "--query-gpu=driver_version,memory.total", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        if not done.returncode:
            return done.stdout.strip()
    return None


def read_figures(run: Path) -> dict[str, Any]:
    """Return what the metrics of a run say of its length and speed."""
    from nmt.runs.folder import RunFolder

    records = RunFolder(run).metrics
    speeds = [
        record["speed/tokens_per_second"]
        for record in records
        if "speed/tokens_per_second" in record
    ]
    scores = [record["dev/BLEU"] for record in records if "dev/BLEU" in record]
    return {
        "updates": max((record["step"] for record in records), default=0),
        "training_seconds": max((record["seconds"] for record in records), default=0.0),
        "tokens_per_second": round(statistics.median(speeds)) if speeds else None,
        "dev_bleu": max(scores, default=None),
        "run": str(run.resolve()),
    }


def read_scores(run: Path) -> dict[str, Any]:
    """Return the scores of a run on its test split."""
    stored = json.loads((run / "evaluation_test.json").read_text(encoding="utf-8"))
    return {
        "sentences": stored["sentences"],
        "scores": {
            name: {"value": score["value"], "half_width": score["half_width"]}
            for name, score in stored["scores"].items()
        },
    }


if __name__ == "__main__":
    main()
