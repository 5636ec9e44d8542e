"""Shards made in processes of their own: bounded, resumable, each whole or not there."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from nmt.data.caching import cached_folder, is_complete
from nmt.errors import UserError, attach_filename
from nmt.files import replace_atomically

JOURNAL_FILE = "journal.jsonl"  # what was made when; apart from it, equal input gives equal bytes

Write = Callable[..., None]  # writes a shard: its arguments, and then the folder
Task = tuple[str, tuple[Any, ...]]  # name of a shard, arguments; None in their place: it is there


class Workshop:
    """Where a corpus is prepared, and by how many processes, which end with the block.

    Args:
        folder: of the corpus.
        processes: 1 does all work in this one.
        console: takes messages and progress.
    """

    def __init__(self, folder: Path, processes: int, console: Console) -> None:
        self.folder, self.console = folder, console
        self._ahead = processes if processes > 1 else 0  # shards begun before one must be done
        self._pool: ProcessPoolExecutor | None = None
        if processes > 1:
            # A fresh interpreter for each: a fork of one with threads may never wake up.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                processes, mp_context=context, initializer=_start_worker
            )

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, stage: str, write: Write, tasks: Iterable[Task], total: int, done: Callable[[], int]
    ) -> None:
        """Make the shards of a stage that are not there yet.

        Args:
            stage: name of its folder.
            write: a function of a module, for other processes to find.
            tasks: at most a few more are taken from it than there are processes.
            total: of what ``done`` tells.
            done: how far the tasks are that were taken.

        Raises:
            UserError: as ``write`` does, or a process was killed.
        """
        made, begun = 0, time.monotonic()
        waiting: deque[tuple[str, Future[float]]] = deque()
        with self._progress(stage, total) as (progress, bar):

            def finish(most: int) -> None:
                nonlocal made
                while len(waiting) > most:
                    name, future = waiting.popleft()
                    self._note(stage, name, future.result())
                    made += 1
                rate = f"{made / (time.monotonic() - begun):.2g} shards/s"
                progress.update(bar, completed=done(), told=rate)

            try:
                for name, arguments in tasks:
                    if not is_complete(folder := self.folder / stage / name):
                        waiting.append((name, self._submit(folder, write, arguments)))
                    finish(self._ahead)
                finish(0)
            except BrokenProcessPool as error:
                raise UserError(
                    "a process was killed, most likely for want of memory: set prepare.processes "
                    "to fewer and give the same command again; what is finished stays"
                ) from error

    def _submit(self, folder: Path, write: Write, arguments: tuple[Any, ...]) -> Future[float]:
        if self._pool is not None:
            return self._pool.submit(_make, folder, write, arguments)
        done: Future[float] = Future()
        done.set_result(_make(folder, write, arguments))
        return done

    @contextmanager
    def _progress(self, stage: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
        told = TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[told]}")
        columns = (TextColumn(Path(stage).name), BarColumn(), *told, TimeRemainingColumn())
        hidden = not self.console.is_terminal
        with Progress(*columns, transient=True, console=self.console, disable=hidden) as progress:
            yield progress, progress.add_task("", total=total, told="")

    def _note(self, stage: str, name: str, seconds: float) -> None:
        told = {"stage": stage, "shard": name, "seconds": round(seconds, 3), "ended": time.time()}
        path = self.folder / JOURNAL_FILE
        with attach_filename(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


def _make(folder: Path, write: Write, arguments: tuple[Any, ...]) -> float:
    """Make one shard; return the seconds that it took."""
    begun = time.monotonic()
    cached_folder(folder, partial(write, *arguments))
    return time.monotonic() - begun


def _start_worker() -> None:
    """Leave Ctrl-C to the first process, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def save_status(path: Path, array: np.ndarray) -> None:
    """Write a .npy file atomically."""
    with replace_atomically(path) as file:
        np.save(SimpleNamespace(write=file.write), array)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically; the same content gives the same bytes."""
    with replace_atomically(path) as file:
        file.write((json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def packed_text(path: Path) -> Iterator[TextIO]:
    """Open a .gz file to write text; the same text gives the same bytes, at any time."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", "backslashreplace", newline="\n") as text,
    ):
        yield text


def read_packed(path: Path) -> list[str]:
    """Return the lines of a .gz file of `packed_text`."""
    with gzip.open(path, "rb") as file:
        return file.read().decode("utf-8").split("\n")[:-1]
