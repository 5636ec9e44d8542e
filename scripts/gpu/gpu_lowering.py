"""Lower for a GPU what training and searching compile, on a machine that has none.

    bash scripts/gpu/gpu_check.sh --lower
    bash scripts/gpu/gpu_check.sh --lower --backend jax --rows fused

Update, evaluation and search of `compact` (by each attention kernel) and of `rnn`, in each
precision, are built as they would be on a GPU, and called. What they would compile is lowered for
CUDA instead of run: `lower_tensorflow.py` and `lower_jax.py` say how far. So an operation that has
no kernel there is found here, and named. What remains is what a GPU alone can tell: whether its
compiler and cuDNN take the programs, whether they fit into its memory, and what they give.

Tokenizers are not looked at: tensorflow-text works on CPUs alone, beside the graphs of models, but
for the SavedModel export, where it is in one graph with them.
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
LENGTH, VOCABULARY = 64, 4000  # of rows, in tokens; of the default run, in pieces
BATCH_TOKENS, DROPOUT = 1024, 0.1
H100, ITS_PRECISION = ("NVIDIA H100", (9, 0)), "mixed_bfloat16"  # what `auto` is there
CELLS = ("update", "micro-batches", "without XLA", "evaluation", "greedy", "beam", "sampling")
BELIEVING = (
    "training.defaults",
    "training.process_group",
    "inference.keras_engine",
)  # they look for GPUs
CUDNN = "__cudnn$"


@dataclass(frozen=True)
class Row:
    """One configuration that is lowered."""

    model: str
    attention: str
    precision: str

    @property
    def what(self) -> str:
        """Its name."""
        return " ".join([self.model, self.attention, self.precision])

    @property
    def overrides(self) -> list[str]:
        """What sets it apart from the default configuration."""
        precision = "auto" if self.precision == ITS_PRECISION else self.precision
        kernel = [f"model.attention_kernel={self.attention}"] * (self.attention in KERNELS)
        return [f"model={self.model}", f"training.precision={precision}", *kernel]

    def wants_cudnn(self, backend: str) -> bool:
        """Whether a kernel of cuDNN is to be in it: it knows the half precisions alone."""
        return backend == "jax" and self.attention == "fused" and self.precision != "float32"


def list_rows() -> list[Row]:
    """Return the configurations."""
    rows = [Row("compact", kernel, one) for kernel in KERNELS for one in PRECISIONS]
    return rows + [Row("rnn", "additive", one) for one in PRECISIONS]


# --- Of all backends ----------------------------------------------------------------------------


def check(backends: Sequence[str], named: str, overrides: Sequence[str], out: Path | None) -> int:
    """Lower every row on every backend, and print tables; return the exit status.

    Args:
        backends: by which to lower.
        named: parts of the names of rows, separated by commas.
        overrides: of every configuration.
        out: a folder for the results as JSON lines; None: they are printed alone.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH
    console = Console(highlight=False, markup=False, soft_wrap=True, width=width)
    rows = [row for row in list_rows() if any(name in row.what for name in named.split(","))]
    found = []
    with show_progress(console, len(backends) * len(rows)) as advance:
        # What a process has traced and compiled it does not give back: each has a few rows.
        groups = [list(some) for _, some in groupby(rows, lambda row: (row.model, row.attention))]
        for backend, group in product(backends, groups):
            for result in ask_worker(backend, group, overrides):
                found.append(result)
                advance(f"{backend}: {result['what']}")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(result) + "\n" for result in found)
        (out / "lowering.jsonl").write_text(lines, encoding="utf-8")
    for backend in backends:
        of_backend = [result for result in found if result["backend"] == backend]
        console.print(tabulate_lowering(backend, CELLS, of_backend))
    problems = list(list_problems(found))
    for problem in problems:
        console.print(problem)
    whole = len(found) == len(backends) * len(rows)
    return 0 if whole and not problems else 1


@contextlib.contextmanager
def show_progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Show how far it is; yield what says that one more is done, and which."""
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
    """Yield the result of each row, from a process of the backend's own.

    Ends this process where that one fails.
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


def list_problems(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for every problem, with all cells that have it."""
    cells: dict[str, list[str]] = {}
    for result in found:
        for name in (name for name in CELLS if name in result):
            for problem in result[name]["problems"]:
                cells.setdefault(f"{result['backend']}: {problem}", []).append(
                    f"{result['what']}, {name}"
                )
    for problem, where in cells.items():
        yield f"{problem}: {'; '.join(where)}"


# --- Of one backend, in a process of its own ----------------------------------------------------


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
    """Lower what a configuration compiles.

    Returns:
        ``backend``, ``what`` and what identifies the row; the ``precision`` and ``parallel_parts``
        that were resolved; and by names from `CELLS`, the lists ``problems`` and ``kernels``.
    """
    import keras

    from nmt.startup.devices import Gpu

    backend = keras.config.backend()
    lowering = importlib.import_module(f"lower_{backend}").lowering
    with believe_in(Gpu(*H100)), lowering() as found:
        resolved, calls = make_calls(row, overrides)
        cells = {name: lower_call(call, found) for name, call in calls.items()}
    if resolved["precision"] != row.precision:
        cells["update"]["problems"].append(f"precision=auto became {resolved['precision']}")
    for cell in cells.values():
        if row.wants_cudnn(backend) and not any(CUDNN in name for name in cell["kernels"]):
            cell["problems"].append("cuDNN's attention is not in it")
    return {"backend": backend, "what": row.what, **vars(row), **resolved, **cells}


def lower_call(call: Callable[[], Any], found: Lowered) -> dict[str, list[str]]:
    """Make a call under `lowering`; return what was found."""
    found.clear()
    with contextlib.suppress(NotLoweredError):  # noted
        call()
    if not found.functions:
        found.problems.append("nothing was compiled")
    return {"problems": list(dict.fromkeys(found.problems)), "kernels": sorted(found.kernels)}


def make_calls(
    row: Row, overrides: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Return what a row's configuration resolved, and calls by names from `CELLS`."""
    import keras
    import numpy as np

    from nmt.inference.contract import Beam, Sampling
    from nmt.inference.keras_engine import KerasEngine
    from nmt.runs.building import build_model
    from nmt.runs.resuming import compose_config
    from nmt.training.backend import make_step
    from nmt.training.defaults import resolve_config

    given = [f"training.batch_tokens={BATCH_TOKENS}", f"model.dropout={DROPOUT}"]
    config = resolve_config(compose_config([*row.overrides, *given, *overrides]), pairs=100_000)
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
        "greedy": lambda: engine.search(sources, limits, Beam(1, 1.0), prefix),
        "beam": lambda: engine.search(sources, limits, Beam(4, 1.0), prefix),
        "sampling": lambda: engine.search(sources, limits, Sampling(2), prefix),
    }
    if keras.config.backend() == "tensorflow":  # JAX compiles every update
        plain = make_step(model, replace(training, jit_compile="off"), seed=1)
        calls["without XLA"] = lambda: plain.update(batches[0], 1e-3, 1)
    return resolved, calls


def make_batch(tokens: int) -> Batch:
    """Return a batch of full rows, as `nmt.data.batches.Batches` lays them out."""
    import numpy as np

    shape = (tokens // LENGTH, LENGTH)
    ids = np.full(shape, 5, np.int32)
    ones, positions = np.ones_like(ids), np.broadcast_to(np.arange(LENGTH, dtype=np.int32), shape)
    of_sides = {f"{side}_segments": ones for side in ("source", "target")}
    of_sides |= {f"{side}_positions": positions for side in ("source", "target")}
    return {"source": ids, "target": ids, "labels": ids, **of_sides}


@contextlib.contextmanager
def believe_in(gpu: Gpu) -> Iterator[None]:
    """Let the program, and what asks for kernels of cuDNN, find a GPU."""
    import keras

    with contextlib.ExitStack() as patched:
        for name in BELIEVING:
            module = importlib.import_module(f"nmt.{name}")
            patched.enter_context(mock.patch.object(module, "gpus", return_value=[gpu]))
        if keras.config.backend() == "jax":
            from lower_jax import have_cudnn

            patched.enter_context(have_cudnn(gpu.capability))
        yield


if __name__ == "__main__":
    main()
