"""What all models have in common: Keras can train them, with dropout."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import PLAIN, RECURRENT, SMALL, transformer
from keras import ops

from nmt.model import Recurrent, RecurrentSizes, Transformer, TransformerSizes

pytestmark = pytest.mark.backend

INPUTS = {
    "source": np.array([[4, 5, 6, 7, 8, 9], [10, 3, 4, 2, 0, 0]], np.int32),
    "target": np.array([[1, 7, 5, 9], [1, 4, 0, 0]], np.int32),
}
LABELS = np.array([[7, 5, 9, 2], [4, 2, 0, 0]], np.int32)
KINDS = ("transformer", "recurrent")


def make(kind: str, dropout: float = 0.4) -> Any:
    keras.utils.set_random_seed(1)
    if kind == "transformer":
        return transformer(vocabulary_size=11, dropout=dropout, **SMALL)
    return Recurrent(RecurrentSizes(**RECURRENT | {"vocabulary_size": 11, "dropout": dropout}))


def logits(model: Any, **arguments: Any) -> np.ndarray:
    return ops.convert_to_numpy(model(INPUTS, **arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_training_draws_a_key_where_none_is_given(kind: str, tmp_path: Path) -> None:
    model = make(kind)
    plain = logits(model)
    np.testing.assert_array_equal(logits(model, training=False), plain)
    key = ops.convert_to_tensor(3, "uint32")
    np.testing.assert_array_equal(
        logits(model, training=True, dropout_key=key), logits(model, dropout_key=key)
    )
    first, second = logits(model, training=True), logits(model, training=True)
    assert np.abs(first - plain).max() > 1e-2
    assert np.abs(first - second).max() > 1e-2
    np.testing.assert_array_equal(logits(make(kind), training=True), first)  # of the same seed
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits(keras.saving.load_model(tmp_path / "model.keras")), plain)


def test_fit_trains_with_dropout() -> None:
    """With a learning rate of 0, nothing but dropout changes the loss from epoch to epoch."""
    model = make("transformer")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss)
    first, second = model.fit(INPUTS, LABELS, epochs=2, verbose=0).history["loss"]
    assert abs(first - second) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_of_dropout_changes_no_other_random_number(kind: str) -> None:
    model = make(kind)
    after = random.random()
    without = make(kind, 0.0)
    assert random.random() == after
    assert len(model.weights) == len(without.weights)
    for weight, same in zip(model.weights, without.weights, strict=True):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(weight), ops.convert_to_numpy(same), err_msg=weight.path
        )


def reversed_digits(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return inputs and labels: words of two to five digits (ids 3 to 12), and their reversal."""
    rng = np.random.default_rng(1)
    source, target, labels = (np.zeros((count, 6), np.int32) for _ in range(3))
    for row, length in enumerate(rng.integers(2, 6, count)):
        digits = rng.integers(3, 13, length)
        source[row, : length + 1] = [*digits, 2]
        target[row, : length + 1] = [1, *digits[::-1]]
        labels[row, : length + 1] = [*digits[::-1], 2]
    return {"source": source, "target": target}, labels


def test_compile_and_fit_learn_to_reverse() -> None:
    keras.utils.set_random_seed(1)
    inputs, labels = reversed_digits(4096)
    model = Transformer(
        vocabulary_size=13,
        d_model=64,
        num_heads=4,
        ffn_width=128,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.05,
        max_length=8,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, weighted_metrics=["accuracy"])
    model.optimizer.learning_rate = 3e-3
    weights = (labels > 0).astype("float32")  # padding does not count
    model.fit(inputs, labels, sample_weight=weights, batch_size=128, epochs=12, verbose=0)
    _, accuracy = model.evaluate(inputs, labels, sample_weight=weights, verbose=0)
    assert accuracy > 0.95
    one, same = (model.predict({k: v[:8] for k, v in inputs.items()}, verbose=0) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    assert (np.argmax(one, -1) == labels[:8])[labels[:8] > 0].mean() > 0.9


def test_a_model_by_keywords_is_the_model_of_its_sizes() -> None:
    keywords = SMALL | {"vocabulary_size": 11}
    by_keywords = Transformer(**keywords)
    by_sizes = Transformer(TransformerSizes(**PLAIN | keywords))
    assert by_keywords.sizes == TransformerSizes(**PLAIN | keywords | {"max_length": 256})
    assert by_keywords.named_weights().keys() == by_sizes.named_weights().keys()
    assert Recurrent(**RECURRENT).sizes == RecurrentSizes(**RECURRENT)
    with pytest.raises(TypeError, match="vocabulary_size"):
        Transformer(**SMALL)
    with pytest.raises(TypeError, match="by keyword, such as d_model=11"):
        Transformer(11)


def test_a_summary_shows_shapes_and_counts() -> None:
    lines: list[str] = []
    model = transformer(vocabulary_size=11, **SMALL)
    model.summary(print_fn=lines.append)
    shown = "\n".join(lines)
    assert shown.count("(None, None, 16)") == len(model.layers)
    assert f"Total params: {model.count_params():,}" in shown
