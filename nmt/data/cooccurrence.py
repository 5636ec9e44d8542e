"""Token embeddings from co-occurrences: what tokens mean, before a model is trained.

Tokens that occur near the same others, and in the same pairs, get similar vectors: so do a word and
its translation. This is the factorised matrix of Levy, Goldberg & Dagan 2015 ("Improving
Distributional Similarity with Lessons Learned from Word Embeddings") for neighbours, and that of
Levy, Søgaard & Goldberg 2017 ("A Strong Baseline for Learning Cross-Lingual Word Embeddings from
Sentence Alignments") for pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from nmt.data.ragged import RaggedIds

_WINDOW = 3  # tokens on each side that are neighbours; one at distance d counts 1 / d
_CONTEXT_POWER = 0.75  # makes rare contexts less important (Levy et al. 2015, equation 3)
_SPECTRUM_POWER = 0.5  # of the singular values
_MAX_RANK = 256  # of wider vectors; the decomposition takes time in proportion
_EXTRA = 16  # vectors of the randomised decomposition


def embed_tokens(
    sides: tuple[RaggedIds, RaggedIds], vocabulary_size: int, width: int
) -> np.ndarray:
    """Return vectors of length 1, float32 [V, D]; zeros for tokens that co-occur with none.

    Args:
        sides: the sources and targets of the same pairs.
        vocabulary_size: V.
        width: D.
    """
    matrix = sparse.hstack(
        [
            _weigh(_count_neighbors(sides, vocabulary_size)),
            _weigh(_count_in_pairs(sides, vocabulary_size)),
        ],
        format="csr",
    )
    rank = min(width, vocabulary_size, _MAX_RANK)
    vectors, spectrum = _decompose(matrix, rank)
    vectors = vectors * spectrum**_SPECTRUM_POWER
    # A random rotation gives every dimension the same share of the leading ones.
    generator = np.random.default_rng(0)
    rotation = np.linalg.qr(generator.normal(size=(width, width)))[0][:rank]
    vectors = vectors @ rotation.astype(np.float32)
    occurs = np.diff(matrix.indptr) > 0
    vectors[occurs] -= vectors[occurs].sum(axis=0) / max(1, occurs.sum())
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(occurs[:, None], vectors / np.maximum(norms, 1e-9), 0)


def _count_neighbors(sides: Sequence[RaggedIds], size: int) -> sparse.csr_matrix:
    """Return how often tokens are neighbours: float32 [V, V], symmetric."""
    counts = sparse.csr_matrix((size, size), dtype=np.float32)
    for side in sides:
        pair, ids = np.repeat(np.arange(len(side)), side.lengths), side.ids
        for distance in range(1, _WINDOW + 1):
            near = pair[distance:] == pair[:-distance]
            cells = ids[:-distance][near], ids[distance:][near]
            weights = np.full(len(cells[0]), 1 / distance, np.float32)
            counts += sparse.csr_matrix((weights, cells), (size, size))
    return counts + counts.T


def _count_in_pairs(sides: Sequence[RaggedIds], size: int) -> sparse.csr_matrix:
    """Return how often tokens occur in one pair, on any side: float32 [V, V], symmetric.

    On the diagonal, each with itself: so a word and its translation have the same contexts.
    """
    pair = np.concatenate([np.repeat(np.arange(len(side)), side.lengths) for side in sides])
    ids = np.concatenate([side.ids for side in sides])
    pairs = len(sides[0])
    occurrences = sparse.csr_matrix((np.ones(len(ids), np.float32), (pair, ids)), (pairs, size))
    return (occurrences.T @ occurrences).tocsr()


def _weigh(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the positive pointwise mutual information of tokens and contexts, float32 [V, V]."""
    if not counts.nnz:
        return counts
    cells = counts.tocoo()
    tokens = np.asarray(counts.sum(axis=1)).ravel()
    contexts = np.asarray(counts.sum(axis=0)).ravel() ** _CONTEXT_POWER
    expected = tokens[cells.row] * (contexts / contexts.sum())[cells.col]
    information = np.log(cells.data / expected)
    positive = information > 0
    positions = cells.row[positive], cells.col[positive]
    return sparse.csr_matrix((information[positive], positions), counts.shape)


def _decompose(matrix: sparse.csr_matrix, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading left singular vectors [V, rank] and their singular values [rank].

    By one subspace iteration from random vectors (Halko, Martinsson & Tropp 2011, algorithm 4.4).
    """
    generator = np.random.default_rng(0)
    start = generator.normal(size=(matrix.shape[1], rank + _EXTRA)).astype(np.float32)
    basis = np.linalg.qr(matrix @ start)[0]
    basis = np.linalg.qr(matrix @ (matrix.T @ basis))[0]
    vectors, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    return (basis @ vectors)[:, :rank], values[:rank]
