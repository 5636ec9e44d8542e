"""Measure training speed: one JSON line per configuration, and the ratio of two run in turn.

    python scripts/bench/bench_train.py data=tatoeba data.archive=/path/to/spa-eng.zip model=small
    python scripts/bench/bench_train.py model=small --against training.batch_tokens=1024
    python scripts/bench/bench_train.py model=small --backend tensorflow --against-backend jax
    python scripts/bench/bench_train.py model=small --against-env TF_ENABLE_ONEDNN_OPTS=0

The overrides are those of `python -m nmt.train`. `--against` takes the overrides of the second
configuration, `--against-env` its environment variables. Each configuration has its own process,
and the two take turns (A B A B ...), because the speed of a shared machine drifts. Utilisation is
the model's floating-point operations per second, divided by the rate of one device in a matrix
product, measured in the same process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.batches import BatchPlan
    from nmt.model.contract import Model
    from nmt.training.process_group import ProcessGroup
    from nmt.training.train_step import TrainStep

PRODUCT = {"cpu": (2048, "float32"), "gpu": (8192, "bfloat16")}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure training speed.")
    parser.add_argument("overrides", nargs="*", help="as for python -m nmt.train")
    parser.add_argument(
        "--against", nargs="+", metavar="OVERRIDE", help="for the second configuration"
    )
    parser.add_argument("--backend", choices=("tensorflow", "jax"), default="tensorflow")
    parser.add_argument("--against-backend", choices=("tensorflow", "jax"))
    parser.add_argument(
        "--against-env", nargs="+", default=[], metavar="NAME=VALUE", help="for the second one"
    )
    parser.add_argument("--updates", type=int, default=20, help="per turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.overrides)
        return
    plans: list[tuple[Any, ...]] = [(arguments.backend, arguments.overrides)]
    if arguments.against or arguments.against_backend or arguments.against_env:
        changed = arguments.overrides + (arguments.against or [])
        environment = dict(setting.split("=", 1) for setting in arguments.against_env)
        backend = arguments.against_backend or arguments.backend
        plans.append((backend, changed, None, environment))
    workers = [Worker(*plan).start() for plan in plans]
    turns: list[list[dict[str, Any]]] = [[] for _ in workers]
    for _ in range(arguments.turns):
        for worker, worker_turns in zip(workers, turns, strict=True):
            worker_turns.append(worker.ask({"updates": arguments.updates}))
    for worker, worker_turns in zip(workers, turns, strict=True):
        print(json.dumps(worker.summarize(worker_turns)), flush=True)
    if len(workers) == 2:
        first, second = (
            [turn["tokens"] / turn["seconds"] for turn in worker_turns] for worker_turns in turns
        )
        ratios = sorted(b / a for a, b in zip(first, second, strict=True))
        print(
            json.dumps(
                {
                    "tokens_per_second_second_over_first": round(statistics.median(ratios), 3),
                    "lowest": round(ratios[0], 3),
                    "highest": round(ratios[-1], 3),
                }
            )
        )


class Worker:
    """A configuration in a separate process, which trains on request.

    Attributes:
        process: reads its corpus at once; with `training.devices=1`, it uses the device only from
            `start` on.
    """

    def __init__(
        self,
        backend: str,
        overrides: list[str],
        stderr: TextIO | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *overrides],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {"KERAS_BACKEND": backend} | (environment or {}),
        )
        self._started: dict[str, Any] = {}

    def start(self) -> Worker:
        """Build the model and wait for the first updates."""
        self._started = self.ask({})
        return self

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.wait() or 1)  # it has printed the reason
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a question, wait for the answer.

        Raises:
            SystemExit: the process has ended, with this status.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(question), file=self.process.stdin, flush=True)
        return self._answer()

    def summarize(self, turns: list[dict[str, Any]]) -> dict[str, Any]:
        """End the process; return its measurements, with rates as medians over the turns."""
        ended = self.ask({"updates": 0})
        self.process.wait()

        def median(name: str, per: str) -> float:
            return statistics.median(turn[name] / turn[per] for turn in turns)

        tokens = median("tokens", "seconds")
        flops = tokens * self._started["mflop_per_token"] * 1e6
        product = statistics.median(turn["product_flops"] for turn in turns)
        return self._started | {
            "tokens_per_second": round(tokens),
            "pairs_per_second": round(median("pairs", "seconds"), 1),
            "step_ms": round(1e3 * median("seconds", "updates"), 2),
            "batch_ms": round(1e3 * median("batch_seconds", "updates"), 3),
            "padding": round(1 - median("tokens", "positions"), 4),
            "loss": turns[0]["loss"],  # comparable for any number of turns
            "product_gflops": round(product / 1e9, 1),
            "utilisation": round(flops / product, 3),
            "peak_rss_mb": ended["peak_rss_mb"],
            "peak_device_mb": turns[0]["peak_device_mb"],
        }


def work(overrides: list[str]) -> None:
    """Set up, then run the number of updates that each line of standard input requests."""
    # Standard output is for answers; other output, also of libraries, goes to standard error.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    ready = prepare(overrides)
    with ready.process_group.fail_together(), ready.process_group.scope():
        _answer(ready, overrides, answers)


def _answer(ready: Ready, overrides: list[str], answers: TextIO) -> None:
    import keras

    from nmt.model.costs import count_training_flops_per_token

    def answer(content: dict[str, Any]) -> None:
        print(json.dumps(content), file=answers, flush=True)

    ready_at = time.time()
    sys.stdin.readline()  # waits for this process's turn on the device
    waited = time.time() - ready_at
    config, model, step = ready.build()
    flops = count_training_flops_per_token(model.sizes.costs)
    before = time.time()
    float(step.update(ready.batches.batch(0, selection=step.local_rows), 1e-4, 1).nll)
    first = time.time()
    float(step.update(ready.batches.batch(0, selection=step.local_rows), 1e-4, 2).nll)
    again = time.time() - first
    answer(
        {
            "backend": keras.config.backend(),
            "overrides": overrides,
            "model": config.model.name,
            "parameters": model.count_params(),
            "precision": config.training.precision,
            "batches": ready.batches.shapes,
            "first_step_s": round(first - read_start() - waited, 1),
            "compile_s": round(first - before - again, 1),
            "mflop_per_token": round(flops / 1e6, 2),
        }
    )
    done = 2
    for line in sys.stdin:
        question = json.loads(line)
        if not question["updates"]:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            answer({"peak_rss_mb": round(peak / (1024 if sys.platform == "linux" else 2**20))})
            return
        turn = take_turn(step, ready, done, question["updates"])
        done += question["updates"]
        turn["peak_device_mb"] = read_peak_device_mb()  # before the product needs any
        answer(turn | {"product_flops": measure_product(question.get("product"))})


def take_turn(step: TrainStep, ready: Ready, done: int, updates: int) -> dict[str, Any]:
    """Run updates after the first ``done``; return counts and times."""
    import numpy as np

    turn: dict[str, Any] = {"updates": updates, "batch_seconds": 0.0}
    counts = {"tokens": 0, "positions": 0, "pairs": 0}  # in the rows of this process
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for number in range(done, done + updates):
        start = time.perf_counter()
        batch = ready.batches.batch(number, selection=step.local_rows)
        turn["batch_seconds"] += time.perf_counter() - start
        update = step.update(batch, 1e-4, number + 1)
        for side in ("source_segments", "target_segments"):
            counts["tokens"] += int(np.count_nonzero(batch[side]))
            counts["positions"] += batch[side].size
        counts["pairs"] += int(batch["target_segments"].max(axis=1).sum())
    turn["loss"] = float(update.nll) / float(update.tokens)  # waits for the device
    turn["seconds"] = time.perf_counter() - begin
    turn["cpu_seconds"] = time.process_time() - begin_cpu  # of all threads
    every = ready.process_group.all_gather(counts)
    return turn | {name: sum(rank[name] for rank in every) for name in counts}


@dataclass(frozen=True)
class Ready:
    """A configuration with its corpus, before it uses a device."""

    config: Config
    pairs: int  # of the training split
    vocabulary_size: int
    batches: BatchPlan
    process_group: (
        ProcessGroup  # who shares an update, within whose scope models are built and updated
    )

    def build(self, **training: Any) -> tuple[Config, Model, TrainStep]:
        """Resolve the configuration for the devices, and build the model and its update.

        Args:
            training: changes to the ``training`` group.
        """
        from nmt.runs.building import build_model
        from nmt.startup.quiet import quiet_start
        from nmt.training.defaults import resolve_config
        from nmt.training.update_sizing import make_step_within_memory

        changed = replace(self.config, training=replace(self.config.training, **training))
        with quiet_start():
            config = resolve_config(changed, self.pairs)
        precision = config.training.precision
        model = build_model(config, self.vocabulary_size, precision=precision)
        step, config = make_step_within_memory(model, config, [self.batches], self.process_group)
        return config, model, step


def prepare(overrides: list[str]) -> Ready:
    """Compose a configuration and prepare its corpus, tokenizer and batches.

    Exits if the configuration or the corpus is invalid.
    """
    from rich.console import Console

    from nmt.config.training import AUTO
    from nmt.errors import UserError, fail
    from nmt.runs.resuming import compose_config
    from nmt.startup.commands import set_up_training
    from nmt.startup.quiet import quiet_start

    console = Console(stderr=True, quiet=True)
    try:
        config = compose_config(overrides)
        training = config.training
        if training.batch_tokens == AUTO and training.update_tokens is None:
            raise UserError(
                "training.batch_tokens=auto leaves the size of an update open: set "
                "training.update_tokens=N"
            )
        set_up_training(Path(config.cache_dir))
        with quiet_start():
            from nmt.runs.building import set_seed
            from nmt.training.preparation import plan_training, prepare_corpus, prepare_tokenizer
            from nmt.training.process_group import make_process_group

            process_group = make_process_group(
                config.training.devices
            )  # before the first computation
            process_group.barrier()  # at once: JAX waits only 30 seconds for all processes
            set_seed(config.seed)
            corpus = prepare_corpus(config, console)
            tokenizer = prepare_tokenizer(config, corpus, console)
        batches, *later = plan_training(config, corpus, tokenizer)
        if later:
            raise UserError("data.stages are not measured: leave them out")
        return Ready(config, corpus.epoch_pairs, tokenizer.vocabulary_size, batches, process_group)
    except UserError as error:
        fail(error)


def measure_product(size: int | None = None) -> float:
    """Return the floating-point operations per second of a large matrix product.

    Args:
        size: rows and columns; None: as in `PRODUCT`.
    """
    import keras
    from keras import ops

    from nmt.startup.devices import gpus

    largest, dtype = PRODUCT["gpu" if gpus() else "cpu"]
    size = size or largest
    matrix = ops.cast(keras.random.normal((size, size), seed=1), dtype)
    repeats = 5
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        product = matrix
        for _ in range(repeats):
            product = ops.matmul(product, matrix) * (1 / size)
        float(ops.cast(product[0, 0], "float32"))
        rates.append(repeats * 2 * size**3 / (time.perf_counter() - begin))
    return max(rates)


def read_peak_device_mb() -> int | None:
    """Return the peak GPU memory of this process, in MiB; None without a GPU."""
    import keras

    from nmt.startup.devices import gpus

    if not gpus():
        return None
    if keras.config.backend() == "jax":
        import jax

        return round(jax.local_devices()[0].memory_stats()["peak_bytes_in_use"] / 2**20)
    import tensorflow as tf

    return round(tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20)


def read_start() -> float:
    """Return the wall-clock time at which this process started."""
    with contextlib.suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return time.time() - (uptime - float(fields[19]) / os.sysconf("SC_CLK_TCK"))
    return _IMPORTED


_IMPORTED = time.time()

if __name__ == "__main__":
    main()
