"""The console of the commands, and log records on it."""

from __future__ import annotations

import errno
import io
import logging
import os
import stat
import sys
from types import TracebackType
from typing import NoReturn

from rich.console import Console

from nmt.errors import exit_without_reader


class _Console(Console):
    """A console whose reader or terminal may be closed early, which rich takes for a failure."""

    def on_broken_pipe(self) -> NoReturn:
        """See `Console.on_broken_pipe`."""
        exit_without_reader()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what was printed, unless the terminal is closed, as that of a dropped session."""
        try:
            super().__exit__(kind, error, traceback)
        except OSError as failure:
            if failure.errno != errno.EIO or not _is_device(self.file.fileno()):
                raise
            _discard_terminal_output()


def _discard_terminal_output() -> None:
    """Discard what is printed to terminals from now on, but not what is printed to files."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if _is_device(stream):
            os.dup2(null, stream)
    os.close(null)


def _is_device(stream: int) -> bool:
    """Whether a stream is a terminal, open or closed, or another device."""
    return stat.S_ISCHR(os.fstat(stream).st_mode)


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
