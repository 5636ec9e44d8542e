"""Several workers on this machine must train as one does, and stop together.

    python tests/robustness/rehearse_workers.py                      # 2 and 4 workers against 1
    python tests/robustness/rehearse_workers.py --workers 2 --kills 20

Trains a tiny model on the embedded sentences, dropout and micro-batches on: once in one process,
once for each number of workers, which talk over the loopback (KERAS_BACKEND chooses the engine),
and once in thirds: by one, by two, by one again. Losses are to be within 1e-5 of each other,
relatively, and the weights the same but for rounding. That grows, whatever its origin: at the usual
rate, losses that agree within 1e-7 for 70 updates are 7e-4 apart after 200. So the rate is an
eighth of it, and Adam's epsilon 1e-6: with the usual 1e-9, gradients that are nothing but rounding
make full steps. And the activation is GELU, which is smooth: where a ReLU turns, rounding decides
whether a unit learns from a token, and four workers on JAX are 1.0e-5 apart with it. That workers
have the same weights to the bit, they check when they save.

With --kills, two workers train while one of them, at random, is killed at a random update; within a
minute all must have stopped, the other with one line that says who is gone; resumed as often, the
job ends with the weights of one that was left alone. With --other, half of a job is gone on with on
the other backend, too, and compared with this one's. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from soak import ROOT, say, write_corpus

OF_LOSSES, OF_WEIGHTS = 1e-5, 1e-3  # relative; share of the largest update of a weight
STATUS_REQUEUE = 75
PATIENCE = 60.0  # seconds in which all must have stopped
STARTED = "run folder:"  # said when the first update is about to be made
EVERY = 20  # updates between two evaluations
FIGURES = ("train/loss", "dev/loss")


@dataclass(frozen=True)
class Job:
    """A run in a folder of its own."""

    folder: Path
    corpus: Path
    updates: int

    @property
    def run(self) -> Path:
        """The run's folder."""
        return (self.folder / "runs" / "latest").resolve()

    def arguments(self, updates: int) -> list[str]:
        """Return the overrides that begin it, or go on with it, up to an update."""
        given = [f"runs_dir={self.folder / 'runs'}", f"cache_dir={self.corpus.parent / 'cache'}"]
        limit = f"training.max_steps={updates}"
        if any(self.run.glob("checkpoints/step_*.npz")):
            return [*given, "training.resume=latest", limit]
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        return [
            *(*given, "data=tsv", f"data.path={self.corpus}", "data.dev=40", "data.test=40"),
            *("data.source_language=es", "data.target_language=en"),
            *("model=tiny", "model.dropout=0.1", "model.attention_dropout=0.1"),
            *("tokenizer.vocabulary_size=600", "training.batch_tokens=256"),
            *("training.accumulate=2", "training.max_minutes=null", limit),
            *(f"training.evaluate_every={EVERY}", "training.log_every=5", "training.probes=[]"),
            *("training.early_stopping=null", "training.schedule=constant"),
            *("training.learning_rate=5e-4", "training.epsilon=1e-6"),
            "training.warmup_steps=1",  # whatever the limit
            "training.evaluation_share=null",  # evaluations at the same updates, however slow
            "model.activation=gelu",
        ]

    def metrics(self) -> list[dict[str, Any]]:
        """Return what was reported."""
        lines = (self.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights after the last update."""
        with np.load(self.run / "checkpoints" / f"step_{self.updates:08d}.npz") as stored:
            return {name: stored[name] for name in stored.files if name.startswith("model/")}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4], metavar="N")
    parser.add_argument("--updates", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--other", action="store_true", help="go on on the other backend")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        different = list(rehearse(Path(folder), arguments))
    print("\n".join(["", *different]) if different else "\nnothing differs")
    sys.exit(1 if different else 0)


def rehearse(folder: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Train in every way; yield what is different."""
    corpus = write_corpus(folder / "corpus.tsv")
    updates = arguments.updates

    def job(name: str) -> Job:
        return Job(folder / name, corpus, updates)

    one = job("one")
    say(f"1 worker: {train(one, 1, updates):.0f} s")
    for count in arguments.workers:
        several = job(f"of_{count}")
        say(f"{count} workers: {train(several, count, updates):.0f} s")
        yield from (f"{count} workers: {what}" for what in compare(one, several))
    thirds = job("thirds")
    third = updates // 3 // EVERY * EVERY  # where a window of updates is reported, too
    for count, until in ((1, third), (2, 2 * third), (1, updates)):
        train(thirds, count, until)
    yield from (f"1, 2 and 1 workers: {what}" for what in compare(one, thirds))
    if arguments.other:
        yield from change_backend(job, updates)
    if arguments.kills:
        yield from kill_often(one, job("killed"), arguments)


def change_backend(job: Any, updates: int) -> Iterator[str]:
    """Go on with the first half of a run on the other backend, and on this one; compare."""
    here = os.environ.get("KERAS_BACKEND", "tensorflow")
    other = {"tensorflow": "jax", "jax": "tensorflow"}[here]
    half, same = job("half"), job("same")
    train(half, 1, updates // 2)
    shutil.copytree(half.folder, same.folder, symlinks=True)
    train(half, 1, updates, backend=other)
    train(same, 1, updates)
    yield from (f"on {other} after {here}: {what}" for what in compare(same, half, loose=100))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in with_sockets]
    for one in with_sockets:
        one.close()
    return ports


def start(job: Job, count: int, updates: int, backend: str | None = None) -> list[Any]:
    """Start the workers of a job."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(count)]
    given = job.arguments(updates)
    processes = []
    for index in range(count):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        environment |= {} if backend is None else {"KERAS_BACKEND": backend}
        if count > 1:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
        devices = "multiworker" if count > 1 else "1"
        command = [sys.executable, "-m", "nmt.train", *given, f"training.devices={devices}"]
        output = (job.folder.parent / f"{job.folder.name}_{index}.log").open("w")
        processes.append(
            subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment)
        )
    return processes


def train(job: Job, count: int, updates: int, backend: str | None = None) -> float:
    """Run a job up to an update; return the seconds that it took."""
    begun = time.monotonic()
    statuses = [process.wait() for process in start(job, count, updates, backend)]
    if any(statuses):
        logs = [job.folder.parent / f"{job.folder.name}_{index}.log" for index in range(count)]
        shown = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
        sys.exit(f"workers ended with {statuses}:\n{shown}")
    return time.monotonic() - begun


def compare(one: Job, other: Job, loose: float = 1) -> Iterator[str]:
    """Yield what is different in two runs, by more than rounding (times ``loose``)."""
    for name in FIGURES:
        rows = [
            {row["step"]: row[name] for row in job.metrics() if name in row} for job in (one, other)
        ]
        if rows[0].keys() != rows[1].keys():
            yield f"{name} at other updates"
            continue
        apart = max(abs(rows[1][step] / value - 1) for step, value in rows[0].items())
        say(f"  {name}: {len(rows[0])} values within {apart:.1e}")
        if not apart <= loose * OF_LOSSES:
            yield f"{name} by {apart:.1e}"
    weights, others = one.weights(), other.weights()
    if weights.keys() != others.keys():
        yield "other weights"
        return
    # Of a bias on the keys the gradient is rounding noise, which Adam makes steps of.
    names = [name for name in weights if not name.endswith("key/bias")]
    apart = max(float(np.abs(others[name] - weights[name]).max()) for name in names)
    say(f"  weights within {apart:.1e}")
    if not apart <= loose * OF_WEIGHTS:
        yield f"weights by {apart:.1e}"


def kill_often(one: Job, job: Job, arguments: argparse.Namespace) -> Iterator[str]:
    """Let two workers train, and kill one of them again and again."""
    rng = random.Random(arguments.seed)
    slowest, kills, long = 0.0, 0, 30.0
    while kills < arguments.kills:
        processes = start(job, 2, arguments.updates)
        victim = rng.randrange(2)
        log = job.folder.parent / f"{job.folder.name}_0.log"
        while STARTED not in log.read_text(errors="replace") and processes[0].poll() is None:
            time.sleep(0.1)
        begun = time.monotonic()
        deadline = begun + rng.uniform(0, 0.9) * long
        while time.monotonic() < deadline and all(one.poll() is None for one in processes):
            time.sleep(0.1)
        if any(process.poll() is not None for process in processes):
            statuses = [process.wait() for process in processes]
            if any(statuses):
                yield f"without a kill: statuses {statuses}"
                return
            long = time.monotonic() - begun
            say(f"a job came to its end in {long:.0f} s; the next one begins anew")
            yield from (f"killed {kills} times: {what}" for what in compare(one, job))
            shutil.rmtree(job.folder)
            continue
        processes[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        survivor = processes[1 - victim]
        try:
            status = survivor.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            survivor.kill()
            yield f"kill {kills + 1}: worker {1 - victim} went on for {PATIENCE:.0f} s"
            return
        processes[victim].wait()
        took, kills = time.monotonic() - killed, kills + 1
        slowest = max(slowest, took)
        log = job.folder.parent / f"{job.folder.name}_{1 - victim}.log"
        said = log.read_text(errors="replace")
        lines = [line for line in said.splitlines() if f"worker {victim} " in line]
        say(f"kill {kills}: worker {victim}; the other stopped after {took:.1f} s: {lines}")
        if status != STATUS_REQUEUE or len(lines) != 1:
            yield f"kill {kills}: status {status}, lines {lines}:\n{said[-1500:]}"
    train(job, 2, arguments.updates)
    yield from (f"killed {kills} times: {what}" for what in compare(one, job))
    say(f"{kills} kills: the other worker had stopped after {slowest:.1f} s at most")


if __name__ == "__main__":
    main()
