"""Ctrl-C ends a command at any time, without a traceback. Imported early: needs no packages."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_DELAY = 0.1  # seconds, in which the callback that was interrupted ends


def is_command() -> bool:
    """Return whether Python is starting ``python -m nmt.train``, its script or the like."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # the name of a module until Python has found it
        return any(each.removeprefix("-m").startswith("nmt.") for each in sys.orig_argv)
    path = Path(program)
    return path.name.startswith("nmt-") and path.suffix != ".py"  # such as a user's nmt-demo.py


def end_on_interrupts() -> None:
    """Make Ctrl-C end this process, whatever it interrupts: an import, or garbage collection."""
    sys.excepthook = _print_uncaught
    sys.unraisablehook = _repeat_interrupt


def _print_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an uncaught exception, unless Ctrl-C raised it.

    A missing package is the user's error: another interpreter, or an older environment. It ends the
    process with status 2, other exceptions with that of Python.
    """
    if isinstance(error, ModuleNotFoundError) and (error.name or "nmt").split(".")[0] != "nmt":
        remedy = "source .venv/bin/activate, or run bash scripts/setup.sh"
        sys.stdout.flush()
        print(
            f"error: {sys.executable} has no package {error.name}: {remedy}",
            file=sys.stderr,
            flush=True,
        )
        os._exit(2)
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _repeat_interrupt(unraisable: UnraisableHookArgs) -> None:
    """Print an exception that Python discards, but send Ctrl-C again.

    Python discards what callbacks of garbage collection raise, as JAX's, and finalizers. A thread
    sends the signal after they have ended: from here, it would interrupt this function.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    time.sleep(_DELAY)
    os.kill(os.getpid(), signal.SIGINT)
