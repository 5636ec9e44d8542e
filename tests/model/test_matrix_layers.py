"""Layers that compute on the rows of a matrix give what those of Keras give."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from nmt.model.layers import Dense, LayerNormalization

pytestmark = pytest.mark.backend


@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8), (2, 3, 4, 8), (0, 3, 8)])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_outputs_are_those_of_keras(shape: tuple[int, ...], policy: str) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    pairs = [
        (Dense(5, dtype=policy), keras.layers.Dense(5, dtype=policy), 5),
        (LayerNormalization(dtype=policy), keras.layers.LayerNormalization(dtype=policy), 8),
    ]
    for ours, reference, width in pairs:
        for layer in (ours, reference):
            layer.build((None, None, 8))
        reference.set_weights(ours.get_weights())
        output, expected = ours(x), reference(x)
        assert tuple(output.shape) == (*shape[:-1], width)
        assert output.dtype == expected.dtype
        outputs = (ops.convert_to_numpy(ops.cast(each, "float32")) for each in (output, expected))
        np.testing.assert_allclose(*outputs, rtol=1e-6, atol=1e-6)


def test_lengths_need_not_be_known() -> None:
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, LayerNormalization()(Dense(8)(inputs)))
    assert model.output_shape == (None, None, 8)
    assert model.predict(np.zeros((2, 5, 8)), verbose=0).shape == (2, 5, 8)
