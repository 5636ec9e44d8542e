"""The beginnings of translations: as users write them, and as a model does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from nmt.text.case import LetterCase, to_sentence_case
from nmt.text.spans import SLOTS
from nmt.text.words import find_words


class Prefix(NamedTuple):
    """What the translation of a segment begins with."""

    full_text: str = ""  # as users see it
    text: str = ""  # as the model writes it: slots in place of kept spans, ordinary letter case
    ends_word: bool = False  # whether its last word is complete

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
        full_text: cleaned text.
        spans: kept spans of the segment, by number of their slot.
        case: letter case of the segment.
        ends_word: whether the last word of the prefix is complete.
    """
    text = full_text
    for slot, span in zip(SLOTS, spans, strict=False):
        # The span "12" is not a part of "120".
        whole_span = rf"(?<!\w){re.escape(span)}(?!\w)"
        text = re.sub(whole_span, slot, text, count=1)
    return Prefix(full_text, to_sentence_case(text, case), ends_word)


def crosses_word(text: str, at: int) -> bool:
    """Whether an index is inside of a word."""
    return any(begin < at < end for begin, end in find_words(text))
