"""Attributions are derivatives: held against finite differences of the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from nmt import Translator
from nmt.data.tokenizer import BOS, EOS
from nmt.errors import UserError
from nmt.inspection.attribution import Attribution, attribute, gradient_times_input
from nmt.model.attention import causal_mask

pytestmark = pytest.mark.backend

SOURCE = np.array([7, 12, 7, 20, EOS])  # one piece stands twice: its places are told apart
TARGET = np.array([9, 4, 15, 9, 22, EOS])
STRETCH = 1e-2


def log_probs(translator: Translator, factors: np.ndarray) -> np.ndarray:
    """Return float64 [N, T]: of the target, with the source embeddings stretched by [N, S]."""
    model = translator.model
    count = len(factors)
    ids = ops.convert_to_tensor(np.tile(SOURCE, (count, 1)), "int32")
    more = ops.convert_to_tensor(factors[..., None] - 1, "float32")
    embedded = model.embed(ids, None, None) + more * model.embedding(ids)
    mask = ops.ones((1, 1, 1, len(SOURCE)), "bool")
    memory, _ = model.encode_embedded(embedded, mask)
    shifted = np.tile(np.append(BOS, TARGET[:-1]), (count, 1))
    target = ops.convert_to_tensor(shifted, "int32")
    logits = model.decode(target, memory, causal_mask(len(TARGET)), mask)[0]
    values = ops.convert_to_numpy(logits).astype(np.float64)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))
    return values[:, np.arange(len(TARGET)), TARGET]


def test_gradients_are_those_of_finite_differences(letters: Translator) -> None:
    found = gradient_times_input(letters.model, SOURCE, TARGET)  # [T, S]
    steps = STRETCH * np.array([-2, -1, 1, 2])[:, None, None]
    stretched = 1 + steps * np.eye(len(SOURCE))  # [4, S, S]: one place at a time
    values = log_probs(letters, stretched.reshape(-1, len(SOURCE)))
    down2, down, up, up2 = values.reshape(4, len(SOURCE), len(TARGET))
    expected = ((8 * (up - down) - (up2 - down2)) / (12 * STRETCH)).T  # error of order STRETCH^4
    assert np.abs(expected).max() > 0.1, "nothing depends on anything: the test is blind"
    np.testing.assert_allclose(found, expected, atol=5e-4)
    assert not np.allclose(found[:, 0], found[:, 2])  # the same piece, at two places


def test_an_attribution_stands_beside_its_attention(letters: Translator) -> None:
    [best] = letters.hypotheses(["hola"])[0]
    found = attribute(letters, "hola")
    assert found.source == ["h", "o", "l", "a", "</s>"]
    assert found.target == letters.tokenizer.pieces(best.tokens)
    attention = letters.attention("hola", best)
    assert attention is not None
    np.testing.assert_array_equal(found.attention, attention.cross[-1].mean(axis=0))
    source = np.append(letters.tokenizer.encode(["hola"])[0], EOS)
    expected = gradient_times_input(letters.model, source, np.array(best.tokens))
    np.testing.assert_allclose(found.gradient_times_input, expected, atol=1e-6)
    np.testing.assert_allclose(found.shares.sum(axis=-1), 1, atol=1e-6)
    assert np.all((found.overlap > 0) & (found.overlap < 1))


def test_shares_and_overlap_by_hand() -> None:
    signed = np.array([[1.0, -3.0], [0.0, 0.0]], np.float32)
    found = Attribution(["a", "b"], ["c", "d"], signed, np.array([[0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_array_equal(found.shares, [[0.25, 0.75], [0, 0]])
    np.testing.assert_array_equal(found.overlap, [0.75, 0])


def test_an_empty_sentence_is_refused(letters: Translator) -> None:
    with pytest.raises(UserError, match="is empty"):
        attribute(letters, " ")
