"""Check that several workers on this machine train like one, and stop together.

    python tests/robustness/rehearse_workers.py                      # 2 and 4 workers against 1
    python tests/robustness/rehearse_workers.py --workers 2 --kills 20

Trains a tiny model on the embedded sentences, with dropout and micro-batches: in one process; with
each number of workers, which communicate over the loopback; and in thirds with one, two and one
worker. KERAS_BACKEND selects the backend. Losses must agree within 1e-5, relatively, and weights up
to rounding. Workers check that their weights are identical when they save.

Rounding differences grow during training. Three settings keep them small:

- An eighth of the usual learning rate. At the usual rate, losses that agree within 1e-7 for 70
  updates are 7e-4 apart after 200.
- Adam's epsilon is 1e-6. With the usual 1e-9, gradients of pure rounding noise make full steps.
- The activation is GELU, which is smooth. At the kink of a ReLU, rounding decides whether a unit
  learns from a token; four workers on JAX are 1.0e-5 apart with it.

With --kills, two workers train, and one of them is killed at random. Within a minute all must stop,
the other one with one line that names the lost worker. After all resumes, the job must end with the
weights of an undisturbed one. With --other, half of a job is also resumed on the other backend, and
compared with this backend's. Exits with 1 if anything differs.
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
from soak import ROOT, log, write_corpus

LOSS_TOLERANCE, WEIGHT_TOLERANCE = (
    1e-5,
    1e-3,
)  # relative; share of a largest update
STATUS_REQUEUE = 75
PATIENCE = 60.0  # seconds until all must have stopped
STARTED = "run folder:"  # printed before the first update
EVERY = 20  # updates between two evaluations
FIGURES = ("train/loss", "dev/loss")


@dataclass(frozen=True)
class Job:
    """A run in a separate folder."""

    folder: Path
    corpus: Path
    updates: int

    @property
    def run(self) -> Path:
        """Path of the run folder."""
        return (self.folder / "runs" / "latest").resolve()

    def arguments(self, updates: int) -> list[str]:
        """Return the overrides that start or resume the run, up to an update."""
        folders = [f"runs_dir={self.folder / 'runs'}", f"cache_dir={self.corpus.parent / 'cache'}"]
        limit = f"training.max_steps={updates}"
        if any(self.run.glob("checkpoints/step_*.npz")):
            return [*folders, "training.resume=latest", limit]
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        return [
            *(*folders, "data=files", f"data.train={self.corpus}", "data.dev=40", "data.test=40"),
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
        """Return the records of the metrics file."""
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
    parser.add_argument("--other", action="store_true", help="resume on the other backend")
    parser.add_argument("--seed", type=int, default=1, help="seed of the kill times (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        different = list(rehearse(Path(folder), arguments))
    print("\n".join(["", *different]) if different else "\nno differences")
    sys.exit(1 if different else 0)


def rehearse(folder: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Train in every way; yield the differences."""
    corpus = write_corpus(folder / "corpus.tsv")
    updates = arguments.updates

    def job(name: str) -> Job:
        return Job(folder / name, corpus, updates)

    one = job("one")
    log(f"1 worker: {train(one, 1, updates):.0f} s")
    for count in arguments.workers:
        several = job(f"of_{count}")
        log(f"{count} workers: {train(several, count, updates):.0f} s")
        yield from (f"{count} workers: {what}" for what in compare(one, several))
    thirds = job("thirds")
    third = updates // 3 // EVERY * EVERY  # at a report of training
    for count, until in ((1, third), (2, 2 * third), (1, updates)):
        train(thirds, count, until)
    yield from (f"1, 2 and 1 workers: {what}" for what in compare(one, thirds))
    if arguments.other:
        yield from change_backend(job, updates)
    if arguments.kills:
        yield from kill_often(one, job("killed"), arguments)


def change_backend(job: Any, updates: int) -> Iterator[str]:
    """Resume the first half of a run on the other backend and on this one; compare."""
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
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def start(job: Job, count: int, updates: int, backend: str | None = None) -> list[Any]:
    """Start the workers of a job."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(count)]
    overrides = job.arguments(updates)
    processes = []
    for index in range(count):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        environment |= {} if backend is None else {"KERAS_BACKEND": backend}
        if count > 1:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
        devices = "multiworker" if count > 1 else "1"
        command = [sys.executable, "-m", "nmt.train", *overrides, f"training.devices={devices}"]
        output = (job.folder.parent / f"{job.folder.name}_{index}.log").open("w")
        processes.append(
            subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment)
        )
    return processes


def train(job: Job, count: int, updates: int, backend: str | None = None) -> float:
    """Run a job up to an update; return its seconds."""
    begin = time.monotonic()
    statuses = [process.wait() for process in start(job, count, updates, backend)]
    if any(statuses):
        logs = [job.folder.parent / f"{job.folder.name}_{index}.log" for index in range(count)]
        shown = "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)
        sys.exit(f"workers ended with {statuses}:\n{shown}")
    return time.monotonic() - begin


def compare(one: Job, other: Job, loose: float = 1) -> Iterator[str]:
    """Yield the differences of two runs beyond the tolerances (times ``loose``)."""
    for name in FIGURES:
        rows = [
            {row["step"]: row[name] for row in job.metrics() if name in row} for job in (one, other)
        ]
        if rows[0].keys() != rows[1].keys():
            yield f"{name}: other updates"
            continue
        difference = max(abs(rows[1][step] / value - 1) for step, value in rows[0].items())
        log(f"  {name}: {len(rows[0])} values within {difference:.1e}")
        if not difference <= loose * LOSS_TOLERANCE:
            yield f"{name} by {difference:.1e}"
    weights, others = one.weights(), other.weights()
    if weights.keys() != others.keys():
        yield "other weights"
        return
    # The gradient of a bias on the keys is rounding noise, which Adam turns into steps.
    names = [name for name in weights if not name.endswith("key/bias")]
    difference = max(float(np.abs(others[name] - weights[name]).max()) for name in names)
    log(f"  weights within {difference:.1e}")
    if not difference <= loose * WEIGHT_TOLERANCE:
        yield f"weights by {difference:.1e}"


def kill_often(one: Job, job: Job, arguments: argparse.Namespace) -> Iterator[str]:
    """Train with two workers, and kill one of them again and again."""
    rng = random.Random(arguments.seed)
    slowest, kills, long = 0.0, 0, 30.0
    while kills < arguments.kills:
        processes = start(job, 2, arguments.updates)
        victim = rng.randrange(2)
        log_file = job.folder.parent / f"{job.folder.name}_0.log"
        while STARTED not in log_file.read_text(errors="replace") and processes[0].poll() is None:
            time.sleep(0.1)
        begin = time.monotonic()
        deadline = begin + rng.uniform(0, 0.9) * long
        while time.monotonic() < deadline and all(each.poll() is None for each in processes):
            time.sleep(0.1)
        if any(process.poll() is not None for process in processes):
            statuses = [process.wait() for process in processes]
            if any(statuses):
                yield f"without a kill: statuses {statuses}"
                return
            long = time.monotonic() - begin
            log(f"a job was complete after {long:.0f} s; the next one starts anew")
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
            yield f"kill {kills + 1}: worker {1 - victim} was still running after {PATIENCE:.0f} s"
            return
        processes[victim].wait()
        seconds, kills = time.monotonic() - killed, kills + 1
        slowest = max(slowest, seconds)
        log_file = job.folder.parent / f"{job.folder.name}_{1 - victim}.log"
        output = log_file.read_text(errors="replace")
        lines = [line for line in output.splitlines() if f"worker {victim} " in line]
        log(f"kill {kills}: worker {victim}; the other stopped after {seconds:.1f} s: {lines}")
        if status != STATUS_REQUEUE or len(lines) != 1:
            yield f"kill {kills}: status {status}, lines {lines}:\n{output[-1500:]}"
    train(job, 2, arguments.updates)
    yield from (f"killed {kills} times: {what}" for what in compare(one, job))
    log(f"{kills} kills: the other worker had stopped after {slowest:.1f} s at most")


if __name__ == "__main__":
    main()
