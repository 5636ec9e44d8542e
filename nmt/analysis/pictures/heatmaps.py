"""Attention weights as a picture: (weights, tokens) in, a figure out.

Nothing here reads a model or touches matplotlib's global state (pyplot is never imported), so
figures may be drawn in any thread. Lengths are in inches unless a name says otherwise.

Dimensions: `H` heads, `T` tokens that attend (rows), `S` tokens attended to (columns).
"""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, font_manager
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox, TransformedBbox
from numpy.typing import NDArray
from PIL import Image

from nmt.errors import UserError
from nmt.inference.results import Attention
from nmt.model.contract import AttentionKind

TENSORBOARD_DPI = 100  # pixels per inch; with it no picture is wider than 2,000 pixels
FILE_DPI = 200  # for slides and print
SUFFIXES = (".png", ".svg", ".pdf")

_COLOURS = "magma_r"  # as in nmt/viewer/browser/colours.js
_MAX_WIDTH = 20.0
_MIN_WIDTH = 4.5  # narrower, and a title becomes a column of words
_ASPECT = 1.6  # width / height that the arrangement of the heads aims at
_MARGIN = 0.2
_GROUP_GAP = 0.5  # between the mean and the heads
_HEAD_GAP = 0.3  # between two heads
_BAR_WIDTH, _BAR_HEIGHT, _BAR_ROOM = 2.0, 0.12, 0.75  # colour bar; its room with ticks and name

_TITLE_PT, _PANEL_PT, _NAME_PT = 12.0, 10.0, 9.0  # heading, "head 1", axis names
_MIN_TOKEN_PT, _MAX_TOKEN_PT = 7.5, 10.0
_LINE = 1.3 / 72  # from one line of text to the next, inches per point of font size
_TICK = 0.08  # a tick and the space up to its token

_MIN_CELL, _MAX_CELL = 0.14, 0.38  # the smallest holds a line of the smallest tokens
_PANEL = 4.0  # side of a heatmap, where the limits of its cells allow
_MAX_PANEL = 17.0  # longer sentences get smaller cells, and a token at every n-th only
_SLANTED = 0.25  # cells this wide have room for column tokens at 45°; narrower ones turn them 90°
_SHARED = range(13, 41)  # token counts for which heads share the tokens at the edge of their grid
_LONGEST_TOKEN = 20  # characters shown of one token

# For the scripts that DejaVu Sans, which comes with matplotlib, lacks; used where installed.
_MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Zen Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Microsoft YaHei", "Malgun Gothic"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai"),
    *("Noto Sans Ethiopic", "Nirmala UI", "Arial Unicode MS"),
)
_MADE_VISIBLE = str.maketrans({"\n": "⏎", "\r": "⏎", "\t": "⇥"})


def draw_attention(
    weights: NDArray[Any],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    row_label: str,
    column_label: str,
    names: Sequence[str] | None = None,
    unit: str = "attention weight",
) -> Figure:
    """Draw one heatmap per head and, first and apart from them, their mean if there are several.

    Args:
        weights: Attention weights [H, T, S], 0 to 1, as the colour scale is.
        rows: The T tokens that attend, first at the top.
        columns: The S tokens attended to, first at the left.
        title: Heading of the whole picture, wrapped to its width.
        row_label: Name of the rows, such as "target tokens".
        column_label: Name of the columns, such as "source tokens".
        names: What each of the H heatmaps shows, if they are no heads; there is no mean then.
        unit: What the colours stand for.

    Returns:
        A figure sized by its tokens. Characters that no installed font has appear as □, tokens of
        more than 20 characters are cut, and beyond 125 tokens only every n-th is named.

    Raises:
        ValueError: The weights are not [H, T, S] with at least one of each, or T or S differs from
            the number of tokens.
    """
    weights = _check_weights(weights, rows, columns)
    heads = names or [f"head {number}" for number in range(1, len(weights) + 1)]
    panels = list(zip(heads, weights, strict=True))
    if names is None and len(weights) > 1:
        panels.insert(0, (f"mean of {len(weights)} heads", weights.mean(axis=0)))

    figure = Figure(dpi=TENSORBOARD_DPI, facecolor="white")
    panel = _Panel.of([_shorten(t) for t in rows], [_shorten(t) for t in columns], heads)
    page = _arrange_best(panel, heads=len(panels) - 1)
    heading = _wrap(title, page.width - 2 * _MARGIN)
    page = page.below_heading(_MARGIN + len(heading) * _TITLE_PT * _LINE)

    figure.set_size_inches(page.width, page.height)
    figure.text(
        _MARGIN / page.width,
        1 - _MARGIN / page.height,
        "\n".join(heading),
        va="top",
        **_style(_TITLE_PT, "bold"),
    )
    for (name, head), spot in zip(panels, page.spots, strict=True):
        drawing = _Drawing(figure, spot.x, page.height - page.heading - spot.y)
        _draw_panel(drawing, panel, spot, name, head)
        _name_axes(drawing, panel, spot, row_label, column_label)
    _draw_bar(figure, page, unit)
    if page.rule:
        x, y, width, height = page.fractions(page.rule)
        figure.add_artist(Line2D((x, x + width), (y, y + height), color="0.7", linewidth=1))
    return figure


def _check_weights(
    weights: NDArray[Any], rows: Sequence[str], columns: Sequence[str]
) -> NDArray[np.float32]:
    """Return weights in float32; raise a `ValueError` if they do not fit the tokens."""
    weights = np.asarray(weights, dtype=np.float32)  # [H, T, S]
    if weights.ndim != 3 or 0 in weights.shape:
        raise ValueError(f"weights are [heads, rows, columns], none empty; not {weights.shape}")
    if weights.shape[1:] != (len(rows), len(columns)):
        raise ValueError(
            f"weights {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns"
        )
    return weights


def _draw_panel(
    drawing: _Drawing, panel: _Panel, spot: _Spot, name: str, weights: NDArray[np.float32]
) -> None:
    """Draw one heatmap of weights [T, S], its name above it and its tokens beside it."""
    drawing.image(weights, panel.width, panel.height, name)
    drawing.text(0, -0.07, name, _PANEL_PT, ha="left", va="baseline")
    panel.put_tokens(drawing, rows=spot.row_tokens, columns=spot.column_tokens)


def _name_axes(
    drawing: _Drawing, panel: _Panel, spot: _Spot, row_label: str, column_label: str
) -> None:
    """Write what rows and columns are, at heatmaps that say it for their neighbours."""
    if spot.row_label:
        # On a low heatmap from its top down: there is more room below than above.
        y, ha = (panel.height / 2, "center") if panel.height > 1.2 else (0, "right")
        x = -(panel.left + 0.05)
        drawing.text(x, y, _make_drawable(row_label), _NAME_PT, angle=90, ha=ha, va="bottom")
    if spot.column_label:
        x, y = panel.width / 2, panel.height + panel.below + 0.05
        drawing.text(x, y, _make_drawable(column_label), _NAME_PT, ha="center", va="top")


def _draw_bar(figure: Figure, page: _Page, unit: str) -> None:
    """Draw the colour bar, with ticks and the name of its unit."""
    x, y, width, height = page.bar
    drawing = _Drawing(figure, x, page.height - page.heading - y)
    drawing.image(np.linspace(0, 1, 256)[None], width, height, "colour bar")
    ticks = (0.0, 0.5, 1.0)
    drawing.ticks([tick * width for tick in ticks], [height] * 3, TICKDOWN)
    for tick in ticks:
        drawing.text(tick * width, height + _TICK, f"{tick}", _NAME_PT, ha="center", va="top")
    drawing.text(width / 2, height + 0.27, unit, _NAME_PT, ha="center", va="top")


def draw_kind(attention: Attention, kind: AttentionKind, layer: int, title: str) -> Figure:
    """Draw one layer of one kind of attention.

    Args:
        attention: of a sentence pair.
        kind: one of its kinds.
        layer: from 1.
        title: heading of the picture.
    """
    sides = ("source" if axis == "source" else "target" for axis in (kind.rows, kind.columns))
    row_label, column_label = sides
    return draw_attention(
        attention.weights[kind.name][layer - 1],
        rows=attention.tokens(kind.rows),
        columns=attention.tokens(kind.columns),
        title=title,
        row_label=row_label,
        column_label=column_label,
    )


def render_png(figure: Figure, dpi: float = TENSORBOARD_DPI) -> bytes:
    """Return the figure, set to ``dpi`` pixels per inch, as the bytes of a PNG file.

    It has 256 colours, which takes a third of the bytes of all colours, and less time.
    """
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    picture = Image.fromarray(pixels).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(palette=_make_palette(), dither=Image.Dither.NONE).save(buffer, "png")
    return buffer.getvalue()


@lru_cache
def _make_palette() -> Image.Image:
    """Return a picture whose palette is the colour scale and, for texts, grey."""
    scale = colormaps[_COLOURS](np.linspace(0, 1, 224))[:, :3]  # [224, 3]
    grey = np.linspace(0, 1, 32)[:, None].repeat(3, axis=1)  # [32, 3]
    picture = Image.new("P", (1, 1))
    picture.putpalette((np.concatenate([scale, grey]) * 255).round().astype(np.uint8).tobytes())
    return picture


def check_suffix(path: Path) -> str:
    """Return the suffix of a picture's path, in lower case.

    Raises:
        UserError: it is none of `SUFFIXES`.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: a picture's name must end in one of {', '.join(SUFFIXES)}")
    return suffix


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of its suffix, making the folder where there is none.

    Raises:
        UserError: The suffix is none of `SUFFIXES`, or the file cannot be written.
    """
    suffix = check_suffix(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format=suffix[1:], dpi=FILE_DPI)
    except OSError as error:
        raise UserError(f"{path}: cannot write the picture: {error.strerror}") from error


@dataclass(frozen=True)
class _Panel:
    """One heatmap: its tokens, its size, and the room that the tokens take outside of it."""

    rows: list[str]
    columns: list[str]
    cell: float
    token_pt: float
    angle: int  # of the column tokens, in degrees
    left: float
    below: float
    title_width: float

    @classmethod
    def of(cls, rows: list[str], columns: list[str], names: Iterable[str]) -> _Panel:
        longer = max(len(rows), len(columns))
        cell = min(max(_PANEL / longer, _MIN_CELL), _MAX_CELL, _MAX_PANEL / longer)
        token_pt = min(max(cell / _LINE, _MIN_TOKEN_PT), _MAX_TOKEN_PT)
        angle = 45 if cell >= _SLANTED else 90
        along, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        column_width = _measure(columns, token_pt)
        return cls(
            rows=rows,
            columns=columns,
            cell=cell,
            token_pt=token_pt,
            angle=angle,
            left=_TICK + max(_measure(rows, token_pt), column_width * along - cell / 2),
            below=_TICK + column_width * down + token_pt * _LINE * along,
            title_width=_measure(["head 88", *names], _PANEL_PT),
        )

    @property
    def width(self) -> float:
        return self.cell * len(self.columns)

    @property
    def height(self) -> float:
        return self.cell * len(self.rows)

    def put_tokens(self, drawing: _Drawing, *, rows: bool, columns: bool) -> None:
        """Write the tokens beside the cells: every n-th where a line of text is n cells high."""
        every = math.ceil(round(self.token_pt * _LINE / self.cell, 3))
        ys = {row: (row + 0.5) * self.cell for row in range(0, len(self.rows), every)}
        xs = {column: (column + 0.5) * self.cell for column in range(0, len(self.columns), every)}
        drawing.ticks([0.0] * len(ys), list(ys.values()), TICKLEFT)
        drawing.ticks(list(xs.values()), [self.height] * len(xs), TICKDOWN)
        for row, y in ys.items() if rows else ():
            token = self.rows[row]
            drawing.text(-_TICK, y, token, self.token_pt, ha="right", va="center_baseline")
        va = "center" if self.angle == 90 else "top"
        for column, x in xs.items() if columns else ():
            token, y = self.columns[column], self.height + _TICK
            drawing.text(x, y, token, self.token_pt, angle=self.angle, ha="right", va=va)


@dataclass(frozen=True)
class _Drawing:
    """A part of the figure, drawn to in inches to the right of and below its top left corner.

    Figures are drawn while a model trains, and an `Axes` takes longer than all that is in it here.
    """

    figure: Figure
    left: float
    top: float

    def image(self, values: NDArray[Any], width: float, height: float, name: str) -> None:
        """Show the values, 0 to 1, in a frame."""
        inches = self.figure.dpi_scale_trans
        corner = (self.left, self.top - height)
        box = TransformedBbox(Bbox.from_bounds(*corner, width, height), inches)
        image = BboxImage(box, cmap=_COLOURS, origin="upper", interpolation="nearest")
        image.set_data(values)
        image.set_clim(0, 1)
        image.set_label(name)
        self.figure.add_artist(image)
        frame = Rectangle(corner, width, height, transform=inches, fill=False, linewidth=0.8)
        self.figure.add_artist(frame)

    def ticks(self, xs: Sequence[float], ys: Sequence[float], marker: Any) -> None:
        """Draw a tick at each of these points, to the side that the marker says."""
        ticks = Line2D(
            [self.left + x for x in xs],
            [self.top - y for y in ys],
            transform=self.figure.dpi_scale_trans,
            color="black",
            linestyle="none",
            marker=marker,
            markersize=2,
            markeredgewidth=0.8,
        )
        self.figure.add_artist(ticks)

    def text(
        self, x: float, y: float, text: str, points: float, *, ha: str, va: str, angle: float = 0
    ) -> None:
        """Write a text, turned around the point."""
        artist = _Stamped(
            self.left + x,
            self.top - y,
            text,
            transform=self.figure.dpi_scale_trans,
            rotation=angle,
            rotation_mode="anchor",
            ha=ha,
            va=va,
            **_style(points),
        )
        self.figure.add_artist(artist)


class _Stamped(Text):
    """A text that a picture of pixels shows by a stamp, made once and used wherever it recurs.

    To draw letters is what takes matplotlib longest, and all heads have the same tokens. Vector
    formats get an ordinary text.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text, in black and never clipped."""
        if not isinstance(renderer, RendererAgg):
            super().draw(renderer)
            return
        stamp, left, bottom = _stamp(
            self.get_text(),
            self.get_fontsize(),
            self.get_rotation(),
            self.get_horizontalalignment(),
            self.get_verticalalignment(),
            renderer.dpi,
        )
        if stamp.size:
            x, y = self.get_transform().transform(self.get_position())
            renderer.draw_image(renderer.new_gc(), round(x) + left, round(y) + bottom, stamp)


@lru_cache(maxsize=1024)
def _stamp(
    text: str, points: float, angle: float, ha: str, va: str, dpi: float
) -> tuple[NDArray[np.uint8], int, int]:
    """Return RGBA pixels of a text, bottom row first, and where from its anchor they begin."""
    reach = math.ceil((_measure_text(text, points, "normal") + 2 * points / 72) * dpi)
    renderer = RendererAgg(2 * reach, 2 * reach, dpi)  # type: ignore[no-untyped-call]
    artist = Text(
        reach,
        reach,
        text,
        rotation=angle,
        rotation_mode="anchor",
        ha=ha,
        va=va,
        **_style(points),
    )
    artist.set_figure(Figure(dpi=dpi))
    artist.draw(renderer)
    pixels = np.asarray(renderer.buffer_rgba())[::-1]  # type: ignore[no-untyped-call]
    ys, xs = np.nonzero(pixels[..., 3])
    if not len(ys):
        return np.empty((0, 0, 4), np.uint8), 0, 0
    left, bottom = int(xs.min()), int(ys.min())
    stamp = pixels[bottom : ys.max() + 1, left : xs.max() + 1].copy()
    return stamp, left - reach, bottom - reach


@dataclass(frozen=True)
class _Spot:
    """Where a heatmap stands (its top left corner), and what is written beside it."""

    x: float
    y: float
    row_tokens: bool = True
    column_tokens: bool = True
    row_label: bool = True
    column_label: bool = True


_Box = tuple[float, float, float, float]  # x, y of the top left corner; width, height


@dataclass(frozen=True)
class _Page:
    """An arrangement of heatmaps; positions are from its top left corner, below the heading."""

    width: float
    height: float
    spots: list[_Spot]
    bar: _Box  # colour bar
    rule: _Box | None  # line between the mean and the heads
    heading: float = 0.0

    def below_heading(self, heading: float) -> _Page:
        return replace(self, height=self.height + heading, heading=heading)

    def fractions(self, box: _Box) -> _Box:
        """Return the box as matplotlib has it: shares of the page, from the bottom left corner."""
        x, y, width, height = box
        return (
            x / self.width,
            1 - (self.heading + y + height) / self.height,
            width / self.width,
            height / self.height,
        )


def _arrange_best(panel: _Panel, heads: int) -> _Page:
    """Return the arrangement that fits the width, is small and comes near `_ASPECT`."""
    if not heads:
        return _arrange(panel, 0, across=1, beside=True)

    def badness(across: int, beside: bool) -> tuple[float, float]:
        page = _arrange(panel, heads, across=across, beside=beside)
        shape = abs(math.log(page.width / page.height / _ASPECT))
        return max(page.width, _MAX_WIDTH), shape + math.log(page.width * page.height)

    choices = [(across, beside) for across in range(1, heads + 1) for beside in (True, False)]
    across, beside = min(choices, key=lambda choice: badness(*choice))
    return _arrange(panel, heads, across=across, beside=beside)


def _arrange(panel: _Panel, heads: int, *, across: int, beside: bool) -> _Page:
    """Arrange the first heatmap, then ``heads`` in rows of ``across`` beside it or below it."""
    title = _PANEL_PT * _LINE + 0.08
    name = _NAME_PT * _LINE + 0.06
    left = name + panel.left
    below = panel.below + name
    # The first panel, with the colour bar below it.
    first = _Spot(_MARGIN + left, title)
    bar_width = max(_BAR_WIDTH, min(panel.width, 3.0))
    bar = (first.x, first.y + panel.height + below + 0.15, bar_width, _BAR_HEIGHT)
    right = first.x + max(panel.width, panel.title_width, bar_width)
    bottom = bar[1] + _BAR_ROOM
    if not heads:
        return _Page(max(right + _MARGIN, _MIN_WIDTH), bottom, [first], bar, None)
    # The grid of heads.
    share_rows, share_columns = len(panel.rows) in _SHARED, len(panel.columns) in _SHARED
    corner_x, corner_y = (right + _GROUP_GAP, 0.0) if beside else (_MARGIN, bottom + _GROUP_GAP)
    step_x = max(panel.width, panel.title_width) + (0.0 if share_rows else panel.left) + _HEAD_GAP
    step_y = title + panel.height + (0.0 if share_columns else panel.below) + _HEAD_GAP
    spots = [first]
    for head in range(heads):
        row, column = divmod(head, across)
        left_most, lowest = column == 0, head + across >= heads
        spots.append(
            _Spot(
                corner_x + left + column * step_x,
                corner_y + title + row * step_y,
                row_tokens=left_most or not share_rows,
                column_tokens=lowest or not share_columns,
                row_label=left_most,
                column_label=lowest,
            )
        )
    width = max(right, max(spot.x for spot in spots) + max(panel.width, panel.title_width))
    height = max(bottom, spots[-1].y + panel.height + below)
    if beside:
        rule = (corner_x - _GROUP_GAP / 2, 0.0, 0.0, height)
    else:
        rule = (_MARGIN, corner_y - _GROUP_GAP / 2, width - _MARGIN, 0.0)
    return _Page(max(width + _MARGIN, _MIN_WIDTH), height + _MARGIN, spots, bar, rule)


def _shorten(token: str) -> str:
    """Return the token as its axis shows it: on one line, not too long."""
    label = _make_drawable(token.translate(_MADE_VISIBLE))
    return label if len(label) <= _LONGEST_TOKEN else label[: _LONGEST_TOKEN - 1] + "…"


def _wrap(title: str, width: float) -> list[str]:
    """Break the title into lines of about ``width`` at most."""
    lines = []
    for line in title.splitlines():
        line = _make_drawable(line, "bold")
        needed = max(_measure([line], _TITLE_PT, "bold"), 0.01)
        lines += textwrap.wrap(line, max(int(0.95 * len(line) * width / needed), 1))
    return lines


def _measure(texts: Iterable[str], points: float, weight: str = "normal") -> float:
    """Return the width of the widest of these texts of one line each."""
    return max(_measure_text(text, points, weight) for text in texts)


@lru_cache(maxsize=1024)
def _measure_text(text: str, points: float, weight: str) -> float:
    renderer = RendererAgg(1, 1, TENSORBOARD_DPI)  # type: ignore[no-untyped-call]
    font = _make_font(points, weight)
    width, _, _ = renderer.get_text_width_height_descent(text, font, False)  # type: ignore[no-untyped-call]
    return float(width) / renderer.dpi


def _style(points: float, weight: str = "normal") -> dict[str, Any]:
    """Return what all texts have in common: our fonts, and that `$` is just a dollar sign."""
    return {"fontproperties": _make_font(points, weight), "parse_math": False}


@lru_cache(maxsize=64)
def _make_font(points: float, weight: str) -> font_manager.FontProperties:
    return font_manager.FontProperties(family=list(_list_families()), size=points, weight=weight)


def _make_drawable(text: str, weight: str = "normal") -> str:
    """Replace what our fonts lack by a box; drop what shows nothing by itself (joiners)."""
    glyphs = _list_glyphs(weight)
    return "".join(
        char if ord(char) in glyphs else "" if unicodedata.category(char) in ("Cf", "Mn") else "□"
        for char in text
    )


@lru_cache
def _list_glyphs(weight: str) -> frozenset[int]:
    """Return the code points that our fonts can draw, so that matplotlib never warns of one."""
    names = [font_manager.FontProperties(family=name, weight=weight) for name in _list_families()]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in names]
    return frozenset(code for font in fonts for code in font.get_charmap())


@lru_cache
def _list_families() -> tuple[str, ...]:
    installed = set(font_manager.fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _MORE_FONTS if name in installed))
