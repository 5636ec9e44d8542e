"""Vectors of tokens from co-occurrences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import corpus_lines
from scipy import sparse

from nmt.data.cooccurrence import _count_in_pairs, _count_neighbors, _weigh, embed_tokens
from nmt.data.ragged import RaggedIds


def make_side(*sentences: list[int]) -> RaggedIds:
    return RaggedIds.of([np.array(ids) for ids in sentences])


SIDES = make_side([0, 1, 2], [1]), make_side([3, 4], [4, 4])


def test_neighbors_of_one_sentence_count_by_their_distance() -> None:
    expected = np.zeros((6, 6))
    expected[[0, 1, 3, 4], [1, 2, 4, 4]] = 1
    expected[0, 2] = 1 / 2
    np.testing.assert_allclose(
        _count_neighbors(SIDES, 6).toarray(), expected + expected.T, rtol=1e-6
    )


def test_tokens_of_one_pair_co_occur() -> None:
    first, second = np.array([1, 1, 1, 1, 1, 0]), np.array([0, 1, 0, 0, 2, 0])
    expected = np.outer(first, first) + np.outer(second, second)
    np.testing.assert_array_equal(_count_in_pairs(SIDES, 6).toarray(), expected)


def test_weights_are_positive_mutual_information() -> None:
    counts = np.array([[4.0, 1.0], [1.0, 2.0]])
    contexts = (5**0.75, 3**0.75)
    expected = [
        [
            max(0.0, math.log(counts[i, j] * sum(contexts) / (sum(counts[i]) * contexts[j])))
            for j in range(2)
        ]
        for i in range(2)
    ]
    np.testing.assert_allclose(_weigh(sparse.csr_matrix(counts)).toarray(), expected, rtol=1e-5)


def test_translations_get_similar_vectors() -> None:
    lines = [line.lower().replace(".", "").split("\t") for line in corpus_lines(10_000)]
    ids: dict[str, int] = {}
    source, target = (
        make_side(
            *(
                [ids.setdefault(f"{side}{word}", len(ids)) for word in line[side].split()]
                for line in lines
            )
        )
        for side in (0, 1)
    )
    vectors = embed_tokens((source, target), len(ids), 64)
    english = [word for word in ids if word.startswith("1")]
    similarities = vectors @ vectors[[ids[word] for word in english]].T
    for word, translation in {"libro": "book", "perro": "dog", "mañana": "tomorrow"}.items():
        best = np.argsort(-similarities[ids[f"0{word}"]])[:3]
        assert f"1{translation}" in [english[i] for i in best], word


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
def test_pairs_of_single_tokens_have_no_neighbors() -> None:
    vectors = embed_tokens((make_side([0], [1]), make_side([2], [3])), 4, 8)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert not embed_tokens((make_side([0]), make_side([0])), 4, 8).any()


@pytest.mark.parametrize("width", [4, 9])
def test_vectors_have_length_one_unless_a_token_does_not_occur(width: int) -> None:
    vectors = embed_tokens(SIDES, 6, width)
    assert vectors.shape == (6, width)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 1, 0], rtol=1e-5)
    np.testing.assert_array_equal(vectors, embed_tokens(SIDES, 6, width))
