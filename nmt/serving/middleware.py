"""Around every request: limits of its body, headers of its answer, and its metrics."""

from __future__ import annotations

import asyncio
from time import perf_counter

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serving.limits import Limits
from nmt.serving.metrics import Metrics
from nmt.serving.problems import CLIENT_CLOSED, problem


class RequestMiddleware:
    """Read the body of each request within its limits, add headers, and count the request.

    Args:
        app: the application.
        limits: longest body, and the time to read it.
        metrics: count requests.
        policy: content security policy of every answer.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, policy: str) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
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
            status = 500
            raise
        finally:
            self._metrics.count_request(scope["path"], status, perf_counter() - start)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, and pass it to the application in one message."""
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                body = await self._read_body(scope, receive)
        except TimeoutError:
            await problem(408, "the body did not arrive in time")(scope, receive, send)
            return
        except HTTPException as error:
            await problem(error.status_code, error.detail)(scope, receive, send)
            return
        if body is None:
            return
        is_read = False

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_body, send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body up to the limit, whatever its header says; None if the client hung up."""
        limit = self._limits.max_body
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
