"""Translation requests: cut into segments, batched, translated, and answered with attention."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import HTTPException, Request

from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.serving.answers import encode_answer
from nmt.serving.batching import Batcher, ClosedError, Item, Options, QueueFullError, Result
from nmt.serving.health import HealthCheck
from nmt.serving.limits import ATTENTION_WORK, QUALITY_WORK, Limits
from nmt.serving.metrics import Metrics
from nmt.serving.problems import CLIENT_CLOSED, unavailable
from nmt.serving.schema import TranslationRequest

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.results import Attention, Translation
    from nmt.inference.segments import Segment, SegmentedText
    from nmt.serving.segments import SegmentTranslator

_HEALTH_TEXT = "a"
_IN_PARTS = "the text was translated in parts"
_STOPPING = "the service is stopping"
_log = logging.getLogger(__name__)


class _Item(NamedTuple):
    segment: Segment
    attends: bool  # whether attention is computed once it has been translated


class _SearchOptions(NamedTuple):
    beam: int
    length_penalty: float
    nbest: int
    quality: bool = False

    @property
    def quality_work(self) -> int:
        """Work per token of computing confidence."""
        return QUALITY_WORK * self.nbest * self.quality


class _Pair(NamedTuple):
    """A text and the translation whose attention is computed."""

    text: str
    tokens: int  # of the text
    translation: Translation


class Service:
    """The translator behind its batchers.

    Translations and attention are computed on one thread each, so that neither waits for the other.

    Args:
        translator: searches on the thread of `batcher` only, and computes attention on that of the
            batcher for attention.
        limits: limits of requests, batches and waiting times.
        metrics: counters of the work.
    """

    def __init__(self, translator: SegmentTranslator, limits: Limits, metrics: Metrics) -> None:
        self.is_stopping = False
        self._translator = translator
        self._limits = limits
        self._metrics = metrics
        self._attention_batcher: Batcher[_Pair, None, Attention | None] = Batcher(
            self._compute_attention,
            work=lambda pair, _: pair.tokens * ATTENTION_WORK,
            max_batch=1,
            max_batch_work=limits.max_batch_work,
            max_wait_s=0.0,
            max_queue=sys.maxsize,  # this work was accepted with the translation
        )
        self.batcher: Batcher[_Item, _SearchOptions, list[Translation]] = Batcher(
            self._search,
            work=lambda item, options: (
                len(item.segment.ids)
                * (options.beam + options.quality_work + ATTENTION_WORK * item.attends)
            ),
            max_batch=limits.max_batch,
            max_batch_work=limits.max_batch_work,
            max_wait_s=limits.max_wait_s,
            max_queue=limits.max_queue,
            waiting_elsewhere=lambda: self._attention_batcher.waiting,
            observe=metrics.batch_segments.observe,
        )
        metrics.queue_work.set_function(
            lambda: self.batcher.waiting + self._attention_batcher.waiting
        )
        segments = [
            _Item(segment, attends=False) for segment in translator.segment(_HEALTH_TEXT).segments
        ]
        options = self._search_options(TranslationRequest.model_validate({"text": _HEALTH_TEXT}))
        self._health = HealthCheck(self.batcher, segments, options, limits.health_s)
        self._loading: asyncio.Task[None] | None = None

    async def translate(self, body: TranslationRequest, request: Request) -> bytes:
        """Return the JSON of `TranslationResponse`.

        Raises:
            HTTPException: 413 beyond a limit; 503 when too much work is waiting, the answer takes
                too long or the service stops; 500 when the translation or its attention failed.
        """
        texts = [body.text] if isinstance(body.text, str) else body.text
        self._limits.check_size(texts, body.attention)
        quality_missing: str | None = None
        if body.quality:
            quality_missing = await asyncio.to_thread(self._translator.explain_missing_quality)
        options = self._search_options(body)._replace(quality=quality_missing == "")
        if body.attention:
            await self.load_attention()
        segmented = await asyncio.to_thread(lambda: list(map(self._translator.segment, texts)))
        attends = [body.attention and not _explain_missing_attention(text) for text in segmented]
        tokens = [sum(len(segment.ids) for segment in text.segments) for text in segmented]
        self._limits.check_work(tokens, attends, options.beam, options.quality_work)
        deadline = monotonic() + self._limits.timeout_s
        if self.is_stopping:
            raise unavailable(_STOPPING)
        items = [
            _Item(segment, attend)
            for text, attend in zip(segmented, attends, strict=True)
            for segment in text.segments
        ]
        future = _submit(self.batcher, items, options)
        self._metrics.sentences.inc(len(texts))
        self._metrics.attentions.inc(sum(attends))
        results = iter(await self._wait(future, request, deadline, "the translation failed"))
        hypotheses = await asyncio.to_thread(
            lambda: [
                self._translator.join(
                    source, text, [next(results) for _ in text.segments], body.nbest
                )
                for source, text in zip(texts, segmented, strict=True)
            ]
        )
        encode = partial(encode_answer, scores=body.scores, quality_missing=quality_missing)
        if not body.attention:
            return await asyncio.to_thread(encode, hypotheses, [None] * len(texts))
        pairs = [
            _Pair(text, count, best)
            for text, count, (best, *_), attend in zip(
                texts, tokens, hypotheses, attends, strict=True
            )
            if attend
        ]
        failure = "the attention could not be computed"
        future_attention = _submit(self._attention_batcher, pairs, None)
        computed = iter(await self._wait(future_attention, request, deadline, failure))
        attentions = [
            (next(computed) if attend else None) or _explain_missing_attention(text) or _IN_PARTS
            for text, attend in zip(segmented, attends, strict=True)
        ]
        return await asyncio.to_thread(encode, hypotheses, attentions)

    async def load_attention(self) -> None:
        """Load the model that attention needs, once and in a thread of its own, and wait for it.

        Raises:
            HTTPException: 400 if it cannot be loaded, 503 if that takes too long.
        """
        if self._loading is None:
            work = asyncio.to_thread(self._translator.load_attention)
            self._loading = asyncio.create_task(work)
        loading = self._loading
        await asyncio.wait([loading], timeout=self._limits.timeout_s)
        if not loading.done():
            raise unavailable("attention is being loaded: try again soon")
        error = loading.exception()
        if isinstance(error, UserError):
            raise HTTPException(400, str(error))
        if error is not None:
            _log.error("attention cannot be loaded", exc_info=error)
            self._loading = None  # the next request tries again
            raise HTTPException(500, "attention cannot be loaded")

    async def check_health(self) -> None:
        """Translate a short text.

        Raises:
            HTTPException: 503 if that fails or takes too long, or the service stops.
        """
        if self.is_stopping:
            raise unavailable(_STOPPING)
        await self._health.check()

    async def close(self) -> None:
        """Refuse new requests, and return when all accepted ones are answered."""
        self.is_stopping = True
        await asyncio.to_thread(self.batcher.close)
        await asyncio.to_thread(self._attention_batcher.close)

    def _search_options(self, body: TranslationRequest) -> _SearchOptions:
        """Resolve defaults; equal searches get equal options, so that they share batches."""
        request = SearchRequest(body.beam, body.length_penalty, n_best=body.nbest)
        beam, penalty = request.resolve_defaults(self._translator.decoding)
        return _SearchOptions(beam, penalty if beam > 1 else 0.0, body.nbest)

    async def _wait(
        self, future: Future[list[Result]], request: Request, deadline: float, failure: str
    ) -> list[Result]:
        """Return results once they are computed; cancel them if nobody waits for them any more.

        Args:
            future: the results.
            request: the request, whose client may hang up.
            deadline: seconds of the monotonic clock.
            failure: error message if the computation fails.
        """
        answer = asyncio.wrap_future(future)
        disconnected = asyncio.create_task(_wait_for_disconnect(request))
        either: set[asyncio.Future[Any]] = {answer, disconnected}
        try:
            timeout = max(deadline - monotonic(), 0)
            await asyncio.wait(either, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                if answer.exception():
                    raise HTTPException(500, failure)
                return answer.result()
            if disconnected.done():
                raise HTTPException(CLIENT_CLOSED, "the client hung up")
            raise unavailable(f"no answer within {self._limits.timeout_s:g} seconds")
        finally:
            disconnected.cancel()
            answer.cancel()
            future.cancel()  # at once: `answer.cancel` reaches it in a later turn of the event loop

    def _search(self, items: list[_Item], options: _SearchOptions) -> list[list[Translation]]:
        try:
            return self._translator.hypotheses(
                [item.segment for item in items],
                beam_size=options.beam,
                length_penalty=options.length_penalty,
                n_best=options.nbest,
                quality=options.quality,
            )
        except Exception:
            _log.exception("a batch of %d sentences failed", len(items))
            raise

    def _compute_attention(self, pairs: list[_Pair], _: None) -> list[Attention | None]:
        try:
            with self._metrics.attention_seconds.time():
                return [self._translator.attention(pair.text, pair.translation) for pair in pairs]
        except Exception:
            _log.exception("attention failed")
            raise


def _submit(
    batcher: Batcher[Item, Options, Result], items: Sequence[Item], options: Options
) -> Future[list[Result]]:
    """Submit items to a batcher.

    Raises:
        HTTPException: 503 when too much work is waiting, or the service stops.
    """
    try:
        return batcher.submit(items, options)
    except QueueFullError:
        raise unavailable("too much work is waiting already: try again soon") from None
    except ClosedError:
        raise unavailable(_STOPPING) from None


def _explain_missing_attention(text: SegmentedText) -> str:
    """Return why a text has no attention; empty if it has one."""
    if not text.segments:
        return "the text is empty"
    if len(text.segments) > 1:
        return _IN_PARTS
    return "the text was copied" if text.segments[0].is_copied else ""


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
