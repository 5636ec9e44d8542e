"""Writes the shards of a stage in several processes; an interrupted stage resumes where it was."""

from __future__ import annotations

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
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from nmt.data.caching import cached_folder, is_complete
from nmt.errors import UserError, attach_filename

JOURNAL_FILE = "journal.jsonl"  # when each shard was written; all other files are reproducible

WriteShard = Callable[..., None]  # takes the arguments of a task, and then the shard's folder


class Task(NamedTuple):
    """A shard to write."""

    shard: str  # name of its folder
    arguments: tuple[Any, ...]


class ShardPool:
    """Processes that write shards, and end with the block.

    Args:
        folder: of the prepared corpus.
        processes: 1 writes all shards in this process.
        console: takes messages and progress.
    """

    def __init__(self, folder: Path, processes: int, console: Console) -> None:
        self.folder, self.console = folder, console
        self._max_pending = processes if processes > 1 else 0  # tasks submitted in advance
        self._executor: ProcessPoolExecutor | None = None
        if processes > 1:
            # Not by fork: the child of a process with threads may hang.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(
                processes, mp_context=context, initializer=_start_worker
            )

    def __enter__(self) -> ShardPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def run(
        self,
        stage: str,
        write: WriteShard,
        tasks: Iterable[Task],
        total: int,
        position: Callable[[], int] | None = None,
    ) -> None:
        """Write the missing shards of a stage.

        Args:
            stage: path of its folder in the prepared folder.
            write: a function of a module, so that other processes can import it.
            tasks: consumed lazily, a few more than there are processes at a time.
            total: what ``position`` returns at the end.
            position: how far the consumed tasks have come; None: their number.

        Raises:
            UserError: ``write`` raises it, or a process was killed.
        """
        consumed, written, start = 0, 0, time.monotonic()
        pending: deque[tuple[str, Future[float]]] = deque()
        with self._show_progress(stage, total) as (bar, bar_task):

            def wait_until(max_pending: int) -> None:
                nonlocal written
                while len(pending) > max_pending:
                    name, future = pending.popleft()
                    self._add_to_journal(stage, name, future.result())
                    written += 1
                rate = f"{written / (time.monotonic() - start):.2g} shards/s"
                bar.update(bar_task, completed=position() if position else consumed, rate=rate)

            try:
                for shard, arguments in tasks:
                    folder = self.folder / stage / shard
                    if not is_complete(folder):
                        pending.append((shard, self._submit(folder, write, arguments)))
                    wait_until(self._max_pending)
                    consumed += 1
                wait_until(0)
            except BrokenProcessPool as error:
                raise UserError(
                    "a process was killed, most likely for lack of memory: lower "
                    "prepare.processes and run the same command again; finished shards are kept"
                ) from error

    def _submit(self, folder: Path, write: WriteShard, arguments: tuple[Any, ...]) -> Future[float]:
        if self._executor is not None:
            return self._executor.submit(_write_shard, folder, write, arguments)
        future: Future[float] = Future()
        future.set_result(_write_shard(folder, write, arguments))
        return future

    @contextmanager
    def _show_progress(self, stage: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
        columns = (
            TextColumn(Path(stage).name),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        hidden = not self.console.is_terminal
        with Progress(*columns, transient=True, console=self.console, disable=hidden) as bar:
            yield bar, bar.add_task("", total=total, rate="")

    def _add_to_journal(self, stage: str, name: str, seconds: float) -> None:
        entry = {"stage": stage, "shard": name, "seconds": round(seconds, 3), "ended": time.time()}
        path = self.folder / JOURNAL_FILE
        with attach_filename(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _write_shard(folder: Path, write: WriteShard, arguments: tuple[Any, ...]) -> float:
    """Write one shard; return the seconds that it took."""
    start = time.monotonic()
    cached_folder(folder, partial(write, *arguments))
    return time.monotonic() - start


def _start_worker() -> None:
    """Leave Ctrl-C to the main process, and end when it ends, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
