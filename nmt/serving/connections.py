"""Connections: their number, and how long a client may hold one."""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.h11_impl import H11Protocol


def limited_protocol(timeout_s: float, max_connections: int) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits for which uvicorn has no options.

    The application itself limits the time to read a body and to answer it.

    Args:
        timeout_s: most seconds to send the head of a request, and to read an answer; then the
            connection is dropped.
        max_connections: most connections; further ones get an error and are closed.
    """
    refusal = _refusal(f"more than {max_connections:,} connections")

    class LimitedProtocol(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None  # runs while no request is being answered
        _read_timer: asyncio.TimerHandle | None = None  # runs while the client has bytes to read

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > max_connections:
                transport.write(refusal)
                transport.close()
                return
            transport.set_write_buffer_limits(high=0)  # `pause_writing` is called for any byte left
            self._watch_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch_head()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read_timer = self.loop.call_later(timeout_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._read_timer:
                self._read_timer.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            for timer in (self._head_timer, self._read_timer):
                if timer:
                    timer.cancel()

        def _watch_head(self) -> None:
            if self.cycle and not self.cycle.response_complete:
                if self._head_timer:
                    self._head_timer.cancel()
                    self._head_timer = None
            elif not self._head_timer and not self.transport.is_closing():
                self._head_timer = self.loop.call_later(timeout_s, self.transport.abort)

    return LimitedProtocol


def _refusal(message: str) -> bytes:
    body = json.dumps({"error": message}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
