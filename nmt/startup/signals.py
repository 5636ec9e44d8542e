"""Signals that ask a process to stop: Ctrl-C, the end of a session, and what schedulers send."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from nmt.startup.liveness import STATUS_REQUEUE

STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
STATUS_INTERRUPTED = 130  # exit status after Ctrl-C, as shells have it


def exit_stopped(number: int) -> NoReturn:
    """Exit with the status of a job that saved its state when a signal stopped it."""
    raise SystemExit(STATUS_INTERRUPTED if number == signal.SIGINT else STATUS_REQUEUE)


@contextmanager
def handle_stop_signals(handle: Callable[[int], None], *, once: bool = False) -> Iterator[None]:
    """Call ``handle`` with the number of every stop signal that arrives meanwhile.

    A signal that is ignored, as SIGHUP is under ``nohup``, stays ignored. Outside the main thread,
    where Python installs no handlers, this does nothing.

    Args:
        handle: called in the main thread, between two instructions of Python.
        once: restore the previous handler after the first signal of a kind, so that a second one
            stops the process at once. Not after SIGHUP: a dropped session sends it twice, by its
            shell and by the system.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # None: a handler that is not Python's could not be restored.
    previous = {n: old for n, old in handlers.items() if old not in (signal.SIG_IGN, None)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        if once and number != getattr(signal, "SIGHUP", None):
            signal.signal(number, previous[number])
        handle(number)

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
