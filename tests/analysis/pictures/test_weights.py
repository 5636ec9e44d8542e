"""Pictures of weights show the weights."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from conftest import transformer

from nmt import Translator
from nmt.analysis.anatomy.norms import measure_norms, similarity
from nmt.analysis.pictures.weights import draw_distances, draw_norms, draw_positions


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_the_models_own(letters: Translator, kind: str) -> None:
    sizes = dataclasses.asdict(letters.keras_engine().model.sizes)
    table = transformer(**sizes | {"positions": kind, "name": kind}).position_table()
    assert table.shape == (24, 16)
    figure = draw_positions(table)
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(shown[0], table)
    np.testing.assert_allclose(shown[1], similarity(table), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "lines"), [("rotary", [1]), ("relative", [2, 2]), ("alibi", [2, 2])]
)
def test_what_distances_do_is_the_models_own(
    letters: Translator, kind: str, lines: list[int]
) -> None:
    sizes = dataclasses.asdict(letters.keras_engine().model.sizes)
    model = transformer(**sizes | {"positions": kind, "name": kind})
    assert model.position_table() is None
    stacks = model.distance_profiles(8)
    figure = draw_distances(stacks)
    assert [axes.get_title() for axes in figure.axes] == list(stacks)
    assert [len(axes.lines) for axes in figure.axes] == lines
    for axes, values in zip(figure.axes, stacks.values(), strict=True):
        for line, row in zip(axes.lines, values, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), np.arange(-7, 8))
            np.testing.assert_array_equal(line.get_ydata(), row)
            is_drawn = np.isfinite(row)
            assert is_drawn[7:].all()
            assert is_drawn[:7].any() != axes.get_title().endswith("decoder"), "masked: it is ahead"
    figure.savefig(io.BytesIO(), format="png")


def test_without_positions_there_is_nothing_to_draw(letters: Translator) -> None:
    sizes = dataclasses.asdict(letters.keras_engine().model.sizes)
    model = transformer(**sizes | {"positions": "none", "name": "none"})
    assert (model.position_table(), model.distance_profiles(8)) == (None, {})


def test_the_picture_of_norms_names_every_part_and_number(letters: Translator) -> None:
    norms = measure_norms(letters.keras_engine().model)
    figure = draw_norms(norms)
    first, second = (axes for axes in figure.axes if axes.images)
    assert [text.get_text() for text in first.get_xticklabels()] == norms.parts
    assert [text.get_text() for text in second.get_yticklabels()] == norms.layers
    assert len(first.texts) == np.isfinite(norms.rms).sum()
    figure.savefig(io.BytesIO(), format="png")
