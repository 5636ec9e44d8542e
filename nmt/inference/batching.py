"""Batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_MAX_HYPOTHESES = 32  # of a sentence in a full batch


def limit_batch(size: int, hypotheses: int) -> int:
    """Return how many sentences a batch has if each has many hypotheses.

    Each hypothesis attends to the positions of all, so memory grows with their square.
    """
    return max(1, size * _MAX_HYPOTHESES**2 // max(hypotheses, _MAX_HYPOTHESES) ** 2)


def plan_batches(lengths: Sequence[int], size: int, parallel: int) -> Iterator[list[int]]:
    """Yield the indices of sentences of similar length, the longest first.

    Args:
        lengths: tokens of each sentence.
        size: most sentences in a batch.
        parallel: batches that run at the same time; there are at least as many if possible.
    """
    size = min(size, -(-len(lengths) // parallel) or 1)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), size):
        yield order[start : start + size]
