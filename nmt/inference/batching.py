"""Batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
