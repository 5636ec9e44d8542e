"""The picture shows the weights it was given, where its tokens say, and its texts can be read."""

from __future__ import annotations

import io
import itertools
import warnings
from dataclasses import dataclass

import fake_attention
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from PIL import Image

from nmt.analysis.pictures.files import render_png
from nmt.analysis.pictures.heatmaps import draw_heads, draw_heatmaps, draw_mean

Weights = NDArray[np.float32]

NEAR = 0.1  # inches


def random_weights(count: int, rows: int, columns: int) -> Weights:
    """Return [count, rows, columns], each row a distribution."""
    rng = np.random.default_rng(count + rows + columns)
    return rng.dirichlet(np.full(columns, 0.3), (count, rows)).astype(np.float32)


def draw(
    weights: Weights, rows: list[str] | None = None, columns: list[str] | None = None
) -> Figure:
    return draw_heatmaps(
        weights,
        names=[f"head {number}" for number in range(1, len(weights) + 1)],
        rows=rows or [f"r{i}" for i in range(weights.shape[1])],
        columns=columns or [f"c{i}" for i in range(weights.shape[2])],
        title="Cross attention",
        row_label="target tokens",
        column_label="source tokens",
    )


def texts(figure: Figure) -> list[Text]:
    return list(figure.axes[0].texts)


def images(figure: Figure) -> list[AxesImage]:
    return list(figure.axes[0].images)


def heatmaps(figure: Figure) -> list[Heatmap]:
    return [Heatmap(figure, image) for image in images(figure)[:-1]]  # the last is the colour scale


@dataclass(frozen=True)
class Heatmap:
    """A heatmap, and the texts that a reader takes to belong to it.

    Positions are inches from the top left corner of the picture.
    """

    figure: Figure
    image: AxesImage

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Return left, right, bottom, top."""
        return self.image.get_extent()

    @property
    def weights(self) -> Weights:
        return np.asarray(self.image.get_array())

    @property
    def title(self) -> str:
        left, _, _, top = self.box
        [title] = [
            text.get_text()
            for text in texts(self.figure)
            if text.get_position()[0] == left and 0 < top - text.get_position()[1] < NEAR
        ]
        return title

    def centre(self, row: float, column: float) -> tuple[float, float]:
        """Return the middle of a cell."""
        rows, columns = self.weights.shape
        left, right, bottom, top = self.box
        x = left + (column + 0.5) / columns * (right - left)
        return x, top + (row + 0.5) / rows * (bottom - top)

    def tokens(self) -> tuple[dict[int, Text], dict[int, Text]]:
        """Return the texts right beside the rows, and right below the columns, by their cell."""
        left, right, bottom, top = self.box
        tokens: tuple[dict[int, Text], dict[int, Text]] = ({}, {})
        for text in texts(self.figure):
            x, y = text.get_position()
            if not text.get_rotation() and 0 < left - x < NEAR:
                side, share = 0, (y - top) / (bottom - top)
            elif text.get_rotation() and 0 < y - bottom < NEAR:
                side, share = 1, (x - left) / (right - left)
            else:
                continue
            if 0 < share < 1:
                cell = share * self.weights.shape[side] - 0.5
                assert cell == pytest.approx(round(cell), abs=1e-6)  # beside the middle of a cell
                tokens[side][round(cell)] = text
        return tokens


def names(panel: Heatmap) -> tuple[list[str], list[str]]:
    """Return the row and the column tokens written beside a heatmap."""
    rows, columns = panel.tokens()
    return [rows[i].get_text() for i in sorted(rows)], [
        columns[i].get_text() for i in sorted(columns)
    ]


def decoded(figure: Figure) -> NDArray[np.int64]:
    """Return the pixels of the picture, RGB."""
    return np.asarray(Image.open(io.BytesIO(render_png(figure))).convert("RGB")).astype(int)


def pixel(figure: Figure, point: tuple[float, float]) -> tuple[int, int]:
    """Return row and column of the pixel at a point in inches."""
    x, y = point
    return int(y * figure.dpi), int(x * figure.dpi)


def test_the_mean_comes_first_and_then_every_head() -> None:
    attention = fake_attention.attention(heads=3)
    kind = attention.kinds[2]
    weights = attention.weights["cross"][1]
    figure = draw_heads(attention, kind, 2, "title")
    panels = heatmaps(figure)
    assert [panel.title for panel in panels] == ["mean", "head 1", "head 2", "head 3"]
    np.testing.assert_array_equal(panels[0].weights, weights.mean(axis=0))
    for panel, head in zip(panels[1:], weights, strict=True):
        np.testing.assert_array_equal(panel.weights, head)
    assert names(panels[2]) == (attention.target_out, attention.source)
    [panel] = heatmaps(draw_mean(attention, kind, 2, "title"))
    assert panel.title == "mean of 3 heads"
    np.testing.assert_array_equal(panel.weights, weights.mean(axis=0))


def test_one_head_has_no_mean() -> None:
    attention = fake_attention.attention(heads=1)
    [panel] = heatmaps(draw_heads(attention, attention.kinds[0], 1, "title"))
    assert panel.title == "head 1"


def test_what_is_no_head_has_its_own_name() -> None:
    weights = random_weights(2, 4, 3)
    figure = draw_heatmaps(
        weights,
        names=["a measure with a long name", "another"],
        rows=list("abcd"),
        columns=list("xyz"),
        title="two measures",
        row_label="target",
        column_label="source",
    )
    panels = heatmaps(figure)
    assert [panel.title for panel in panels] == ["a measure with a long name", "another"]
    np.testing.assert_array_equal(panels[1].weights, weights[1])


def test_rows_run_down_and_columns_to_the_right() -> None:
    weights = np.zeros((1, 2, 3), np.float32)
    weights[0, 0, 2] = 1.0  # "is" attends to "casa" only
    figure = draw(weights, rows=["is", "house"], columns=["la", "es", "casa"])
    [panel] = heatmaps(figure)
    assert names(panel) == (["is", "house"], ["la", "es", "casa"])
    assert [sorted(side) for side in panel.tokens()] == [[0, 1], [0, 1, 2]]
    picture = decoded(figure)

    def lightness(row: int, column: int) -> float:
        return float(picture[pixel(figure, panel.centre(row, column))].mean())

    # "is" stands above "house", and "casa" right of "la".
    rows, columns = panel.tokens()
    assert rows[0].get_position()[1] < rows[1].get_position()[1]
    assert columns[2].get_position()[0] > columns[0].get_position()[0]
    others = [lightness(r, c) for r, c in itertools.product(range(2), range(3)) if (r, c) != (0, 2)]
    assert lightness(0, 2) < 10
    assert min(others) > 200


def test_all_panels_share_the_scale_0_to_1() -> None:
    figure = draw(random_weights(3, 4, 5) * 0.01)
    assert [image.get_clim() for image in images(figure)] == 4 * [(0, 1)]
    assert len({image.get_cmap().name for image in images(figure)}) == 1
    scale = images(figure)[-1]
    np.testing.assert_array_equal(np.asarray(scale.get_array()), np.linspace(0, 1, 256)[None])
    left, right, bottom, top = scale.get_extent()
    positions = {
        text.get_text(): text.get_position()[0]
        for text in texts(figure)
        if top < text.get_position()[1] < bottom
    }
    assert list(positions) == ["0", "1  attention weight"]
    assert positions["0"] < left < right < positions["1  attention weight"]


def test_the_colours_grow_darker_with_the_weight() -> None:
    figure = draw(np.linspace(0, 1, 11, dtype=np.float32)[None, None, :])
    [panel] = heatmaps(figure)
    picture = decoded(figure)
    lightness = [
        picture[pixel(figure, panel.centre(0, column))].astype(float) @ (0.299, 0.587, 0.114)
        for column in range(11)
    ]
    assert (np.diff(lightness) < -5).all()


def test_few_colours_show_what_all_colours_show() -> None:
    figure = draw(random_weights(4, 5, 7))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi)
    assert len(render_png(figure)) < len(buffer.getvalue()) / 2
    exact = np.asarray(Image.open(buffer).convert("RGB")).astype(int)
    few = decoded(figure)
    assert np.abs(exact - few).mean() < 1  # of 255
    assert (few[0] == 255).all()
    for panel in heatmaps(figure):
        for row, column in np.ndindex(panel.weights.shape):
            point = pixel(figure, panel.centre(row, column))
            assert np.abs(exact[point] - few[point]).max() <= 6


def test_the_axes_are_named() -> None:
    figure = draw(random_weights(1, 4, 3))
    [panel] = heatmaps(figure)
    left, right, bottom, top = panel.box
    named = {text.get_text(): text for text in texts(figure)}
    x, y = named["target tokens"].get_position()
    assert (x < left, top <= y < bottom, named["target tokens"].get_rotation()) == (True, True, 90)
    x, y = named["source tokens"].get_position()
    assert (left < x < right, y > bottom, named["source tokens"].get_rotation()) == (True, True, 0)


def test_tokens_are_written_at_the_edges_of_the_picture_only() -> None:
    panels = heatmaps(draw(random_weights(5, 6, 7)))  # three above two
    assert [[len(side) for side in names(panel)] for panel in panels] == [
        [6, 0],
        [0, 0],
        [0, 7],
        [6, 7],
        [0, 7],
    ]


def test_the_tokens_of_one_heatmap_are_legible_on_a_card_of_350_pixels() -> None:
    figure = draw(random_weights(1, 40, 40), columns=["▁encuentro"] * 40)
    scale = 350 / figure.get_size_inches()[0]  # pixels per inch on the card
    for side in heatmaps(figure)[0].tokens():
        assert len(side) >= 10
        assert all(float(text.get_fontsize()) / 72 * scale > 12 for text in side.values())
    assert figure.get_size_inches()[1] < 2 * figure.get_size_inches()[0]


@pytest.mark.parametrize(
    ("count", "rows", "columns"),
    [
        (1, 1, 1),
        (4, 1, 2),
        (1, 5, 7),
        (9, 5, 7),
        (5, 20, 25),
        (3, 12, 30),
        (2, 60, 60),
        (1, 60, 5),
        (1, 9, 150),
        (17, 9, 8),
    ],
)
def test_every_text_can_be_read(count: int, rows: int, columns: int) -> None:
    figure = draw(
        random_weights(count, rows, columns),
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
            positions = [tokens[cell].get_position()[1 - side] for cell in sorted(tokens)]
            assert (np.abs(np.diff(positions)) > size / 72).all()
    for number, image in enumerate(images(figure)):
        boxes[f"field {number}"] = image.get_window_extent()
    for number, text in enumerate(texts(figure)):
        if text not in grouped:
            boxes[f"{text.get_text()} ({number})"] = text.get_window_extent()
    for name, box in boxes.items():
        assert 0 <= box.x0 <= box.x1 <= width, name
        assert 0 <= box.y0 <= box.y1 <= height, name
    overlapping = [
        (name, other)
        for (name, box), (other, other_box) in itertools.combinations(boxes.items(), 2)
        if box.overlaps(other_box)
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
    figure.set_dpi(dpi)
    ink = decoded(figure)[::-1].mean(-1) < 128  # bottom row first
    left = ink.copy()

    def part(box: Bbox, margin: int) -> tuple[slice, slice]:
        (x0, y0, x1, y1) = (int(edge) for edge in box.extents)
        return slice(y0 - margin, y1 + margin + 1), slice(x0 - margin, x1 + margin + 1)

    for text in texts(figure):
        assert ink[part(text.get_window_extent(), 0)].any(), text
        left[part(text.get_window_extent(), 2)] = False
    for image in images(figure):
        left[part(image.get_window_extent(), 2 * dpi // 100)] = False  # with the frame
    assert not left.any()


def test_long_sentences_are_labelled_at_every_nth_token() -> None:
    [panel] = heatmaps(draw(random_weights(1, 6, 300)))
    assert panel.weights.shape == (6, 300)
    columns = names(panel)[1]
    step = int(columns[1][1:])
    assert step > 1
    assert columns == [f"c{column}" for column in range(0, 300, step)]


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
    "x" * 50: "x" * 15 + "…",
}


def test_odd_tokens_are_shown_as_they_are() -> None:
    tokens = [*ODD_TOKENS, "😀", "👩‍👩‍👧", "你好", "한국어", "नमस्ते", "שלום"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as a glyph that is missing
        warnings.filterwarnings("ignore", "pictures show □")
        figure = draw_heatmaps(
            random_weights(2, len(tokens), len(tokens)),
            names=["你好", "$"],
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
    figure = draw_heatmaps(
        random_weights(1, 3, 3),
        names=["name"],
        rows=["a", "b", "c"],
        columns=["d", "e", "f"],
        title=title,
        row_label="rows",
        column_label="columns",
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    heading = list(itertools.takewhile(lambda text: text.get_text() != "name", texts(figure)))
    for text in heading:
        box = text.get_window_extent()
        assert box.x1 <= canvas.get_width_height()[0]
        assert box.y0 >= images(figure)[0].get_window_extent().y1
    assert "".join("".join(text.get_text().split()) for text in heading) == "".join(title.split())


@pytest.mark.parametrize(
    "shape", [(2, 3), (1, 1, 2, 3), (0, 2, 3), (1, 3, 2), (1, 2, 4), (1, 2, 0)]
)
def test_weights_that_do_not_fit_the_tokens_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        draw(np.zeros(shape, np.float32), rows=["a", "b"], columns=["c", "d", "e"])
