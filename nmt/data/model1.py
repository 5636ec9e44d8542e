"""IBM Model 1 (Brown et al. 1993): how probable each translation of a token is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ITERATIONS = 5


def estimate_translations(
    entry_of_cell: NDArray[np.int64],
    row_of_cell: NDArray[np.int64],
    source_of_entry: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the probability of each entry of a lexicon, by expectation maximisation: [N].

    An entry is a source token with one of its possible translations. A cell is an entry at a place:
    a token of a source sentence with a token of its translation.

    Args:
        entry_of_cell: index of an entry [C].
        row_of_cell: number of the target token in the corpus [C]; the source tokens of its sentence
            share one count of it.
        source_of_entry: id of the source token of each entry [N]; the probabilities of its entries
            sum to 1.
    """
    sources = np.unique(source_of_entry, return_inverse=True)[1]
    probabilities = np.ones(len(sources))
    for _ in range(_ITERATIONS):
        cells = probabilities[entry_of_cell]
        shares = cells / np.bincount(row_of_cell, cells)[row_of_cell]
        counts = np.bincount(entry_of_cell, shares, len(sources))
        probabilities = counts / np.bincount(sources, counts)[sources]
    return probabilities
