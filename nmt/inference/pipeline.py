"""From texts to translations: cut into segments, search in batches, join."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmt.config import DecodingConfig
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.inference.batching import limit_batch, plan_batches
from nmt.inference.contract import (
    BeamOptions,
    Engine,
    Hypothesis,
    SamplingOptions,
    SamplingRequest,
    SearchRequest,
)
from nmt.inference.engines import Engines
from nmt.inference.joining import Joiner
from nmt.inference.markup_projection import project_brackets, project_tags
from nmt.inference.prefixes import Prefix
from nmt.inference.quality import StoredQuality, copy_with_words
from nmt.inference.repeating import search_without_loops
from nmt.inference.results import Translation, list_distinct
from nmt.inference.segment_writing import SegmentWriter
from nmt.inference.segmenting import Segmenter
from nmt.inference.segments import Segment, SegmentedText, copy_segment
from nmt.inference.term_constraints import TermConstraints
from nmt.inference.word_links import add_remarks, add_words, locate_sources
from nmt.text.cleaning import clean_input
from nmt.text.tags import Insertions

if TYPE_CHECKING:
    from nmt.inference.quality_model import QualityModel

Request = SearchRequest | SamplingRequest
Pending = Callable[[], list[list[Translation]]]  # waits for searches and returns their results

_SOFT_MARGIN = 1.0  # nats by which a soft term may lower the score of a sentence
_AHEAD = 1  # chunks of a stream that are searched while the one before is waited for


class _Plan(NamedTuple):
    engine: Engine
    segmenter: Segmenter
    options: BeamOptions | SamplingOptions
    prefix: str  # cleaned text that every translation begins with
    n_best: int  # translations of each segment
    quality: QualityModel | None = None  # None: no confidence
    finds_words: bool = False
    terms: TermConstraints | None = None  # None: no glossary

    def copy(self, segment: Segment, language: str) -> Translation:
        """Return the translation of a segment that is copied, with the marks of a language."""
        if self.finds_words or segment.needs_words:
            confidence = None if self.quality is None else 1.0
            translation = copy_with_words(segment, language, confidence)
        else:
            translation = copy_segment(segment, language)
        if self.terms is not None:
            [translation] = self.terms.report(segment, [translation])
        return add_remarks(segment, translation)


class Pipeline:
    """Translates texts with whichever engine supports the request.

    Args:
        engines: engines over the same weights.
        tokenizer: tokenizer of their ids.
        segmenter: cuts texts.
        joiner: joins the translations of segments.
        decoding: defaults of requests, limits of outputs, and the batch size.
        quality: of the run, for requests with `SearchRequest.quality`.
    """

    def __init__(
        self,
        engines: Engines,
        tokenizer: Tokenizer,
        segmenter: Segmenter,
        joiner: Joiner,
        decoding: DecodingConfig,
        quality: StoredQuality,
    ) -> None:
        self._engines = engines
        self._tokenizer = tokenizer
        self._segmenter = segmenter
        self._joiner = joiner
        self._decoding = decoding
        self._writer = SegmentWriter(tokenizer)
        self._quality = quality

    def stream(
        self, chunks: Iterable[Sequence[str]], request: Request
    ) -> Generator[list[list[Translation]]]:
        """Yield the translations of each chunk of texts: see `Translator.stream`."""
        plan = self._plan(request)
        started: deque[Pending] = deque()
        pool = ThreadPoolExecutor(plan.engine.workers)
        try:
            # An empty chunk, such as the one added at the end, waits for all that were started.
            for texts in chain(chunks, [[]]):
                if len(texts):
                    started.append(self._start(texts, request, plan, pool))
                while len(started) > (_AHEAD if len(texts) else 0):
                    yield started.popleft()()
        finally:
            pool.shutdown(cancel_futures=True)

    def search_segments(
        self, segments: Sequence[Segment], request: Request
    ) -> list[list[Translation]]:
        """Return translations of each segment, best first.

        With `Segmenter.segment` before and `join` after it, these make the translations of texts.
        The translation of a segment begins with its prefix, not with that of the request.
        """
        plan = self._plan(request)
        with ThreadPoolExecutor(plan.engine.workers) as pool:
            return self._start_segments(segments, plan, pool)()

    def translate_remarks(self, segment: Segment) -> Segment:
        """Return a segment with the best translations of its remarks."""
        if not segment.remarks:
            return segment
        plan = self._plan(SearchRequest())
        with ThreadPoolExecutor(plan.engine.workers) as pool:
            return self._translate_remarks([segment], plan, pool)[0]

    def join(
        self, text: SegmentedText, segments: list[list[Translation]], request: Request
    ) -> list[tuple[Translation, Insertions]]:
        """Return translations of a text, given those of its segments, and where each has its tags.

        Their words refer to the characters of the text.
        """
        if any(translation.words for row in segments for translation in row):
            segments = locate_sources(text, segments)
        if isinstance(request, SearchRequest):
            translations = self._joiner.join_best(segments, request.n_best, text.spaces)
        else:
            translations = self._joiner.join_samples(
                segments, request.samples, request.seed, text.spaces
            )
            if request.rank_by_agreement:
                translations = _rank_by_agreement(translations)
        return [project_tags(text.source, translation) for translation in translations]

    def encode_prefix(self, prefix: str) -> np.ndarray:
        """Return the ids int32 [P] that an output with this prefix begins with.

        Raises:
            UserError: the prefix is too long.
        """
        cleaned = clean_input(prefix)
        ids = self._tokenizer.target.encode([cleaned])[0] if cleaned else np.zeros(0, np.int32)
        max_tokens = self._engines.preferred.max_length - 1
        if len(ids) > max_tokens:
            raise UserError(f"the prefix must have at most {max_tokens} tokens, got {len(ids)}")
        return ids

    def begin_with(self, segment: Segment, prefix: str) -> Segment:
        """Return a segment whose translation begins with a prefix.

        Args:
            segment: the segment.
            prefix: text as translations are written; white space at its end says that its last word
                is complete.

        Raises:
            UserError: it is as long as the longest translation of the segment.
        """
        prefixed = segment.begin_with(clean_input(prefix), ends_word=prefix[-1:].isspace())
        self._check_prefix(prefixed)
        return prefixed

    def _check_prefix(self, segment: Segment) -> None:
        """Check the length of a prefix, and of what a remark in which it ends begins with."""
        tokens = len(self.encode_prefix(segment.prefix.text))
        max_tokens = self.output_limit(len(segment.sentence_ids), 0) - 2  # another token, EOS
        if tokens > max_tokens:
            raise UserError(
                f"a prefix must have at most {max_tokens} tokens, fewer than the longest "
                f"translation of its sentence, got {tokens}"
            )
        if segment.begun_remark is not None:
            self._check_prefix(segment.begun_remark.text.segments[0])

    def output_limit(self, source_tokens: int, prefix_tokens: int) -> int:
        """Return how many tokens an output may have, EOS included."""
        ratio, margin = self._decoding.max_length_ratio, self._decoding.max_length_margin
        limit = max(int(source_tokens * ratio) + margin, prefix_tokens + margin)
        return min(limit, self._engines.preferred.max_length)

    def _plan(self, request: Request) -> _Plan:
        if not isinstance(request.prefix, str):
            raise UserError(f"prefix must be a string, got {request.prefix!r}")
        prefix = clean_input(request.prefix)
        self.encode_prefix(prefix)  # fails early if it is too long
        options = request.resolve(self._decoding, self._tokenizer.vocabulary_size)
        engine, segmenter = self._engines.supporting(options), self._segmenter
        n_best, quality, finds_words, terms = options.n_best, None, False, None
        if isinstance(options, BeamOptions) and isinstance(request, SearchRequest):
            quality = self._quality.model if request.quality else None
            finds_words = request.words or quality is not None
            if quality is not None:  # confidence depends on how far the hypotheses of a beam agree
                options = options._replace(n_best=options.beam_size)
            segmenter = segmenter.with_glossary(request.glossary)
            if request.glossary is not None:
                terms = TermConstraints(
                    request.glossary,
                    engine,
                    self._tokenizer,
                    options,
                    self.output_limit,
                    margin=math.inf if request.forces_terms else _SOFT_MARGIN,
                )
        return _Plan(engine, segmenter, options, prefix, n_best, quality, finds_words, terms)

    def _start(
        self, texts: Sequence[str], request: Request, plan: _Plan, pool: Executor
    ) -> Pending:
        """Cut texts and start to search their segments."""
        segmented_texts = plan.segmenter.segment_all(texts)
        segments: list[Segment] = []
        for text in segmented_texts:
            first = len(segments)
            segments += text.segments
            # Only the first segment of a text that is searched begins with the prefix.
            searched = [i for i in range(first, len(segments)) if not segments[i].is_copied]
            if plan.prefix and searched:
                segments[searched[0]] = segments[searched[0]].begin_with(plan.prefix)
        pending = self._start_segments(segments, plan, pool)

        def wait() -> list[list[Translation]]:
            translations = iter(pending())
            assembled = []
            for text in segmented_texts:
                hypotheses = [next(translations) for _ in text.segments]
                joined = [translation for translation, _ in self.join(text, hypotheses, request)]
                if not plan.finds_words:  # tags and brackets needed them
                    joined = [replace(translation, words=()) for translation in joined]
                assembled.append(joined)
            return assembled

        return wait

    def _translate_remarks(
        self, segments: Sequence[Segment], plan: _Plan, pool: Executor
    ) -> list[Segment]:
        """Return segments with the best translations of their remarks; wait for their search."""
        untranslated = [
            (remark.text, segment.aligns_tags)
            for segment in segments
            for remark in segment.remarks
            if remark.translation is None
        ]
        if not untranslated:
            return list(segments)
        parts = [
            replace(part, aligns_tags=True) if aligns_tags else part
            for text, aligns_tags in untranslated
            for part in text.segments
        ]
        hypotheses = iter(self._start_segments(parts, plan, pool)())
        rows = ((text, [next(hypotheses) for _ in text.segments]) for text, _ in untranslated)
        best = (self.join(text, row, SearchRequest(n_best=1))[0][0] for text, row in rows)
        return [segment.with_remarks(best) for segment in segments]

    def _start_segments(self, segments: Sequence[Segment], plan: _Plan, pool: Executor) -> Pending:
        """Start to search, in batches of similar length; copied segments cost no search."""
        segments = self._translate_remarks(segments, plan, pool)
        options = plan.options
        copies = options.samples if isinstance(options, SamplingOptions) else 1
        batch_size = limit_batch(
            self._decoding.batch_size, hypotheses=options.static_options.hypotheses
        )
        translations: list[list[Translation]] = [
            [plan.copy(segment, self._joiner.language)] * copies if segment.is_copied else []
            for segment in segments
        ]

        def search(indices: list[int]) -> None:
            results = self._search_batch([segments[i] for i in indices], plan)
            for i, hypotheses in zip(indices, results, strict=True):
                translations[i] = hypotheses

        by_prefix: dict[tuple[str, bool], list[int]] = {}  # batches have the same prefix
        for i, segment in enumerate(segments):
            if not segment.is_copied:
                prefix = segment.prefix
                by_prefix.setdefault((prefix.text, prefix.ends_word), []).append(i)
        jobs = [
            pool.submit(search, [indices[i] for i in batch])
            for indices in by_prefix.values()
            for batch in plan_batches(
                [len(segments[i].ids) for i in indices], batch_size, plan.engine.workers
            )
        ]

        def wait() -> list[list[Translation]]:
            for job in jobs:
                job.result()
            return translations

        return wait

    def _search_batch(self, batch: Sequence[Segment], plan: _Plan) -> list[list[Translation]]:
        """Return translations of each segment of a batch, which have the same prefix."""
        prefix, options = batch[0].prefix, plan.options
        prefix_ids = self.encode_prefix(prefix.text)
        if prefix.ends_word and isinstance(options, BeamOptions):
            options = options._replace(n_best=options.beam_size)  # for `_keep_intact`
        sources = [segment.ids for segment in batch]
        limits = [
            self.output_limit(len(segment.sentence_ids), len(prefix_ids)) for segment in batch
        ]
        outputs = search_without_loops(
            plan.engine, sources, np.array(limits, np.int32), options, prefix_ids
        )
        if prefix.ends_word and isinstance(options, BeamOptions):
            outputs = [self._keep_intact(prefix, hypotheses) for hypotheses in outputs]
        if plan.terms is not None:
            outputs = plan.terms.enforce(batch, outputs, prefix.text)
            batch = [replace(segment, glossary=plan.terms.glossary) for segment in batch]
        best = [hypotheses[: plan.n_best] for hypotheses in outputs]
        translations = self._writer.write(plan.engine, batch, best)
        if plan.quality is not None:
            translations = plan.quality.estimate(
                plan.engine, self._tokenizer, batch, outputs, translations
            )
        else:
            aligned = [i for i, each in enumerate(batch) if plan.finds_words or each.needs_words]
            chosen = [batch[i] for i in aligned], [translations[i] for i in aligned]
            with_words = add_words(plan.engine, self._tokenizer, *chosen)
            for i, alternatives in zip(aligned, with_words, strict=True):
                translations[i] = alternatives
        if plan.terms is not None:
            translations = list(map(plan.terms.report, batch, translations))
        return [
            [add_remarks(segment, project_brackets(segment, each)) for each in alternatives]
            for segment, alternatives in zip(batch, translations, strict=True)
        ]

    def _keep_intact(self, prefix: Prefix, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses that leave the last word of the prefix as it is; else all."""
        texts = self._tokenizer.target.decode([each.tokens for each in hypotheses])
        pairs = zip(hypotheses, texts, strict=True)
        return [each for each, text in pairs if prefix.is_intact(text)] or hypotheses


def _rank_by_agreement(samples: list[Translation]) -> list[Translation]:
    """Rank samples by their mean chrF against all of them: see `Translator.minimum_bayes_risk`."""
    from nmt.inference.metrics import expected_chrf  # loads sacreBLEU

    distinct = list_distinct(samples)
    scores = expected_chrf(
        [sample.text for sample in distinct], [sample.text for sample in samples]
    )
    ranked = [replace(sample, score=score) for sample, score in zip(distinct, scores, strict=True)]
    return sorted(ranked, key=lambda sample: -sample.score)
