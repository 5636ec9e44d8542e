"""A progress bar around any work that comes in steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")


def track(
    steps: Iterable[T], total: int, what: str, console: Console, *, shown: bool = True
) -> Iterator[T]:
    """Yield the results of ``total`` steps, showing how many are done, how fast, and time left.

    Args:
        steps: does one step of the work for each item asked of it.
        total: how many there are.
        what: name of the work.
        console: where the bar is; it shows on terminals only.
        shown: whether it shows at all.
    """
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}/s, left"),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=total, rate="–")
        begin = time.monotonic()
        for done, result in enumerate(steps, start=1):
            rate = done / (time.monotonic() - begin)
            progress.update(
                task, completed=done, rate=f"{rate:.2g}" if rate < 10 else f"{rate:.0f}"
            )
            yield result
