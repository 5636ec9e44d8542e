"""Words of a text, and the share of each subword token that belongs to each word."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from nmt.text.cleaning import JOINERS, TAGS
from nmt.text.scripts import (
    UNKNOWN_LANGUAGE,
    UNSPACED_LETTERS,
    extends_character,
    is_unspaced_letter,
    needs_space,
)
from nmt.text.spans import Span

_LENGTHS = (0, 5, 10, 20, math.inf)  # bounds of the classes of length
_INSIDE = frozenset("'’-.,:")  # marks that may stand inside a word: don't, e-mail, 8:30, 1,000.5
_AFTER_A_WORD = frozenset(".,;:!?…%)]}»”’،؛؟۔")  # written without a space before them
_BEFORE_A_WORD = frozenset("¿¡([{«“‘")  # written without a space after them
_MODIFIERS = frozenset([*TAGS, *map(chr, range(0x1F3FB, 0x1F400))])  # of emoji: tags and skin tones
_JOINER = JOINERS[1]  # with width of zero
_STRAIGHT = '"'  # opens and closes alternately
# In Japanese, of foreign words.
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f]+")
_UNIT = re.compile(rf"[{UNSPACED_LETTERS}]|[^\s{UNSPACED_LETTERS}]+")


def find_words(text: str) -> list[Span]:
    """Return the spans of the words of a text.

    A word is a run of characters that are neither white space nor marks. A mark is a character of
    Unicode's categories of punctuation and symbols. An apostrophe, hyphen, point, comma or colon
    inside a word belongs to it. Every other mark is a separate word, but dots that touch are one.
    In scripts without spaces, a letter with its vowel signs is a word, and so is a run of katakana.
    Signs that change or join marks, as in emoji, belong to them.
    """
    spans: list[Span] = []
    begin: int | None = None
    for here, sign in enumerate(text):
        follows_mark = begin is None and bool(spans) and spans[-1][1] == here
        if follows_mark and _continues_mark(text[here - 1], sign):
            spans[-1] = (spans[-1][0], here + 1)
            continue
        inside = _is_in_word(sign) or (
            sign in _INSIDE and begin is not None and _is_in_word(text[here + 1 : here + 2])
        )
        if inside:
            if begin is None:
                begin = here
            elif _begins_word(text[here - 1], sign):
                spans.append((begin, here))
                begin = here
            continue
        if begin is not None:
            spans.append((begin, here))
            begin = None
        if not sign.isspace():
            spans.append((here, here + 1))
    return spans if begin is None else [*spans, (begin, len(text))]


def split_words_and_letters(text: str) -> list[str]:
    """Return what stands between spaces; of scripts without spaces, each letter."""
    return _UNIT.findall(text)


def group_by_length(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of texts with 1-5, 6-10, 11-20 and over 20 words, or letters."""
    lengths = [len(split_words_and_letters(text)) for text in texts]
    return {
        f"over {above}" if math.isinf(up_to) else f"{above + 1}-{up_to}": [
            i for i, length in enumerate(lengths) if above < length <= up_to
        ]
        for above, up_to in pairwise(_LENGTHS)
    }


def merge_words(words: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """Return words; those that overlap the same span are one word.

    Args:
        words: of a text, in order.
        spans: of the text, in order, which do not overlap each other.
    """
    merged: list[Span] = []
    at = 0
    for begin, end in words:
        while at < len(spans) and spans[at][1] <= begin:
            at += 1
        if merged and at < len(spans) and spans[at][0] < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def _begins_word(before: str, sign: str) -> bool:
    """Whether a character begins a word although another one of a word is before it."""
    if not is_unspaced_letter(before) and not is_unspaced_letter(sign):
        return False
    return category(sign)[0] != "M" and not _KATAKANA.fullmatch(before + sign)


def _continues_mark(before: str, sign: str) -> bool:
    """Whether a character belongs to the mark before it."""
    is_modifier = extends_character(sign) or sign in _MODIFIERS
    return is_modifier or (before == _JOINER and not sign.isspace()) or before + sign == ".."


def _is_in_word(sign: str) -> bool:
    return sign != "" and not sign.isspace() and category(sign)[0] not in "PS"


def join_words(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Join words to a text with usual spacing; return it with the spans of the words."""
    text = ""
    spans = []
    quoted = False
    glued = True  # no space before the next word
    for word in words:
        closing = set(word) <= _AFTER_A_WORD or (word == _STRAIGHT and quoted)
        is_spaced = not glued and not closing and needs_space(text, word, UNKNOWN_LANGUAGE)
        text += " " if is_spaced else ""
        spans.append((len(text), len(text) + len(word)))
        text += word
        glued = set(word) <= _BEFORE_A_WORD or (word == _STRAIGHT and not quoted)
        quoted ^= word == _STRAIGHT
    return text, spans


def assign_to_words(tokens: Sequence[Span], words: Sequence[Span]) -> NDArray[np.float64]:
    """Return the share of each token that belongs to each word: [tokens, words], rows sum to 1.

    A token that straddles words is divided by characters. White space belongs to the following
    word, and a token without characters to the word at its position.

    Args:
        tokens: spans of the tokens of a text, see `nmt.data.tokenizer.Tokenizer.spans`.
        words: spans of its words, at least one.
    """
    ends = np.array([end for _, end in words])
    shares = np.zeros((len(tokens), len(words)))
    for row, (begin, end) in zip(shares, tokens, strict=True):
        characters = np.arange(begin, max(end, begin + 1))
        owners = np.minimum(np.searchsorted(ends, characters, side="right"), len(words) - 1)
        np.add.at(row, owners, 1 / len(characters))
    return shares
