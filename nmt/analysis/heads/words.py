"""Words of a text, and what share of each subword piece belongs to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # characters [begin, end)

_INSIDE = frozenset("'’-.,:")  # marks that may stand inside a word: don't, e-mail, 8:30, 1,000.5
_AFTER_A_WORD = frozenset(".,;:!?…%)]}»”’")  # written without a space before them
_BEFORE_A_WORD = frozenset("¿¡([{«“‘")  # written without a space behind them
_STRAIGHT = '"'  # opens and closes in turn


def find_words(text: str) -> list[Span]:
    """Find the words of a text.

    A word is a run of characters that are neither white space nor marks; a mark is a character of
    Unicode's categories of punctuation and symbols. An apostrophe, hyphen, point, comma or colon
    between two such characters belongs to the word. Every other mark is a word of its own.
    """
    spans: list[Span] = []
    begin: int | None = None
    for here, sign in enumerate(text):
        inside = _is_in_word(sign) or (
            sign in _INSIDE and begin is not None and _is_in_word(text[here + 1 : here + 2])
        )
        if inside:
            begin = here if begin is None else begin
            continue
        if begin is not None:
            spans.append((begin, here))
            begin = None
        if not sign.isspace():
            spans.append((here, here + 1))
    return spans if begin is None else [*spans, (begin, len(text))]


def _is_in_word(sign: str) -> bool:
    return sign != "" and not sign.isspace() and category(sign)[0] not in "PS"


def write(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Write words as a text, with punctuation where a writer puts it.

    Returns:
        (the text, where in it each word stands).
    """
    text = ""
    spans = []
    quoted = False
    glued = True  # no space before the next word
    for word in words:
        closing = set(word) <= _AFTER_A_WORD or (word == _STRAIGHT and quoted)
        text += "" if glued or closing else " "
        spans.append((len(text), len(text) + len(word)))
        text += word
        glued = set(word) <= _BEFORE_A_WORD or (word == _STRAIGHT and not quoted)
        quoted ^= word == _STRAIGHT
    return text, spans


def share_out(pieces: Sequence[Span], words: Sequence[Span]) -> NDArray[np.float64]:
    """Return what share of each piece belongs to each word.

    A piece that straddles words is shared out by characters; white space belongs to the word behind
    it, and a piece without characters to the word where it stands. Every row sums to 1.

    Args:
        pieces: spans of the pieces of a text, see `nmt.data.tokenizer.Tokenizer.spans`.
        words: spans of its words, at least one.

    Returns:
        [pieces, words].
    """
    ends = np.array([end for _, end in words])
    shares = np.zeros((len(pieces), len(words)))
    for row, (begin, end) in zip(shares, pieces, strict=True):
        characters = np.arange(begin, max(end, begin + 1))
        owners = np.minimum(np.searchsorted(ends, characters, side="right"), len(words) - 1)
        np.add.at(row, owners, 1 / len(characters))
    return shares
