"""A progress bar around work in steps, where the console is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")


def track(
    steps: Iterable[T],
    total: int,
    label: str,
    console: Console,
    *,
    shown: bool = True,
    count: Callable[[T], int] = lambda result: 1,
) -> Iterator[T]:
    """Yield the results of steps; show progress, speed and remaining time.

    Args:
        steps: results of the steps, computed as they are iterated.
        total: number of items in all results.
        label: name of the work.
        console: shows the bar if it is a terminal.
        shown: False hides the bar.
        count: returns the number of items in a result.
    """
    columns = (
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}/s, left"),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=total, rate="–")
        start = time.monotonic()
        completed = 0
        for result in steps:
            completed += count(result)
            rate = completed / (time.monotonic() - start)
            speed = f"{rate:.2g}" if rate < 10 else f"{rate:.0f}"
            progress.update(task, completed=completed, rate=speed)
            yield result
