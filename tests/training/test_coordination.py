"""Processes agree on the clock and on stop requests."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from nmt.training.coordination import Coordinator
from nmt.training.process_group import ProcessGroup
from nmt.training.trainer_state import TrainerState


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
    return SimpleNamespace(
        processes=2,
        all_gather=lambda value: [waiting.pop(0), value],
        broadcast=lambda value: waiting.pop(0),
    )


def session_of(state: TrainerState, group: Any) -> Any:
    return SimpleNamespace(state=state, process_group=group, stop_requested=False)


def test_one_process_advances_the_position_with_every_tick(clock: Clock) -> None:
    state = TrainerState(seconds=5.0)
    coordinator = Coordinator(session_of(state, ProcessGroup()))
    clock.now += 2.0
    assert coordinator.tick() == 2.0
    assert state.seconds == 7.0
    assert coordinator.advance_shared_clock() == 7.0
    assert state.seconds == 7.0


def test_the_clock_of_the_first_process_wins(clock: Clock) -> None:
    state = TrainerState(seconds=5.0)
    coordinator = Coordinator(session_of(state, group_of(6.5, (9.0, None, False))))
    clock.now += 2.0
    coordinator.tick()
    assert state.seconds == 5.0  # until all agree
    assert coordinator.advance_shared_clock() == 6.5
    assert state.seconds == 6.5
    coordinator.exchange_clock_and_stop()
    assert state.seconds == 9.0
    assert coordinator.stop_signal is None


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("process", [0, 1])
def test_a_stop_signal_to_any_process_reaches_all(clock: Clock, process: int) -> None:
    number = signal.SIGTERM if process == 0 else None
    coordinator = Coordinator(session_of(TrainerState(), group_of((0.0, number, False))))
    with coordinator.receive_stop_signals():
        if process == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        coordinator.exchange_clock_and_stop()
    assert coordinator.stop_signal == signal.SIGTERM


@pytest.mark.parametrize("process", [0, 1, None])
def test_a_call_of_stop_in_any_process_reaches_all(clock: Clock, process: int | None) -> None:
    state = TrainerState()
    session = session_of(state, group_of((0.0, None, process == 0)))
    session.stop_requested = process == 1
    coordinator = Coordinator(session)
    coordinator.exchange_clock_and_stop()
    assert state.stopped == (process is not None)
    assert coordinator.stop_signal is None


@pytest.mark.usefixtures("default_signals")
def test_a_signal_becomes_a_request(clock: Clock) -> None:
    coordinator = Coordinator(session_of(TrainerState(), ProcessGroup()))
    with coordinator.receive_stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert coordinator.stop_signal is None  # until all agree
        coordinator.exchange_clock_and_stop()
    assert coordinator.stop_signal == signal.SIGTERM
