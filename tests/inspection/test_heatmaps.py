"""The picture shows the weights it was given, where its tokens say, and its texts can be read."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from PIL import Image

from nmt.errors import UserError
from nmt.inspection.heatmaps import attention_figure, render_png, save_figure

Weights = NDArray[np.float32]


def random_weights(heads: int, rows: int, columns: int) -> Weights:
    """Return [heads, rows, columns], each row a distribution."""
    rng = np.random.default_rng(heads + rows + columns)
    return rng.dirichlet(np.full(columns, 0.3), (heads, rows)).astype(np.float32)


def draw(
    weights: Weights, rows: list[str] | None = None, columns: list[str] | None = None
) -> Figure:
    return attention_figure(
        weights,
        rows=rows or [f"r{i}" for i in range(weights.shape[1])],
        columns=columns or [f"c{i}" for i in range(weights.shape[2])],
        title="Cross attention",
        row_label="target tokens",
        column_label="source tokens",
    )


def heatmaps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def shown(axes: Axes) -> Weights:
    return np.asarray(axes.images[0].get_array())


def names(axes: Axes) -> tuple[list[str], list[str]]:
    """Return the row and the column tokens written beside a heatmap."""
    rows, columns = axes.get_yticklabels(), axes.get_xticklabels()
    return [t.get_text() for t in rows if t.get_text()], [
        t.get_text() for t in columns if t.get_text()
    ]


def decoded(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("L")


def test_the_mean_comes_first_and_then_every_head() -> None:
    weights = np.array(
        [[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]], np.float32
    )
    panels = heatmaps(draw(weights))
    assert [axes.get_title(loc="left") for axes in panels] == [
        "mean of 2 heads",
        "head 1",
        "head 2",
    ]
    np.testing.assert_array_equal(shown(panels[0]), [[0.75, 0.25, 0.0], [0.0, 0.25, 0.75]])
    np.testing.assert_array_equal(shown(panels[1]), weights[0])
    np.testing.assert_array_equal(shown(panels[2]), weights[1])


def test_the_mean_stands_apart() -> None:
    figure = draw(random_weights(4, 5, 7))
    mean, *heads = heatmaps(figure)
    [line] = [artist for artist in figure.get_children() if isinstance(artist, Line2D)]
    start, end = line.get_xdata()
    assert start == end
    assert mean.get_position().x1 < start < min(axes.get_position().x0 for axes in heads)


def test_one_head_has_no_mean() -> None:
    [panel] = heatmaps(draw(random_weights(1, 4, 3)))
    assert panel.get_title(loc="left") == "head 1"


def test_rows_run_down_and_columns_to_the_right() -> None:
    weights = np.zeros((1, 2, 3), np.float32)
    weights[0, 0, 2] = 1.0  # "is" attends to "casa" only
    figure = draw(weights, rows=["is", "house"], columns=["la", "es", "casa"])
    [panel] = heatmaps(figure)
    assert names(panel) == (["is", "house"], ["la", "es", "casa"])
    assert list(panel.get_yticks()) == [0, 1]
    assert list(panel.get_xticks()) == [0, 1, 2]
    picture = decoded(render_png(figure))

    def lightness(row: int, column: int) -> float:
        x, y = panel.transData.transform((column, row))
        return float(np.asarray(picture)[picture.height - int(y), int(x)])

    # "is" stands above "house", and "casa" right of "la".
    (_, is_y), (_, house_y) = (panel.transData.transform((0, row)) for row in (0, 1))
    (la_x, _), (casa_x, _) = (panel.transData.transform((column, 0)) for column in (0, 2))
    assert is_y > house_y
    assert casa_x > la_x
    others = [lightness(r, c) for r, c in itertools.product(range(2), range(3)) if (r, c) != (0, 2)]
    assert lightness(0, 2) < 10
    assert min(others) > 200


def test_all_panels_share_the_scale_0_to_1() -> None:
    figure = draw(random_weights(3, 4, 5) * 0.01)
    assert [axes.images[0].get_clim() for axes in heatmaps(figure)] == 4 * [(0, 1)]
    assert len({axes.images[0].get_cmap().name for axes in heatmaps(figure)}) == 1
    [bar] = [axes for axes in figure.axes if not axes.images]
    assert bar.get_xlim() == (0, 1)
    assert bar.get_xlabel() == "attention weight"


def test_the_colours_grow_darker_with_the_weight() -> None:
    steps = np.linspace(0, 1, 11, dtype=np.float32)[None, None, :]
    figure = draw(steps)
    [panel] = heatmaps(figure)
    picture = np.asarray(decoded(render_png(figure)), dtype=float)
    centres = [panel.transData.transform((column, 0)) for column in range(11)]
    lightness = [picture[picture.shape[0] - int(y), int(x)] for x, y in centres]
    assert (np.diff(lightness) < -5).all()


def test_the_axes_are_named() -> None:
    [panel] = heatmaps(draw(random_weights(1, 4, 3)))
    assert (panel.get_ylabel(), panel.get_xlabel()) == ("target tokens", "source tokens")


def test_few_tokens_are_written_at_every_head_and_more_at_the_edge_only() -> None:
    for panel in heatmaps(draw(random_weights(4, 5, 7))):
        assert [len(side) for side in names(panel)] == [5, 7]
    mean, *heads = heatmaps(draw(random_weights(4, 20, 25)))
    assert [len(side) for side in names(mean)] == [20, 25]
    left = min(axes.get_position().x0 for axes in heads)
    lowest = min(axes.get_position().y0 for axes in heads)
    for axes in heads:
        rows, columns = names(axes)
        assert len(rows) == (20 if axes.get_position().x0 == left else 0)
        assert len(columns) == (25 if axes.get_position().y0 == lowest else 0)


@pytest.mark.parametrize(
    ("heads", "rows", "columns"),
    [
        (1, 1, 1),
        (4, 1, 2),
        (1, 5, 7),
        (8, 5, 7),
        (4, 20, 25),
        (3, 12, 30),
        (2, 60, 60),
        (1, 9, 150),
    ],
)
def test_every_text_can_be_read(heads: int, rows: int, columns: int) -> None:
    figure = draw(
        random_weights(heads, rows, columns),
        rows=[f"▁{'e' * (i % 9)}{i}" for i in range(rows)],
        columns=["▁encuentro", "▁la"] * (columns // 2) + ["?"] * (columns % 2),
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    assert width <= 2000
    boxes = {"heading": figure.texts[0].get_window_extent()}
    for number, axes in enumerate(figure.axes):
        for side, axis in ((0, axes.xaxis), (1, axes.yaxis)):
            tokens = [text for text in axis.get_ticklabels() if text.get_text()]
            texts = {"tokens": tokens, "name": [axis.label] if axis.label.get_text() else []}
            for kind, group in texts.items():
                if group:
                    extents = [text.get_window_extent() for text in group]
                    boxes[f"{kind} {side} of {number}"] = Bbox.union(extents)
            if axes.images and tokens:
                size = tokens[0].get_fontsize()
                assert size >= 7
                ticks = axes.transData.transform(
                    [(tick, tick) for tick in axis.get_majorticklocs()]
                )
                assert (np.abs(np.diff(ticks[:, side])) > size / 72 * figure.dpi).all()
        if axes.images:
            boxes[f"title of {number}"] = axes._left_title.get_window_extent()  # type: ignore
        boxes[f"field {number}"] = axes.get_window_extent()
    for name, box in boxes.items():
        assert 0 <= box.x0 <= box.x1 <= width, name
        assert 0 <= box.y0 <= box.y1 <= height, name
    overlapping = [
        (one, other)
        for (one, box), (other, another) in itertools.combinations(boxes.items(), 2)
        if box.overlaps(another)
    ]
    assert overlapping == []


def test_long_sentences_are_labelled_at_every_nth_token() -> None:
    [panel] = heatmaps(draw(random_weights(1, 6, 300)))
    assert shown(panel).shape == (6, 300)
    columns = names(panel)[1]
    assert columns[:2] in (["c0", "c2"], ["c0", "c3"])
    ticks = [int(tick) for tick in panel.get_xticks()]
    assert columns == [f"c{tick}" for tick in ticks]


ODD_TOKENS = {
    "$x$": "$x$",
    "$\\frac{$": "$\\frac{$",
    "a_b^{": "a_b^{",
    "▁": "▁",
    "a\nb": "a⏎b",
    "\t": "⇥",
    "<0xE2>": "<0xE2>",
    "": "",
    "é": "é",
    "\x00": "□",
    "\ud800": "□",
    "x" * 50: "x" * 19 + "…",
}


def test_odd_tokens_are_shown_as_they_are() -> None:
    tokens = [*ODD_TOKENS, "😀", "👩‍👩‍👧", "你好", "한국어", "नमस्ते", "שלום"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as a glyph that is missing
        figure = attention_figure(
            random_weights(2, len(tokens), len(tokens)),
            rows=tokens,
            columns=tokens,
            title="$\\frac{1}{$ 😀 你好",
            row_label="$_",
            column_label="好",
        )
        assert render_png(figure)
    labels = [text.get_text() for text in heatmaps(figure)[0].get_yticklabels()]
    assert labels[: len(ODD_TOKENS)] == list(ODD_TOKENS.values())


@pytest.mark.parametrize("title", ["", "\n", "one word", "many words " * 30, "x" * 300])
def test_titles_of_any_length_fit(title: str) -> None:
    figure = attention_figure(
        random_weights(1, 3, 3),
        rows=["a", "b", "c"],
        columns=["d", "e", "f"],
        title=title,
        row_label="rows",
        column_label="columns",
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    box = figure.texts[0].get_window_extent()
    assert box.x1 <= canvas.get_width_height()[0]
    assert box.y0 >= heatmaps(figure)[0].get_window_extent().y1 or not title.strip()
    assert "".join(figure.texts[0].get_text().split()) == "".join(title.split())


@pytest.mark.parametrize(
    "shape", [(2, 3), (1, 1, 2, 3), (0, 2, 3), (1, 3, 2), (1, 2, 4), (1, 2, 0)]
)
def test_weights_that_do_not_fit_the_tokens_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        draw(np.zeros(shape, np.float32), rows=["a", "b"], columns=["c", "d", "e"])


def test_a_png_has_the_size_of_the_figure() -> None:
    figure = draw(random_weights(2, 4, 6))
    for dpi in (50, 100):
        png = render_png(figure, dpi=dpi)
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        inches = figure.get_size_inches()
        assert decoded(png).size == pytest.approx(tuple(inches * dpi), abs=1)


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("new/a.pdf", b"%PDF")]
)
def test_the_suffix_says_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    save_figure(draw(random_weights(1, 2, 2)), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpg", "a", ".png"])
def test_other_suffixes_are_the_users_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"\.png, \.svg, \.pdf") as error:
        save_figure(draw(random_weights(1, 2, 2)), tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        save_figure(draw(random_weights(1, 2, 2)), tmp_path / "file" / "a.png")


def test_threads_draw_what_one_alone_draws() -> None:
    cases = [random_weights(heads, 4, 6) for heads in (1, 2, 3, 1, 2, 3)]
    alone = [render_png(draw(weights)) for weights in cases]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda weights: render_png(draw(weights)), cases)) == alone


def test_neither_pyplot_nor_a_backend_is_imported() -> None:
    program = """
import sys
import numpy as np
from nmt.inspection.heatmaps import attention_figure, render_png
render_png(attention_figure(np.ones((2, 1, 1)), rows=["a"], columns=["b"], title="t",
                            row_label="r", column_label="c"))
assert not {"matplotlib.pyplot", "keras", "tensorflow", "jax"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
