"""What the Keras model computes for requests, on a thread of its own: attention, explanations."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import HTTPException, Request

from nmt.errors import UserError
from nmt.serving.batching import Batcher
from nmt.serving.limits import ATTENTION_WORK, Limits
from nmt.serving.metrics import Metrics
from nmt.serving.problems import unavailable
from nmt.serving.schema import ExplainingWord, ExplanationRequest, ExplanationResponse
from nmt.serving.waiting import explain_refusal, wait_for

if TYPE_CHECKING:  # imports Keras
    from nmt.analysis.explaining.choice import Reason
    from nmt.inference.results import Attention, Translation
    from nmt.inference.segments import SegmentedText
    from nmt.serving.segments import SegmentTranslator
    from nmt.text.terms import Glossary

IN_PARTS = "the text was translated in parts"
_log = logging.getLogger(__name__)


class AttentionJob(NamedTuple):
    """A text whose attention is asked for."""

    text: str
    tokens: int
    translation: Translation
    missing: str  # why it has no attention; empty: it has


class _Task(NamedTuple):
    work: int
    compute: Callable[[], Any]


class KerasWork:
    """The Keras model behind a batcher; it is loaded when it is first needed.

    Args:
        translator: computes attention and explanations on the thread of the batcher only.
        limits: limits of waiting times.
        metrics: counters of the work.
    """

    def __init__(self, translator: SegmentTranslator, limits: Limits, metrics: Metrics) -> None:
        self._translator = translator
        self._limits = limits
        self._metrics = metrics
        self._loading: asyncio.Task[None] | None = None
        self._batcher: Batcher[_Task, None, Any] = Batcher(
            self._compute,
            work=lambda task, _: task.work,
            max_batch=1,
            max_batch_work=limits.max_batch_work,
            max_wait_s=0.0,
            max_queue=sys.maxsize,  # `Service` has accepted this work
        )

    @property
    def waiting(self) -> int:
        """Accepted work that has not begun yet."""
        return self._batcher.waiting

    def close(self) -> None:
        """Refuse new work, and return when all that was accepted is done."""
        self._batcher.close()

    async def load(self, feature: str) -> None:
        """Load the model, once and in a thread of its own, and wait for it.

        Args:
            feature: what needs it, for the message.

        Raises:
            HTTPException: 400 if it cannot be loaded, 503 if that takes too long.
        """
        if self._loading is None:
            work = asyncio.to_thread(self._translator.load_attention)
            self._loading = asyncio.create_task(work)
        loading = self._loading
        await asyncio.wait([loading], timeout=self._limits.timeout_s)
        if not loading.done():
            raise unavailable(f"{feature} is being loaded: try again soon")
        error = loading.exception()
        if isinstance(error, UserError):
            raise HTTPException(400, str(error))
        if error is not None:
            _log.error("%s cannot be loaded", feature, exc_info=error)
            self._loading = None  # the next request tries again
            raise HTTPException(500, f"{feature} cannot be loaded")

    async def attend(
        self,
        jobs: Sequence[AttentionJob],
        glossary: Glossary | None,
        request: Request,
        deadline: float,
    ) -> list[Attention | str | None]:
        """Return the attention of each text, or the reason why it is missing."""

        def make_task(job: AttentionJob) -> _Task:
            def compute() -> Attention | None:
                with self._metrics.attention_seconds.time():
                    return self._translator.attention(job.text, job.translation, glossary)

            return _Task(job.tokens * ATTENTION_WORK, compute)

        tasks = [make_task(job) for job in jobs if not job.missing]
        failure = "the attention could not be computed"
        computed = iter(await self._run(tasks, request, deadline, failure))
        return [job.missing or next(computed) or IN_PARTS for job in jobs]

    async def explain(
        self,
        body: ExplanationRequest,
        text: SegmentedText,
        number: int,
        work: int,
        request: Request,
    ) -> ExplanationResponse:
        """Return the explanation of a word of a segment's translation.

        Args:
            body: the word.
            text: the text.
            number: of the segment.
            work: see `count_explanation`.
            request: the request, whose client may hang up.

        Raises:
            HTTPException: 422 if it cannot be explained.
        """
        words = [body.word] if body.other is None else [body.word, body.other]

        def compute() -> Any:
            try:
                return self._translator.explain(text, number, body.prefix, words)
            except UserError as error:
                raise HTTPException(422, str(error)) from None

        tasks = [_Task(work, compute)]
        deadline = monotonic() + self._limits.timeout_s
        failure = "the word could not be explained"
        [(explanation, missing)] = await self._run(tasks, request, deadline, failure)
        return ExplanationResponse(
            word=body.word,
            other=body.other or explanation.other,
            log_prob=round(explanation.log_prob, 4),
            other_log_prob=round(explanation.other_log_prob, 4),
            source=list(map(_describe, explanation.source)),
            prefix=list(map(_describe, explanation.prefix)),
            source_contrast=round(explanation.source_contrast, 4),
            prefix_contrast=round(explanation.prefix_contrast, 4),
            support=round(explanation.support, 4),
            contributions_missing=missing or None,
        )

    async def _run(
        self, tasks: Sequence[_Task], request: Request, deadline: float, failure: str
    ) -> list[Any]:
        with explain_refusal():
            future = self._batcher.submit(tasks, None)
        return await wait_for(future, request, deadline, failure=failure, late=self._limits.late)

    def _compute(self, tasks: list[_Task], _: None) -> list[Any]:
        try:
            return [task.compute() for task in tasks]
        except HTTPException:
            raise
        except Exception:
            _log.exception("work of the Keras model failed")
            raise


def _describe(reason: Reason) -> ExplainingWord:
    begin, end = reason.span or (None, None)
    return ExplainingWord(
        text=reason.text,
        begin=begin,
        end=end,
        contribution=_round(reason.contribution),
        contrast=_round(reason.contrast),
    )


def _round(number: float) -> float | None:
    return None if math.isnan(number) else round(number, 4)
