"""Texts into ids, cut where they are longer than what is translated in one go."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from unicodedata import category

import numpy as np

from nmt.data.cleaning import JOINERS, clean_text
from nmt.data.paired import CODE, PairedTokenizer
from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError

# Marks after which a text is cut: sentences first, then clauses. Those of the first column count
# where white space follows (3.14 and 12:30 stay whole), those of the second everywhere.
_MARKS = (
    (".!?…", "。！？｡．؟۔।॥།።፧။។៕։"),
    (",;:)]»—–", "、，；：､،؛፣፤፥၊"),
)
_CLOSING = "\"'”’»)]」』）】》〉"  # may follow a mark, and belongs to it then
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
_WINDOW = 8  # characters per token among which a cut is looked for; tokens are seldom longer

# Languages that put no space between sentences: first subtags of BCP 47. In place of a language
# that is unknown, the characters of their scripts: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
_UNSPACED = frozenset("zh zho cmn yue wuu nan lzh ja jpn th tha lo lao km khm my mya".split())
_UNSPACED_CHARACTER = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff00-\uffef\U00020000-\U0003ffff]"
)
UNKNOWN_LANGUAGE = "und"


def clean_input(text: str) -> str:
    """Clean a text; what the shell could not decode comes as lone surrogates."""
    return clean_text(text.encode("utf-8", "replace").decode("utf-8"))


def join_texts(parts: Sequence[str], language: str = UNKNOWN_LANGUAGE) -> str:
    """Join the translations of the parts of a text as their language is written.

    Args:
        parts: translations; empty ones are left out.
        language: BCP 47 tag. If it is unknown, the characters around each joint decide whether a
            space belongs there.
    """
    joined = ""
    for part in filter(None, parts):
        joined += (" " if joined and _needs_space(joined[-1], part[0], language) else "") + part
    return joined


def _needs_space(left: str, right: str, language: str) -> bool:
    code = re.split("[-_]", language.lower())[0]
    if code == UNKNOWN_LANGUAGE:
        return not _UNSPACED_CHARACTER.match(left) and not _UNSPACED_CHARACTER.match(right)
    # Foreign words keep apart in every language.
    return code not in _UNSPACED or (left.isascii() and right.isascii())


class Cutter:
    """Cleans, encodes and cuts texts.

    Args:
        tokenizer: whose ids it gives.
        room: most tokens of a part, without end mark.
        tags: words of which one may begin a text, and then begins each of its parts. The language
            codes of a `PairedTokenizer` do so as well.
    """

    def __init__(self, tokenizer: Tokenizer, room: int, tags: Sequence[str] = ()) -> None:
        self.room = room
        self.tags = tuple(tags)
        self._tokenizer = tokenizer
        patterns = [rf"{re.escape(tag)}(?=\s)" for tag in tags]
        if isinstance(tokenizer, PairedTokenizer):
            patterns.append(CODE)
        self._tag = re.compile("|".join(patterns)) if patterns else None
        self._warned = False

    def cut(self, text: str) -> list[np.ndarray]:
        """Return the ids int32 [length] of the parts of a text; an empty text has none."""
        return self.cut_all([text])[0]

    def cut_all(self, texts: Sequence[str]) -> list[list[np.ndarray]]:
        """Return what `cut` returns for each text."""
        cleaned = [clean_input(text) for text in texts]
        return [
            self._cut(text, ids) if text else []
            for text, ids in zip(cleaned, self._tokenizer.encode(cleaned), strict=True)
        ]

    def _cut(self, text: str, ids: np.ndarray) -> list[np.ndarray]:
        if len(ids) <= self.room:
            return [ids]
        if not self._warned:
            warnings.warn(
                f"a text of {len(ids)} tokens is longer than the {self.room} that are translated "
                "in one go: such texts are translated in parts",
                stacklevel=8,
            )
            self._warned = True
        return list(self._parts(text))

    def whole(self, text: str) -> np.ndarray:
        """Return the ids int32 [S - 1] of a text that is translated in one go, without end mark.

        Raises:
            UserError: the text is empty, or would be cut in parts.
        """
        parts = self.cut(text)
        if not parts:
            raise UserError("the sentence is empty: there is nothing to translate")
        if len(parts) > 1:
            raise UserError(
                f"the sentence is longer than the {self.room} tokens that are translated in one "
                "go, and would be translated in parts: give the parts"
            )
        return parts[0]

    def _parts(self, text: str) -> Iterator[np.ndarray]:
        """Yield the ids of parts of at most `room` tokens, each with the tag of the text."""
        tag, begin = self._read_tag(text)
        room = self.room - len(tag)
        width = _WINDOW * room
        while begin < len(text):
            window = text[begin : begin + width]
            is_last = begin + width >= len(text)
            end = len(window)
            if not (is_last and self._fits(window, room)):
                end = self._longest_fit(window, room)
            ids = self._encode(window[:end])
            # Usually one: only a single character can have more tokens than there is room for.
            for first in range(0, len(ids), room):
                yield np.concatenate([tag, ids[first : first + room]])
            begin += end

    def _read_tag(self, text: str) -> tuple[np.ndarray, int]:
        """Return the ids of the tag that a text begins with, and the character behind it."""
        match = self._tag.match(text) if self._tag else None
        if match:
            ids = self._encode(match[0])
            if len(ids) < self.room:
                return ids, match.end()
        return np.zeros(0, np.int32), 0

    def _longest_fit(self, text: str, room: int) -> int:
        """Return where to cut a text, in characters: the last place of the best kind that fits."""
        for cut in _CUTS:
            ends = [match.end() for match in cut.finditer(text)]
            pieces = [text[begin:end].strip() for begin, end in pairwise([0, *ends])]
            sizes = np.cumsum([len(ids) for ids in self._tokenizer.encode(pieces)])
            # Together they hardly ever have more tokens than one by one.
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
    """Return the ends of all characters; marks and what a joiner joins belong to the one before."""
    return [
        end
        for end in range(1, len(text) + 1)
        if end == len(text)
        or not (
            category(text[end]).startswith("M") or text[end] in JOINERS or text[end - 1] in JOINERS
        )
    ]
