"""Attributions are derivatives: held against finite differences of the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from nmt import Translator
from nmt.analysis.heads.attribution import Attribution, attribute, gradient_times_input
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError
from nmt.inference.compiled import compile_over
from nmt.model.masks import causal_mask

pytestmark = pytest.mark.backend

SOURCE = np.array([7, 12, 7, 20, EOS])  # one piece stands twice: its places are told apart
TARGET = np.array([9, 4, 15, 9, 22, EOS])
STRETCH = 1e-2


def log_probs(translator: Translator, steps: np.ndarray) -> np.ndarray:
    """Return float64 [N, T]: of the target, with source embeddings stretched by [N, S] steps."""
    model = translator.engine.model

    def forward(source: Any, target: Any, steps: Any) -> Any:
        more = STRETCH * ops.cast(steps, "float32")[..., None]
        embedded = model.embed(source, None, None) + more * model.embedding(source)
        mask = ops.ones((1, 1, 1, len(SOURCE)), "bool")
        memory, _ = model.encode_embedded(embedded, mask)
        return model.decode(target, memory, causal_mask(len(TARGET)), mask)[0]

    rows = len(steps), 1
    shifted = np.append(BOS, TARGET[:-1])
    run = compile_over(model, forward, (2, 2, 2))
    values = run(np.tile(SOURCE, rows), np.tile(shifted, rows), steps).astype(np.float64)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    return values[:, np.arange(len(TARGET)), TARGET]


def test_gradients_are_those_of_finite_differences(letters: Translator) -> None:
    products = gradient_times_input(letters.engine.model, SOURCE, TARGET)  # [T, S]
    one_place = np.eye(len(SOURCE), dtype=np.int32)
    steps = np.concatenate([number * one_place for number in (-2, -1, 1, 2)])  # [4 S, S]
    values = log_probs(letters, steps)
    down2, down, up, up2 = values.reshape(4, len(SOURCE), len(TARGET))
    expected = ((8 * (up - down) - (up2 - down2)) / (12 * STRETCH)).T  # error of order STRETCH^4
    assert np.abs(expected).max() > 0.1, "nothing depends on anything: the test is blind"
    np.testing.assert_allclose(products, expected, atol=5e-4)
    assert not np.allclose(products[:, 0], products[:, 2])  # the same piece, at two places


def test_of_each_copy_one_position_is_scored(
    letters: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits of all T positions of T copies would take T times the memory."""
    shapes = []
    embedding = letters.engine.model.embedding
    logits = embedding.logits

    def recorded(x: Any) -> Any:
        shapes.append(tuple(x.shape))
        return logits(x)

    monkeypatch.setattr(embedding, "logits", recorded)
    gradient_times_input(letters.engine.model, SOURCE, TARGET)
    assert set(shapes) == {(len(TARGET), embedding.d_model)}


def test_an_attribution_stands_beside_its_attention(letters: Translator) -> None:
    [best] = letters.hypotheses(["hola"])[0]
    attribution = attribute(letters, "hola")
    assert attribution.source == ["h", "o", "l", "a", "</s>"]
    assert attribution.target == letters.tokenizer.pieces(best.tokens)
    attention = letters.attention("hola", best)
    assert attention is not None
    np.testing.assert_array_equal(attribution.attention, attention.cross[-1].mean(axis=0))
    np.testing.assert_allclose(attribution.shares.sum(axis=-1), 1, atol=1e-6)
    assert np.all((attribution.overlap > 0) & (attribution.overlap < 1))


def test_shares_and_overlap_by_hand() -> None:
    signed = np.array([[1.0, -3.0], [0.0, 0.0]], np.float32)
    attribution = Attribution(["a", "b"], ["c", "d"], signed, np.array([[0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_array_equal(attribution.shares, [[0.25, 0.75], [0, 0]])
    np.testing.assert_array_equal(attribution.overlap, [0.75, 0])


def test_an_empty_sentence_is_refused(letters: Translator) -> None:
    with pytest.raises(UserError, match="is empty"):
        attribute(letters, " ")
