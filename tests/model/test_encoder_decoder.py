"""What all models have in common: Keras can train them, with dropout."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from conftest import RECURRENT, SMALL, transformer
from keras import ops

from nmt.model import Recurrent, RecurrentSizes

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
