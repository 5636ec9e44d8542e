"""Norms and similarities of weights are those of the weights."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conftest import transformer

from nmt import Translator
from nmt.analysis.anatomy.norms import measure_norms, similarity
from nmt.model.sinusoids import sinusoids


def test_norms_are_those_of_the_kernels(letters: Translator) -> None:
    model = letters.keras_engine().model
    norms = measure_norms(model)
    assert norms.layers == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    assert len(norms.parts) == 4 + 4 + 2
    kernel = np.asarray(model.decoder_blocks[1].cross_attention.value.kernel, np.float64)
    place = 3, norms.parts.index("cross-attention value")
    assert norms.rms[place] == pytest.approx(np.linalg.norm(kernel) / 16)  # of 16 x 16 entries
    assert norms.spectral[place] == pytest.approx(
        np.sqrt(np.linalg.eigvalsh(kernel.T @ kernel)[-1])
    )
    column = norms.parts.index("self-attention query")
    masked = model.decoder_blocks[0].self_attention.query.kernel
    assert norms.rms[2, column] == pytest.approx(np.sqrt(np.mean(np.asarray(masked) ** 2)))


def test_an_encoder_has_no_cross_attention(letters: Translator) -> None:
    norms = measure_norms(letters.keras_engine().model)
    missing = np.isnan(norms.rms)
    expected = np.zeros_like(missing)
    expected[:2, [part.startswith("cross") for part in norms.parts]] = True
    np.testing.assert_array_equal(missing, expected)


def test_a_gate_is_a_part(letters: Translator) -> None:
    sizes = dataclasses.asdict(letters.keras_engine().model.sizes)
    gated = transformer(**sizes | {"activation": "swiglu", "name": "gated"})
    assert "feed-forward gate" in measure_norms(gated).parts


def test_sinusoids_are_alike_by_distance_alone() -> None:
    cosines = similarity(sinusoids(20, 16))
    for distance in range(20):
        diagonal = np.diagonal(cosines, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    np.testing.assert_allclose(np.diagonal(cosines), 1, atol=1e-6)
    assert np.all(np.diagonal(cosines, 1) < 1)
