"""Pictures of weights show the weights."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from conftest import transformer

from nmt import Translator
from nmt.inspection.anatomy.norms import measure_norms, similarity
from nmt.inspection.pictures.weights import draw_norms, draw_positions


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_the_models_own(letters: Translator, kind: str) -> None:
    sizes = dataclasses.asdict(letters.own_engine("positions").model.sizes)
    table = transformer(**sizes | {"positions": kind, "name": kind}).position_table()
    assert table.shape == (24, 16)
    figure = draw_positions(table, kind)
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(shown[0], table)
    np.testing.assert_allclose(shown[1], similarity(table), atol=1e-6)
    assert figure.axes[0].get_title() == f"{kind} positions"


def test_the_picture_of_norms_names_every_part_and_number(letters: Translator) -> None:
    norms = measure_norms(letters.own_engine("norms").model)
    figure = draw_norms(norms)
    first, second = (axes for axes in figure.axes if axes.images)
    assert [text.get_text() for text in first.get_xticklabels()] == norms.parts
    assert [text.get_text() for text in second.get_yticklabels()] == norms.layers
    assert len(first.texts) == np.isfinite(norms.rms).sum()
    figure.savefig(io.BytesIO(), format="png")
