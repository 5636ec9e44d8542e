"""The confidence of a run, if requested, and that of copied segments."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.inference.alignment import expand_slots
from nmt.inference.results import Translation, Word
from nmt.inference.segments import Segment, copy_segment, copy_signs
from nmt.text.scripts import UNKNOWN_LANGUAGE
from nmt.text.words import find_words

if TYPE_CHECKING:
    from nmt.inference.quality_model import QualityModel

QUALITY_FILE = "quality.json"  # in a run folder


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


def copy_with_words(
    segment: Segment, language: str = UNKNOWN_LANGUAGE, confidence: float | None = 1.0
) -> Translation:
    """Return the translation of a segment that is copied, with its words: see `copy_segment`."""
    ends = list(accumulate(map(len, copy_signs(segment, language)), initial=0))
    _, origins = expand_slots(segment.text, segment.spans)
    words = []
    for begin, end in find_words(segment.text):
        if ends[begin] < ends[end]:
            source = bisect_left(origins, begin), bisect_left(origins, end)
            words.append(Word(ends[begin], ends[end], confidence, (source,)))
    copied = copy_segment(segment, language)
    return replace(copied, confidence=confidence, words=tuple(words))
