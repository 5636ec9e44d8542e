"""Events come in order and end with the result or an error, and unread ones end the computation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from fastapi import HTTPException, Request

from nmt.serving.events import Emit, encode_event, stream_events, wants_events


def read(compute: Callable[[Emit], Awaitable[bytes]]) -> list[bytes]:
    async def collect() -> list[bytes]:
        response = await stream_events(compute, "last")
        return [bytes(event) async for event in response.body_iterator]  # type: ignore[arg-type]

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/event-stream", True),
        ("application/json, Text/Event-Stream;q=0.9", True),
        ("*/*", False),
        ("text/event-streams", False),
        (None, False),
    ],
)
def test_who_wants_events(accept: str | None, wanted: bool) -> None:
    headers = [] if accept is None else [(b"accept", accept.encode())]
    assert wants_events(Request({"type": "http", "headers": headers})) is wanted


def test_events_of_another_thread_come_in_order_and_before_the_last() -> None:
    async def compute(emit: Emit) -> bytes:
        def work() -> None:
            for number in range(100):
                emit("one", {"n": number, "text": "a\n\nb"})

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return b"[1]"

    *emitted, last = read(compute)
    assert emitted == [
        encode_event("one", b'{"n":%d,"text":"a\\n\\nb"}' % number) for number in range(100)
    ]
    assert last == b"event: last\ndata: [1]\n\n"


def test_an_error_is_an_answer_before_the_first_event_and_an_event_after_it() -> None:
    async def refuse(emit: Emit) -> bytes:
        raise HTTPException(413, "too large")

    with pytest.raises(HTTPException) as error:
        read(refuse)
    assert error.value.status_code == 413

    async def fail(emit: Emit) -> bytes:
        raise RuntimeError("secret")

    with pytest.raises(RuntimeError):
        read(fail)

    async def begin_and_refuse(emit: Emit) -> bytes:
        emit("one", 1)
        await asyncio.sleep(0)
        return await refuse(emit)

    assert read(begin_and_refuse)[-1] == b'event: error\ndata: {"error": "too large"}\n\n'

    async def begin_and_fail(emit: Emit) -> bytes:
        emit("one", 1)
        await asyncio.sleep(0)
        return await fail(emit)

    assert read(begin_and_fail)[-1] == b'event: error\ndata: {"error": "internal error"}\n\n'


def test_a_computation_ends_when_its_events_are_not_read_any_more() -> None:
    async def leave() -> bool:
        ended = asyncio.Event()

        async def compute(emit: Emit) -> bytes:
            emit("one", 1)
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return b""

        response = await stream_events(compute, "last")

        async def consume() -> None:
            async for _ in response.body_iterator:
                pass

        reader = asyncio.create_task(consume())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait_for(ended.wait(), 10)
        return True

    assert asyncio.run(leave())
