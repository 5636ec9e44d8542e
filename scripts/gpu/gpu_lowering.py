"""Lower the programs of training and search for a GPU, on a machine without one.

    bash scripts/gpu/gpu_check.sh --lower
    bash scripts/gpu/gpu_check.sh --lower --backend jax --rows fused

Update, evaluation and search of `compact` (with each attention kernel) and of `rnn` are built in
each precision as on a GPU, and called. Instead of running, the compiled programs are lowered for
CUDA: `lower_tensorflow.py` and `lower_jax.py` say how far. An operation without a GPU kernel is
reported. Only a GPU can tell whether its compiler and cuDNN accept the programs, whether they fit
into its memory, and what they compute.

Tokenizers are not covered. tensorflow-text works only on CPUs, outside the graphs of models, except
in the SavedModel export, where both share a graph.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from gpu_tables import WIDTH, tabulate_lowering
from lowered import Lowered, NotLoweredError
from workloads import PRECISIONS

if TYPE_CHECKING:
    from rich.console import Console

    from nmt.data.batches import Batch
    from nmt.startup.devices import Gpu

BACKENDS = ("tensorflow", "jax")
KERNELS = ("explicit", "fused", "chunked")
NO_GPU = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
LENGTH, VOCABULARY = 64, 4000  # tokens per row; tokens of the default run's vocabulary
BATCH_TOKENS, DROPOUT = 1024, 0.1
H100, H100_PRECISION = ("NVIDIA H100", (9, 0)), "mixed_bfloat16"  # `auto` resolves to it
CELLS = ("update", "micro-batches", "without XLA", "evaluation", "greedy", "beam", "sampling")
GPU_READERS = (
    "training.defaults",
    "training.process_group",
    "inference.keras_engine",
)  # modules that look for GPUs
CUDNN = "__cudnn$"


@dataclass(frozen=True)
class Row:
    """A configuration to lower."""

    model: str
    attention: str
    precision: str

    @property
    def what(self) -> str:
        """Name of the row."""
        return " ".join([self.model, self.attention, self.precision])

    @property
    def overrides(self) -> list[str]:
        """Changes to the default configuration."""
        precision = "auto" if self.precision == H100_PRECISION else self.precision
        kernel = [f"model.attention_kernel={self.attention}"] * (self.attention in KERNELS)
        return [f"model={self.model}", f"training.precision={precision}", *kernel]

    def wants_cudnn(self, backend: str) -> bool:
        """Whether it must call a cuDNN kernel, which exists only for half precisions."""
        return backend == "jax" and self.attention == "fused" and self.precision != "float32"


def list_rows() -> list[Row]:
    """Return the configurations."""
    rows = [Row("compact", kernel, precision) for kernel in KERNELS for precision in PRECISIONS]
    return rows + [Row("rnn", "additive", precision) for precision in PRECISIONS]


# --- All backends -------------------------------------------------------------------------------


def check(backends: Sequence[str], names: str, overrides: Sequence[str], out: Path | None) -> int:
    """Lower every row on every backend, and print tables; return the exit status.

    Args:
        backends: backends that lower.
        names: parts of the names of rows, separated by commas.
        overrides: overrides of every configuration.
        out: folder for the results as JSON lines; None: only print them.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH
    console = Console(highlight=False, markup=False, soft_wrap=True, width=width)
    rows = [row for row in list_rows() if any(name in row.what for name in names.split(","))]
    results = []
    with show_progress(console, len(backends) * len(rows)) as advance:
        # A process never frees what it has traced and compiled, so each process lowers few rows.
        groups = [list(group) for _, group in groupby(rows, lambda row: (row.model, row.attention))]
        for backend, group in product(backends, groups):
            for result in ask_worker(backend, group, overrides):
                results.append(result)
                advance(f"{backend}: {result['what']}")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(result) + "\n" for result in results)
        (out / "lowering.jsonl").write_text(lines, encoding="utf-8")
    for backend in backends:
        rows_of_backend = [result for result in results if result["backend"] == backend]
        console.print(tabulate_lowering(backend, CELLS, rows_of_backend))
    problems = list(list_problems(results))
    for problem in problems:
        console.print(problem)
    is_complete = len(results) == len(backends) * len(rows)
    return 0 if is_complete and not problems else 1


@contextlib.contextmanager
def show_progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar; yield a function that advances it and shows a text."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
    words = TextColumn("{task.description}")
    with Progress(*columns, words, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda what: progress.update(task, advance=1, description=what)


def ask_worker(
    backend: str, rows: Sequence[Row], overrides: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the result of each row, from a separate process for the backend.

    Exits if that process fails.
    """
    command = [sys.executable, __file__, *overrides, "--rows", *(row.what for row in rows)]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | NO_GPU | {"KERAS_BACKEND": backend},
        )
        try:
            assert process.stdout is not None
            yield from map(json.loads, process.stdout)
        finally:
            process.kill()
        if process.wait():
            errors.seek(0)
            sys.exit(f"{backend} failed with status {process.returncode}:\n{errors.read()[-4000:]}")


def list_problems(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for every problem, with all its cells."""
    cells: dict[str, list[str]] = {}
    for result in results:
        for name in (name for name in CELLS if name in result):
            for problem in result[name]["problems"]:
                cells.setdefault(f"{result['backend']}: {problem}", []).append(
                    f"{result['what']}, {name}"
                )
    for problem, names in cells.items():
        yield f"{problem}: {'; '.join(names)}"


# --- One backend, in a separate process -----------------------------------------------------------


def main() -> None:
    """Lower some rows on the backend of this process, and print a JSON line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--rows", nargs="+")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with contextlib.redirect_stdout(sys.stderr):
        for row in list_rows():
            if row.what in arguments.rows:
                print(json.dumps(lower_row(row, arguments.overrides)), file=answers, flush=True)


def lower_row(row: Row, overrides: Sequence[str]) -> dict[str, Any]:
    """Lower the programs of a configuration.

    Returns:
        ``backend``, ``what`` and the fields of the row; the resolved ``precision`` and
        ``parallel_parts``; and for each name of `CELLS`, the lists ``problems`` and ``kernels``.
    """
    import keras

    from nmt.startup.devices import Gpu

    backend = keras.config.backend()
    lowering = importlib.import_module(f"lower_{backend}").lowering
    with pretend_gpu(Gpu(*H100)), lowering() as lowered:
        resolved, calls = make_calls(row, overrides)
        cells = {name: lower_call(call, lowered) for name, call in calls.items()}
    if resolved["precision"] != row.precision:
        cells["update"]["problems"].append(f"precision=auto became {resolved['precision']}")
    for cell in cells.values():
        if row.wants_cudnn(backend) and not any(CUDNN in name for name in cell["kernels"]):
            cell["problems"].append("cuDNN's attention is not in it")
    return {"backend": backend, "what": row.what, **vars(row), **resolved, **cells}


def lower_call(call: Callable[[], Any], lowered: Lowered) -> dict[str, list[str]]:
    """Make a call under `lowering`; return problems and kernels."""
    lowered.clear()
    with contextlib.suppress(NotLoweredError):  # it is recorded
        call()
    if not lowered.functions:
        lowered.problems.append("nothing was compiled")
    return {"problems": list(dict.fromkeys(lowered.problems)), "kernels": sorted(lowered.kernels)}


def make_calls(
    row: Row, overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Return the resolved settings of a row, and calls by names of `CELLS`."""
    import keras
    import numpy as np

    from nmt.inference.contract import BeamOptions, SamplingOptions
    from nmt.inference.keras_engine import KerasEngine
    from nmt.runs.building import build_model
    from nmt.runs.resuming import compose_config
    from nmt.training.backend import make_step
    from nmt.training.defaults import resolve_config

    fixed = [f"training.batch_tokens={BATCH_TOKENS}", f"model.dropout={DROPOUT}"]
    config = resolve_config(compose_config([*row.overrides, *fixed, *overrides]), pairs=100_000)
    training = config.training
    model = build_model(config, VOCABULARY, precision=training.precision)
    steps = [make_step(model, replace(training, accumulate=n), seed=1) for n in (1, 2)]
    batches = [make_batch(n * BATCH_TOKENS) for n in (1, 2)]
    engine = KerasEngine(model)
    sources, limits = [np.arange(5, 12, dtype=np.int32)] * 8, np.full(8, 12, np.int32)
    prefix = np.zeros(0, np.int32)
    resolved = {"precision": training.precision, "parallel_parts": training.parallel_parts}
    calls: dict[str, Callable[[], Any]] = {
        "update": lambda: steps[0].update(batches[0], 1e-3, 1),
        "micro-batches": lambda: steps[1].update(batches[1], 1e-3, 1),
        "evaluation": lambda: steps[0].evaluate(batches[0]),
        "greedy": lambda: engine.search(sources, limits, BeamOptions(1, 1.0), prefix),
        "beam": lambda: engine.search(sources, limits, BeamOptions(4, 1.0), prefix),
        "sampling": lambda: engine.search(sources, limits, SamplingOptions(2), prefix),
    }
    if keras.config.backend() == "tensorflow":  # JAX compiles every update
        plain = make_step(model, replace(training, jit_compile="off"), seed=1)
        calls["without XLA"] = lambda: plain.update(batches[0], 1e-3, 1)
    return resolved, calls


def make_batch(tokens: int) -> Batch:
    """Return a batch of full rows, in the layout of `nmt.data.batches.Batches`."""
    import numpy as np

    shape = (tokens // LENGTH, LENGTH)
    ids = np.full(shape, 5, np.int32)
    ones, positions = np.ones_like(ids), np.broadcast_to(np.arange(LENGTH, dtype=np.int32), shape)
    sides = {f"{side}_segments": ones for side in ("source", "target")}
    sides |= {f"{side}_positions": positions for side in ("source", "target")}
    return {"source": ids, "target": ids, "labels": ids, **sides}


@contextlib.contextmanager
def pretend_gpu(gpu: Gpu) -> Iterator[None]:
    """Make the program, and the checks for cuDNN kernels, see a GPU."""
    import keras

    with contextlib.ExitStack() as patched:
        for name in GPU_READERS:
            module = importlib.import_module(f"nmt.{name}")
            patched.enter_context(mock.patch.object(module, "gpus", return_value=[gpu]))
        if keras.config.backend() == "jax":
            from lower_jax import have_cudnn

            patched.enter_context(have_cudnn(gpu.capability))
        yield


if __name__ == "__main__":
    main()
