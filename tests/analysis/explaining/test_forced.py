"""Pieces get the log-probabilities that the model itself gives them, whatever shares the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import RECURRENT

from nmt import Translator
from nmt.analysis.explaining import forced
from nmt.analysis.explaining.forced import ForcedRow, ForcedScorer
from nmt.data.tokenizer import BOS, EOS
from nmt.inference.compiled import compile_with_weights
from nmt.model import Recurrent
from nmt.model.contract import Model
from nmt.model.sizes import RecurrentSizes

pytestmark = pytest.mark.backend

SOURCE = np.array([7, 12, 7, 20, EOS])
ROWS = [
    ForcedRow(SOURCE, [BOS, 9, 4, 15], [3, 3, 0], [8, 11, 9]),
    ForcedRow(SOURCE[:3], [BOS], [0], [22]),
    ForcedRow(np.array([EOS]), [BOS, *range(4, 22)], [18, 2], [EOS, 6]),  # longer than 16 tokens
]


def recurrent() -> Recurrent:
    model = Recurrent(RecurrentSizes(**RECURRENT | {"vocabulary_size": 30}))
    for number, weight in enumerate(model.weights):
        weight.assign(0.5 * np.random.default_rng(number).standard_normal(weight.shape))
    return model


@pytest.fixture(params=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest, letters: Translator) -> Model:
    return letters.engine.model if request.param == "transformer" else recurrent()


def log_probs(model: Model, row: ForcedRow) -> np.ndarray:
    """Return float64 [T, V] of one row without padding."""
    run = compile_with_weights(
        model, lambda source, target: model({"source": source, "target": target}), (2, 2)
    )
    [logits] = run(row.source[None], np.array([row.read])).astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def test_pieces_are_scored_as_by_the_model_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = ForcedScorer(model)
    scored = scorer.score_pieces(ROWS)
    for row, values in zip(ROWS, scored, strict=True):
        expected = log_probs(model, row)[list(row.positions), list(row.labels)]
        np.testing.assert_allclose(values, expected, atol=2e-4)
    monkeypatch.setattr(forced, "_LOGITS", 1)  # a batch for each row
    for values, alone in zip(scored, scorer.score_pieces(ROWS), strict=True):
        np.testing.assert_allclose(values, alone, atol=1e-5)


def test_next_pieces_are_scored_behind_prefixes_of_any_length(model: Model) -> None:
    prefixes = [(9, 4, 15), (), (9,) * 17, (9, 4)]
    rows = ForcedScorer(model).score_next(SOURCE, prefixes)
    for prefix, row in zip(prefixes, rows, strict=True):
        expected = log_probs(model, ForcedRow(SOURCE, [BOS, *prefix], (), ()))[-1]
        np.testing.assert_allclose(row, expected, atol=2e-4)


def test_few_shapes_are_compiled_on_jax(letters: Translator, monkeypatch: Any) -> None:
    monkeypatch.setattr(forced.keras.config, "backend", lambda: "jax")
    scorer = ForcedScorer.__new__(ForcedScorer)  # compiles nothing
    scorer._model, scorer._compiles_shapes = letters.engine.model, True
    shapes = set()
    for length in range(1, 12):
        read = [BOS, *range(4, 3 + length)]
        row = ForcedRow(np.array([*range(4, 4 + length), EOS]), read, range(length), read)
        for count in (1, 3, 20):
            source, target, rows = scorer._fill([row] * count)
            assert rows == len(source) == len(target)
            shapes.add((source.shape, target.shape))
    assert shapes == {((rows, 16), (rows, 16)) for rows in (8, 64)}
