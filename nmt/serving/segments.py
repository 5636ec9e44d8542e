"""Translation in segments: the sentences into which texts are cut before they are searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nmt.errors import UserError
from nmt.inference.alignment import move_spans
from nmt.inference.alternatives import Alternative, find_alternatives
from nmt.inference.contract import SearchRequest
from nmt.inference.joining import place_texts
from nmt.inference.quality import QUALITY_FILE
from nmt.inference.results import Translation, list_distinct
from nmt.inference.segments import Segment, SegmentedText, enter_remark
from nmt.inference.translator import Translator
from nmt.inference.word_links import match_segments
from nmt.text.tags import Insertions
from nmt.text.terms import Glossary
from nmt.text.words import find_words

if TYPE_CHECKING:  # imports Keras
    from nmt.analysis.explaining.choice import ChoiceExplainer, ChoiceExplanation

_LATER_REMARK = Translation("(…)", log_prob=0.0, score=0.0, tokens=())  # not translated yet
_NO_QUALITY = f"the run has no {QUALITY_FILE}: create it with python -m nmt.inspect quality"


class SentenceSpan(NamedTuple):
    """A sentence of a translation."""

    begin: int  # characters [begin, end) of the translation
    end: int
    source: str  # the sentence that was translated: `Segment.full_text`


class JoinedText(NamedTuple):
    """The translations of a text."""

    translations: list[Translation]  # best first
    sentences: list[SentenceSpan]  # of the best one; empty if they are not requested


class SegmentTranslator:
    """The steps of `Translator.hypotheses`, for a caller who batches segments of many texts.

    All methods may be called on any thread, but `hypotheses` on one thread at a time, and
    `attention` and `explain` on one, which may be another one.

    Args:
        translator: performs the steps.
        glossaries: that requests may choose, by name.
    """

    def __init__(
        self,
        translator: Translator,
        glossaries: Mapping[str, Glossary] = MappingProxyType({}),
    ) -> None:
        self.glossaries = glossaries
        self.decoding = translator.decoding
        self.has_attention = translator.engines.has_keras
        self.attention = translator.attention
        self.begin_document = translator.begin_document
        # A short sentence that is searched, not copied, whatever the languages of the run.
        self.test_segment = Segment(translator.tokenizer.encode(["a"])[0], "a")
        self._translator = translator
        self._pipeline = translator.pipeline
        self._explainer: ChoiceExplainer | None = None

    def segment(
        self,
        text: str,
        glossary: Glossary | None = None,
        prefixes: Mapping[str, str] = MappingProxyType({}),
    ) -> SegmentedText:
        """Return the segments of a text: see `nmt.inference.segmenting.Segmenter`.

        Args:
            text: the text.
            glossary: its terms are not corrected; None: no glossary.
            prefixes: what translations begin with, by sentence (`Segment.full_text`): see
                `Pipeline.begin_with`. Other sentences than those of the text are ignored.

        Raises:
            UserError: a prefix is too long.
        """
        segmented = self._translator.segmenter.with_glossary(glossary).segment(text)
        if not prefixes:
            return segmented
        prefixed = (
            self._pipeline.begin_with(segment, prefixes[segment.full_text])
            if segment.full_text in prefixes
            else segment
            for segment in segmented.segments
        )
        return segmented._replace(segments=tuple(prefixed))

    def count_prefix(self, segment: Segment) -> int:
        """Return how many tokens the translation of a segment begins with."""
        return len(self._pipeline.encode_prefix(segment.prefix.text))

    def hypotheses(
        self, segments: Sequence[Segment], request: SearchRequest
    ) -> list[list[Translation]]:
        """Return translations of each segment, best first."""
        return self._pipeline.search_segments(segments, request)

    def alternatives(self, segments: Sequence[Segment], count: int) -> list[list[Alternative]]:
        """Return the most probable next words after the prefix of each segment, best first."""
        translator = self._translator
        entered = list(map(enter_remark, segments))
        parts = [self._pipeline.translate_remarks(part) for _, part in entered]
        found = find_alternatives(translator.engine, translator.tokenizer, parts, count)
        return [
            [word._replace(prefix=before + word.prefix) for word in words]
            for (before, _), words in zip(entered, found, strict=True)
        ]

    def load_attention(self) -> None:
        """Load and compile what `attention` needs, so that its first call is fast.

        Raises:
            UserError: the engine has no attention.
        """
        ids = [self.test_segment.ids]
        self._translator.keras_engine("attention").attention(ids, ids)

    def explain(
        self, text: SegmentedText, number: int, prefix: str, words: Sequence[str]
    ) -> tuple[ChoiceExplanation, str]:
        """Return why the translation of a segment has a word after its beginning.

        Args:
            text: the text.
            number: of the segment.
            prefix: the translation of the segment up to the word.
            words: the word, and the one that it is compared with, if any.

        Returns:
            The explanation, whose source words refer to the characters of the text, and why it has
            no contributions; empty: it has.

        Raises:
            UserError: the engine has no Keras model, a prefix is too long, or the words are equal.
        """
        from nmt.analysis.explaining.choice import ChoiceExplainer

        if self._explainer is None:
            translator = self._translator
            model = translator.keras_engine("an explanation").model
            tags = translator.segmenter.tags
            self._explainer = ChoiceExplainer(model, translator.tokenizer, tags)
        beginnings = [prefix, *(f"{prefix}{word}" for word in words)]
        segment = text.segments[number]
        begun = [self._pipeline.begin_with(segment, beginning) for beginning in beginnings]
        if any(each.begun_remark for each in begun):
            raise UserError("words of a remark in brackets have no explanation")
        begun = [each.with_remarks(repeat(_LATER_REMARK)) for each in begun]
        explanation = self._explainer.explain(*begun)
        matched, source_words = match_segments(text)[number], find_words(text.source.text)
        source = []
        for reason in explanation.source:
            spans = move_spans([reason.span], matched, source_words) if reason.span else ()
            moved = [text.source.insertions.move(*span) for span in spans]
            source.append(reason._replace(span=moved[0] if moved else None))
        return explanation._replace(source=tuple(source)), self._explainer.reason

    def explain_missing_quality(self) -> str:
        """Return why translations have no confidence; empty if they can have it."""
        try:
            has_quality = self._translator.quality.model is not None
        except UserError as error:
            return str(error)
        return "" if has_quality else _NO_QUALITY

    def join_all(
        self,
        segmented: Sequence[SegmentedText],
        hypotheses: Sequence[list[Translation]],
        n_best: int,
        with_sentences: bool,
    ) -> list[JoinedText]:
        """Return the translations of each text.

        Args:
            segmented: the segments of each.
            hypotheses: translations of all segments, in order.
            n_best: translations of each text.
            with_sentences: see `join`.
        """
        rows = iter(hypotheses)
        joined = []
        for text in segmented:
            rows_of_text = [next(rows) for _ in text.segments]
            joined.append(self.join(text, rows_of_text, n_best, with_sentences=with_sentences))
        return joined

    def join(
        self,
        text: SegmentedText,
        hypotheses: list[list[Translation]],
        n_best: int,
        *,
        with_sentences: bool = False,
    ) -> JoinedText:
        """Return up to ``n_best`` different translations of a text, given those of its segments.

        Their words refer to the characters of the source.

        Args:
            text: the text.
            hypotheses: translations of its segments.
            n_best: translations of the text.
            with_sentences: whether to locate the sentences of the best one.
        """
        joined = self._pipeline.join(text, hypotheses, SearchRequest(n_best=n_best))
        translations = list_distinct(translation for translation, _ in joined)
        if not with_sentences:
            return JoinedText(translations, [])
        best = [max(row, key=lambda each: each.score).text for row in hypotheses]
        language = self._translator.joiner.language
        joined_best, begins = place_texts(best, language, text.spaces)
        first, tags = joined[0]
        assert tags.insert(joined_best) == first.text, "`Joiner.join_best` chooses the same"
        sentences = locate_sentences(text, best, begins, tags)
        return JoinedText(translations, sentences)


def locate_sentences(
    text: SegmentedText, translations: Sequence[str], begins: Sequence[int], tags: Insertions
) -> list[SentenceSpan]:
    """Return where the translation of each segment stands in that of the text with its tags.

    Args:
        text: the source.
        translations: of its segments.
        begins: where they begin in the translation without tags.
        tags: those of the text.
    """
    return [
        SentenceSpan(*tags.move(begin, begin + len(translation)), segment.full_text)
        for segment, translation, begin in zip(text.segments, translations, begins, strict=True)
    ]
