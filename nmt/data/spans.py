"""Where pieces stand in the text that they spell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def size_of(piece: str) -> int:
    """Return the bytes of text that a piece stands for; ``▁`` stands for a space."""
    return len(piece.replace("▁", " ").encode())


def spans_of(sizes: Sequence[int], text: str) -> list[tuple[int, int]]:
    """Return the characters [begin, end) of pieces of so many bytes each.

    The pieces spell the text with one space before it.
    """
    characters = np.repeat(np.arange(len(text)), [len(sign.encode()) for sign in text])  # by byte
    ends = np.cumsum(sizes, dtype=np.int64) - 1  # without the space
    spans = []
    begin = 0
    for end in ends:
        here = characters[begin:end]
        spans.append((int(here[0]), int(here[-1]) + 1) if len(here) else (0, 0))
        begin = int(end)
    return spans
