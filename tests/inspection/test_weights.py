"""Pictures of weights show the weights."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from nmt import Translator
from nmt.inspection.pictures import weights
from nmt.model.blocks import sinusoids
from nmt.model.transformer import Transformer


def test_norms_are_those_of_the_kernels(letters: Translator) -> None:
    norms = weights.weight_norms(letters.engine.model)
    assert norms.layers == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    assert len(norms.parts) == 4 + 4 + 2
    kernel = np.asarray(
        letters.engine.model.decoder_blocks[1].cross_attention.value.kernel, np.float64
    )
    place = 3, norms.parts.index("cross-attention value")
    assert norms.rms[place] == pytest.approx(np.linalg.norm(kernel) / 16)  # of 16 x 16 entries
    assert norms.spectral[place] == pytest.approx(
        np.sqrt(np.linalg.eigvalsh(kernel.T @ kernel)[-1])
    )
    own = norms.parts.index("self-attention query")
    masked = letters.engine.model.decoder_blocks[0].self_attention.query.kernel
    assert norms.rms[2, own] == pytest.approx(np.sqrt(np.mean(np.asarray(masked) ** 2)))


def test_an_encoder_has_no_cross_attention(letters: Translator) -> None:
    norms = weights.weight_norms(letters.engine.model)
    missing = np.isnan(norms.rms)
    expected = np.zeros_like(missing)
    expected[:2, [part.startswith("cross") for part in norms.parts]] = True
    np.testing.assert_array_equal(missing, expected)


def test_a_gate_is_a_part(letters: Translator) -> None:
    config: dict[str, Any] = letters.engine.model.get_config()
    gated = Transformer.from_config(config | {"activation": "swiglu", "name": "gated"})
    assert "feed-forward gate" in weights.weight_norms(gated).parts


def test_sinusoids_are_alike_by_distance_alone() -> None:
    found = weights.similarity(sinusoids(20, 16))
    for distance in range(20):
        diagonal = np.diagonal(found, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    np.testing.assert_allclose(np.diagonal(found), 1, atol=1e-6)
    assert np.all(np.diagonal(found, 1) < 1)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_the_models_own(letters: Translator, kind: str) -> None:
    config: dict[str, Any] = letters.engine.model.get_config()
    model = Transformer.from_config(config | {"positions": kind, "name": kind})
    table = weights.position_table(model)
    assert table.shape == (24, 16)
    figure = weights.positions_figure(table, kind)
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(shown[0], table)
    np.testing.assert_allclose(shown[1], weights.similarity(table), atol=1e-6)
    assert figure.axes[0].get_title() == f"{kind} positions"


def test_the_picture_of_norms_names_every_part_and_number(letters: Translator) -> None:
    norms = weights.weight_norms(letters.engine.model)
    figure = weights.norms_figure(norms)
    first, second = (axes for axes in figure.axes if axes.images)
    assert [text.get_text() for text in first.get_xticklabels()] == norms.parts
    assert [text.get_text() for text in second.get_yticklabels()] == norms.layers
    assert len(first.texts) == np.isfinite(norms.rms).sum()
    figure.savefig(io.BytesIO(), format="png")
