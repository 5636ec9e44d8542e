"""Liveness of the processes that train together: when one is gone, all others stop at once.

A process that waits for a dead one waits in native code, for minutes or for ever. So each process
keeps a connection to the first one, with a thread that listens. A process that ends announces it; a
connection that closes without an announcement, or is silent for too long, means a lost process.
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

HEARTBEAT, TIMEOUT = 2.0, 30.0  # seconds between two heartbeats; of silence until a peer is lost
STATUS_FAILURE = 2  # the same error would happen again
STATUS_REQUEUE = 75  # nothing is wrong with the job: it may be started again
_ALIVE, _DONE, _LOST, _FAILED = b".", b"!", b"x", b"f"  # the last two precede the process's index
_PORT_OFFSET = 10_000  # between the ports of the backend and of the monitor


def _exit_now(line: str, status: int) -> None:
    """Print a line and end this process, whatever it waits for."""
    try:
        release_stderr()
        print(line, file=sys.stderr, flush=True)
    finally:
        os._exit(status)


class PeerMonitor:
    """Watches the other processes: process 0 is connected to all of them, they to process 0.

    Args:
        workers: host:port of every process.
        index: index of this process.
        stop: called with a line that names the lost process, and the exit status.
        timeout: seconds of silence until a process counts as lost; the start waits ten times as
            long for all processes.

    Raises:
        UserError: a process is missing at the start.
    """

    def __init__(
        self,
        workers: tuple[str, ...],
        index: int,
        *,
        stop: Callable[[str, int], None] = _exit_now,
        timeout: float = TIMEOUT,
    ) -> None:
        self._workers, self._index, self._stop = workers, index, stop
        self._timeout = timeout
        self._is_over = threading.Event()
        host, backend_port = workers[0].rsplit(":", 1)
        port = int(backend_port) + _PORT_OFFSET
        port = port if port < 1 << 16 else port - 2 * _PORT_OFFSET
        self._peers = dict(self._accept(port) if index == 0 else [(0, self._connect(host, port))])
        for number, peer in self._peers.items():
            peer.settimeout(10 * timeout)  # process 0 sends nothing until all are connected
            for loop in (self._listen, self._send_heartbeats):
                threading.Thread(target=loop, args=(number, peer), daemon=True).start()

    def _accept(self, port: int) -> Iterator[tuple[int, socket.socket]]:
        """Yield the index and the connection of each other process."""
        try:
            server = socket.create_server(("", port), backlog=len(self._workers))
        except OSError as error:
            raise UserError(
                f"port {port} cannot be opened ({error.strerror}): choose another port in TF_CONFIG"
            ) from error
        with server:
            server.settimeout(10 * self._timeout)
            missing = set(range(1, len(self._workers)))
            while missing:
                try:
                    peer, _ = server.accept()
                except OSError as error:
                    names = ", ".join(f"{i} ({self._workers[i]})" for i in sorted(missing))
                    raise UserError(f"timed out waiting for workers: {names}") from error
                with contextlib.suppress(OSError):
                    peer.settimeout(self._timeout)
                    number = _receive_number(peer)
                    if number in missing:
                        missing.remove(number)
                        yield number, peer
                        continue
                peer.close()  # not one of the workers

    def _connect(self, host: str, port: int) -> socket.socket:
        """Return a connection to the first process, which may start later than this one."""
        deadline = time.monotonic() + 10 * self._timeout
        while True:
            try:
                peer = socket.create_connection((host, port), timeout=self._timeout)
                peer.sendall(self._index.to_bytes(4, "big"))
                return peer
            except OSError as error:
                if time.monotonic() > deadline:
                    message = f"timed out waiting for worker 0 ({host}:{port}): {error}"
                    raise UserError(message) from error
                time.sleep(0.2)

    def _send_heartbeats(self, number: int, peer: socket.socket) -> None:
        while not self._is_over.wait(HEARTBEAT):
            try:
                peer.sendall(_ALIVE)
            except OSError:
                return  # the listening thread reports it

    def _listen(self, number: int, peer: socket.socket) -> None:
        while True:
            lost = number
            try:
                message = peer.recv(1)
                peer.settimeout(self._timeout)
                if message in (_LOST, _FAILED):
                    lost = _receive_number(peer)
            except OSError:
                message = b""
            if message == _DONE or self._is_over.is_set():
                return
            if message != _ALIVE:
                self._broadcast(_FAILED if message == _FAILED else _LOST, lost)
                name = f"worker {lost} ({self._workers[lost]})"
                if message == _FAILED:
                    self._stop(f"{name} failed, see its log; all workers stop", STATUS_FAILURE)
                else:
                    remedy = "training.resume=latest resumes from the last checkpoint"
                    self._stop(f"{name} is gone, all workers stop: {remedy}", STATUS_REQUEUE)
                return

    def _broadcast(self, message: bytes, lost: int) -> None:
        """Tell the other processes which one is lost."""
        self._is_over.set()
        for number, peer in self._peers.items():
            if number != lost:
                with contextlib.suppress(OSError):
                    peer.sendall(message + lost.to_bytes(4, "big"))

    def fail(self) -> None:
        """Announce that this process ends with an error."""
        self._broadcast(_FAILED, self._index)

    def close(self) -> None:
        """Announce that this process ends normally."""
        self._is_over.set()
        for peer in self._peers.values():
            with contextlib.suppress(OSError):
                peer.sendall(_DONE)


def _receive_number(peer: socket.socket) -> int:
    data = b""
    while len(data) < 4:
        more = peer.recv(4 - len(data))
        if not more:
            raise ConnectionError("the connection was closed")
        data += more
    return int.from_bytes(data, "big")
