"""Batches of sentences of similar length; fewer sentences where each has many hypotheses."""

from __future__ import annotations

import pytest

from nmt.inference.batching import limit_batch, plan_batches


@pytest.mark.parametrize(
    ("hypotheses", "expected"), [(1, 64), (32, 64), (33, 60), (64, 16), (256, 1), (5000, 1)]
)
def test_memory_grows_with_the_square_of_the_hypotheses(hypotheses: int, expected: int) -> None:
    assert limit_batch(64, hypotheses) == expected


def test_batches_have_sentences_of_similar_length_and_every_thread_has_one() -> None:
    assert list(plan_batches([3, 9, 1, 7, 5], 2, 1)) == [[1, 3], [4, 0], [2]]
    assert list(plan_batches([3, 9, 1, 7], 64, 2)) == [[1, 3], [0, 2]]
    assert list(plan_batches([], 64, 2)) == []
