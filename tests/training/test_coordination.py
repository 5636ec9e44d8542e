"""Processes agree on the clock and on stop requests; interruptions keep to their share."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from nmt.training.cadence import Cadence
from nmt.training.coordination import Coordinator, Interruption, UpdateTimer
from nmt.training.position import Position
from nmt.training.process_group import ProcessGroup


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr("nmt.training.coordination.time", clock)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def group_of(*messages: Any) -> Any:
    """Return process 1 of two; process 0 sends these messages, one after the other."""
    waiting = list(messages)
    return SimpleNamespace(processes=2, all_gather=lambda own: [waiting.pop(0), own])


def test_one_process_advances_the_position_with_every_tick(clock: Clock) -> None:
    position = Position(seconds=5.0)
    coordinator = Coordinator(position, ProcessGroup())
    clock.now += 2.0
    assert coordinator.tick() == 2.0
    assert position.seconds == 7.0
    coordinator.synchronize_clock()
    assert position.seconds == 7.0


def test_the_clock_of_the_first_process_wins(clock: Clock) -> None:
    position = Position(seconds=5.0)
    coordinator = Coordinator(position, group_of(6.5, (9.0, None)))
    clock.now += 2.0
    coordinator.tick()
    assert position.seconds == 5.0  # until all agree
    coordinator.synchronize_clock()
    assert position.seconds == 6.5
    coordinator.synchronize()
    assert position.seconds == 9.0
    assert coordinator.stop_signal is None


def test_a_stop_request_of_any_process_reaches_all(clock: Clock) -> None:
    coordinator = Coordinator(Position(), group_of((0.0, signal.SIGTERM)))
    coordinator.synchronize()
    assert coordinator.stop_signal == signal.SIGTERM


@pytest.mark.usefixtures("default_signals")
def test_a_signal_becomes_a_request(clock: Clock) -> None:
    coordinator = Coordinator(Position(), ProcessGroup())
    with coordinator.receive_stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert coordinator.stop_signal is None  # until all agree
        coordinator.synchronize()
    assert coordinator.stop_signal == signal.SIGTERM


def test_the_interval_keeps_interruptions_to_their_share(clock: Clock) -> None:
    """Updates take a second; an interruption takes 3 seconds before it is scheduled, 1 after."""
    position = Position()
    coordinator = Coordinator(position, ProcessGroup())
    interruption = Interruption(coordinator, position, UpdateTimer(position), 2, share=0.25)
    cadence = Cadence()
    intervals = []
    for _ in range(3):
        for _ in range(4):
            clock.now += 1.0
            coordinator.tick()
            position.step += 1
        interruption.begin()
        clock.now += 3.0
        interruption.schedule(cadence)
        clock.now += 1.0
        interruption.end()
        intervals.append(cadence.interval)
        assert cadence.following == position.step + cadence.interval
    # The first one compiles. Then 4 seconds are a quarter of 16, so that 12 updates lie between.
    assert intervals == [0, 12, 12]


def test_without_a_limit_the_interval_stays(clock: Clock) -> None:
    position = Position()
    coordinator = Coordinator(position, ProcessGroup())
    interruption = Interruption(coordinator, position, UpdateTimer(position), 2, share=None)
    cadence = Cadence()
    for _ in range(2):
        interruption.begin()
        clock.now += 50.0
        interruption.schedule(cadence)
        interruption.end()
    assert cadence.interval == 0
