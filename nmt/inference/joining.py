"""Translations of the segments of a text, joined to translations of the text."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import mul
from typing import NamedTuple

import numpy as np

from nmt.inference.results import SEPARATORS, Translation
from nmt.text.scripts import needs_space

_COLUMNS = " " * 4  # between columns, at least
_NO_SPACE_AFTER = (">", "/", "|", "\\n", "\\r", "\\t", "....")
_CLOSING = re.compile(r"[»”)\]’]?")  # marks that end a sentence


def place_texts(
    texts: Sequence[str], language: str, spaces: Sequence[str]
) -> tuple[str, list[int]]:
    """Return one text, joined as its language is written, and where each text begins in it.

    Empty texts are left out; one begins where the text before it ends.

    Args:
        texts: translations of the segments of a text.
        language: BCP 47 tag. If it is unknown, the characters around each joint decide whether a
            space belongs there.
        spaces: white space of the source before each segment and after the last, with marks of
            lists and quotations. Line breaks are kept; spaces are kept where the language needs
            one.
    """
    joined, space = "", spaces[0]
    begins = []
    for text, following in zip(texts, spaces[1:], strict=True):
        if not text:
            both = space + following
            space = both if _breaks_line(both) or both.strip() else space or following
            begins.append(len(joined))
            continue
        if joined and not _breaks_line(space):
            if not needs_space(joined, text, language):
                if _COLUMNS not in space:
                    space = "".join(space.split())  # marks between sentences stay
            elif not any(map(str.isspace, space)) and _are_words(joined, text):
                space = _CLOSING.sub(r"\g<0> ", space, count=1)
        begins.append(len(joined) + len(space))
        joined += space + text
        space = following
    return joined + space, begins


def _breaks_line(space: str) -> bool:
    return any(end in space for end in SEPARATORS)


def _are_words(before: str, after: str) -> bool:
    """Whether sentences that touch in the source need a space: not beside a separator."""
    return after.lstrip("¿¡«“\"'([")[:1].isalnum() and not before.endswith(_NO_SPACE_AFTER)


class _Chosen(NamedTuple):
    """One translation for each of the first segments; linked, since a text may have thousands."""

    score: float  # sum over all
    last: Translation | None
    others: _Chosen | None  # those before the last

    def translations(self) -> Iterator[Translation]:
        """Yield them, the last first."""
        chosen: _Chosen | None = self
        while chosen is not None and chosen.last is not None:
            yield chosen.last
            chosen = chosen.others


class Joiner:
    """Joins translations of segments.

    The translation of a text without segments is empty.

    Args:
        language: BCP 47 tag of the translations.
    """

    def __init__(self, language: str) -> None:
        self.language = language

    def join_best(
        self, segments: Sequence[list[Translation]], count: int, spaces: Sequence[str]
    ) -> list[Translation]:
        """Return the ``count`` best ways to choose one translation per segment, best first.

        Args:
            segments: the hypotheses of each segment.
            count: translations of the text, at most.
            spaces: see `place_texts`.
        """
        best = [_Chosen(0.0, None, None)]
        for hypotheses in segments:
            longer = [
                _Chosen(chosen.score + hypothesis.score, hypothesis, chosen)
                for chosen in best
                for hypothesis in hypotheses
            ]
            best = heapq.nlargest(count, longer, key=lambda chosen: chosen.score)
        return [self._join(list(chosen.translations())[::-1], spaces) for chosen in best]

    def join_samples(
        self,
        segments: Sequence[list[Translation]],
        samples: int,
        seed: int,
        spaces: Sequence[str],
    ) -> list[Translation]:
        """Return samples of the text, the most probable first.

        The samples of each segment are shuffled first: engines sort them by probability, and
        joining them in that order would favour likely and unlikely samples meeting their own kind.

        Args:
            segments: the samples of each segment.
            samples: of each segment, and of the text.
            seed: seed of the shuffling.
            spaces: see `place_texts`.
        """
        if not segments:
            return [self._join([], spaces)] * samples
        if len(segments) == 1:
            return [self._join([sample], spaces) for sample in segments[0]]
        shuffled = [
            [row[i] for i in np.random.default_rng([seed, number]).permutation(len(row))]
            for number, row in enumerate(segments)
        ]
        joined = (self._join(chosen, spaces) for chosen in zip(*shuffled, strict=True))
        return sorted(joined, key=lambda translation: -translation.log_prob)

    def _join(self, segments: Sequence[Translation], spaces: Sequence[str]) -> Translation:
        texts = [segment.text for segment in segments]
        text, begins = place_texts(texts, self.language, spaces)
        words = tuple(
            replace(word, begin=word.begin + begin, end=word.end + begin)
            for segment, begin in zip(segments, begins, strict=True)
            for word in segment.words
        )
        if len(segments) == 1:
            return replace(segments[0], text=text, words=words)
        return Translation(
            text,
            log_prob=sum(segment.log_prob for segment in segments),
            score=sum(segment.score for segment in segments),
            tokens=tuple(token for segment in segments for token in segment.tokens),
            lost_spans=tuple(span for segment in segments for span in segment.lost_spans),
            confidence=join_confidence(segments),
            words=words,
            terms=tuple(use for segment in segments for use in segment.terms),
        )


def join_confidence(parts: Sequence[Translation]) -> float | None:
    """Return the mean confidence of parts, weighted by tokens; None: a part has no confidence."""
    confidences = [part.confidence for part in parts if part.confidence is not None]
    if not confidences or len(confidences) < len(parts):
        return None
    weights = [len(part.tokens) for part in parts]
    if not any(weights):  # all are copied
        return min(confidences)
    return sum(map(mul, weights, confidences)) / sum(weights)
