"""A progress bar around work in steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")


def track(
    steps: Iterable[T], total: int, label: str, console: Console, *, shown: bool = True
) -> Iterator[T]:
    """Yield the results of ``total`` steps; show progress, speed and remaining time.

    Args:
        steps: results of the steps, computed as they are iterated.
        total: number of steps.
        label: name of the work.
        console: shows the bar if it is a terminal.
        shown: False hides the bar.
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
        for completed, result in enumerate(steps, start=1):
            rate = completed / (time.monotonic() - start)
            speed = f"{rate:.2g}" if rate < 10 else f"{rate:.0f}"
            progress.update(task, completed=completed, rate=speed)
            yield result
