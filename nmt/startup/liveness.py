"""Processes that train together end together: each hears at once when another is gone.

Who waits for a process that died waits in native code, for minutes or for ever. So each keeps a
connection to the first one, and a thread at its end. Who ends says so before; a connection that is
closed without a word, or silent for too long, means that somebody is gone, and then all stop.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from nmt.errors import UserError
from nmt.startup.quiet import release_stderr

HEARTBEAT, TIMEOUT = 2.0, 30.0  # seconds between two signs of life, and until none counts as death
STATUS_FAILURE = 2
STATUS_REQUEUE = 75  # of a job that may be started again: nothing is wrong with it
_ALIVE, _DONE, _GONE, _FAILED = b".", b"!", b"x", b"f"  # the last two are followed by who
_APART = 10_000  # ports between the engine's and the watch's


def _stop(line: str, status: int) -> None:
    """End this process, whatever it waits for."""
    try:
        release_stderr()
        print(line, file=sys.stderr, flush=True)
    finally:
        os._exit(status)


class PeerMonitor:
    """The connections between one process and the others: of the first one to all, of all to it.

    Args:
        workers: host:port of every process.
        index: of this process.
        stop: takes a line that says who is gone, and the exit status for it: what has failed would
            fail again, and who was killed may be started anew.
        timeout: seconds until silence counts as death; ten times as long for all to come.

    Raises:
        UserError: not all have come.
    """

    def __init__(
        self,
        workers: tuple[str, ...],
        index: int,
        *,
        stop: Callable[[str, int], None] = _stop,
        timeout: float = TIMEOUT,
    ) -> None:
        self._workers, self._index, self._stop = workers, index, stop
        self._timeout = timeout
        self._over = threading.Event()
        host, port = workers[0].rsplit(":", 1)
        own = int(port) + _APART if int(port) + _APART < 1 << 16 else int(port) - _APART
        self._peers = dict(self._accept(own) if index == 0 else [(0, self._connect(host, own))])
        for number, peer in self._peers.items():
            peer.settimeout(timeout)
            for work in (self._listen, self._speak):
                threading.Thread(target=work, args=(number, peer), daemon=True).start()

    def _accept(self, port: int) -> Iterator[tuple[int, socket.socket]]:
        """Wait for all others."""
        with socket.create_server(("", port), backlog=len(self._workers)) as server:
            server.settimeout(10 * self._timeout)
            missing = set(range(1, len(self._workers)))
            while missing:
                try:
                    peer, _ = server.accept()
                except OSError as error:
                    names = ", ".join(self._workers[number] for number in sorted(missing))
                    raise UserError(f"these workers have not come: {names}") from error
                with contextlib.suppress(OSError):
                    peer.settimeout(self._timeout)
                    number = int.from_bytes(_receive(peer, 4), "big")
                    if number in missing:
                        missing.remove(number)
                        yield number, peer
                        continue
                peer.close()  # somebody else

    def _connect(self, host: str, port: int) -> socket.socket:
        """Reach the first process, which may start later than this one."""
        deadline = time.monotonic() + 10 * self._timeout
        while True:
            try:
                peer = socket.create_connection((host, port), timeout=self._timeout)
                peer.sendall(self._index.to_bytes(4, "big"))
                return peer
            except OSError as error:
                if time.monotonic() > deadline:
                    raise UserError(f"worker {host}:{port} does not answer: {error}") from error
                time.sleep(0.2)

    def _speak(self, number: int, peer: socket.socket) -> None:
        while not self._over.wait(HEARTBEAT):
            try:
                peer.sendall(_ALIVE)
            except OSError:
                return  # who listens says so

    def _listen(self, number: int, peer: socket.socket) -> None:
        while True:
            gone = number
            try:
                said = peer.recv(1)
                if said in (_GONE, _FAILED):
                    gone = int.from_bytes(_receive(peer, 4), "big")
            except OSError:
                said = b""
            if said == _DONE or self._over.is_set():
                return
            if said != _ALIVE:
                self._tell(_FAILED if said == _FAILED else _GONE, gone)
                name = f"worker {gone} ({self._workers[gone]})"
                if said == _FAILED:
                    self._stop(f"{name} has failed, and all stop: it says why", STATUS_FAILURE)
                else:
                    again = "training.resume=latest goes on from the last checkpoint"
                    self._stop(f"{name} is gone, and all stop: {again}", STATUS_REQUEUE)
                return

    def _tell(self, what: bytes, who: int) -> None:
        """Tell the others."""
        self._over.set()
        for number, peer in self._peers.items():
            if number != who:
                with contextlib.suppress(OSError):
                    peer.sendall(what + who.to_bytes(4, "big"))

    def fail(self) -> None:
        """Say that this process ends because something is wrong."""
        self._tell(_FAILED, self._index)

    def close(self) -> None:
        """Say that this process ends as it should."""
        self._over.set()
        for peer in self._peers.values():
            with contextlib.suppress(OSError):
                peer.sendall(_DONE)


def _receive(peer: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = peer.recv(count - len(found))
        if not more:
            raise ConnectionError("the connection was closed")
        found += more
    return found
