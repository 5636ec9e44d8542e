"""Training progress on a console: a bar, or lines where no bar can be shown."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nmt.training.report import Report
from nmt.training.trainer_state import TrainerState

LINE_SECONDS = 30  # between two lines


class Display:
    """A context that shows how far training is, its loss and speed, and the time left."""

    def __init__(self, console: Console, step: int) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("update {task.fields[step]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("loss {task.fields[loss]}  {task.fields[speed]} tokens/s"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=2,
        )
        self._task = self._bar.add_task("", total=1.0, step=step, loss="–", speed="–", left="–")
        self._line_time = time.monotonic()

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.__enter__()
        self._line_time = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the bar as it is."""
        self._bar.__exit__(kind, error, traceback)

    def show(self, state: TrainerState, progress: float, report: Report) -> None:
        """Show a report, made at a share ``progress`` of the run."""
        left = int(state.seconds * (1 - progress) / progress) if progress else 0
        loss = "–" if math.isnan(report.nll) else f"{report.nll:.3f}"
        speed = f"{report.tokens_per_second:,.0f}"
        remaining = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
        self._bar.update(
            self._task,
            completed=progress,
            step=state.step,
            loss=loss,
            speed=speed,
            left=remaining,
        )
        now = time.monotonic()
        if not self._console.is_terminal and now - self._line_time > LINE_SECONDS:
            self._line_time = now
            self._console.print(
                f"update {state.step} ({progress:.0%}), epoch {report.epoch:.1f}: loss {loss}, "
                f"{speed} tokens/s, left {remaining}"
            )
