"""The clock of a run and requests to stop, agreed among its processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nmt.startup.signals import handle_stop_signals
from nmt.training.session import Session


class Coordinator:
    """Keeps ``state.seconds`` and stop requests the same in all processes.

    With several processes, the clock changes only where they synchronise, so that all decide alike;
    the clock of process 0 wins.

    Attributes:
        stop_signal: number of the signal that some process was asked to stop by.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._state = session.state
        self._process_group = session.process_group
        self._seconds = self._state.seconds  # the clock of this process
        self._last_tick = time.monotonic()
        self._received: int | None = None  # the signal that this process was asked to stop by
        self.stop_signal: int | None = None

    @contextmanager
    def receive_stop_signals(self) -> Iterator[None]:
        """Turn stop signals into a request; a second one, other than SIGHUP, stops at once."""

        def receive(number: int) -> None:
            self._received = number

        self._last_tick = time.monotonic()
        with handle_stop_signals(receive, once=True):
            yield

    def tick(self) -> float:
        """Advance the clock of this process; return the seconds since the last tick."""
        now = time.monotonic()
        elapsed, self._last_tick = now - self._last_tick, now
        self._seconds += elapsed
        if self._process_group.processes == 1:
            self._state.seconds = self._seconds
        return elapsed

    def advance_shared_clock(self) -> float:
        """Advance the clock, the same in all processes; return its seconds."""
        self.tick()
        self._seconds = self._state.seconds = self._process_group.broadcast(self._seconds)
        return self._seconds

    def exchange_clock_and_stop(self) -> None:
        """Exchange clocks and stop requests, without advancing the clock."""
        message = self._seconds, self._received, self._session.stop_requested
        messages = self._process_group.all_gather(message)
        self._seconds = self._state.seconds = messages[0][0]
        signals = [number for _, number, _ in messages if number is not None]
        self.stop_signal = signals[0] if signals else None
        self._state.stopped = any(requested for *_, requested in messages)
