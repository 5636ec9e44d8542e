"""Segments of texts in two languages, each read by the rules of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any, Self

from nmt.data.tokenizer import Tokenizer
from nmt.inference.segmenting import Segmenter
from nmt.inference.segments import SegmentedText
from nmt.text.context import split_context
from nmt.text.terms import Glossary


def make_segmenter(
    tokenizer: Tokenizer,
    max_tokens: int,
    tags: Sequence[str] = (),
    reverse_tags: Sequence[str] = (),
    **options: Any,
) -> Segmenter:
    """Return a segmenter, which tells two languages apart if there are tags of the second one.

    Args:
        tokenizer: see `Segmenter`.
        max_tokens: see `Segmenter`.
        tags: see `Segmenter`.
        reverse_tags: those of texts in the target language.
        options: other arguments of `Segmenter`.
    """
    if not reverse_tags:
        return Segmenter(tokenizer, max_tokens, tags, **options)
    return TwoWaySegmenter(tokenizer, max_tokens, tags, reverse_tags, **options)


class TwoWaySegmenter(Segmenter):
    """Cuts and encodes the texts of a model that translates in both directions.

    Args:
        tokenizer: see `Segmenter`.
        max_tokens: see `Segmenter`.
        tags: see `Segmenter`.
        reverse_tags: those of texts in the target language.
        language: BCP 47 tag of the other texts.
        target_language: the same, of their translations.
        options: other arguments of `Segmenter`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        tags: Sequence[str],
        reverse_tags: Sequence[str],
        *,
        language: str,
        target_language: str,
        **options: Any,
    ) -> None:
        super().__init__(
            tokenizer,
            max_tokens,
            tags,
            language=language,
            target_language=target_language,
            **options,
        )
        self._reverse_tags = frozenset(reverse_tags)
        self._reverse = Segmenter(
            tokenizer,
            max_tokens,
            tags,
            language=target_language,
            target_language=language,
            **options,
        )

    def with_glossary(self, glossary: Glossary | None) -> Self:
        """Return a segmenter with a glossary: see `Segmenter.with_glossary`.

        In the other direction, only terms that are not translated count.
        """
        segmenter = super().with_glossary(glossary)
        if glossary is not None:
            kept = [term for term in glossary.terms if term.is_kept]
            languages = self._reverse.language, self.language
            segmenter._reverse = self._reverse.with_glossary(Glossary(kept, languages))
        return segmenter

    def segment_all(self, texts: Sequence[str]) -> list[SegmentedText]:
        """Return the segments of each text."""
        are_reverse = list(map(self._is_reverse, texts))
        forward = iter(super().segment_all(list(compress(texts, map(not_, are_reverse)))))
        reverse = iter(self._reverse.segment_all(list(compress(texts, are_reverse))))
        return [next(reverse if is_reverse else forward) for is_reverse in are_reverse]

    def _is_reverse(self, text: str) -> bool:
        """Whether a text begins with the tag of the other direction, before or after a context."""
        texts = [text, split_context(text)[1]] if self.context else [text]
        tag = next(filter(None, (self.split_tag(each)[0] for each in texts)), "")
        return tag.strip() in self._reverse_tags
