"""Documents translated on worker threads, in the batches of all requests."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict
from io import BytesIO
from pathlib import PurePath
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import HTTPException, Request, Response

from nmt.data.encodings import is_text_encoding
from nmt.documents.files import read_lines, recode
from nmt.documents.formats import (
    FORMATS,
    LINES,
    NAMES,
    NAMING_ENCODING,
    DocumentOptions,
    extract,
    find_format,
)
from nmt.documents.translating import DocumentReport, translate_document, translate_lines
from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.serving.batching import ClosedError, QueueFullError
from nmt.serving.downloads import describe_download, name_download
from nmt.serving.events import Emit, stream_events, wants_events
from nmt.serving.glossaries import choose_glossary
from nmt.serving.limits import Limits
from nmt.serving.metrics import Metrics
from nmt.serving.problems import unavailable
from nmt.serving.schema import DocumentRequest
from nmt.serving.service import Service
from nmt.serving.waiting import STOPPING, wait_for

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.results import Translation
    from nmt.inference.segments import Segment, SegmentedText
    from nmt.serving.segments import SegmentTranslator

# People who send a file expect paragraphs; the command reads it as lines, one sentence each.
_PLAIN_TEXT = ".txt"
_CHUNK = 64  # texts that are searched together: a few batches, so that progress is seen
_QUEUE_SHARE = 1 / 8  # of the queue, that one document takes at most
_REPORT_S = 0.25  # seconds between reports of progress
_RETRY_S = 0.1  # seconds until a document that found the queue full tries again
_MAX_ERROR = 300  # characters of an error, which may quote the document
_log = logging.getLogger(__name__)


class TranslatedDocument(NamedTuple):
    """A document in the other language, as a file to download."""

    name: str
    media_type: str
    content: bytes
    report: DocumentReport


class Documents:
    """Translates documents for HTTP requests.

    Args:
        service: searches texts.
        translator: cuts texts into segments and joins their translations.
        languages: BCP 47 tags of source and target.
        limits: limits of documents.
        metrics: count documents.
    """

    def __init__(
        self,
        service: Service,
        translator: SegmentTranslator,
        languages: tuple[str, str],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._service = service
        self._translator = translator
        self._languages = languages
        self._limits = limits
        self._metrics = metrics
        # Threads of their own, as documents would keep those busy that cut the texts of others.
        self._pool = ThreadPoolExecutor(limits.max_documents, "document")

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, query: DocumentRequest, request: Request) -> Response:
        """Return a translated document as a file, or as events if the client asks for them.

        Raises:
            HTTPException: 415 if its format is unknown, 400 if it is damaged or hostile, 422 if the
                query does not fit it, 501 if a package is missing; 503 if it takes too long or the
                service stops; 500 if the translation failed.
        """
        if wants_events(request):

            async def compute(emit: Emit) -> bytes:
                document = await self.translate(query, request, emit)
                return await asyncio.to_thread(_encode, document)

            return await stream_events(compute, "document")
        document = await self.translate(query, request)
        headers = {
            "Content-Type": document.media_type,
            "Content-Disposition": describe_download(document.name),
            "Document-Report": json.dumps(_count(document.report)),
        }
        return Response(document.content, headers=headers)

    async def translate(
        self, query: DocumentRequest, request: Request, emit: Emit | None = None
    ) -> TranslatedDocument:
        """Return a translated document.

        Args:
            query: how to read it.
            request: its body is the document; its client may hang up.
            emit: takes the event ``progress``.

        Raises:
            HTTPException: see `answer`.
        """
        format_name = _find_format(query)
        extension = PurePath(query.name).suffix.lower()
        options = DocumentOptions(
            *self._languages, *_read_options(query, format_name), extension=extension
        )
        if self._service.is_stopping:
            raise unavailable(STOPPING)
        if request.headers.get("Content-Type", "").lower().startswith("multipart/"):
            raise HTTPException(415, "the body of the request is the document itself, not a form")
        deadline = monotonic() + self._limits.document_timeout_s
        data = await request.body()
        share = int(self._limits.max_queue * _QUEUE_SHARE)
        glossary = choose_glossary(self._translator.glossaries, query.glossary)
        self._metrics.documents.labels(format_name).inc()
        search = SearchRequest(glossary=glossary)
        job = _Job(self._service, self._translator, search, share, emit)
        future = self._pool.submit(job.run, data, format_name, options)
        late = (
            f"no translation within {self._limits.document_timeout_s:g} seconds: send a smaller "
            "document"
        )
        try:
            content, report = await wait_for(
                future, request, deadline, failure="the translation failed", late=late
            )
        finally:
            job.cancel()
        name, media_type = name_download(query.name, format_name, self._languages[1])
        return TranslatedDocument(name, media_type, content, report)


class _Job:
    """The translation of a document on a worker thread: a `TextTranslator` in turns with others.

    Args:
        service: searches texts.
        translator: cuts texts into segments and joins their translations.
        request: how to search.
        max_work: most work that waits in the queue at a time, unless a single segment is more.
        emit: takes the event ``progress``; None: progress is not reported.
    """

    def __init__(
        self,
        service: Service,
        translator: SegmentTranslator,
        request: SearchRequest,
        max_work: int,
        emit: Emit | None,
    ) -> None:
        self._service = service
        self._translator = translator
        self.begin_document = translator.begin_document
        self._request = request
        self._max_work = max_work
        self._emit = emit
        self._reported = 0.0  # when progress was reported, in seconds of the monotonic clock
        self._cancelled = Event()
        self._search: Future[list[list[Translation]]] | None = None

    def cancel(self) -> None:
        """Drop the rest of the work, from any thread."""
        self._cancelled.set()
        if self._search is not None:
            self._search.cancel()

    def run(
        self, data: bytes, format_name: str, options: DocumentOptions
    ) -> tuple[bytes, DocumentReport]:
        """Return the translated document.

        Raises:
            HTTPException: the document cannot be read, or the service stops.
            CancelledError: `cancel` was called.
        """
        try:
            if format_name == LINES:
                lines = read_lines(data, "the document", options.encoding)
                return translate_lines(lines, self, self._request, self._report, chunk_size=_CHUNK)
            data = recode(BytesIO(data), "the document", format_name, options)
            document = extract(data, format_name, options)
            self._check()
            return translate_document(
                document, self, self._request, self._report, chunk_size=_CHUNK
            )
        except UserError as error:
            status = 501 if isinstance(error.__cause__, ModuleNotFoundError) else 400
            raise HTTPException(status, _explain(error)) from error
        except (HTTPException, CancelledError):
            raise
        except Exception:
            _log.exception("a document of format %s failed", format_name)
            raise

    def stream(
        self, chunks: Iterable[Sequence[str]], request: SearchRequest
    ) -> Iterator[list[list[Translation]]]:
        """Yield the translations of each chunk of texts."""
        for texts in chunks:
            segmented = [self._segment(text, request) for text in texts]
            segments = [segment for text in segmented for segment in text.segments]
            results = iter(self._translate(segments, request))
            yield [
                self._translator.join(text, [next(results) for _ in text.segments], 1).translations
                for text in segmented
            ]

    def _segment(self, text: str, request: SearchRequest) -> SegmentedText:
        self._check()
        return self._translator.segment(text, request.glossary)

    def _translate(
        self, segments: Sequence[Segment], request: SearchRequest
    ) -> Iterator[list[Translation]]:
        """Yield the translations of segments; only a part of them waits in the queue at a time."""
        portion: list[Segment] = []
        work = 0
        for segment in segments:
            added = self._service.count_work(segment, request)
            if portion and work + added > self._max_work:
                yield from self._submit(portion, request).result()
                portion, work = [], 0
            portion.append(segment)
            work += added
        yield from self._submit(portion, request).result()

    def _submit(
        self, segments: Sequence[Segment], request: SearchRequest
    ) -> Future[list[list[Translation]]]:
        """Start to search segments, once there is room in the queue."""
        while True:
            self._check()
            try:
                self._search = search = self._service.submit(segments, request)
            except QueueFullError:
                self._cancelled.wait(_RETRY_S)
                continue
            except ClosedError:
                raise unavailable(STOPPING) from None
            if self._cancelled.is_set():  # since the search was started
                search.cancel()
            return search

    def _check(self) -> None:
        """Raise what ends the translation before it is complete."""
        if self._cancelled.is_set():
            raise CancelledError
        if self._service.is_stopping:
            raise unavailable(STOPPING)

    def _report(self, done: int, total: int) -> None:
        """Emit how many texts are translated: at the beginning, and from time to time."""
        self._check()
        if self._emit and (not done or monotonic() - self._reported >= _REPORT_S):
            self._reported = monotonic()
            self._emit("progress", {"done": done, "total": total})


def describe_formats() -> Mapping[str, Sequence[str]]:
    """Return the endings of file names by format, as ``/info`` shows them."""
    return {LINES: (), **FORMATS, "text": (_PLAIN_TEXT,)}


def _find_format(query: DocumentRequest) -> str:
    """Return the format of a document.

    Raises:
        HTTPException: 415 if neither its format nor its name tells it.
    """
    if query.format in NAMES:
        return query.format
    if query.format:
        problem = f"format {query.format[:_MAX_ERROR]!r} is unknown"
    else:
        suffix = PurePath(query.name).suffix.lower()
        name = "text" if suffix == _PLAIN_TEXT else find_format(PurePath(query.name))
        if name != LINES:
            return name
        problem = f"files {suffix[:20]!r} are unknown" if suffix else "the file name has no ending"
    raise HTTPException(415, f"{problem}: give format=NAME, one of {', '.join(NAMES)}")


def _read_options(query: DocumentRequest, format_name: str) -> tuple[tuple[str, ...], str | None]:
    """Return the columns and the encoding of a document.

    Raises:
        HTTPException: 422 if its format takes none, or the encoding is unknown.
    """
    if query.columns and format_name != "table":
        raise HTTPException(422, f"columns are for format table, not for {format_name}")
    if query.encoding and format_name in NAMING_ENCODING:
        raise HTTPException(422, f"a document of format {format_name} names its encoding itself")
    if query.encoding and not is_text_encoding(query.encoding):
        shown = query.encoding[:_MAX_ERROR]
        raise HTTPException(
            422, f"unknown encoding {shown!r}: give a name such as utf-8, latin-1 or utf-16"
        )
    return tuple(query.columns.split(",")) if query.columns else (), query.encoding or None


def _explain(error: UserError) -> str:
    """Return an error in one line that names parameters in place of options of the command."""
    line = re.sub(r"--(columns|encoding|format)[ =]", r"\1=", " ".join(str(error).split()))
    return line if len(line) <= _MAX_ERROR else f"{line[:_MAX_ERROR]}…"


def _count(report: DocumentReport) -> dict[str, int]:
    counts = asdict(report) | {"lost_spans": len(report.lost_spans), "terms": len(report.terms)}
    return counts | {"unused_terms": sum(not use.is_used for use in report.terms)}


def _encode(document: TranslatedDocument) -> bytes:
    """Return the content of the event ``document``."""
    content: dict[str, Any] = {
        "name": document.name,
        "media_type": document.media_type,
        "content": base64.b64encode(document.content).decode("ascii"),
    }
    terms = {"terms": [use._asdict() for use in document.report.terms]}
    return json.dumps(content | asdict(document.report) | terms, ensure_ascii=False).encode()
