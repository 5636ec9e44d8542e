"""Measure attention layers, forward and backward: this project's kernels and Keras's layer.

    python scripts/bench/bench_attention.py
    KERAS_BACKEND=jax python scripts/bench/bench_attention.py --lengths 512,2048,8192 --causal
    python scripts/bench/bench_attention.py --precision mixed_bfloat16 --json attention.json

A step is a compiled forward and backward pass of one self-attention layer without dropout, with
gradients of its input and its weights. A batch has --tokens tokens, and at least one row. For each
length, two things are measured:

- memory, each layer in a separate process: the peak of a step above the process's memory before it;
- time, all layers in one process, in turn (A B C D A B C D ...), because the speed of a shared
  machine drifts: medians over the turns, and medians of the ratios within each turn. First, all
  layers are checked to compute the same.

On a CPU, a layer whose step would not fit into memory is not run. Its memory is estimated and
marked with ≈: the memory of its longest measured length in proportion to the scores, or `ARRAYS` of
them. On a GPU, the memory of failed steps is estimated.

It takes about a quarter of an hour. If interrupted, it prints the results so far; with --json, the
same command resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_steps import KERAS, Row, Step, make_step, measure_bytes

from nmt.startup.memory import available_memory

if TYPE_CHECKING:
    from rich.table import Table

EXPLICIT, CHUNKED, FUSED = "explicit", "chunked", "fused"
KINDS = (EXPLICIT, CHUNKED, FUSED, KERAS)
LENGTHS = "32,64,128,256,512,1024,2048,4096,8192"
ARRAYS = 7  # arrays of scores [B, H, T, T] in float32 that JAX holds at once on a CPU
SHARE = 0.8  # of the free memory that a step may use
TURN_SECONDS = 0.2  # shortest turn of one layer: short steps are repeated
TOLERANCES = {
    "float32": 1e-4,
    "mixed_float16": 0.02,
    "mixed_bfloat16": 0.1,
}  # relative to the largest gradient
MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure attention layers.")
    parser.add_argument("--lengths", default=LENGTHS, help="T, with commas (%(default)s)")
    parser.add_argument("--tokens", type=int, default=8192, help="tokens per batch (%(default)s)")
    parser.add_argument("--width", type=int, default=512, help="D (%(default)s)")
    parser.add_argument("--heads", type=int, default=8, help="H (%(default)s)")
    parser.add_argument("--turns", type=int, default=7, help="turns of each layer (%(default)s)")
    parser.add_argument("--causal", action="store_true", help="measure causal attention")
    parser.add_argument("--precision", choices=TOLERANCES, default="float32")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="store every figure there; lengths in it are skipped",
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return

    from rich.console import Console

    shared = {name: getattr(arguments, name) for name in ("width", "heads", "causal", "precision")}
    lengths = [int(length) for length in arguments.lengths.split(",")]
    plans = [shared | {"length": T, "batch": max(1, arguments.tokens // T)} for T in lengths]
    machine = ask({"device": True})
    if machine is None:
        sys.exit(1)
    report = machine | shared | {"tokens": arguments.tokens, "turns": arguments.turns, "rows": []}
    if arguments.json and arguments.json.exists():
        earlier = json.loads(arguments.json.read_text(encoding="utf-8"))
        if earlier | {"rows": []} != report:
            parser.error(
                f"{arguments.json} has figures of other settings or machines; name a new file"
            )
        report = earlier
    status = 0
    try:
        measure(plans, report, arguments.json)
    except KeyboardInterrupt:
        status = 130
    Console().print(tabulate(report))
    sys.exit(status)


def measure(plans: Sequence[Row], report: Row, path: Path | None) -> None:
    """Add a row for each plan and layer to the report, and store it in a file, if any.

    Plans whose length was measured are skipped.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    done = {row["length"] for row in report["rows"]}
    plans = [plan for plan in plans if plan["length"] not in done]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(plans) * (len(KINDS) + 1))
        for plan in plans:
            size = f"{plan['batch']} × {plan['length']}"
            rows: list[Row] = []
            for kind in KINDS:
                progress.update(task, description=f"{size}: memory, {kind}")
                rows.append(measure_memory_of(plan | {"kind": kind}, report["rows"], report["gpu"]))
                progress.advance(task)
            progress.update(task, description=f"{size}: time")
            kinds = [row["kind"] for row in rows if row["measured"]]
            seconds = ask(plan | {"kinds": kinds, "turns": report["turns"]}) or {}
            for row in rows:
                row["seconds"] = seconds.get(row["kind"], [])
            report["rows"] += rows
            if path:
                path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            progress.advance(task)


def measure_memory_of(plan: Row, rows: Sequence[Row], gpu: bool) -> Row:
    """Return a row with the memory of a layer; estimated if it would not fit."""
    estimate = compute_bytes(plan, rows)
    fits = gpu or plan["kind"] == CHUNKED or estimate < SHARE * available_memory()
    answer = ask(plan) if fits else None
    measured = answer is not None
    return plan | {"measured": measured, "bytes": answer["bytes"] if answer else estimate}


def compute_bytes(plan: Row, rows: Sequence[Row]) -> int:
    """Estimate the bytes of a step that holds scores [B, H, T, T]."""

    def count_scores(row: Row) -> int:
        return row["batch"] * row["heads"] * row["length"] ** 2

    estimate = 4 * ARRAYS * count_scores(plan)
    measured = [row for row in rows if row["kind"] == plan["kind"] and row["measured"]]
    if measured:
        last = max(measured, key=count_scores)
        estimate = min(estimate, last["bytes"] * count_scores(plan) // count_scores(last))
    return estimate


def ask(plan: Row) -> Any:
    """Carry out a plan in a separate process; return its answer, or None if it failed."""
    command = [sys.executable, __file__, "--worker", json.dumps(plan)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if "kind" in plan:  # with oneDNN, TensorFlow keeps freed memory for the next step
        environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        print(f"{plan}: {lines[0]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def work(plan: Row) -> None:
    """Carry out a plan, and print the answer as JSON."""
    from nmt.startup.memory import keep_freed_memory, return_large_blocks

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with contextlib.redirect_stdout(sys.stderr):
        if "device" in plan:
            answer: Any = describe_device()
        elif "kind" in plan:
            return_large_blocks()  # so that a step does not reuse what another freed
            answer = {"bytes": measure_bytes(make_step(plan))}
        else:
            keep_freed_memory()  # as training does
            answer = time_steps(
                {kind: make_step(plan | {"kind": kind}) for kind in plan["kinds"]}, plan
            )
    print(json.dumps(answer), file=answers, flush=True)


def describe_device() -> Row:
    """Return the backend, and the name of its device."""
    import keras

    from nmt.startup.devices import cores, gpus

    devices = gpus()
    if devices:
        name = devices[0].name
    else:
        name = platform.processor() or platform.machine()
        with contextlib.suppress(OSError, TypeError):
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
            name = re.search(r"model name\s*: (.*)", text)[1]  # type: ignore[index]
        name += f", {cores()} cores"
    return {"backend": keras.config.backend(), "device": name, "gpu": bool(devices)}


def time_steps(steps: dict[str, Step], plan: Row) -> dict[str, list[float]]:
    """Return the seconds of a step of each layer, for each turn.

    Raises:
        AssertionError: the layers compute different results.
    """
    results = {kind: step() for kind, step in steps.items()}
    check(results, TOLERANCES[plan["precision"]])
    del results
    repeats = {}
    for kind, step in steps.items():
        begin = time.perf_counter()
        step()
        repeats[kind] = math.ceil(TURN_SECONDS / (time.perf_counter() - begin))
    seconds: dict[str, list[float]] = {kind: [] for kind in steps}
    for _ in range(plan["turns"]):
        for kind, step in steps.items():
            begin = time.perf_counter()
            for _ in range(repeats[kind]):
                step()
            seconds[kind].append((time.perf_counter() - begin) / repeats[kind])
    return seconds


def check(results: dict[str, tuple[Any, list[Any]]], tolerance: float) -> None:
    """Compare the gradients of all layers with those of the first."""
    import numpy as np

    gradients = {
        kind: [np.asarray(array).ravel() for array in arrays]
        for kind, (_, arrays) in results.items()
    }
    first = next(iter(gradients.values()))
    largest = max(np.abs(array).max() for array in first)
    for kind, arrays in gradients.items():
        for array, expected in zip(arrays, first, strict=True):
            error = np.abs(array - expected).max() / largest
            assert error <= tolerance, f"gradients of {kind} are off by {error:.1e}"


def tabulate(report: Row) -> Table:
    """Return a table of all rows."""
    from rich.table import Table

    kind = "causal self-attention" if report["causal"] else "self-attention"
    table = Table(
        title=f"{kind}, D {report['width']}, H {report['heads']}, {report['precision']}, "
        f"forward and backward: {report['backend']} on {report['device']}",
        caption="ratios: medians of pairs; ≈: estimated, because it would not fit",
    )
    for name in ("rows × length", "attention"):
        table.add_column(name)
    for name in ("ms", "of Keras's", "of explicit", "MiB", "of explicit"):
        table.add_column(name, justify="right")
    rows = report["rows"]
    for begin in range(0, len(rows), len(KINDS)):
        group = {row["kind"]: row for row in rows[begin : begin + len(KINDS)]}
        for row in group.values():
            size = f"{row['batch']} × {row['length']}" if row["kind"] == KINDS[0] else ""
            memory = f"{'' if row['measured'] else '≈ '}{row['bytes'] / MIB:,.0f}"
            table.add_row(
                size,
                row["kind"],
                f"{1e3 * statistics.median(row['seconds']):,.2f}" if row["seconds"] else "–",
                compare(row["seconds"], group[KERAS]["seconds"]),
                compare(row["seconds"], group[EXPLICIT]["seconds"]),
                memory,
                f"{row['bytes'] / max(1, group[EXPLICIT]['bytes']):.3f}",
            )
        table.add_section()
    return table


def compare(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the median of the ratios of turns."""
    if not ours or not theirs:
        return "–"
    return f"{statistics.median(a / b for a, b in zip(ours, theirs, strict=True)):.3f}"


if __name__ == "__main__":
    main()
