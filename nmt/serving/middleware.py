"""Around every request: limits of its body, headers of its answer, and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serving.limits import DOCUMENTS, Limits
from nmt.serving.metrics import Metrics
from nmt.serving.problems import CLIENT_CLOSED, problem, unavailable


class RequestMiddleware:
    """Read the body of each request within its limits, add headers, and count the request.

    What the application raises unexpectedly is answered here, so that it has the headers, too.

    Args:
        app: the application.
        limits: longest body, the time to read it, and the number of documents.
        metrics: count requests.
        policy: content security policy of every answer.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, policy: str) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._senders: set[str] = set()  # addresses of clients whose documents are not answered yet
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, as the ASGI protocol defines."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        status = CLIENT_CLOSED

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await self._forward(scope, receive, send_with_headers)
        except Exception:
            if status == CLIENT_CLOSED:  # no answer has begun
                await problem(500, "internal error")(scope, receive, send_with_headers)
            status = 500
            raise
        finally:
            self._metrics.count_request(scope["path"], status, perf_counter() - start)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body within its limits, and pass it on."""
        is_document = scope["path"] == DOCUMENTS
        limit = self._limits.max_document if is_document else self._limits.max_body
        with ExitStack() as admission:
            try:
                if is_document:
                    admission.enter_context(self._admit(scope))
                async with asyncio.timeout(self._limits.timeout_s):
                    body = await _read_body(scope, receive, limit)
            except TimeoutError:
                await problem(408, "the body did not arrive in time")(scope, receive, send)
                return
            except HTTPException as error:
                answer = problem(error.status_code, error.detail, error.headers)
                await answer(scope, receive, send)
                return
            if body is not None:
                await self._pass_on(body, scope, receive, send)

    @contextmanager
    def _admit(self, scope: Scope) -> Iterator[None]:
        """Count a document until it is answered.

        Raises:
            HTTPException: 503 if its client sends another one, or too many clients send some;
                403 if a page of another site has a browser send it.
        """
        # Browsers ask before they send JSON to another site, but not before they send other bodies.
        if Headers(scope=scope).get("sec-fetch-site") == "cross-site":
            raise HTTPException(403, "pages of other sites may not send documents")
        client = scope["client"][0] if scope.get("client") else ""
        if client in self._senders:
            raise unavailable(
                "one document at a time: wait until the other one from your address is translated"
            )
        if len(self._senders) >= self._limits.max_documents:
            raise unavailable(f"{len(self._senders):,} documents are translated: try again soon")
        self._senders.add(client)
        try:
            yield
        finally:
            self._senders.remove(client)

    async def _pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = False

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send)


async def _read_body(scope: Scope, receive: Receive, limit: int) -> bytes | None:
    """Read the body up to the limit, whatever its header says; None if the client hung up."""
    declared = Headers(scope=scope).get("content-length", "")
    too_large = declared.isdecimal() and int(declared) > limit
    body = bytearray()
    while not too_large:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        too_large = len(body) > limit
        if not too_large and not message.get("more_body", False):
            return bytes(body)
    raise HTTPException(413, f"the body is larger than the {limit:,} bytes allowed")
