"""The loss equals its definition in float64, and its gradient the textbook's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from numpy.typing import NDArray

from nmt.data.tokenizer import UNK
from nmt.training.objective import TokenLoss, apply_word_dropout, cross_entropy

pytestmark = pytest.mark.backend

Array = NDArray[Any]

B, T, V = 2, 3, 5
LABELS = np.array([[4, 0, 2], [1, 3, 0]], np.int32)
LABEL_MASK = np.array([[True, True, False], [True, False, False]])


def logits_array(seed: int = 0, scale: float = 3.0) -> Array:
    noise = np.random.default_rng(seed).standard_normal((B, T, V))
    return (scale * noise).astype(np.float32)


def loss(
    logits: Any, smoothing: float, labels: Array = LABELS, label_mask: Array = LABEL_MASK
) -> Any:
    return cross_entropy(logits, labels, label_mask, label_smoothing=smoothing)


def numbers(sums: TokenLoss) -> tuple[float, float, float]:
    return tuple(float(ops.convert_to_numpy(part)) for part in sums)


def gradient(function: Callable[[Any], Any], array: Array) -> Array:
    """Return the gradient of a scalar ``function(array)``."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        watched = tf.convert_to_tensor(array)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            scalar = function(watched)
        return ops.convert_to_numpy(tape.gradient(scalar, watched))
    import jax

    return ops.convert_to_numpy(jax.grad(function)(jax.numpy.asarray(array)))


def softmax(logits: Array) -> Array:
    exponentials = np.exp(np.float64(logits) - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def smoothed(smoothing: float) -> Array:
    """Label distributions [B, T, V]: (1 - e) on the label plus e / V everywhere."""
    targets = np.full((B, T, V), smoothing / V)
    for place in np.ndindex(B, T):
        targets[*place, LABELS[place]] += 1 - smoothing
    return targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_sums_equal_the_definition(smoothing: float) -> None:
    logits = logits_array()
    log_probs = np.log(softmax(logits))
    sums = loss(logits, smoothing)
    assert {keras.backend.standardize_dtype(part.dtype) for part in sums} == {"float32"}
    objective, nll, tokens = numbers(sums)
    cross = -(smoothed(smoothing) * log_probs).sum(-1)
    label_log_probs = np.take_along_axis(log_probs, LABELS[..., None], -1)[..., 0]
    assert objective == pytest.approx(cross[LABEL_MASK].sum(), rel=1e-5)
    assert nll == pytest.approx(-label_log_probs[LABEL_MASK].sum(), rel=1e-5)
    assert tokens == 3
    if not smoothing:
        assert objective == nll


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_weights_scale_the_objective_alone(smoothing: float) -> None:
    logits = logits_array()
    weights = np.array([[0.5, 2, 9], [0, 9, 9]], np.float32)  # 9: padding
    sums = cross_entropy(
        logits, LABELS, LABEL_MASK, label_smoothing=smoothing, label_weights=weights
    )
    cross = -(smoothed(smoothing) * np.log(softmax(logits))).sum(-1)
    objective, *reported = numbers(sums)
    assert objective == pytest.approx((cross * weights)[LABEL_MASK].sum(), rel=1e-5)
    assert tuple(reported) == numbers(loss(logits, smoothing))[1:]


def test_smoothing_by_hand() -> None:
    """V = 3, probabilities 1/8, 2/8, 5/8, e = 0.3: 0.8 on the label, 0.1 on the two others."""
    logits = np.log([[1.0, 2.0, 5.0]]).astype(np.float32)
    sums = loss(logits, 0.3, np.array([0]), np.array([True]))
    expected = 0.8 * math.log(8) + 0.1 * math.log(8 / 2) + 0.1 * math.log(8 / 5)
    assert numbers(sums) == pytest.approx((expected, math.log(8), 1), rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_model_that_knows_nothing_loses_log_v_per_token(smoothing: float) -> None:
    logits = np.full((B, T, V), 7.0, np.float32)  # a constant added to logits means nothing
    sums = loss(logits, smoothing)
    assert numbers(sums) == pytest.approx((3 * math.log(V), 3 * math.log(V), 3), rel=1e-6)


def test_smoothing_leaves_the_reported_loss_alone() -> None:
    logits = logits_array()
    assert numbers(loss(logits, 0.1))[1:] == numbers(loss(logits, 0.0))[1:]
    # A confident model pays for its confidence in the objective: e / V on each of the V - 1 others.
    confident = 50.0 * np.eye(V, dtype=np.float32)[LABELS]
    objective, nll, tokens = numbers(loss(confident, 0.1))
    assert nll == pytest.approx(0, abs=1e-6)
    assert objective == pytest.approx(tokens * 50 * 0.1 * (V - 1) / V, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_is_left_out(smoothing: float) -> None:
    logits = logits_array()
    expected = numbers(loss(logits, smoothing))
    other, labels = logits.copy(), LABELS.copy()
    other[~LABEL_MASK] = 100 * logits_array(1)[~LABEL_MASK]
    labels[~LABEL_MASK] = (labels[~LABEL_MASK] + 1) % V
    assert numbers(loss(other, smoothing, labels)) == expected
    nothing = numbers(loss(logits, smoothing, label_mask=np.zeros_like(LABEL_MASK)))
    assert nothing == (0, 0, 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_not_means(smoothing: float) -> None:
    logits = logits_array()
    once = numbers(loss(logits, smoothing))
    twice = loss(
        np.concatenate([logits, logits]),
        smoothing,
        np.concatenate([LABELS, LABELS]),
        np.concatenate([LABEL_MASK, LABEL_MASK]),
    )
    assert numbers(twice) == pytest.approx([2 * part for part in once], rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_softmax_minus_label(smoothing: float) -> None:
    logits = logits_array()
    label_mask = LABEL_MASK[..., None]
    nll_gradient = gradient(lambda x: loss(x, smoothing).nll, logits)
    np.testing.assert_allclose(
        nll_gradient, (softmax(logits) - smoothed(0.0)) * label_mask, atol=1e-6
    )
    objective_gradient = gradient(lambda x: loss(x, smoothing).objective, logits)
    expected = (softmax(logits) - smoothed(smoothing)) * label_mask
    np.testing.assert_allclose(objective_gradient, expected, atol=1e-6)


def test_narrow_and_large_logits_are_summed_in_float32() -> None:
    """300 tokens that lose 300 nats each: 90,000 is beyond float16, as exp(300) is of float32."""
    logits = np.zeros((300, V), np.float16)
    logits[:, 1] = 300
    sums = loss(logits, 0.0, np.zeros(300, np.int32), np.ones(300, bool))
    assert numbers(sums) == pytest.approx((90000, 90000, 300), rel=1e-6)


def test_a_share_of_the_words_becomes_unknown() -> None:
    """Begin marks, padding (both at position 0) and the rest of the batch stay."""
    generator = np.random.default_rng(1)
    positions = np.tile(np.arange(8, dtype=np.int32) % 5, (500, 1))  # pairs of 5 and 3 tokens
    target = generator.integers(4, 50, positions.shape).astype(np.int32)
    batch = {"target": target, "target_positions": positions, "labels": target}
    key = ops.convert_to_tensor(9, "uint32")
    hidden_batch = apply_word_dropout(batch, 0.25, key)
    read = ops.convert_to_numpy(hidden_batch["target"])
    assert hidden_batch["labels"] is target
    hidden = read == UNK
    np.testing.assert_array_equal(read[~hidden], target[~hidden])
    assert not hidden[positions == 0].any()
    count = int((positions > 0).sum())
    assert abs(hidden.sum() - 0.25 * count) < 4 * math.sqrt(count * 0.25 * 0.75)
    again = ops.convert_to_numpy(apply_word_dropout(batch, 0.25, key)["target"])
    np.testing.assert_array_equal(again, read)
    assert apply_word_dropout(batch, 0.0, key) is batch
