"""Translation in segments: the sentences into which texts are cut before they are searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nmt.errors import UserError
from nmt.inference.contract import SearchRequest
from nmt.inference.quality import QUALITY_FILE, locate_sources
from nmt.inference.results import Translation
from nmt.inference.segments import Segment, SegmentedText
from nmt.inference.translator import Translator
from nmt.text.terms import Glossary

_NO_QUALITY = f"the run has no {QUALITY_FILE}: make it by python -m nmt.inspect quality"
_WARM_UP = "a"  # any text compiles the search; a short one does it fast


class SegmentTranslator:
    """The steps of `Translator.hypotheses`, for a caller who batches segments of many texts.

    All methods may be called on any thread, but `hypotheses` and `attention` each on one thread
    at a time, which may be two different ones.

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
        self._segmenter = translator.segmenter
        self._keras_engine = translator.keras_engine
        self._quality = translator.quality
        self._search = translator.pipeline.search_segments
        self._join_best = translator.joiner.join_best

    def segment(self, text: str, glossary: Glossary | None = None) -> SegmentedText:
        """Return the segments of a text: see `nmt.inference.segmenting.Segmenter`."""
        segmenter = self._segmenter if glossary is None else self._segmenter.with_glossary(glossary)
        return segmenter.segment(text)

    def hypotheses(self, segments: Sequence[Segment], **options: Any) -> list[list[Translation]]:
        """Return translations of each segment, best first; ``options`` of `SearchRequest`."""
        return self._search(segments, SearchRequest(**options))

    def load_attention(self) -> None:
        """Load and compile what `attention` needs, so that its first call is fast.

        Raises:
            UserError: the engine has no attention.
        """
        self._keras_engine("attention")
        self.attention(_WARM_UP)

    def explain_missing_quality(self) -> str:
        """Return why translations have no confidence; empty if they can have it."""
        try:
            has_quality = self._quality.model is not None
        except UserError as error:
            return str(error)
        return "" if has_quality else _NO_QUALITY

    def join(
        self, source: str, text: SegmentedText, hypotheses: list[list[Translation]], n_best: int
    ) -> list[Translation]:
        """Return up to ``n_best`` translations of a text, given those of its segments.

        Their words refer to the characters of the source.
        """
        if any(translation.words for row in hypotheses for translation in row):
            hypotheses = locate_sources(source, text.segments, hypotheses)
        return self._join_best(hypotheses, n_best, text.spaces)
