"""Targets: HTTP requests and connections."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np
from fuzz_inputs import Prepared, draw_json, pick, rest, seed


class WordTranslator:
    """Stands in for a translator: every character is a token."""

    decoding = SimpleNamespace(beam_size=4, length_penalty=0.6)
    has_attention = True
    glossaries: Mapping[str, Any] = MappingProxyType({})

    @property
    def test_segment(self) -> Any:
        from nmt.inference.segments import Segment

        return Segment(np.zeros(1, np.int32), "a")

    def segment(self, text: str, *_: object) -> Any:
        from nmt.inference.segments import Segment, SegmentedText

        parts = [part for part in text.split("|") if part]
        return SegmentedText(
            tuple(Segment(np.zeros(len(part), np.int32), part) for part in parts), ""
        )

    def join_all(self, segmented: Sequence[Any], *_: object) -> list[Any]:
        one = SimpleNamespace(text="", log_prob=0.0, score=0.0, lost_spans=(), terms=())
        return [SimpleNamespace(translations=[one], sentences=[]) for _ in segmented]

    def hypotheses(self, segments: list[Any], request: Any) -> list[list[Any]]:
        one = [SimpleNamespace(text="a", log_prob=-1.0, score=-0.5) for _ in range(request.n_best)]
        return [one for _ in segments]

    def explain_missing_quality(self) -> str:
        return "no confidence"

    def load_attention(self) -> None:
        pass

    def attention(self, text: str, translation: Any, glossary: object = None) -> None:
        return None


def make_service() -> Any:
    from nmt.serving.app import About, make_app
    from nmt.serving.limits import Limits

    limits = Limits(
        max_body=2000,
        max_sentences=8,
        max_characters=100,
        max_work=1000,
        timeout_s=5,
        health_s=5,
        max_batch=64,
        max_batch_work=100_000,
        max_wait_s=0.0,
        max_queue=100_000,
        max_document=2000,
        max_documents=2,
        document_timeout_s=5,
    )
    translator: Any = WordTranslator()
    return make_app(translator, About("a-run", "es", "en", {}), limits)


def check_answer(status: int, body: bytes) -> None:
    """Check the answer to a translation request: a documented status, errors in one line."""
    assert status in (200, 400, 408, 413, 422, 503), f"status {status}: {body[:200]!r}"
    answer = json.loads(body)
    if status == 200:
        assert all(best["text"] is not None for text in answer["translations"] for best in text)
    else:
        assert list(answer) == ["error"]
        assert len(answer["error"].splitlines()) == 1, f"not one line: {answer['error']!r}"


BODIES = (
    '{"text": "a"}',
    '{"text": ["a", "b|c", ""], "beam": 2, "nbest": 2, "scores": true, "attention": true}',
    '{"text": "a", "length_penalty": 0.5, "beam": 17}',
    '{"text": "\\ud800", "x\\ny": 1}',
    '{"text": 1e999}',
    "[" * 1500,
    '"a"',
)


def prepare_requests(folder: Path) -> Prepared:
    """Send request bodies to the service."""
    app = make_service()
    loop = asyncio.new_event_loop()
    fields = ("text", "beam", "nbest", "length_penalty", "scores", "attention", "x\ny", "Text")

    def check(data: Any) -> None:
        choice = data.ConsumeIntInRange(0, 2)
        content_type = pick(data, (b"application/json", b"text/plain", b"a/b+json", b"\xff"))
        declared = pick(data, (b"", b"5", b"99999", b"-1", b"\xb2", b"x"))
        if choice == 0:
            body = rest(data)
        else:
            request = {"text": "a b"} if choice == 1 else {}
            for _ in range(data.ConsumeIntInRange(1, 3)):
                request[pick(data, fields)] = draw_json(data)
            body = json.dumps(request).encode()
        loop.run_until_complete(
            post(body, [(b"content-type", content_type), (b"content-length", declared)])
        )

    async def post(body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        middle = len(body) // 2
        chunks = [(body[:middle], True), (body[middle:], False)]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not chunks:
                await asyncio.Event().wait()
            chunk, more = chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": more}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/translate",
            "raw_path": b"/translate",
            "root_path": "",
            "query_string": b"",
            "headers": headers,
        }
        await app(scope, receive, send)
        check_answer(sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]))

    rng = random.Random(1)
    drawn = [seed(rng.randbytes(20), choice, 0, 0) for choice in (1, 2) for _ in range(8)]
    return check, [seed(body, 0, 0, 0) for body in BODIES] + drawn


class Wire(asyncio.Transport):
    """A transport that records what the server writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("here", 1), "sockname": ("here", 2)})
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def list_conversations() -> list[str]:
    """Return byte streams that clients send on a connection."""
    head = "POST /translate HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    translations = [f"{head}Content-Length: {len(body)}\r\n\r\n{body}" for body in BODIES[:5]]
    return [
        *translations,
        f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2]\r\n0\r\n\r\n",
        head,
        "GET / HTTP/1.0\r\n\r\n",
        "GET /info HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "\0\r\n\r\n",
    ]


def prepare_connections(folder: Path) -> Prepared:
    """Send bytes in chunks through uvicorn's protocol, under the service's connection limits."""
    import logging

    import uvicorn
    from uvicorn.server import ServerState

    from nmt.serving.connections import limited_protocol

    logging.disable(logging.WARNING)
    loop = asyncio.new_event_loop()
    broken: list[Any] = []
    loop.set_exception_handler(lambda _, context: broken.append(context))
    config = uvicorn.Config(make_service(), http="h11", ws="none", lifespan="off", log_config=None)
    protocol_class = limited_protocol(30.0, 2)

    def check(data: Any) -> None:
        chunks = data.ConsumeIntInRange(1, 4)
        is_full = data.ConsumeIntInRange(0, 7) == 0  # all other connections are in use
        is_slow = data.ConsumeIntInRange(0, 7) == 0
        loop.run_until_complete(connect(rest(data), chunks, 2 if is_full else 0, is_slow))
        assert not broken, broken.pop()

    async def connect(content: bytes, chunks: int, others: int, is_slow: bool) -> None:
        state = ServerState()
        state.connections |= cast("Any", {object() for _ in range(others)})
        protocol = protocol_class(config=config, server_state=state, app_state={}, _loop=loop)
        wire = Wire()
        protocol.connection_made(wire)
        step = max(1, len(content) // chunks)
        for begin in range(0, len(content), step):
            if not wire.closed:
                protocol.data_received(content[begin : begin + step])
            await asyncio.sleep(0)
            if is_slow:
                protocol.pause_writing()
                protocol.resume_writing()
        for _ in range(200):
            if wire.closed or not state.tasks or not protocol.cycle or not content:
                break
            await asyncio.sleep(0.0001 if len(wire.written) else 0)
            if protocol.cycle.response_complete or protocol.cycle.more_body:
                break
        protocol.connection_lost(None)
        for task in list(state.tasks):
            await task
        assert protocol not in state.connections
        written = wire.written
        assert not written or written.startswith(b"HTTP/1.1 "), written[:80]
        assert b" 500 " not in written[:20], written[:300]

    return check, [seed(stream, 1, 1, n) for stream in list_conversations() for n in (0, 2)]
