"""The application: routes, and what surrounds them.

Every answer but the page, the metrics, documents and events is JSON; every error is
``{"error": "one line"}``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST

from nmt.serving.corrections import CorrectionFile
from nmt.serving.documents import Documents, describe_formats
from nmt.serving.events import stream_events, wants_events
from nmt.serving.limits import (
    DOCUMENTS,
    MAX_ALTERNATIVES,
    MAX_ATTENTION_TEXTS,
    MAX_ATTENTION_TOKENS,
    MAX_BEAM,
    MAX_REQUESTED_PENALTY,
    Limits,
)
from nmt.serving.metrics import Metrics
from nmt.serving.middleware import RequestMiddleware
from nmt.serving.page import load_page
from nmt.serving.problems import add_handlers
from nmt.serving.responses import MAX_ATTENTION_WEIGHTS
from nmt.serving.schema import (
    AlternativesRequest,
    AlternativesResponse,
    Correction,
    CorrectionResponse,
    DocumentRequest,
    ExplanationRequest,
    ExplanationResponse,
    Problem,
    TranslationRequest,
    TranslationResponse,
)
from nmt.serving.service import Service

if TYPE_CHECKING:  # imports Keras
    from nmt.serving.segments import SegmentTranslator


@dataclass(frozen=True)
class About:
    """What ``/info`` says about the run."""

    run: str
    source_language: str  # BCP 47 tag
    target_language: str  # BCP 47 tag
    scores: dict[str, dict[str, float | None]]  # metric -> value and half_width


def make_app(
    translator: SegmentTranslator,
    about: About,
    limits: Limits,
    corrections: CorrectionFile | None = None,
) -> FastAPI:
    """Build the application; its state holds the `Service`.

    Args:
        translator: translates, and computes attention.
        about: the run.
        limits: of requests, batches and waiting times.
        corrections: keeps corrections of translations; None: nothing is kept.
    """
    metrics = Metrics()
    service = Service(translator, limits, metrics)
    languages = (about.source_language, about.target_language)
    documents = Documents(service, translator, languages, limits, metrics)
    page, policy = load_page()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()
        documents.close()

    app = FastAPI(
        title="nmt",
        version=version("nmt"),
        lifespan=lifespan,
        # The documentation pages of FastAPI load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={status: {"model": Problem} for status in (400, 408, 413, 422, 500, 503)},
    )
    app.state.service = service
    app.add_middleware(RequestMiddleware, limits=limits, metrics=metrics, policy=policy)
    add_handlers(app)
    info = _make_info(translator, about, limits) | {"corrections": corrections is not None}
    _add_routes(app, service, metrics, info, page)
    _add_documents(app, documents)
    _add_corrections(app, limits, corrections)
    return app


def _make_info(translator: SegmentTranslator, about: About, limits: Limits) -> dict[str, Any]:
    """Return the answer of ``/info``."""
    return {
        **asdict(about),
        "attention": translator.has_attention,
        "defaults": {
            "beam": translator.decoding.beam_size,
            "length_penalty": translator.decoding.length_penalty,
        },
        "formats": describe_formats(),
        "glossaries": {name: len(each.terms) for name, each in translator.glossaries.items()},
        "limits": {
            **asdict(limits),
            "max_alternatives": MAX_ALTERNATIVES,
            "max_beam": MAX_BEAM,
            "max_length_penalty": MAX_REQUESTED_PENALTY,
            "max_attention_texts": MAX_ATTENTION_TEXTS,
            "max_attention_tokens": MAX_ATTENTION_TOKENS,
            "max_attention_weights": MAX_ATTENTION_WEIGHTS,
        },
    }


def _add_routes(
    app: FastAPI, service: Service, metrics: Metrics, about: dict[str, Any], page: str
) -> None:
    @app.post("/translate", response_model=TranslationResponse)
    async def translate(body: TranslationRequest, request: Request) -> Response:
        if wants_events(request):
            return await stream_events(
                lambda emit: service.translate(body, request, emit), "translations"
            )
        content = await service.translate(body, request)
        return Response(content, media_type="application/json")

    @app.post("/alternatives")
    async def find_alternatives(
        body: AlternativesRequest, request: Request
    ) -> AlternativesResponse:
        return await service.find_alternatives(body, request)

    @app.post("/explain", response_model_exclude_none=True)
    async def explain(body: ExplanationRequest, request: Request) -> ExplanationResponse:
        return await service.explain(body, request)

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        await service.check_health()
        return {"status": "ready"}

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return about

    @app.get("/metrics", include_in_schema=False)
    async def show_metrics() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})


def _add_documents(app: FastAPI, documents: Documents) -> None:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

    @app.post(
        DOCUMENTS,
        openapi_extra={"requestBody": {"required": True, "content": content}},
        response_class=Response,
        responses={
            200: {"content": content, "description": "The translated document"},
            **{status: {"model": Problem} for status in (403, 415, 501)},
        },
    )
    async def translate_document(
        query: Annotated[DocumentRequest, Query()], request: Request
    ) -> Response:
        return await documents.answer(query, request)


def _add_corrections(app: FastAPI, limits: Limits, file: CorrectionFile | None) -> None:
    @app.post("/corrections", responses={status: {"model": Problem} for status in (404, 507)})
    async def correct(body: Correction) -> CorrectionResponse:
        limits.check_lengths([body.source, body.translation, body.correction])
        if file is None:
            raise HTTPException(
                404, "this service keeps no corrections: start it with --corrections FILE.tsv"
            )
        return CorrectionResponse(lines=await asyncio.to_thread(file.add, body))
