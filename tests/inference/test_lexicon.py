"""A lexicon learns which token becomes which, and files keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nmt.errors import UserError
from nmt.inference import lexicon
from nmt.inference.lexicon import LEXICON_FILE, Lexicon

MANY = 300


def translated_pairs(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sentences whose token n becomes n + 100, in reverse order, with a token 99 of no source."""
    rng = np.random.default_rng(seed)
    sources = [rng.choice(np.arange(4, 30), rng.integers(1, 8)) for _ in range(MANY)]
    targets = [np.append(source[::-1] + 100, 99) for source in sources]
    return sources, targets


def test_tokens_are_paired_whatever_their_order() -> None:
    learned = Lexicon.train(*translated_pairs())
    source, target = np.array([5, 9, 2]), np.array([109, 99, 105, 2])
    weights = learned.probabilities(source, target)
    assert weights.shape == (4, 3)
    assert weights.argmax(1).tolist() == [1, 2, 0, 2]
    assert weights[0, 1] > 0.8
    # Targets of one source token, EOS included, are a distribution.
    everything = learned.probabilities(np.array([5]), np.array([2, *range(99, 130)]))
    assert 0.9 < everything.sum() <= 1 + 1e-6


def test_an_unknown_target_token_is_a_copy() -> None:
    learned = Lexicon.train(*translated_pairs())
    weights = learned.probabilities(np.array([5, 77, 6]), np.array([77, 78]))
    np.testing.assert_array_equal(weights, [[0, 1, 0], [0, 0, 0]])


def test_a_sample_of_many_pairs_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "MAX_PAIRS", 100)
    sources, targets = translated_pairs()
    learned = Lexicon.train(sources, targets)
    same = Lexicon.train(sources, targets)
    ids = np.arange(4, 30)
    weights = learned.probabilities(ids, ids + 100)
    assert (weights.argmax(1) == np.arange(len(ids))).all()
    np.testing.assert_array_equal(weights, same.probabilities(ids, ids + 100))
    other = Lexicon.train(sources, targets, seed=2).probabilities(ids, ids + 100)
    assert (weights != other).any()


def test_of_long_pairs_as_many_are_read_as_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    make_keys = lexicon._make_keys

    def count_cells(source: np.ndarray, target: np.ndarray) -> np.ndarray:
        read.append(len(source) * len(target))
        return make_keys(source, target)

    monkeypatch.setattr(lexicon, "_make_keys", count_cells)
    monkeypatch.setattr(lexicon, "_MAX_CELLS", 2000)
    Lexicon.train(*translated_pairs())
    assert 1900 < sum(read) <= 2000


@pytest.mark.parametrize("layer", [None, 0, 3])
def test_a_file_keeps_it(tmp_path: Path, layer: int | None) -> None:
    assert Lexicon.load(tmp_path) is None
    learned = Lexicon.train(*translated_pairs())
    learned.layer = layer
    learned.save(tmp_path)
    loaded = Lexicon.load(tmp_path)
    assert loaded is not None
    assert loaded.layer == layer
    ids = np.arange(200)
    np.testing.assert_array_equal(loaded.probabilities(ids, ids), learned.probabilities(ids, ids))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    Lexicon.train(*translated_pairs()).save(tmp_path)
    path = tmp_path / LEXICON_FILE
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(UserError, match=r"lexicon\.npz is damaged"):
        Lexicon.load(tmp_path)
