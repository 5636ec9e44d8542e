"""Noise from worker processes, for devices that update faster than one process adds noise.

Threads would not do: they wait for each other, and training for them, because of the interpreter's
lock.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, BinaryIO, cast

import numpy as np

from nmt.data.noise import BatchNoise
from nmt.data.packing import PackedRows
from nmt.data.ragged import RaggedIds


class NoiseWorkers:
    """Changes rows as a `BatchNoise` does, each of several processes a part of them.

    The processes start at the first rows. They end with this object, and with this process.

    Args:
        noise: changes the rows.
        count: number of processes.
    """

    def __init__(self, noise: BatchNoise, count: int) -> None:
        self._noise = noise
        self._count = count
        self._workers: list[subprocess.Popen[bytes]] = []

    def change_rows(
        self, rows: PackedRows, length: int, addresses: Sequence[Sequence[int]]
    ) -> PackedRows:
        """See `RowNoise.change_rows`.

        Raises:
            RuntimeError: a process has ended.
        """
        ends = np.linspace(0, len(addresses), self._count + 1).astype(int)
        parts = [slice(*each) for each in pairwise(ends.tolist())]
        try:
            if not self._workers:
                self._start()
            for worker, part in zip(self._workers, parts, strict=True):
                _write((_cut(rows, part), length, addresses[part]), worker.stdin)
            changed = [_read(worker.stdout) for worker in self._workers]
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise RuntimeError("a process that adds noise has ended") from error
        return _join(changed)

    def _start(self) -> None:
        """Start the processes; in sessions of their own, so that Ctrl-C does not reach them."""
        self._workers = [
            subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,
            )
            for _ in range(self._count)
        ]
        weakref.finalize(self, _end, self._workers)
        for worker in self._workers:
            _write(self._noise, worker.stdin)


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.communicate()  # closes its input


def _write(message: Any, stream: Any) -> None:
    pickle.dump(message, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _read(stream: Any) -> PackedRows:
    return cast(PackedRows, pickle.load(stream))


def _cut(rows: PackedRows, part: slice) -> PackedRows:
    """Return consecutive rows."""
    first, last = rows.per_row[: part.start].sum(), rows.per_row[: part.stop].sum()
    weights = None if rows.weights is None else rows.weights[first:last]
    sides = rows.source.slice(first, last), rows.target.slice(first, last)
    return PackedRows(rows.per_row[part], *sides, weights)


def _join(parts: Sequence[PackedRows]) -> PackedRows:
    weights = [part.weights for part in parts if part.weights is not None]
    return PackedRows(
        np.concatenate([part.per_row for part in parts]),
        RaggedIds.join([part.source for part in parts]),
        RaggedIds.join([part.target for part in parts]),
        np.concatenate(weights) if weights else None,
    )


def _work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Change rows until the requests end."""
    noise: BatchNoise = pickle.load(requests)
    while True:
        try:
            rows, length, addresses = pickle.load(requests)
        except EOFError:
            return
        _write(noise.change_rows(rows, length, addresses), answers)


if __name__ == "__main__":
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _work(sys.stdin.buffer, answers)
