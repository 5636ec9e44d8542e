"""Measure what it costs that several processes of this machine share every update.

    python scripts/bench/bench_workers.py model=small --workers 1 2
    KERAS_BACKEND=jax python scripts/bench/bench_workers.py model=small --workers 1 2

Each number of workers shares the batch of one, and then one that is as much for each of them; all
take turns (A B C A B C ...). Every worker has a core of its own and one thread; they talk over the
loopback. Prints a JSON line for each. What it says of as many alone, workers that know nothing of
each other, are shares of their tokens per second, and of their tokens per second of a core's time:
the latter leaves out what workers wait for each other, and others that the cores are shared with.
The overrides are those of `python -m nmt.train`.
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
PRODUCT = 512  # rows of a product that `bench_train.py` measures, too

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
        count: how many they are.
        fold: how many times the usual tokens their updates have.
        turns: what each turn measured.
    """

    def __init__(self, overrides: Sequence[str], tokens: int, count: int, fold: int) -> None:
        self.count, self.fold = count, fold
        self.turns: list[dict[str, Any]] = []
        cores = sorted(os.sched_getaffinity(0))
        addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
        given = [*overrides, f"training.batch_tokens={fold * tokens}", "training.parallel_parts=1"]
        given += [f"training.devices={'multiworker' if count > 1 else 1}"]
        self._workers = []
        for index in range(count):
            task = {"type": "worker", "index": index}
            cluster = json.dumps({"cluster": {"worker": addresses}, "task": task})
            environment = ONE_THREAD | ({"TF_CONFIG": cluster} if count > 1 else {})
            backend = os.environ.get("KERAS_BACKEND", "tensorflow")
            worker = Worker(backend, given, environment=environment)
            os.sched_setaffinity(worker.process.pid, {cores[index % len(cores)]})
            self._workers.append(worker)
        self._all(Worker.start)

    def _all(self, function: Callable[[Worker], T]) -> list[T]:
        """Call something of all workers at the same time: they wait for each other."""
        with ThreadPoolExecutor(self.count) as threads:
            return list(threads.map(function, self._workers))

    def take_turn(self, updates: int) -> None:
        """Make some updates."""
        question = {"updates": updates, "product": PRODUCT}
        found = self._all(lambda worker: worker.ask(question))
        of_all = {"cpu_seconds": sum(turn["cpu_seconds"] for turn in found)}
        self.turns.append(found[0] | of_all)

    def rates(self, per: str) -> list[float]:
        """Return the tokens of each turn per ``seconds`` or ``cpu_seconds``."""
        return [turn["tokens"] / turn[per] for turn in self.turns]

    def end(self) -> dict[str, Any]:
        """End the processes; return what they measured."""
        return self._all(lambda worker: worker.summarize(self.turns))[0]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="as for python -m nmt.train")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--batch-tokens", type=int, default=1536, help="of one (%(default)s)")
    parser.add_argument("--updates", type=int, default=10, help="in one turn (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="(%(default)s)")
    arguments = parser.parse_intermixed_args()
    plans = [(count, 1) for count in arguments.workers]
    plans += [(count, count) for count in arguments.workers if count > 1]
    crews = [Crew(arguments.overrides, arguments.batch_tokens, *plan) for plan in plans]
    for _ in range(arguments.turns):
        for crew in crews:
            crew.take_turn(arguments.updates)
    for crew in crews:
        shares = sorted(
            rate / crew.count / alone
            for rate, alone in zip(crew.rates("seconds"), crews[0].rates("seconds"), strict=True)
        )
        of_core = median(crew.rates("cpu_seconds")) / median(crews[0].rates("cpu_seconds"))
        found = crew.end()
        kept = ("backend", "model", "batches", "tokens_per_second", "step_ms", "loss")
        result = {"workers": crew.count} | {name: found[name] for name in kept}
        result["of_as_many_alone"] = round(median(shares), 3)
        result |= {"lowest": round(shares[0], 3), "highest": round(shares[-1], 3)}
        print(json.dumps(result | {"by_time_of_cores": round(of_core, 3)}), flush=True)


if __name__ == "__main__":
    main()
