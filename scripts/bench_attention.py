"""Measure attention layers, forward and backward: this project's kernels and Keras's own layer.

    python scripts/bench_attention.py
    KERAS_BACKEND=jax python scripts/bench_attention.py --lengths 512,2048,8192 --causal
    python scripts/bench_attention.py --precision mixed_bfloat16 --json attention.json

A step is a compiled forward and backward pass of one self-attention layer, without dropout, with
gradients of its input and its weights. Rows are as many as make --tokens tokens, one at least. Two
things are measured for each length:

- memory, each layer in a process of its own: the highest that a second step needs beyond what the
  process has before it (on a GPU, what the backend's allocator says of a first step);
- time, all layers in one process, in turn (A B C D A B C D ...), because the speed of a shared
  machine drifts: medians over the turns, and medians of the ratios within each turn.

A layer whose step would not fit into memory is left out: its memory, marked with ≈, is then what
its longest measured length says, in proportion to the scores; without any, see `ARRAYS`. Before
times are taken, outputs and gradients of all layers are compared.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

KERAS = "keras.layers"  # what the others are compared with
EXPLICIT = "explicit"
KINDS = (EXPLICIT, "chunked", "fused", KERAS)
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
ARRAYS = 7  # of scores [B, H, T, T] in float32 that a step may hold at once: JAX does, on a CPU
SPARE = 0.8  # share of the memory that is free which a step may take
LEAST_SECONDS = 0.2  # of one turn of one layer: short steps are repeated
MIB = 1 << 20
TOLERANCES = {"float32": 1e-4}  # of the largest number; of other precisions:
TOLERANCE = 0.1


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        plan = json.loads(arguments.worker)
        with redirected_output() as answers:
            answer = time_layers(plan) if "turns" in plan else measure_memory(plan)
            print(json.dumps(answer), file=answers)
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    shared = {name: getattr(arguments, name) for name in ("width", "heads", "causal", "precision")}
    device = ask(shared | {"length": 16, "batch": 1, "kind": EXPLICIT})
    rows: list[dict[str, Any]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(arguments.lengths) * (len(KINDS) + 1))
        for length in arguments.lengths:
            batch = max(1, arguments.tokens // length)
            plan = shared | {"length": length, "batch": batch}
            for kind in KINDS:
                progress.update(task, description=f"{batch} × {length}: memory of {kind}")
                rows.append(plan | {"kind": kind} | find_memory(plan, kind, rows, device))
                progress.advance(task)
            progress.update(task, description=f"{batch} × {length}: time")
            new = rows[-len(KINDS) :]
            kinds = [row["kind"] for row in new if row["measured"]]
            seconds = ask(plan | {"kinds": kinds, "turns": arguments.turns}) or {}
            for row in new:
                row["seconds"] = seconds.get(row["kind"], [])
            progress.advance(task)
    found = {key: device[key] for key in ("backend", "device")} | {"rows": rows}
    Console().print(tabulate(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
