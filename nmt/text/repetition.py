"""Repetition loops: outputs that repeat the same few tokens again and again."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 16  # tokens of the longest n-gram whose repetition is counted
_COPIES = 3  # consecutive copies of an n-gram that may be a loop
_EXCESS = 1.5  # copies in the output per copy in the source, above which it is one


def is_looping(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Return whether an output repeats an n-gram consecutively and its source does not.

    An output loops if it has at least three consecutive copies of an n-gram, and more than 1.5
    times as many as its source has of any n-gram: "no, no, no" may be translated by "no, no, no".

    Args:
        tokens: ids of the output.
        source: ids of the source; they may belong to another vocabulary.
    """
    if len(tokens) - len(set(tokens)) < _COPIES - 1:  # too few tokens are repeated
        return False
    copies = count_copies(tokens)
    return copies >= _COPIES and copies > _EXCESS * count_copies(source)


def count_copies(tokens: Sequence[int]) -> float:
    """Return the largest number of consecutive copies of an n-gram; the last may be incomplete."""
    max_copies = 1.0
    for n in range(1, min(_LONGEST, len(tokens) - 1) + 1):
        longest = run = 0  # consecutive tokens that equal the token n before
        for token, earlier in zip(tokens[n:], tokens, strict=False):
            run = run + 1 if token == earlier else 0
            if run > longest:
                longest = run
        max_copies = max(max_copies, 1 + longest / n)
    return max_copies
