"""Positions of a translation for slots and commas of its source, by the alignment of tokens."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.tokenizer import Tokenizer
from nmt.inference.contract import Hypothesis
from nmt.text.final_marks import find_commas
from nmt.text.spans import SLOTS
from nmt.text.words import find_words

if TYPE_CHECKING:
    from nmt.inference.segments import Segment


class Placer:
    """Finds where slots and commas of a source belong in a translation, by aligned tokens.

    Args:
        tokenizer: of their ids.
        segment: the source.
        hypothesis: the output of its search.
        weights: float32 [T, S], of `Engine.align`.
    """

    def __init__(
        self, tokenizer: Tokenizer, segment: Segment, hypothesis: Hypothesis, weights: np.ndarray
    ) -> None:
        self._tokenizer = tokenizer
        self._segment = segment
        self._tokens = hypothesis.tokens
        self._rows = weights[:-1]  # without EOS
        first = segment.context_size
        self._pieces = dict(enumerate(tokenizer.pieces(segment.ids)[first:], first))

    def place_slot(self, text: str, number: int) -> int:
        """Return where to insert a slot: after the target word of the source word before it.

        At the beginning, and if no space separates them, as after an opening tag: before the
        target word of the source word after it.
        """
        slot = SLOTS[number]
        column = next(i for i, piece in self._pieces.items() if slot in piece)
        after = self._segment.text.partition(slot)[2][:1]
        return self._place(text, column, is_before=after.isalnum())

    def place_comma(self, text: str, number: int) -> int:
        """Return where a translation has a comma of its normalized source, or would have it.

        Args:
            text: the translation.
            number: of the comma.
        """
        normalized = self._segment.normalized_text
        at = find_commas(normalized)[number]
        spans = self._tokenizer.spans(normalized)
        begins = [begin for begin, _ in spans]
        column = len(self._segment.ids) - len(spans) + bisect_right(begins, at) - 1
        return self._place(text, column, is_before=False)

    def _place(self, text: str, column: int, *, is_before: bool) -> int:
        """Return where the target word of the source word beside a token ends, or begins."""
        words = [i for i, piece in self._pieces.items() if piece.strip("▁")]
        neighbor = max((i for i in words if i < column), default=-1)
        is_before = is_before or neighbor < 0
        if is_before:
            neighbor = min((i for i in words if i > column), default=-1)
        if neighbor < 0:
            return len(text)
        known = [slot for slot in SLOTS if slot in self._pieces[neighbor] and slot in text]
        if known:
            return text.index(known[0]) + (not is_before)
        if not len(self._rows):
            return len(text)
        row = int(self._rows[:, neighbor].argmax())
        [before] = self._tokenizer.decode([self._tokens[: row + (not is_before)]])
        return _find_edge(text, _find_end(text, _count_characters(before)), is_before=is_before)


def _find_edge(text: str, at: int, *, is_before: bool) -> int:
    """Return where the word at an index, such as don't, begins or ends."""
    if is_before:
        while at < len(text) and text[at].isspace():
            at += 1
    return next(
        (begin if is_before else end for begin, end in find_words(text) if begin < at < end), at
    )


def _count_characters(text: str) -> int:
    """Return the number of characters, white space and slots left out."""
    return sum(not character.isspace() and character not in SLOTS for character in text)


def _find_end(text: str, count: int) -> int:
    """Return the index after ``count`` characters, white space and slots left out."""
    at = 0
    while at < len(text) and count:
        count -= _count_characters(text[at])
        at += 1
    return at
