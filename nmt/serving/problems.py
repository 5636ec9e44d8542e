"""Refusals and failures as answers: ``{"error": "one line"}`` and a status."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from nmt.errors import suggest
from nmt.serving.schema import (
    AlternativesRequest,
    Correction,
    DocumentRequest,
    ExplanationRequest,
    TranslationRequest,
)

CLIENT_CLOSED = 499  # not a registered status: for the metrics, of clients that hung up
_BODIES: dict[str, type[BaseModel]] = {
    "/alternatives": AlternativesRequest,
    "/corrections": Correction,
    "/explain": ExplanationRequest,
}
_UNREADABLE: dict[type, str] = {  # bodies, by what reading their JSON raises
    UnicodeDecodeError: "the body is not UTF-8; compressed bodies are not supported",
    RecursionError: "the body is nested too deeply",
}
_MAX_ECHO = 50  # characters of a client's input that an error repeats


def unavailable(message: str) -> HTTPException:
    """Return a 503 that a client may retry."""
    return HTTPException(503, message, headers={"Retry-After": "1"})


def problem(status: int, message: str, headers: Any = None) -> JSONResponse:
    """Return an error as an answer."""
    return JSONResponse({"error": message}, status_code=status, headers=headers)


def add_handlers(app: FastAPI) -> None:
    """Make an application answer refusals with a `problem`."""
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    message = _UNREADABLE.get(type(error.__cause__), error.detail)
    return problem(error.status_code, message, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, message = first["type"], first["msg"]
    if kind == "json_invalid":
        return problem(400, f"the body is not JSON: {first['ctx']['error']}")
    if kind == "value_error":
        return problem(422, message.removeprefix("Value error, "))
    if len(first["loc"]) < 2:
        return problem(422, "the body must be a JSON object, sent as application/json")
    field = str(first["loc"][1])[:_MAX_ECHO]
    if kind == "extra_forbidden":
        is_query = first["loc"][0] == "query"
        body = _BODIES.get(request.url.path, TranslationRequest)
        fields = (DocumentRequest if is_query else body).model_fields
        noun = "parameter" if is_query else "field"
        return problem(422, f"unknown {noun} {field!r}{suggest(field, fields)}")
    return problem(422, f"{field}: {message}")
