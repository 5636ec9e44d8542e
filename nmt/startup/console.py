"""The console of the commands, and log records on it."""

from __future__ import annotations

import io
import logging
import sys
from typing import NoReturn

from rich.console import Console

from nmt.errors import exit_without_reader


class _Console(Console):
    """A console whose reader may leave early, which rich takes for a failure."""

    def on_broken_pipe(self) -> NoReturn:
        """See `Console.on_broken_pipe`."""
        exit_without_reader()


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is: no highlights, markup, emoji or folded lines.

    Characters that the encoding of standard output lacks become escapes.
    """
    if not stderr and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error has
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


class StderrHandler(logging.Handler):
    """Prints log records, above a progress bar if there is one.

    The bar replaces ``sys.stderr`` while it is shown. `logging.StreamHandler` would keep the stream
    that it was made with, and a console of rich would write to the stream that the bar replaced.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        try:
            print(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)
