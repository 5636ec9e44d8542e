"""Stop signals reach one handler, and previous handlers return."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from nmt.startup.signals import exit_stopped, handle_stop_signals

pytestmark = pytest.mark.usefixtures("default_signals")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_every_stop_signal_is_handled_and_the_previous_handler_returns(name: str) -> None:
    number = getattr(signal, name)
    previous = signal.getsignal(number)
    received: list[int] = []
    with handle_stop_signals(received.append):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert received == [number, number]
    assert signal.getsignal(number) == previous


def test_once_a_second_signal_of_a_kind_has_its_previous_effect() -> None:
    received: list[int] = []
    with handle_stop_signals(received.append, once=True):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGINT, signal.SIGTERM]


def test_a_dropped_session_may_send_its_signal_twice() -> None:
    received: list[int] = []
    with handle_stop_signals(received.append, once=True):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
    assert received == [signal.SIGHUP, signal.SIGHUP]


def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; the fixture restores it
    received: list[int] = []
    with handle_stop_signals(received.append):
        os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert received == []


def test_another_thread_leaves_handlers_alone() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    handlers = []

    def look() -> None:
        with handle_stop_signals(lambda number: None):
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(timeout=60)
    assert handlers == [previous]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_exit_status_of_a_stopped_job(number: int, status: int) -> None:
    with pytest.raises(SystemExit) as stopped:
        exit_stopped(number)
    assert stopped.value.code == status
