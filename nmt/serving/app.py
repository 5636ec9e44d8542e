"""The application: translation over HTTP and one page that shows it at work.

Every answer but the page and the metrics is JSON; every error is ``{"error": "one line"}``.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.errors import UserError, nearest
from nmt.serving.answers import MAX_ATTENTION_WEIGHTS, encode_answer
from nmt.serving.batching import Batcher, ClosedError, Item, Options, QueueFullError, Result
from nmt.viewer.page import inline_script, inline_style

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.results import Attention, Translation
    from nmt.serving.parts import SegmentTranslator

MAX_BEAM = 16  # memory and time of a search grow with it; beyond, translations get no better
MAX_LENGTH_PENALTY = 2.0
MAX_ATTENTION_TEXTS = 4  # each costs a pass of its own
MAX_ATTENTION_TOKENS = 256  # of all sources of a request: the pass grows with their square
# The work of attention per token: it writes the translation once more, as one hypothesis.
ATTENTION_WORK = 1

_HUNG_UP = 499  # not a registered status: in the metrics, of requests whose client went away
_TINY = "a"  # what the health check translates
_HEALTHY_S = 1.0  # for so long a health check that passed is not repeated, however often asked for
_SHOWN = 50  # characters of what a client sent that an error repeats
_IN_PARTS = "the text was translated in parts"
_EMPTY = "the text is empty"
_STOPPING = "the service is stopping"
_HERE = Path(__file__).parent
_PATHS = ("/", "/healthz", "/info", "/metrics", "/openapi.json", "/translate")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What is accepted, and how it is batched."""

    max_body: int  # bytes
    max_sentences: int  # per request
    max_characters: int  # per sentence
    # Per request. Work: tokens of the source times beam, or beam + 1 where attention is given.
    max_work: int
    timeout_s: float  # to read a body, and again to answer it
    health_s: float  # to translate a tiny text
    max_batch: int  # sentences, or parts of long ones
    max_batch_work: int
    max_wait_s: float  # of a request for company
    max_queue: int  # work


@dataclass(frozen=True)
class About:
    """What the service says of its model."""

    run: str
    source_language: str  # BCP 47 tags
    target_language: str
    scores: dict[str, dict[str, float | None]]  # metric -> value and half_width


class TranslationRequest(BaseModel):
    """What `POST /translate` takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | list[str] = Field(
        description="one text, or a list of texts that are translated one by one"
    )
    beam: int | None = Field(
        None, ge=1, le=MAX_BEAM, description="beam size; 1 is greedy; default: the run's"
    )
    nbest: int = Field(1, ge=1, le=MAX_BEAM, description="translations per text; at most the beam")
    length_penalty: float | None = Field(
        None,
        ge=0,
        le=MAX_LENGTH_PENALTY,
        description="0 favours short translations; default: the run's",
    )
    scores: bool = Field(False, description="give the score and log_prob of every translation")
    attention: bool = Field(
        False,
        description="give the cross-attention of the best translation of each text, for at most "
        f"{MAX_ATTENTION_TEXTS} texts of {MAX_ATTENTION_TOKENS} tokens in all",
    )

    @field_validator("text", mode="before")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("text must be a string or a list of strings")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise ValueError("text holds half of a surrogate pair") from None
        return value

    @model_validator(mode="after")
    def _beam_holds_nbest(self) -> TranslationRequest:
        if self.beam is not None and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam of at least {self.nbest}")
        return self


class AttentionWeights(BaseModel):
    """Cross-attention: what each target piece looked at while it was written."""

    source: list[str] = Field(description="S pieces, the end mark last; ▁ begins a word")
    target: list[str] = Field(description="T pieces")
    weights: list[list[list[list[float]]]] = Field(
        description="[layers][heads][T][S], 0 to 1, with three decimals"
    )


class Hypothesis(BaseModel):
    """One translation; the fields after the text are there if they were asked for."""

    text: str
    score: float | None = Field(None, description="log_prob / length penalty: ranked by it")
    log_prob: float | None = Field(None, description="of the whole translation, in nats")
    attention: AttentionWeights | None = Field(
        None, description="null where there is none; of the best translation only"
    )
    attention_missing: str | None = Field(None, description="why attention is null")


class TranslationResponse(BaseModel):
    """What `POST /translate` gives."""

    translations: list[list[Hypothesis]] = Field(
        description="for every text, also if it was the only one, its translations, best first"
    )


class Problem(BaseModel):
    """What any request gives that was refused or failed."""

    error: str


class _Part(NamedTuple):
    """A sentence, or what was cut from a long one."""

    ids: np.ndarray  # int32 [S - 1], without end mark
    attended: bool  # whether attention is computed when it has been translated


class _Search(NamedTuple):
    beam: int
    length_penalty: float
    nbest: int


class _Pair(NamedTuple):
    """A text with its best translation, whose attention is computed."""

    text: str
    ids: np.ndarray  # int32 [S - 1] of the text
    translation: Translation


class Service:
    """The translator behind its batcher, and what is measured of it.

    Attention is computed on a thread of its own, so that translations do not wait for it.

    Args:
        translator: searches on the thread of `batcher` alone, and computes attention on that of
            `attender`.
        limits: what is accepted.
    """

    def __init__(self, translator: SegmentTranslator, limits: Limits) -> None:
        self.limits = limits
        self.stopping = False
        self._translator = translator
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "nmt_requests", "Requests, by path and status", ["path", "status"], registry=registry
        )
        self._sentences = Counter("nmt_sentences", "Sentences accepted", registry=registry)
        self._seconds = Histogram(
            "nmt_translate_seconds",
            "From the head of a translation request to the end of its answer",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50),
            registry=registry,
        )
        batches = Histogram(
            "nmt_batch_parts",
            "Sentences, or parts of long ones, per batch",
            buckets=[2**n for n in range(11)],
            registry=registry,
        )
        self._attentions = Counter(
            "nmt_attentions",
            "Sentences whose attention was asked for and accepted",
            registry=registry,
        )
        self._attention_seconds = Histogram(
            "nmt_attention_seconds", "Computing the attention of a sentence", registry=registry
        )
        queue = Gauge(
            "nmt_queue_work", "Work that waits for a batch, or for attention", registry=registry
        )
        self.attender: Batcher[_Pair, None, Attention | None] = Batcher(
            self._attend,
            work=lambda pair, _: len(pair.ids) * ATTENTION_WORK,
            max_batch=1,
            max_batch_work=limits.max_batch_work,
            max_wait_s=0.0,
            max_queue=sys.maxsize,  # it was accepted with its translation
        )
        self.batcher: Batcher[_Part, _Search, list[Translation]] = Batcher(
            self._search_batch,
            work=lambda part, search: (
                len(part.ids) * (search.beam + ATTENTION_WORK * part.attended)
            ),
            max_batch=limits.max_batch,
            max_batch_work=limits.max_batch_work,
            max_wait_s=limits.max_wait_s,
            max_queue=limits.max_queue,
            waiting_elsewhere=lambda: self.attender.waiting,
            observe=batches.observe,
        )
        queue.set_function(lambda: self.batcher.waiting + self.attender.waiting)
        self._tiny = [_Part(ids, attended=False) for ids in translator.cut(_TINY)]
        self._probe: Future[list[list[Translation]]] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._healthy_until = 0.0  # seconds of the monotonic clock

    async def translate(self, asked: TranslationRequest, request: Request) -> bytes:
        """Return the JSON of `TranslationResponse`.

        Raises:
            HTTPException: 413 beyond a limit, 503 when too much is waiting, or the answer takes too
                long, or the service stops; 500 when the translation or its attention failed.
        """
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        self._check(texts, asked.attention)
        search = self._search(asked)
        if asked.attention:
            await self.load_attention()
        cut = await asyncio.to_thread(lambda: [self._translator.cut(text) for text in texts])
        attended = [asked.attention and len(parts) == 1 for parts in cut]
        self._check_work(cut, attended, search.beam)
        deadline = monotonic() + self.limits.timeout_s
        parts = [
            _Part(ids, attends)
            for ids_of_parts, attends in zip(cut, attended, strict=True)
            for ids in ids_of_parts
        ]
        if self.stopping:
            raise _unavailable(_STOPPING)
        future = _submit(self.batcher, parts, search)
        self._sentences.inc(len(texts))
        self._attentions.inc(sum(attended))
        results = iter(await self._answers(future, request, deadline, "the translation failed"))
        hypotheses = [self._join([next(results) for _ in parts], asked.nbest) for parts in cut]
        if not asked.attention:
            return encode_answer(hypotheses, [None] * len(texts), asked.scores)
        pairs = [
            _Pair(text, parts[0], best)
            for text, parts, (best, *_), attends in zip(
                texts, cut, hypotheses, attended, strict=True
            )
            if attends
        ]
        attending = _submit(self.attender, pairs, None)
        failure = "the attention could not be computed"
        computed = iter(await self._answers(attending, request, deadline, failure))
        attentions = [
            (next(computed) if attends else None) or (_IN_PARTS if parts else _EMPTY)
            for parts, attends in zip(cut, attended, strict=True)
        ]
        return await asyncio.to_thread(encode_answer, hypotheses, attentions, asked.scores)

    async def load_attention(self) -> None:
        """Load what attention needs, beside everything else and once; wait until it is there.

        Raises:
            HTTPException: 400 when it cannot be loaded, 503 when it takes too long.
        """
        if self._loading is None:
            work = asyncio.to_thread(self._translator.load_attention)
            self._loading = asyncio.create_task(work)
        loading = self._loading
        await asyncio.wait([loading], timeout=self.limits.timeout_s)
        if not loading.done():
            raise _unavailable("attention is being loaded: try again soon")
        error = loading.exception()
        if isinstance(error, UserError):
            raise HTTPException(400, str(error))
        if error is not None:
            _log.error("attention cannot be loaded", exc_info=error)
            self._loading = None  # the next who asks tries again
            raise HTTPException(500, "attention cannot be loaded")

    async def check_health(self) -> None:
        """Translate a tiny text, before all that waits; checks at the same time share one.

        Raises:
            HTTPException: 503 when it fails, takes too long, or the service stops.
        """
        if self.stopping:
            raise _unavailable(_STOPPING)
        if not self.batcher.alive:
            raise _unavailable("the thread that translates has died")
        if monotonic() < self._healthy_until:
            return
        if self._probe is None or self._probe.done():
            search = self._search(TranslationRequest.model_validate({"text": _TINY}))
            self._probe = self.batcher.submit(self._tiny, search, urgent=True)
        answer = asyncio.wrap_future(self._probe)
        await asyncio.wait([answer], timeout=self.limits.health_s)
        if not answer.done():
            raise _unavailable(f"no tiny translation within {self.limits.health_s:g} seconds")
        if answer.exception():
            raise _unavailable("a tiny translation failed")
        self._healthy_until = monotonic() + _HEALTHY_S

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        known = path if path in _PATHS else "other"
        self._requests.labels(known, str(status)).inc()
        if path == "/translate":
            self._seconds.observe(seconds)

    def _check(self, texts: list[str], attention: bool) -> None:
        limits = self.limits
        if len(texts) > limits.max_sentences:
            raise HTTPException(
                413, f"{len(texts):,} texts are more than the {limits.max_sentences:,} allowed"
            )
        longest = max(map(len, texts), default=0)
        if longest > limits.max_characters:
            raise HTTPException(
                413,
                f"a text of {longest:,} characters is longer than the {limits.max_characters:,} "
                "allowed",
            )
        if attention and len(texts) > MAX_ATTENTION_TEXTS:
            raise HTTPException(413, f"attention is for at most {MAX_ATTENTION_TEXTS} texts")

    def _check_work(self, cut: list[list[np.ndarray]], attended: list[bool], beam: int) -> None:
        tokens = sum(len(ids) for parts in cut for ids in parts)
        attended_tokens = sum(
            len(parts[0]) for parts, attends in zip(cut, attended, strict=True) if attends
        )
        if attended_tokens > MAX_ATTENTION_TOKENS:
            raise HTTPException(
                413,
                f"attention is given for at most {MAX_ATTENTION_TOKENS:,} tokens, not for "
                f"{attended_tokens:,}: send fewer or shorter texts, or ask without attention",
            )
        work = tokens * beam + attended_tokens * ATTENTION_WORK
        if work > self.limits.max_work:
            also = " with attention" if attended_tokens else ""
            raise HTTPException(
                413,
                f"{tokens:,} tokens at beam {beam}{also} are {work:,} of work, more than the "
                f"{self.limits.max_work:,} allowed",
            )

    def _search(self, asked: TranslationRequest) -> _Search:
        """Fill in defaults; what means the same is equal, so that it shares batches."""
        decoding = self._translator.decoding
        beam = asked.beam or max(decoding.beam_size, asked.nbest)
        penalty = decoding.length_penalty if asked.length_penalty is None else asked.length_penalty
        return _Search(beam, penalty if beam > 1 else 0.0, asked.nbest)

    async def _answers(
        self, future: Future[list[Result]], request: Request, deadline: float, failure: str
    ) -> list[Result]:
        """Wait for results, as long as there is somebody to take them.

        Args:
            future: of the results.
            request: whose client may hang up.
            deadline: seconds of the monotonic clock.
            failure: what to answer when the computation failed.
        """
        answer = asyncio.wrap_future(future)
        gone = asyncio.create_task(_hung_up(request))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(
                either,
                timeout=max(deadline - monotonic(), 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answer.done():
                if answer.exception():
                    raise HTTPException(500, failure)
                return answer.result()
            if gone.done():
                raise HTTPException(_HUNG_UP, "the client hung up")
            raise _unavailable(f"no answer within {self.limits.timeout_s:g} seconds")
        finally:
            gone.cancel()
            answer.cancel()
            future.cancel()  # at once: the one above reaches it when the refusal has been sent

    def _search_batch(self, parts: list[_Part], search: _Search) -> list[list[Translation]]:
        try:
            return self._translator.hypotheses(
                [part.ids for part in parts],
                beam_size=search.beam,
                length_penalty=search.length_penalty,
                n_best=search.nbest,
            )
        except Exception:
            _log.exception("a batch of %d sentences failed", len(parts))
            raise

    def _attend(self, pairs: list[_Pair], _: None) -> list[Attention | None]:
        try:
            with self._attention_seconds.time():
                return [self._translator.attention(one.text, one.translation) for one in pairs]
        except Exception:
            _log.exception("attention failed")
            raise

    def _join(self, parts: list[list[Translation]], nbest: int) -> list[Translation]:
        """Return the hypotheses of a text, given those of its parts."""
        return parts[0] if len(parts) == 1 else self._translator.join(parts, nbest)


def _submit(
    batcher: Batcher[Item, Options, Result], items: list[Item], options: Options
) -> Future[list[Result]]:
    """Hand items to a batcher.

    Raises:
        HTTPException: 503 when too much is waiting, or the service stops.
    """
    try:
        return batcher.submit(items, options)
    except QueueFullError:
        raise _unavailable("too much work is waiting already: try again soon") from None
    except ClosedError:
        raise _unavailable(_STOPPING) from None


def make_app(translator: SegmentTranslator, about: About, limits: Limits) -> FastAPI:
    """Build the application; its state holds the `Service`."""
    service = Service(translator, limits)
    page, policy = _make_page()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.stopping = True
        await asyncio.to_thread(service.batcher.close)
        await asyncio.to_thread(service.attender.close)

    # The documentation pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title="nmt",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={status: {"model": Problem} for status in (400, 408, 413, 422, 500, 503)},
    )
    app.state.service = service
    app.add_middleware(_Door, service=service, policy=policy)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)

    _add_routes(app, service, _describe(translator, about, limits), page)
    return app


def _describe(translator: SegmentTranslator, about: About, limits: Limits) -> dict[str, Any]:
    """Return what ``/info`` says."""
    return {
        "run": about.run,
        "source_language": about.source_language,
        "target_language": about.target_language,
        "scores": about.scores,
        "attention": translator.has_attention,
        "defaults": {
            "beam": translator.decoding.beam_size,
            "length_penalty": translator.decoding.length_penalty,
        },
        "limits": asdict(limits)
        | {
            "max_beam": MAX_BEAM,
            "max_length_penalty": MAX_LENGTH_PENALTY,
            "max_attention_texts": MAX_ATTENTION_TEXTS,
            "max_attention_tokens": MAX_ATTENTION_TOKENS,
            "max_attention_weights": MAX_ATTENTION_WEIGHTS,
        },
    }


def _add_routes(app: FastAPI, service: Service, said: dict[str, Any], page: str) -> None:
    @app.post("/translate", response_model=TranslationResponse)
    async def translate(asked: TranslationRequest, request: Request) -> Response:
        content = await service.translate(asked, request)
        return Response(content, media_type="application/json")

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        await service.check_health()
        return {"status": "ready"}

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return said

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(service.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return HTMLResponse(page, headers={"Cache-Control": "no-cache"})


class _Door:
    """What every request passes: the limits of its body, the headers of its answer, the count.

    The body is read here, and only as far as it is allowed to be long, whatever its header says.
    """

    def __init__(self, app: ASGIApp, service: Service, policy: str) -> None:
        self._app = app
        self._service = service
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        status = _HUNG_UP

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        try:
            await self._pass(scope, receive, reply)
        except Exception:
            status = 500
            raise
        finally:
            self._service.count(scope["path"], status, perf_counter() - began)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._service.limits.timeout_s):
                body = await self._body(scope, receive)
        except TimeoutError:
            await _problem(408, "the body did not arrive in time")(scope, receive, send)
            return
        except HTTPException as error:
            await _problem(error.status_code, error.detail)(scope, receive, send)
            return
        if body is None:
            return
        read = False

        async def receive_again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_again, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body; None if the client hung up."""
        limit = self._service.limits.max_body
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


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _make_page() -> tuple[str, str]:
    """Return the page, with all that it needs inside, and its content security policy.

    The policy allows this page's own script and style, and questions to this service.
    """
    style = inline_style(_HERE / "page.css")
    script = inline_script(_HERE / "page.js")
    page = (_HERE / "page.html").read_text(encoding="utf-8").format(style=style, script=script)

    def digest(content: str) -> str:
        return b64encode(hashlib.sha256(content.encode()).digest()).decode()

    return page, (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; "
        f"style-src 'sha256-{digest(style)}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _unavailable(message: str) -> HTTPException:
    return HTTPException(503, message, headers={"Retry-After": "1"})


def _problem(status: int, message: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status, headers=headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return _problem(error.status_code, error.detail, error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    return _problem(500, "internal error")


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, message = first["type"], first["msg"]
    if kind == "json_invalid":
        return _problem(400, f"the body is no JSON: {first['ctx']['error']}")
    if kind == "value_error":
        return _problem(422, message.removeprefix("Value error, "))
    if len(first["loc"]) < 2:
        return _problem(422, "the body must be a JSON object, sent as application/json")
    field = str(first["loc"][1])[:_SHOWN]
    if kind == "extra_forbidden":
        return _problem(422, f"unknown field {field!r}{nearest(field, _FIELDS)}")
    return _problem(422, f"{field}: {message}")


_FIELDS = list(TranslationRequest.model_fields)
