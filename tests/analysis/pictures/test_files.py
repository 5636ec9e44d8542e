"""Figures reach their files, from any thread, and paths that cannot be written are user errors."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from nmt.analysis.pictures.files import render_png, save_figure
from nmt.analysis.pictures.heatmaps import draw_heatmaps
from nmt.errors import UserError


def draw(count: int = 1, rows: int = 2, columns: int = 2) -> Figure:
    return draw_heatmaps(
        np.full((count, rows, columns), 1 / columns),
        names=[f"head {number}" for number in range(count)],
        rows=[f"r{row}" for row in range(rows)],
        columns=[f"c{column}" for column in range(columns)],
        title="Cross attention",
        row_label="target",
        column_label="source",
    )


def test_a_png_has_the_size_of_the_figure() -> None:
    figure = draw(2, 4, 6)
    for dpi in (50, 100):
        figure.set_dpi(dpi)
        png = render_png(figure)
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        inches = figure.get_size_inches()
        assert Image.open(io.BytesIO(png)).size == pytest.approx(tuple(inches * dpi), abs=1)


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("new/a.pdf", b"%PDF")]
)
def test_the_suffix_says_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    save_figure(draw(), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpg", "a", ".png"])
def test_other_suffixes_are_the_users_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"\.png, \.svg, \.pdf") as error:
        save_figure(draw(), tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        save_figure(draw(), tmp_path / "file" / "a.png")


def test_threads_draw_what_a_single_thread_draws() -> None:
    counts = [1, 2, 3, 1, 2, 3]
    expected = [render_png(draw(count)) for count in counts]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda count: render_png(draw(count)), counts)) == expected


def test_neither_pyplot_nor_a_backend_is_imported() -> None:
    program = """
import sys
import numpy as np
from nmt.analysis.pictures.files import render_png
from nmt.analysis.pictures.heatmaps import draw_heatmaps
render_png(draw_heatmaps(np.ones((2, 1, 1)), names=["x", "y"], rows=["a"], columns=["b"], title="t",
                         row_label="r", column_label="c"))
assert not {"matplotlib.pyplot", "keras", "tensorflow", "jax"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
