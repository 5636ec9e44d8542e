"""The console of the commands."""

from __future__ import annotations

from rich.console import Console


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: no highlighting, markup or folded lines."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)
