"""Texts to ids, in segments that the model can translate in one go."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from unicodedata import category

import numpy as np

from nmt.data.cleaning import JOINERS, clean_text
from nmt.data.paired import LANGUAGE_CODE, PairedTokenizer
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

# Marks after which a text is cut: ends of sentences first, then ends of clauses. Those of the first
# column count only before white space (3.14 and 12:30 are not cut), those of the second everywhere.
_MARKS = (
    (".!?…", "。！？｡．؟۔।॥།።፧။។៕։"),
    (",;:)]»—–", "、，；：､،؛፣፤፥၊"),
)
_CLOSING = "\"'”’»)]」』）】》〉"  # if one follows a mark, the cut comes after it
_CUTS = (
    *(
        re.compile(
            rf"(?:[{re.escape(spaced)}][{re.escape(_CLOSING)}]*(?=\s)"
            rf"|[{anywhere}]+[{re.escape(_CLOSING)}]*)\s*"
        )
        for spaced, anywhere in _MARKS
    ),
    re.compile(r"\s+"),
)
_WINDOW = 8  # characters per token in which a cut is searched; tokens are seldom longer


def clean_input(text: str) -> str:
    """Return a cleaned text; lone surrogates, which stand for undecodable bytes, are replaced."""
    return clean_text(text.encode("utf-8", "replace").decode("utf-8"))


class Segmenter:
    """Cleans, encodes and cuts texts.

    Args:
        tokenizer: encodes the texts.
        max_tokens: most tokens of a segment, without end mark.
        tags: words that may begin a text, such as ``<2en>``: repeated before every segment. The
            language codes of a `PairedTokenizer` are repeated as well.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, tags: Sequence[str] = ()) -> None:
        self.max_tokens = max_tokens
        self.tags = tuple(tags)
        self._tokenizer = tokenizer
        patterns = [rf"{re.escape(tag)}(?=\s)" for tag in tags]
        if isinstance(tokenizer, PairedTokenizer):
            patterns.append(LANGUAGE_CODE)
        self._tag = re.compile("|".join(patterns)) if patterns else None
        self._has_warned = False

    def segment(self, text: str) -> list[np.ndarray]:
        """Return the ids int32 [length] of the segments of a text: none for an empty text."""
        return self.segment_all([text])[0]

    def segment_all(self, texts: Sequence[str]) -> list[list[np.ndarray]]:
        """Return the segments of each text."""
        cleaned = [clean_input(text) for text in texts]
        return [
            self._cut(text, ids) if text else []
            for text, ids in zip(cleaned, self._tokenizer.encode(cleaned), strict=True)
        ]

    def encode_whole(self, text: str) -> np.ndarray:
        """Return the ids int32 [S - 1] of a text of one segment, without end mark.

        Raises:
            UserError: the text is empty or has several segments.
        """
        segments = self.segment(text)
        if not segments:
            raise UserError("the sentence is empty: give one with at least one word")
        if len(segments) > 1:
            raise UserError(
                f"the sentence is longer than the {self.max_tokens} tokens that are translated in "
                "one go: give its segments one by one"
            )
        return segments[0]

    def _cut(self, text: str, ids: np.ndarray) -> list[np.ndarray]:
        if len(ids) <= self.max_tokens:
            return [ids]
        if not self._has_warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {self.max_tokens} that are "
                "translated in one go: such texts are translated in segments",
                stacklevel=1,
            )
            self._has_warned = True
        return list(self._segments(text))

    def _segments(self, text: str) -> Iterator[np.ndarray]:
        """Yield the ids of segments of at most `max_tokens`, each with the tag of the text."""
        tag, begin = self._read_tag(text)
        room = self.max_tokens - len(tag)
        width = _WINDOW * room
        while begin < len(text):
            window = text[begin : begin + width]
            is_last = begin + width >= len(text)
            end = len(window)
            if not (is_last and self._fits(window, room)):
                end = self._longest_fit(window, room)
            ids = self._encode(window[:end])
            # Usually one segment: only a single character can have more tokens than fit.
            for first in range(0, len(ids), room):
                yield np.concatenate([tag, ids[first : first + room]])
            begin += end

    def _read_tag(self, text: str) -> tuple[np.ndarray, int]:
        """Return the ids of the tag that begins a text, and the index of the character after it."""
        match = self._tag.match(text) if self._tag else None
        if match:
            ids = self._encode(match[0])
            if len(ids) < self.max_tokens:
                return ids, match.end()
        return np.zeros(0, np.int32), 0

    def _longest_fit(self, text: str, room: int) -> int:
        """Return where to cut a text, in characters: the last fitting cut of the best kind."""
        for cut in _CUTS:
            ends = [match.end() for match in cut.finditer(text)]
            clauses = [text[begin:end].strip() for begin, end in pairwise([0, *ends])]
            sizes = np.cumsum([len(ids) for ids in self._tokenizer.encode(clauses)])
            # Encoded together they hardly ever have more tokens than encoded one by one.
            for end in reversed(ends[: np.searchsorted(sizes, room, side="right")]):
                if self._fits(text[:end], room):
                    return end
        ends = _character_ends(text)
        too_long = bisect_left(ends, True, key=lambda end: not self._fits(text[:end], room))
        return ends[max(too_long - 1, 0)]

    def _fits(self, text: str, room: int) -> bool:
        return len(self._encode(text)) <= room

    def _encode(self, text: str) -> np.ndarray:
        return self._tokenizer.encode([text.strip()])[0]


def _character_ends(text: str) -> list[int]:
    """Return the ends of all characters; marks and joined characters belong to the one before."""
    return [
        end
        for end in range(1, len(text) + 1)
        if end == len(text)
        or not (
            category(text[end]).startswith("M") or text[end] in JOINERS or text[end - 1] in JOINERS
        )
    ]
