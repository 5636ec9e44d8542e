"""Measure the cost of several processes on this machine that share every update.

    python scripts/bench/bench_workers.py model=small --workers 1 2
    KERAS_BACKEND=jax python scripts/bench/bench_workers.py model=small --workers 1 2

Each number of workers trains twice: with the batch of one worker, and with a batch that grows with
their number. All take turns (A B C A B C ...). Every worker has one core and one thread; they
communicate over the loopback. Prints a JSON line for each. Rates are given relative to as many
independent workers: `of_as_many_alone` by wall-clock time, `by_time_of_cores` by processor time,
which excludes waiting for each other and for other processes. The overrides are those of
`python -m nmt.train`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, TypeVar

from bench_train import Worker

ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
PRODUCT = 512  # rows of the matrix product that `bench_train.py` measures

T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


class Crew:
    """Workers that share every update, each on one core.

    Attributes:
        count: number of workers.
        fold: multiple of the usual tokens per update.
        turns: measurements of each turn.
    """

    def __init__(self, overrides: Sequence[str], tokens: int, count: int, fold: int) -> None:
        self.count, self.fold = count, fold
        self.turns: list[dict[str, Any]] = []
        cores = sorted(os.sched_getaffinity(0))
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        overrides = [
            *overrides,
            f"training.batch_tokens={fold * tokens}",
            "training.parallel_parts=1",
        ]
        overrides += [f"training.devices={'multiworker' if count > 1 else 1}"]
        self._workers = []
        for index in range(count):
            task = {"type": "worker", "index": index}
            cluster = json.dumps({"cluster": {"worker": addresses}, "task": task})
            environment = ONE_THREAD | ({"TF_CONFIG": cluster} if count > 1 else {})
            backend = os.environ.get("KERAS_BACKEND", "tensorflow")
            worker = Worker(backend, overrides, environment=environment)
            os.sched_setaffinity(worker.process.pid, {cores[index % len(cores)]})
            self._workers.append(worker)
        self._all(Worker.start)

    def _all(self, function: Callable[[Worker], T]) -> list[T]:
        """Call a function for all workers at the same time, because they wait for each other."""
        with ThreadPoolExecutor(self.count) as threads:
            return list(threads.map(function, self._workers))

    def take_turn(self, updates: int) -> None:
        """Run updates."""
        question = {"updates": updates, "product": PRODUCT}
        answers = self._all(lambda worker: worker.ask(question))
        cpu_seconds = sum(answer["cpu_seconds"] for answer in answers)
        self.turns.append(answers[0] | {"cpu_seconds": cpu_seconds})

    def rates(self, per: str) -> list[float]:
        """Return the tokens of each turn per ``seconds`` or ``cpu_seconds``."""
        return [turn["tokens"] / turn[per] for turn in self.turns]

    def end(self) -> dict[str, Any]:
        """End the processes; return their summary."""
        return self._all(lambda worker: worker.summarize(self.turns))[0]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="as for python -m nmt.train")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument(
        "--batch-tokens", type=int, default=1536, help="batch of one worker (%(default)s)"
    )
    parser.add_argument("--updates", type=int, default=10, help="per turn (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="(%(default)s)")
    arguments = parser.parse_intermixed_args()
    counts = sorted({1, *arguments.workers})  # of workers; each is compared with one worker
    plans = [(count, 1) for count in counts]
    plans += [(count, count) for count in counts if count > 1]
    crews = [Crew(arguments.overrides, arguments.batch_tokens, *plan) for plan in plans]
    for _ in range(arguments.turns):
        for crew in crews:
            crew.take_turn(arguments.updates)
    for crew in crews:
        shares = sorted(
            rate / crew.count / single
            for rate, single in zip(crew.rates("seconds"), crews[0].rates("seconds"), strict=True)
        )
        core_share = median(crew.rates("cpu_seconds")) / median(crews[0].rates("cpu_seconds"))
        summary = crew.end()
        names = ("backend", "model", "batches", "tokens_per_second", "step_ms", "loss")
        result = {"workers": crew.count} | {name: summary[name] for name in names}
        result["of_as_many_alone"] = round(median(shares), 3)
        result |= {"lowest": round(shares[0], 3), "highest": round(shares[-1], 3)}
        print(json.dumps(result | {"by_time_of_cores": round(core_share, 3)}), flush=True)


if __name__ == "__main__":
    main()
