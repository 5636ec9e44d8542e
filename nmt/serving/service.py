"""Translation requests: cut into segments, batched, translated, and answered with attention."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request

from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.serving.batching import Batcher
from nmt.serving.events import Emit
from nmt.serving.glossaries import choose_glossary
from nmt.serving.health import HealthCheck
from nmt.serving.keras_work import IN_PARTS, AttentionJob, KerasWork
from nmt.serving.limits import Limits, count_explanation
from nmt.serving.metrics import Metrics
from nmt.serving.problems import unavailable
from nmt.serving.responses import encode_response
from nmt.serving.schema import (
    AlternativesRequest,
    AlternativesResponse,
    AlternativeWord,
    ExplanationRequest,
    ExplanationResponse,
    SentenceRequest,
    TranslationRequest,
)
from nmt.serving.searches import SearchItem, SearchOptions, count_work
from nmt.serving.waiting import FULL, STOPPING, check_waiting, explain_refusal, wait_for

if TYPE_CHECKING:  # imports Keras
    from nmt.inference.results import Attention, Translation
    from nmt.inference.segments import Segment, SegmentedText
    from nmt.serving.segments import SegmentTranslator
    from nmt.text.terms import Glossary

_log = logging.getLogger(__name__)


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
        self._keras = KerasWork(translator, limits, metrics)
        self.batcher: Batcher[SearchItem, SearchOptions, list[Any]] = Batcher(
            self._search,
            work=count_work,
            max_batch=limits.max_batch,
            max_batch_work=limits.max_batch_work,
            max_wait_s=limits.max_wait_s,
            max_queue=limits.max_queue,
            waiting_elsewhere=lambda: self._keras.waiting,
            observe=metrics.batch_segments.observe,
        )
        metrics.queue_work.set_function(lambda: self._waiting)
        options = self._search_options(SearchRequest())
        items = [SearchItem(translator.test_segment)]
        self._health = HealthCheck(self.batcher, items, options, limits.health_s)

    @property
    def _waiting(self) -> int:
        return self.batcher.waiting + self._keras.waiting

    async def translate(
        self, body: TranslationRequest, request: Request, emit: Emit | None = None
    ) -> bytes:
        """Return the JSON of `TranslationResponse`.

        Args:
            body: texts, and what their translations are to be like.
            request: the request, whose client may hang up.
            emit: takes the event ``sentence`` for every segment, as soon as it is translated.

        Raises:
            HTTPException: 413 beyond a limit; 422 for an unknown glossary, or a prefix that is too
                long; 503 when too much work is waiting, the answer takes too long or the service
                stops; 500 when the translation or its attention failed.
        """
        self._check_running()
        texts = [body.text] if isinstance(body.text, str) else body.text
        self._limits.check_size(texts, body.attention)
        self._limits.check_lengths([*body.prefixes, *body.prefixes.values()])
        options, quality_missing = await self._read_options(body)
        if body.attention:
            await self._keras.load("attention")
        deadline = monotonic() + self._limits.timeout_s
        segmented: list[SegmentedText] = []
        tokens: list[int] = []
        missing: list[str] = []  # why each text has no attention
        attends: list[bool] = []
        for text in texts:
            await check_waiting(request, deadline, self._limits.late)
            segmented.append(await self._segment(text, options.request.glossary, body.prefixes))
            tokens.append(_count_tokens(segmented[-1]))
            missing.append(_explain_missing_attention(segmented[-1]))
            attends.append(body.attention and not missing[-1])
            self._limits.check_work(tokens, attends, options.search_work, options.quality_work)
        items = [
            SearchItem(segment, attend)
            for text, attend in zip(segmented, attends, strict=True)
            for segment in text.segments
        ]
        with explain_refusal():
            deliver = emit and _sentence_events(segmented, emit)
            future = self.batcher.submit(items, options, deliver=deliver)
        self._metrics.sentences.inc(len(items))
        self._metrics.attentions.inc(sum(attends))
        failure, late = "the translation failed", self._limits.late
        translations = await wait_for(future, request, deadline, failure=failure, late=late)
        joined = await asyncio.to_thread(
            self._translator.join_all, segmented, translations, body.nbest, body.sentences
        )
        hypotheses = [each.translations for each in joined]
        sentences = [each.sentences for each in joined] if body.sentences else None
        attentions: list[Attention | str | None] = [None] * len(texts)
        if body.attention:
            best = [translation for translation, *_ in hypotheses]
            jobs = [AttentionJob(*each) for each in zip(texts, tokens, best, missing, strict=True)]
            attentions = await self._keras.attend(jobs, options.request.glossary, request, deadline)
        return await asyncio.to_thread(
            encode_response, hypotheses, attentions, body.scores, quality_missing, sentences
        )

    async def find_alternatives(
        self, body: AlternativesRequest, request: Request
    ) -> AlternativesResponse:
        """Return the most probable next words after the beginning of a translation.

        Raises:
            HTTPException: 413, 500 and 503 as `translate`; 422 for an unknown sentence or glossary,
                or a prefix that is too long.
        """
        self._check_running()
        text, number = await self._find_sentence(body, body.prefix)
        segment = text.segments[number]
        options = SearchOptions(alternatives=body.count)
        self._limits.check_alternatives(segment.searched_tokens)
        deadline = monotonic() + self._limits.timeout_s
        with explain_refusal():
            future = self.batcher.submit([SearchItem(segment)], options)
        failure, late = "the alternatives could not be computed", self._limits.late
        [words] = await wait_for(future, request, deadline, failure=failure, late=late)
        return AlternativesResponse(
            alternatives=[
                AlternativeWord(
                    text=word.text, probability=round(word.probability, 4), prefix=word.prefix
                )
                for word in words
            ]
        )

    async def explain(self, body: ExplanationRequest, request: Request) -> ExplanationResponse:
        """Return why the translation of a sentence has a word after its beginning.

        Raises:
            HTTPException: as `find_alternatives`; 400 if the engine has no Keras model; 422 if both
                words are the same.
        """
        self._check_running()
        text, number = await self._find_sentence(body, body.prefix, body.word, body.other or "")
        segment = text.segments[number]
        tokens = len(segment.ids)
        prefix = await asyncio.to_thread(self._translator.count_prefix, segment)
        self._limits.check_explanation(tokens, prefix)
        if segment.is_copied:
            raise HTTPException(422, "the sentence was copied: no word of it was chosen")
        await self._keras.load("an explanation")
        work = count_explanation(tokens, prefix)
        if self._waiting + work > self._limits.max_queue:
            raise unavailable(FULL)
        return await self._keras.explain(body, text, number, work, request)

    def _check_running(self) -> None:
        """Refuse a request that comes after the signal to stop; earlier ones are answered."""
        if self.is_stopping:
            raise unavailable(STOPPING)

    async def _find_sentence(self, body: SentenceRequest, *begin: str) -> tuple[SegmentedText, int]:
        """Return the segments of a text, and the number of the one whose translation begins so.

        Raises:
            HTTPException: 413 beyond a limit; 422 for an unknown sentence or glossary, or a
                beginning that is too long.
        """
        self._limits.check_lengths([body.text, *begin])
        glossary = choose_glossary(self._translator.glossaries, body.glossary)
        prefixes = {body.sentence: "".join(begin)}
        text = await self._segment(body.text, glossary, prefixes)
        for number, segment in enumerate(text.segments):
            if segment.full_text == body.sentence:
                return text, number
        raise HTTPException(422, "sentence must be a sentence of text: see `sentences`")

    async def _segment(
        self, text: str, glossary: Glossary | None, prefixes: Mapping[str, str]
    ) -> SegmentedText:
        """Return the segments of a text: see `SegmentTranslator.segment`.

        Raises:
            HTTPException: 422 if a prefix is too long.
        """
        try:
            return await asyncio.to_thread(self._translator.segment, text, glossary, prefixes)
        except UserError as error:
            raise HTTPException(422, str(error)) from None

    def submit(
        self, segments: Sequence[Segment], request: SearchRequest
    ) -> Future[list[list[Translation]]]:
        """Search segments in the batches of all requests, from any thread.

        Raises:
            QueueFullError: too much work is waiting already.
            ClosedError: the service stops.
        """
        items = [SearchItem(segment) for segment in segments]
        future = self.batcher.submit(items, self._search_options(request))
        self._metrics.sentences.inc(len(items))
        return future

    def count_work(self, segment: Segment, request: SearchRequest) -> int:
        """Return the work of searching a segment."""
        return count_work(SearchItem(segment), self._search_options(request))

    async def check_health(self) -> None:
        """Translate a short text.

        Raises:
            HTTPException: 503 if that fails or takes too long, or the service stops.
        """
        self._check_running()
        await self._health.check()

    async def close(self) -> None:
        """Refuse new requests, and return when all accepted ones are answered."""
        self.is_stopping = True
        await asyncio.to_thread(self.batcher.close)
        await asyncio.to_thread(self._keras.close)

    async def _read_options(self, body: TranslationRequest) -> tuple[SearchOptions, str | None]:
        """Return the options of a request, and why confidence is missing: see `encode_response`."""
        missing: str | None = None
        if body.quality:
            missing = await asyncio.to_thread(self._translator.explain_missing_quality)
        request = SearchRequest(
            body.beam,
            body.length_penalty,
            n_best=body.nbest,
            quality=missing == "",
            words=bool(missing),
            glossary=choose_glossary(self._translator.glossaries, body.glossary),
        )
        return self._search_options(request), missing

    def _search_options(self, request: SearchRequest) -> SearchOptions:
        """Resolve defaults; equal searches get equal options, so that they share batches."""
        beam, penalty = request.resolve_defaults(self._translator.decoding)
        penalty = penalty if beam > 1 else 0.0
        return SearchOptions(replace(request, beam_size=beam, length_penalty=penalty))

    def _search(self, items: list[SearchItem], options: SearchOptions) -> Sequence[list[Any]]:
        segments = [item.segment for item in items]
        try:
            if options.alternatives:
                return self._translator.alternatives(segments, options.alternatives)
            return self._translator.hypotheses(segments, options.request)
        except Exception:
            _log.exception("a batch of %d sentences failed", len(items))
            raise


def _sentence_events(
    texts: Sequence[SegmentedText], emit: Emit
) -> Callable[[int, list[Translation]], None]:
    """Return what turns the translations of each segment into an event."""
    sentences = [
        (number, index, segment)
        for number, text in enumerate(texts)
        for index, segment in enumerate(text.segments)
    ]

    def deliver(item: int, translations: list[Translation]) -> None:
        text, sentence, segment = sentences[item]
        content = {"text": text, "sentence": sentence, "source": segment.full_text}
        content["space"] = segment.space
        emit("sentence", content | {"translation": translations[0].text})

    return deliver


def _count_tokens(text: SegmentedText) -> int:
    """Return how many tokens of a text are translated."""
    return sum(segment.searched_tokens for segment in text.segments)


def _explain_missing_attention(text: SegmentedText) -> str:
    """Return why a text has no attention; empty if it has one."""
    if not text.segments:
        return "the text is empty"
    if len(text.segments) > 1:
        return IN_PARTS
    return "the text was copied" if text.segments[0].is_copied else ""
