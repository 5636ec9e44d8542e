"""Server-sent events: an answer that begins before all of it is computed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import StreamingResponse

MEDIA_TYPE = "text/event-stream"
Emit = Callable[[str, Any], None]  # takes the name of an event and its content, on any thread
_log = logging.getLogger(__name__)


def wants_events(request: Request) -> bool:
    """Whether a client asks for events in place of an ordinary answer."""
    accepted = request.headers.get("accept", "").split(",")
    return any(kind.partition(";")[0].strip().lower() == MEDIA_TYPE for kind in accepted)


def encode_event(name: str, content: bytes) -> bytes:
    """Return an event.

    Args:
        name: its type.
        content: JSON without line breaks.
    """
    return b"event: %b\ndata: %b\n\n" % (name.encode(), content)


async def stream_events(
    compute: Callable[[Emit], Awaitable[bytes]], last: str
) -> StreamingResponse:
    """Answer with the events of a computation.

    Args:
        compute: emits events, and returns the content of the last one. It is cancelled when
            nobody reads the events any more.
        last: the name of that event. An error takes its place, as the event ``error``.

    Raises:
        HTTPException: the computation failed before its first event.
    """
    events = _read_events(compute, last)
    first = await anext(events)

    async def chain() -> AsyncIterator[bytes]:
        yield first
        async for event in events:
            yield event

    # Proxies must not collect events.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(chain(), headers=headers, media_type=MEDIA_TYPE)


async def _read_events(
    compute: Callable[[Emit], Awaitable[bytes]], last: str
) -> AsyncIterator[bytes]:
    """Yield encoded events; an error before the first one is raised."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def emit(name: str, content: Any) -> None:
        encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        loop.call_soon_threadsafe(queue.put_nowait, encode_event(name, encoded))

    def end(computation: asyncio.Future[bytes]) -> None:
        if not computation.cancelled():
            computation.exception()  # asyncio warns of exceptions that nobody has read
        queue.put_nowait(None)

    computation = asyncio.ensure_future(compute(emit))
    computation.add_done_callback(end)
    has_begun = False
    try:
        while (event := await queue.get()) is not None:
            yield event
            has_begun = True
        try:
            yield encode_event(last, computation.result())
        except HTTPException as error:
            if not has_begun:
                raise
            yield _encode_error(error.detail)
        except Exception:
            if not has_begun:
                raise
            _log.exception("a streamed answer failed")
            yield _encode_error("internal error")
    finally:
        computation.cancel()


def _encode_error(message: str) -> bytes:
    return encode_event("error", json.dumps({"error": message}).encode())
