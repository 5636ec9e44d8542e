"""Gradient times input is a derivative: held against finite differences of the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import RECURRENT
from keras import ops

from nmt import Translator
from nmt.analysis.explaining.gradients import Continuation, attribute, make_scorer
from nmt.data.tokenizer import BOS, EOS
from nmt.inference.compiled import compile_over
from nmt.model import Recurrent
from nmt.model.contract import Model
from nmt.model.sizes import RecurrentSizes

pytestmark = pytest.mark.backend

SOURCE = np.array([7, 12, 7, 20, EOS])  # one piece stands twice: its places are told apart
PREFIX = (9, 4, 15)
WORDS = ((8, 22), (11,))  # a word of two pieces, and another one of one
STRETCH = 1e-2


def stretched(model: Model, word: tuple[int, ...], steps: np.ndarray) -> np.ndarray:
    """Return float64 [N]: log p of a word, embeddings stretched by [N, S + 1 + prefix] steps."""
    target = np.array([BOS, *PREFIX, *word[:-1]])
    length, count = len(SOURCE), len(SOURCE) + 1 + len(PREFIX)

    def forward(source: Any, target: Any, steps: Any, positions: Any) -> Any:
        more = STRETCH * ops.cast(steps, "float32")[..., None]
        rest = ops.zeros_like(more[:, :1]) * ops.ones(
            (1, ops.shape(target)[1] - 1 - len(PREFIX), 1)
        )
        embedded = []
        for ids, stretch in (
            (source, more[:, :length]),
            (target, ops.concatenate([more[:, length:count], rest], axis=1)),
        ):
            whole, tokens = model.embed_tokens(ids)
            embedded.append(whole + stretch * tokens)
        return model.score_embedded(*embedded, positions)

    rows = len(steps)
    positions = np.tile(len(PREFIX) + np.arange(len(word)), (rows, 1))
    run = compile_over(model, forward, (2, 2, 2, 2))
    values = run(np.tile(SOURCE, (rows, 1)), np.tile(target, (rows, 1)), steps, positions)
    values = values.astype(np.float64)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    return values[:, np.arange(len(word)), list(word)].sum(-1)


def recurrent() -> Recurrent:
    model = Recurrent(RecurrentSizes(**RECURRENT | {"vocabulary_size": 30}))
    for number, weight in enumerate(model.weights):
        weight.assign(0.5 * np.random.default_rng(number).standard_normal(weight.shape))
    return model


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_gradients_are_those_of_finite_differences(kind: str, letters: Translator) -> None:
    model = letters.engine.model if kind == "transformer" else recurrent()
    attributions = attribute(model, SOURCE, [Continuation(PREFIX, word) for word in WORDS])
    count = len(SOURCE) + 1 + len(PREFIX)
    steps = np.concatenate([number * np.eye(count, dtype=np.int32) for number in (-2, -1, 1, 2)])
    contrasts = []
    for word, attribution in zip(WORDS, attributions, strict=True):
        down2, down, up, up2 = stretched(model, word, steps).reshape(4, count)
        expected = (8 * (up - down) - (up2 - down2)) / (12 * STRETCH)  # error of order STRETCH^4
        assert np.abs(expected).max() > 0.05, "nothing depends on anything: the test is blind"
        products = np.concatenate([attribution.source, attribution.prefix])
        np.testing.assert_allclose(products, expected, atol=1e-3)
        contrasts.append(products)
        own = stretched(model, word, np.zeros((1, count), np.int32))
        assert attribution.log_probs.sum() == pytest.approx(float(own[0]), abs=1e-4)
        assert len(attribution.log_probs) == len(word)
    assert not np.allclose(attributions[0].source[0], attributions[0].source[2])  # the same piece


def test_only_positions_of_the_word_are_scored(
    letters: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of all positions of every copy would take many times the memory."""
    shapes = []
    embedding = letters.engine.model.embedding
    logits = embedding.logits

    def recorded(x: Any) -> Any:
        shapes.append(tuple(x.shape))
        return logits(x)

    monkeypatch.setattr(embedding, "logits", recorded)
    attribute(letters.engine.model, SOURCE, [Continuation(PREFIX, word) for word in WORDS])
    assert set(shapes) == {(2, 2, embedding.d_model)}


def test_next_tokens_are_scored_behind_prefixes_of_any_length(letters: Translator) -> None:
    score = make_scorer(letters.engine.model, SOURCE)
    rows = score([PREFIX, (), PREFIX[:2]])
    np.testing.assert_allclose(np.exp(rows).sum(-1), 1, atol=1e-5)
    [forced] = letters.engine.score([SOURCE[:-1]], [np.array(PREFIX)])
    expected = [rows[1][PREFIX[0]], rows[2][PREFIX[2]], rows[0][EOS]]
    np.testing.assert_allclose(forced[[0, 2, 3]], expected, atol=1e-4)
