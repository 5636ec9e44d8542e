"""The picture shows the weights it was given, where its tokens say, and its texts can be read."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from PIL import Image

from nmt.analysis.pictures.heatmaps import draw_attention, render_png, save_figure
from nmt.errors import UserError

Weights = NDArray[np.float32]


def random_weights(heads: int, rows: int, columns: int) -> Weights:
    """Return [heads, rows, columns], each row a distribution."""
    rng = np.random.default_rng(heads + rows + columns)
    return rng.dirichlet(np.full(columns, 0.3), (heads, rows)).astype(np.float32)


def draw(
    weights: Weights, rows: list[str] | None = None, columns: list[str] | None = None
) -> Figure:
    return draw_attention(
        weights,
        rows=rows or [f"r{i}" for i in range(weights.shape[1])],
        columns=columns or [f"c{i}" for i in range(weights.shape[2])],
        title="Cross attention",
        row_label="target tokens",
        column_label="source tokens",
    )


@dataclass(frozen=True)
class Heatmap:
    """A heatmap, with the texts that stand where a reader takes them to belong to it."""

    figure: Figure
    image: BboxImage

    @property
    def box(self) -> Bbox:
        """Return its place in pixels."""
        return Bbox(self.image.get_window_extent().get_points())

    @property
    def weights(self) -> Weights:
        return np.asarray(self.image.get_array())

    @property
    def title(self) -> str:
        near = 0.15 * self.figure.dpi
        [title] = [
            text
            for text in texts(self.figure)
            if abs(anchor(text)[0] - self.box.x0) < 1 and 0 < anchor(text)[1] - self.box.y1 < near
        ]
        return title.get_text()

    def centre(self, row: float, column: float) -> tuple[float, float]:
        """Return the middle of a cell, in pixels from the bottom left corner."""
        rows, columns = self.weights.shape
        x = self.box.x0 + (column + 0.5) / columns * self.box.width
        return x, self.box.y1 - (row + 0.5) / rows * self.box.height

    def tokens(self) -> tuple[dict[int, Text], dict[int, Text]]:
        """Return the texts right beside the rows, and right below the columns, by their cell."""
        near = 0.1 * self.figure.dpi
        found: tuple[dict[int, Text], dict[int, Text]] = ({}, {})
        for text in texts(self.figure):
            x, y = anchor(text)
            if not text.get_rotation() and 0 < self.box.x0 - x < near:
                side, place = 0, (self.box.y1 - y) / self.box.height
            elif text.get_rotation() and 0 < self.box.y0 - y < near:
                side, place = 1, (x - self.box.x0) / self.box.width
            else:
                continue
            if 0 < place < 1:
                cell = place * self.weights.shape[side] - 0.5
                assert cell == pytest.approx(round(cell), abs=1e-6)  # beside the middle of a cell
                found[side][round(cell)] = text
        return found


def texts(figure: Figure) -> list[Text]:
    return [artist for artist in figure.get_children() if isinstance(artist, Text)]


def anchor(text: Text) -> tuple[float, float]:
    x, y = text.get_transform().transform(text.get_position())
    return float(x), float(y)


def images(figure: Figure) -> list[BboxImage]:
    return [artist for artist in figure.get_children() if isinstance(artist, BboxImage)]


def heatmaps(figure: Figure) -> list[Heatmap]:
    return [Heatmap(figure, image) for image in images(figure)[:-1]]  # the last is the colour bar


def names(panel: Heatmap) -> tuple[list[str], list[str]]:
    """Return the row and the column tokens written beside a heatmap."""
    rows, columns = panel.tokens()
    return [rows[i].get_text() for i in sorted(rows)], [
        columns[i].get_text() for i in sorted(columns)
    ]


def decoded(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("L")


def test_the_mean_comes_first_and_then_every_head() -> None:
    weights = np.array(
        [[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]], np.float32
    )
    panels = heatmaps(draw(weights))
    assert [panel.title for panel in panels] == [
        "mean of 2 heads",
        "head 1",
        "head 2",
    ]
    np.testing.assert_array_equal(panels[0].weights, [[0.75, 0.25, 0.0], [0.0, 0.25, 0.75]])
    np.testing.assert_array_equal(panels[1].weights, weights[0])
    np.testing.assert_array_equal(panels[2].weights, weights[1])


def test_the_mean_stands_apart() -> None:
    figure = draw(random_weights(4, 5, 7))
    mean, *heads = heatmaps(figure)
    [line] = [
        artist
        for artist in figure.get_children()
        if isinstance(artist, Line2D) and artist.get_linestyle() != "None"
    ]
    start, end = np.asarray(line.get_xdata(), dtype=float)
    assert start == end
    x = start * figure.bbox.width
    assert mean.box.x1 < x < min(head.box.x0 for head in heads)


def test_one_head_has_no_mean() -> None:
    [panel] = heatmaps(draw(random_weights(1, 4, 3)))
    assert panel.title == "head 1"


def test_what_is_no_head_has_its_own_name_and_unit_and_no_mean() -> None:
    weights = random_weights(2, 4, 3)
    figure = draw_attention(
        weights,
        rows=list("abcd"),
        columns=list("xyz"),
        title="two measures",
        row_label="target",
        column_label="source",
        names=["a measure with a long name", "another"],
        unit="share of the row",
    )
    panels = heatmaps(figure)
    assert [panel.title for panel in panels] == ["a measure with a long name", "another"]
    np.testing.assert_array_equal(panels[1].weights, weights[1])
    shown = [text.get_text() for text in texts(figure)]
    assert "share of the row" in shown
    assert "attention weight" not in shown
    [first] = [text for text in texts(figure) if text.get_text() == panels[0].title]
    assert first.get_window_extent().x1 < panels[1].box.x0  # wider than its heatmap, yet apart


def test_rows_run_down_and_columns_to_the_right() -> None:
    weights = np.zeros((1, 2, 3), np.float32)
    weights[0, 0, 2] = 1.0  # "is" attends to "casa" only
    figure = draw(weights, rows=["is", "house"], columns=["la", "es", "casa"])
    [panel] = heatmaps(figure)
    assert names(panel) == (["is", "house"], ["la", "es", "casa"])
    assert [sorted(side) for side in panel.tokens()] == [[0, 1], [0, 1, 2]]
    picture = decoded(render_png(figure))

    def lightness(row: int, column: int) -> float:
        x, y = panel.centre(row, column)
        return float(np.asarray(picture)[picture.height - int(y), int(x)])

    # "is" stands above "house", and "casa" right of "la".
    rows, columns = panel.tokens()
    assert anchor(rows[0])[1] > anchor(rows[1])[1]
    assert anchor(columns[2])[0] > anchor(columns[0])[0]
    others = [lightness(r, c) for r, c in itertools.product(range(2), range(3)) if (r, c) != (0, 2)]
    assert lightness(0, 2) < 10
    assert min(others) > 200


def test_all_panels_share_the_scale_0_to_1() -> None:
    figure = draw(random_weights(3, 4, 5) * 0.01)
    assert [image.get_clim() for image in images(figure)] == 5 * [(0, 1)]
    assert len({image.get_cmap().name for image in images(figure)}) == 1
    bar = images(figure)[-1]
    np.testing.assert_array_equal(np.asarray(bar.get_array()), np.linspace(0, 1, 256)[None])
    box = bar.get_window_extent()
    near = Bbox.from_extents(box.x0 - 1, box.y0 - 40, box.x1 + 1, box.y0)
    below = {t.get_text(): anchor(t)[0] for t in texts(figure) if near.contains(*anchor(t))}
    assert below == {
        "0.0": pytest.approx(box.x0),
        "0.5": pytest.approx((box.x0 + box.x1) / 2),
        "1.0": pytest.approx(box.x1),
        "attention weight": pytest.approx((box.x0 + box.x1) / 2),
    }


def test_the_colours_grow_darker_with_the_weight() -> None:
    steps = np.linspace(0, 1, 11, dtype=np.float32)[None, None, :]
    figure = draw(steps)
    [panel] = heatmaps(figure)
    picture = np.asarray(decoded(render_png(figure)), dtype=float)
    centres = [panel.centre(0, column) for column in range(11)]
    lightness = [picture[picture.shape[0] - int(y), int(x)] for x, y in centres]
    assert (np.diff(lightness) < -5).all()


def test_few_colours_show_what_all_colours_show() -> None:
    figure = draw(random_weights(4, 9, 8))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    png = render_png(figure)
    assert len(png) < len(buffer.getvalue()) / 2
    exact, few = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
                  for data in (buffer.getvalue(), png))  # fmt: skip
    assert np.abs(exact - few).mean() < 1  # of 255
    assert (few[0] == 255).all()
    for panel in heatmaps(figure):
        for row, column in np.ndindex(panel.weights.shape):
            x, y = panel.centre(row, column)
            place = few.shape[0] - int(y), int(x)
            assert np.abs(exact[place] - few[place]).max() <= 6


def test_the_axes_are_named() -> None:
    figure = draw(random_weights(1, 4, 3))
    [panel] = heatmaps(figure)
    named = {text.get_text(): text for text in texts(figure)}
    (x, y), angle = anchor(named["target tokens"]), named["target tokens"].get_rotation()
    assert (x < panel.box.x0, panel.box.y0 < y < panel.box.y1, angle) == (True, True, 90)
    (x, y), angle = anchor(named["source tokens"]), named["source tokens"].get_rotation()
    assert (panel.box.x0 < x < panel.box.x1, y < panel.box.y0, angle) == (True, True, 0)


def test_few_tokens_are_written_at_every_head_and_more_at_the_edge_only() -> None:
    for panel in heatmaps(draw(random_weights(4, 5, 7))):
        assert [len(side) for side in names(panel)] == [5, 7]
    mean, *heads = heatmaps(draw(random_weights(4, 20, 25)))
    assert [len(side) for side in names(mean)] == [20, 25]
    left = min(head.box.x0 for head in heads)
    lowest = min(head.box.y0 for head in heads)
    for head in heads:
        rows, columns = names(head)
        assert len(rows) == (20 if head.box.x0 == left else 0)
        assert len(columns) == (25 if head.box.y0 == lowest else 0)


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
    canvas.draw()  # type: ignore[no-untyped-call]
    width, height = canvas.get_width_height()
    assert width <= 2000
    boxes = {}
    grouped = set()
    for number, panel in enumerate(heatmaps(figure)):
        for side, tokens in enumerate(panel.tokens()):
            if not tokens:
                continue
            grouped |= set(tokens.values())
            extents = [text.get_window_extent() for text in tokens.values()]
            boxes[f"tokens {side} of {number}"] = Bbox.union(extents)
            size = float(tokens[0].get_fontsize())
            assert size >= 7
            places = [anchor(tokens[cell])[1 - side] for cell in sorted(tokens)]
            assert (np.abs(np.diff(places)) > size / 72 * figure.dpi).all()
    for number, image in enumerate(images(figure)):
        boxes[f"field {number}"] = image.get_window_extent()
    for number, text in enumerate(texts(figure)):
        if text not in grouped:
            boxes[f"{text.get_text()} ({number})"] = text.get_window_extent()
    for name, box in boxes.items():
        assert 0 <= box.x0 <= box.x1 <= width, name
        assert 0 <= box.y0 <= box.y1 <= height, name
    overlapping = [
        (one, other)
        for (one, box), (other, another) in itertools.combinations(boxes.items(), 2)
        if box.overlaps(another)
    ]
    assert overlapping == []


@pytest.mark.parametrize("shape", [(1, 5, 7), (4, 9, 8), (2, 20, 25)])
@pytest.mark.parametrize("dpi", [100, 200])
def test_every_text_is_where_matplotlib_takes_it_to_be(
    shape: tuple[int, int, int], dpi: int
) -> None:
    """All ink is in a field or in the extent of a text, and no text is without ink."""
    figure = draw(
        random_weights(*shape), columns=["▁encuentro", *"abcdefghijklmnopqrstuvwxyz"][: shape[2]]
    )
    ink = np.asarray(decoded(render_png(figure, dpi)))[::-1] < 128  # bottom row first
    figure.set_dpi(dpi)
    FigureCanvasAgg(figure)
    left = ink.copy()

    def part(box: Bbox, margin: int) -> tuple[slice, slice]:
        (x0, y0, x1, y1) = (int(edge) for edge in box.extents)
        return slice(y0 - margin, y1 + margin + 1), slice(x0 - margin, x1 + margin + 1)

    for text in texts(figure):
        assert ink[part(text.get_window_extent(), 0)].any(), text
        left[part(text.get_window_extent(), 2)] = False
    for image in images(figure):
        left[part(image.get_window_extent(), 4 * dpi // 100)] = False  # with frame and ticks
    assert not left.any()


def test_long_sentences_are_labelled_at_every_nth_token() -> None:
    [panel] = heatmaps(draw(random_weights(1, 6, 300)))
    assert panel.weights.shape == (6, 300)
    columns = names(panel)[1]
    assert columns[:2] in (["c0", "c2"], ["c0", "c3"])
    assert columns == [f"c{column}" for column in sorted(panel.tokens()[1])]


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
        figure = draw_attention(
            random_weights(2, len(tokens), len(tokens)),
            rows=tokens,
            columns=tokens,
            title="$\\frac{1}{$ 😀 你好",
            row_label="$_",
            column_label="好",
        )
        assert render_png(figure)
    labels = names(heatmaps(figure)[0])[0]
    assert labels[: len(ODD_TOKENS)] == list(ODD_TOKENS.values())


@pytest.mark.parametrize("title", ["", "\n", "one word", "many words " * 30, "x" * 300])
def test_titles_of_any_length_fit(title: str) -> None:
    figure = draw_attention(
        random_weights(1, 3, 3),
        rows=["a", "b", "c"],
        columns=["d", "e", "f"],
        title=title,
        row_label="rows",
        column_label="columns",
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    box = figure.texts[0].get_window_extent()
    assert box.x1 <= canvas.get_width_height()[0]
    assert box.y0 >= heatmaps(figure)[0].box.y1 or not title.strip()
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
from nmt.analysis.pictures.heatmaps import draw_attention, render_png
render_png(draw_attention(np.ones((2, 1, 1)), rows=["a"], columns=["b"], title="t",
                            row_label="r", column_label="c"))
assert not {"matplotlib.pyplot", "keras", "tensorflow", "jax"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
