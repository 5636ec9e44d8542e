"""The clock of a run and requests to stop, agreed among its processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nmt.startup.signals import handle_stop_signals
from nmt.training.cadence import Cadence
from nmt.training.position import Position
from nmt.training.process_group import ProcessGroup


class Coordinator:
    """Keeps ``position.seconds`` and stop requests the same in all processes.

    Several processes see a new clock only where they synchronise, so that whatever depends on it is
    decided alike everywhere; the clock of process 0 wins.

    Attributes:
        stop_signal: number of the signal that some process was asked to stop by.
    """

    def __init__(self, position: Position, process_group: ProcessGroup) -> None:
        self._position = position
        self._process_group = process_group
        self._seconds = position.seconds  # the clock of this process
        self._last_tick = time.monotonic()
        self._received: int | None = None  # the signal that this process was asked to stop by
        self.stop_signal: int | None = None

    @contextmanager
    def receive_stop_signals(self) -> Iterator[None]:
        """Turn the first stop signal into a request; a second one of its kind stops at once."""

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
            self._position.seconds = self._seconds
        return elapsed

    def synchronize_clock(self) -> None:
        """Advance the clock, the same in all processes."""
        self.tick()
        self._seconds = self._position.seconds = self._process_group.all_gather(self._seconds)[0]

    def synchronize(self) -> None:
        """Exchange clocks and stop requests, without advancing the clock."""
        messages = self._process_group.all_gather((self._seconds, self._received))
        self._seconds = self._position.seconds = messages[0][0]
        signals = [number for _, number in messages if number is not None]
        self.stop_signal = signals[0] if signals else None


class UpdateTimer:
    """The mean seconds of an update since the last interruption of training."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self.restart()

    def restart(self) -> None:
        """Measure from here on."""
        self._step, self._seconds = self._position.step, self._position.seconds

    def seconds_per_update(self) -> float:
        """Return 0 before the first update."""
        updates = self._position.step - self._step
        return (self._position.seconds - self._seconds) / updates if updates else 0.0


class Interruption:
    """One kind of interruption, such as evaluations: what it costs, and when the next one is due.

    The first one of a session compiles functions, so only later ones are measured.

    Args:
        coordinator: the clock.
        position: where the run stands.
        timer: of updates, shared by all interruptions.
        every: updates that intervals are a multiple of.
        share: of the training time that interruptions of this kind may take; None: no limit.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        position: Position,
        timer: UpdateTimer,
        every: int,
        share: float | None,
    ) -> None:
        self._coordinator = coordinator
        self._position = position
        self._timer = timer
        self._every = every
        self._share = share
        self._begin_seconds = self._schedule_seconds = self._update_seconds = 0.0
        self._seconds_after_schedule: float | None = None  # of the last interruption

    def begin(self) -> None:
        """Start measuring."""
        self._coordinator.synchronize_clock()
        self._begin_seconds = self._position.seconds
        self._update_seconds = self._timer.seconds_per_update()

    def schedule(self, cadence: Cadence) -> None:
        """Choose when the next one is due, before the position is saved.

        What follows is estimated from the last interruption.
        """
        self._coordinator.synchronize_clock()
        self._schedule_seconds = self._position.seconds
        if self._share is not None and self._seconds_after_schedule is not None:
            seconds = self._schedule_seconds - self._begin_seconds + self._seconds_after_schedule
            cadence.adapt(self._every, self._share, seconds, self._update_seconds)
        cadence.schedule(self._position.step)

    def end(self) -> None:
        """Stop measuring."""
        self._coordinator.synchronize_clock()
        self._seconds_after_schedule = self._position.seconds - self._schedule_seconds
        self._timer.restart()
