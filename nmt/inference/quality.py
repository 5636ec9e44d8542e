"""The confidence of a run, if requested, and the source characters of translated words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.inference.alignment import match_characters, move_spans
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment, SegmentedText, copy_segment
from nmt.text.words import find_words

if TYPE_CHECKING:
    from nmt.inference.quality_model import QualityModel

QUALITY_FILE = "quality.json"  # in a run folder
_TAG = 40  # characters that a text may have before a segment


class StoredQuality:
    """The confidence of a run, which is read when it is first requested.

    Args:
        folder: of the run; None: no confidence.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @cached_property
    def model(self) -> QualityModel | None:
        """The model; None, with a warning, if the file is missing.

        Raises:
            UserError: as `QualityModel.load`.
        """
        from nmt.inference.quality_model import QualityModel

        model = QualityModel.load(self._folder) if self._folder else None
        if model is None:
            run = f"--run {self._folder}" if self._folder else "--run RUN"
            warnings.warn(
                f"confidence is unknown, as there is no {QUALITY_FILE}: create it with "
                f"python -m nmt.inspect quality {run}",
                stacklevel=1,
            )
        return model


def copy_with_words(segment: Segment, confidence: float | None = 1.0) -> Translation:
    """Return the translation of a segment that is copied, with its words: see `copy_segment`."""
    words = (Word(*span, confidence, (span,)) for span in find_words(segment.full_text))
    return replace(copy_segment(segment), confidence=confidence, words=tuple(words))


def locate_sources(
    text: SegmentedText, translations: Sequence[Sequence[Translation]]
) -> list[list[Translation]]:
    """Return translations whose words refer to the characters of a text without its tags.

    If some have no words, since the engine cannot align, none has.

    Args:
        text: a source text.
        translations: of each segment; their words refer to the characters of `Segment.full_text`.
    """
    if any(each.text.strip() and not each.words for row in translations for each in row):
        return [[replace(each, words=()) for each in row] for row in translations]
    source_words = find_words(text.source.text)
    return [
        [
            replace(
                translation,
                words=tuple(
                    replace(word, sources=move_spans(word.sources, matched, source_words))
                    for word in translation.words
                ),
            )
            for translation in hypotheses
        ]
        for hypotheses, matched in zip(translations, match_segments(text), strict=True)
    ]


def match_segments(text: SegmentedText) -> list[list[int]]:
    """Return for every character of `Segment.full_text` of each segment its index, or -1.

    Indices are those of the text without its context and its tags.
    """
    source = text.source.text
    matches = []
    begin = 0
    for segment in text.segments:
        matches.append(_match_segment(segment, source, begin))
        begin = max([begin, *(at + 1 for at in matches[-1])])
    return matches


def _match_segment(segment: Segment, text: str, begin: int) -> list[int]:
    """Return for every character of a segment its index in the text, or -1: `match_characters`."""
    full_text = segment.full_text
    written = chain(full_text, *chain.from_iterable(segment.brackets.tags))
    count = sum(not sign.isspace() for sign in written)
    end = begin
    while end < len(text) and count:
        count -= not text[end].isspace()
        end += 1
    matched = match_characters(full_text, text[begin:end])
    if any(at < 0 < len(sign.strip()) for at, sign in zip(matched, full_text, strict=True)):
        # A tag that begins the text is not a part of the segment, or cleaning removed characters.
        matched = match_characters(full_text, text[begin : end + _TAG])
    return [at + begin if at >= 0 else -1 for at in matched]
