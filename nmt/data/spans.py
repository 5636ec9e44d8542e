"""Which characters of a text each of its pieces covers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def count_bytes(piece: str) -> int:
    """Return the number of bytes of text that a piece covers; ``▁`` is a space."""
    return len(piece.replace("▁", " ").encode())


def locate_pieces(sizes: Sequence[int], text: str) -> list[tuple[int, int]]:
    """Return the characters [begin, end) that each piece covers.

    Args:
        sizes: bytes of each piece; together, the pieces spell a space and then the text.
        text: the text.
    """
    byte_counts = [len(character.encode()) for character in text]
    characters = np.repeat(np.arange(len(text)), byte_counts)  # index by byte
    ends = np.cumsum(sizes, dtype=np.int64) - 1  # the space does not count
    spans = []
    begin = 0
    for end in ends:
        covered = characters[begin:end]
        spans.append((int(covered[0]), int(covered[-1]) + 1) if len(covered) else (0, 0))
        begin = int(end)
    return spans
