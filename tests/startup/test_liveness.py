"""Each process hears when another is gone, and who, and is left alone where all end well."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from nmt.errors import UserError
from nmt.startup import liveness
from nmt.startup.liveness import _PORT_OFFSET, PeerMonitor


def find_engine_port() -> int:
    """Return a port such that the one that the monitor derives from it is free.

    It is below those that systems give to connections and to servers without a port of their own,
    so that no other process takes it meanwhile.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("", port)):
            return port - 10_000


class Three:
    """Three processes' monitors, in threads of one."""

    def __init__(self, timeout: float = 5.0, delay_of_last: float = 0.0) -> None:
        self.workers = (f"127.0.0.1:{find_engine_port()}", "127.0.0.1:1", "127.0.0.1:2")
        self.heard: list[list[tuple[str, int]]] = [[], [], []]
        self.monitors: list[PeerMonitor | None] = [None, None, None]
        threads = [threading.Thread(target=self._make, args=(index, timeout)) for index in range(3)]
        for thread in threads[:2]:
            thread.start()
        time.sleep(delay_of_last)
        threads[2].start()
        for thread in threads:
            thread.join(10)

    def _make(self, index: int, timeout: float) -> None:
        self.monitors[index] = PeerMonitor(
            self.workers,
            index,
            stop=lambda *said: self.heard[index].append(said),
            timeout=timeout,
        )

    def die(self, index: int) -> None:
        """Close its connections without a word, as the system does for a process that died."""
        monitor = self.monitors[index]
        assert monitor is not None
        monitor._is_over.set()
        for peer in monitor._peers.values():
            peer.shutdown(socket.SHUT_RDWR)

    def wait(self, count: int) -> None:
        """Wait until so many have heard something."""
        deadline = time.monotonic() + 30
        while sum(map(bool, self.heard)) < count and time.monotonic() < deadline:
            time.sleep(0.01)


@pytest.fixture
def three() -> Iterator[Three]:
    processes = Three()
    with ExitStack() as cleanup:
        for monitor in processes.monitors:
            assert monitor is not None
            cleanup.callback(monitor.close)
        yield processes


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_all_others_hear_who_is_gone(three: Three, gone: int) -> None:
    three.die(gone)
    three.wait(2)
    others = [heard for index, heard in enumerate(three.heard) if index != gone]
    for heard in others:
        [(line, status)] = heard
        assert line.startswith(f"worker {gone} ({three.workers[gone]}) is gone, all workers stop")
        assert status == 75


@pytest.mark.parametrize("failed", [0, 2])
def test_what_fails_in_one_process_is_not_tried_again(three: Three, failed: int) -> None:
    monitor = three.monitors[failed]
    assert monitor is not None
    monitor.fail()
    three.wait(2)
    others = [heard for index, heard in enumerate(three.heard) if index != failed]
    for [(line, status)] in others:
        assert line.startswith(f"worker {failed} ({three.workers[failed]}) failed")
        assert status == 2


ASSEMBLING = """
import os, sys, time
from nmt.startup.quiet import quiet_start
from nmt.startup.liveness import PeerMonitor
with quiet_start():
    os.write(2, b"a note of native code\\n")
    with quiet_start():
        os.write(2, b"another\\n")
        monitor = PeerMonitor(tuple(sys.argv[1:]), 0)
        time.sleep(60)
"""


def test_a_loss_is_reported_while_start_up_notes_are_held_back() -> None:
    """A process that starts holds back what is written to standard error, and is ended here."""
    workers = (f"127.0.0.1:{find_engine_port()}", "127.0.0.1:1")
    with subprocess.Popen(
        [sys.executable, "-c", ASSEMBLING, *workers], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            monitor = PeerMonitor(workers, 1, stop=lambda line, status: None)
            monitor._is_over.set()
            monitor._peers[0].shutdown(socket.SHUT_RDWR)
            _, errors = process.communicate(timeout=50)
        finally:
            process.kill()
    assert process.returncode == 75, errors
    *notes, line = errors.splitlines()
    assert notes == ["a note of native code", "another"]
    assert line.startswith(f"worker 1 ({workers[1]}) is gone, all workers stop")


def test_who_ends_well_is_not_missed(three: Three) -> None:
    for monitor in reversed(three.monitors):
        assert monitor is not None
        monitor.close()
        for peer in monitor._peers.values():  # as when the process ends
            with suppress(OSError):  # the other one is closed already
                peer.shutdown(socket.SHUT_RDWR)
        time.sleep(0.05)
    time.sleep(0.2)
    assert three.heard == [[], [], []]


def test_silence_counts_as_death() -> None:
    three = Three()
    for monitor in three.monitors:
        assert monitor is not None
        monitor._timeout = 0.3  # less than what lies between two signs of life
    three.wait(3)
    assert all(three.heard)


def test_the_first_workers_wait_for_one_that_starts_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "HEARTBEAT", 0.05)
    three = Three(timeout=1.0, delay_of_last=1.25)
    for monitor in three.monitors:
        assert monitor is not None
        monitor._timeout = 30  # of a busy machine
    assert three.heard == [[], [], []]
    three.die(2)
    three.wait(2)
    assert all(three.heard[:2])


def test_who_never_comes_is_missed() -> None:
    with pytest.raises(UserError, match=r"timed out waiting for workers: 1 \(127.0.0.1:1\)"):
        PeerMonitor((f"127.0.0.1:{find_engine_port()}", "127.0.0.1:1"), 0, timeout=0.05)
    with pytest.raises(UserError, match="timed out waiting for worker 0"):
        PeerMonitor((f"127.0.0.1:{find_engine_port()}", "127.0.0.1:1"), 1, timeout=0.05)


def test_a_port_in_use_is_one_line() -> None:
    port = find_engine_port()
    workers = (f"127.0.0.1:{port}", "127.0.0.1:1")
    with (
        socket.create_server(("", port + _PORT_OFFSET)),
        pytest.raises(UserError, match=r"port \d+ cannot be opened \(.*\): choose another port"),
    ):
        PeerMonitor(workers, 0, timeout=0.05)
