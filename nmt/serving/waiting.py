"""Work on other threads: refusals, and waiting for results until the client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from fastapi import HTTPException, Request

from nmt.serving.batching import ClosedError, QueueFullError
from nmt.serving.problems import CLIENT_CLOSED, unavailable

STOPPING = "the service is stopping"
FULL = "too much work is waiting already: try again soon"
_HUNG_UP = "the client hung up"
Computed = TypeVar("Computed")


@contextmanager
def explain_refusal() -> Iterator[None]:
    """Turn the refusals of a batcher into answers."""
    try:
        yield
    except QueueFullError:
        raise unavailable(FULL) from None
    except ClosedError:
        raise unavailable(STOPPING) from None


async def check_waiting(request: Request, deadline: float, late: str) -> None:
    """Check that a client still waits for an answer, between steps that cannot be cancelled.

    Args:
        request: the request, whose client may hang up.
        deadline: seconds of the monotonic clock.
        late: error message after the deadline.

    Raises:
        HTTPException: 503 with ``late``, or the client hung up.
    """
    if await request.is_disconnected():
        raise HTTPException(CLIENT_CLOSED, _HUNG_UP)
    if monotonic() > deadline:
        raise unavailable(late)


async def wait_for(
    future: Future[Computed], request: Request, deadline: float, *, failure: str, late: str
) -> Computed:
    """Return the result of a computation, which is cancelled if nobody waits for it any more.

    Args:
        future: the result. An `HTTPException` is raised as it is.
        request: the request, whose client may hang up.
        deadline: seconds of the monotonic clock.
        failure: error message if the computation fails.
        late: error message after the deadline.

    Raises:
        HTTPException: 500 with ``failure``, 503 with ``late``, or the client hung up.
    """
    answer = asyncio.wrap_future(future)
    disconnected = asyncio.create_task(_wait_for_disconnect(request))
    either: set[asyncio.Future[Any]] = {answer, disconnected}
    try:
        timeout = max(deadline - monotonic(), 0)
        await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            error = answer.exception()
            if isinstance(error, HTTPException):
                raise error
            if error:
                raise HTTPException(500, failure)
            return answer.result()
        if disconnected.done():
            raise HTTPException(CLIENT_CLOSED, _HUNG_UP)
        raise unavailable(late)
    finally:
        disconnected.cancel()
        answer.cancel()
        future.cancel()  # at once: `answer.cancel` reaches it in a later turn of the event loop


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
