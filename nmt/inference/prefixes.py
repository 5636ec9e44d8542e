"""The beginnings of translations: as users write them, and as a model does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.inference.contract import FREE
from nmt.text.case import LetterCase, to_sentence_case
from nmt.text.spans import SLOTS
from nmt.text.words import find_words

_WORD_END = re.compile(r"\w\b")


class Prefix(NamedTuple):
    """What the translation of a segment begins with."""

    full_text: str = ""  # as users see it, but for slots in place of remarks
    text: str = ""  # as the model writes it: slots in place of kept spans, ordinary letter case
    ends_word: bool = False  # whether its last word is complete

    def find_end(self, text: str) -> int:
        """Return where the prefix ends in a decoded output; 0 if it does not begin with it."""
        return len(self.text) if text.startswith(self.text) else 0

    def is_intact(self, text: str) -> bool:
        """Whether a decoded output leaves the last word of the prefix as it is."""
        is_checked = self.ends_word and text.startswith(self.text)
        return not (is_checked and crosses_word(text, len(self.text)))


NO_PREFIX = Prefix()


def make_prefix(
    full_text: str, spans: Sequence[str], case: LetterCase, *, ends_word: bool = False
) -> Prefix:
    """Return the prefix of a segment.

    Args:
        full_text: cleaned text, with slots in place of remarks.
        spans: what the translation has in place of the slots. If the prefix ends with the first
            words of one, such as a date, it is completed.
        case: letter case of the segment.
        ends_word: whether the last word of the prefix is complete.
    """
    for span in spans:
        full_text = _complete(full_text, span)
    text = full_text
    # Longer ones first: a number may also be a part of a date.
    for slot, span in sorted(zip(SLOTS, spans, strict=False), key=lambda each: -len(each[1])):
        # The span "12" is not a part of "120".
        whole_span = rf"(?<!\w){re.escape(span)}(?!\w)"
        text = re.sub(whole_span, slot, text, count=1)
    return Prefix(full_text, to_sentence_case(text, case), ends_word)


def _complete(text: str, span: str) -> str:
    """Return a text whose end, if it is the first words of a span, is all of the span."""
    if " " not in span or span in text:
        return text
    ends = [match.end() for match in _WORD_END.finditer(span)]
    for end in reversed(ends[:-1]):
        before, head, rest = text.rpartition(span[:end])
        if head and not rest and not before[-1:].isalnum():
            return before + span
    return text


def crosses_word(text: str, at: int) -> bool:
    """Whether an index is inside of a word."""
    return any(begin < at < end for begin, end in find_words(text))


def stack_prefixes(prefixes: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    """Return int32 [B, P], prefixes padded with `FREE`: see `Engine.search`."""
    stacked = np.full((len(prefixes), max(map(len, prefixes))), FREE, np.int32)
    for row, ids in zip(stacked, prefixes, strict=True):
        row[: len(ids)] = ids
    return stacked
