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
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from nmt.errors import UserError

TENSORBOARD_DPI = 100  # pixels per inch; with it no picture is wider than 2,000 pixels
FILE_DPI = 200  # for slides and print
SUFFIXES = (".png", ".svg", ".pdf")

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


def attention_figure(
    weights: NDArray[Any],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    row_label: str,
    column_label: str,
) -> Figure:
    """Draw one heatmap per head and, first and apart from them, their mean if there are several.

    Args:
        weights: Attention weights [H, T, S], 0 to 1, as the colour scale is.
        rows: The T tokens that attend, first at the top.
        columns: The S tokens attended to, first at the left.
        title: Heading of the whole picture, wrapped to its width.
        row_label: Name of the rows, such as "target tokens".
        column_label: Name of the columns, such as "source tokens".

    Returns:
        A figure sized by its tokens. Characters that no installed font has appear as □, tokens of
        more than 20 characters are cut, and beyond 125 tokens only every n-th is named.

    Raises:
        ValueError: The weights are not [H, T, S] with at least one of each, or T or S differs from
            the number of tokens.
    """
    weights = np.asarray(weights, dtype=np.float32)  # [H, T, S]
    if weights.ndim != 3 or 0 in weights.shape:
        raise ValueError(f"weights are [heads, rows, columns], none empty; not {weights.shape}")
    if weights.shape[1:] != (len(rows), len(columns)):
        raise ValueError(
            f"weights {weights.shape} do not fit {len(rows)} rows and {len(columns)} columns"
        )
    panels = [(f"head {number}", head) for number, head in enumerate(weights, start=1)]
    if len(weights) > 1:
        panels.insert(0, (f"mean of {len(weights)} heads", weights.mean(axis=0)))

    figure = Figure(dpi=TENSORBOARD_DPI, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    panel = _Panel.of(canvas, [_label(t) for t in rows], [_label(t) for t in columns])
    page = _best_page(panel, heads=len(panels) - 1)
    heading = _wrapped(canvas, title, page.width - 2 * _MARGIN)
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
        axes = figure.add_axes(page.fractions((spot.x, spot.y, panel.width, panel.height)))
        axes.imshow(
            head,
            cmap="magma_r",
            vmin=0,
            vmax=1,
            origin="upper",
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_title(name, loc="left", pad=5, **_style(_PANEL_PT))
        panel.put_tokens(axes, rows=spot.row_tokens, columns=spot.column_tokens)
        if spot.row_label:
            # On a low heatmap from its top down: there is more room below than above.
            at, end = (0.5, "center") if panel.height > 1.2 else (1.0, "right")
            axes.set_ylabel(_drawable(row_label), ha=end, **_style(_NAME_PT))
            axes.yaxis.set_label_coords(-(panel.left + 0.05) / panel.width, at)
        if spot.column_label:
            axes.set_xlabel(_drawable(column_label), **_style(_NAME_PT))

    bar = figure.colorbar(
        figure.axes[0].images[0],
        cax=figure.add_axes(page.fractions(page.bar)),
        orientation="horizontal",
        ticks=(0, 0.5, 1),
    )
    bar.set_label("attention weight", **_style(_NAME_PT))
    bar.ax.tick_params(labelsize=_NAME_PT, length=3)
    if page.rule:
        x, y, width, height = page.fractions(page.rule)
        figure.add_artist(Line2D((x, x + width), (y, y + height), color="0.7", linewidth=1))
    return figure


def render_png(figure: Figure, dpi: float = TENSORBOARD_DPI) -> bytes:
    """Return the figure as the bytes of a PNG file, at ``dpi`` pixels per inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of its suffix, making the folder where there is none.

    Raises:
        UserError: The suffix is none of `SUFFIXES`, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: a picture's name must end in one of {', '.join(SUFFIXES)}")
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
    def of(cls, canvas: FigureCanvasAgg, rows: list[str], columns: list[str]) -> _Panel:
        longer = max(len(rows), len(columns))
        cell = min(max(_PANEL / longer, _MIN_CELL), _MAX_CELL, _MAX_PANEL / longer)
        token_pt = min(max(cell / _LINE, _MIN_TOKEN_PT), _MAX_TOKEN_PT)
        angle = 45 if cell >= _SLANTED else 90
        along, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        column_width = _width(canvas, columns, token_pt)
        return cls(
            rows=rows,
            columns=columns,
            cell=cell,
            token_pt=token_pt,
            angle=angle,
            left=_TICK + max(_width(canvas, rows, token_pt), column_width * along - cell / 2),
            below=_TICK + column_width * down + token_pt * _LINE * along,
            title_width=_width(canvas, ["head 88"], _PANEL_PT),
        )

    @property
    def width(self) -> float:
        return self.cell * len(self.columns)

    @property
    def height(self) -> float:
        return self.cell * len(self.rows)

    def put_tokens(self, axes: Axes, *, rows: bool, columns: bool) -> None:
        """Write the tokens beside the cells: every n-th where a line of text is n cells high."""
        every = math.ceil(round(self.token_pt * _LINE / self.cell, 3))
        style = _style(self.token_pt)
        axes.set_yticks(range(0, len(self.rows), every))
        axes.set_yticklabels(self.rows[::every] if rows else [], **style)
        axes.set_xticks(range(0, len(self.columns), every))
        axes.set_xticklabels(
            self.columns[::every] if columns else [],
            rotation=self.angle,
            rotation_mode="anchor",
            ha="right",
            va="center" if self.angle == 90 else "top",
            **style,
        )
        axes.tick_params(length=2, pad=3)


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


def _best_page(panel: _Panel, heads: int) -> _Page:
    """Return the arrangement that fits the width, is small and comes near `_ASPECT`."""
    if not heads:
        return _page(panel, 0, across=1, beside=True)

    def badness(across: int, beside: bool) -> tuple[float, float]:
        page = _page(panel, heads, across=across, beside=beside)
        shape = abs(math.log(page.width / page.height / _ASPECT))
        return max(page.width, _MAX_WIDTH), shape + math.log(page.width * page.height)

    choices = [(across, beside) for across in range(1, heads + 1) for beside in (True, False)]
    across, beside = min(choices, key=lambda choice: badness(*choice))
    return _page(panel, heads, across=across, beside=beside)


def _page(panel: _Panel, heads: int, *, across: int, beside: bool) -> _Page:
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


def _label(token: str) -> str:
    """Return the token as its axis shows it: on one line, not too long."""
    label = _drawable(token.translate(_MADE_VISIBLE))
    return label if len(label) <= _LONGEST_TOKEN else label[: _LONGEST_TOKEN - 1] + "…"


def _wrapped(canvas: FigureCanvasAgg, title: str, width: float) -> list[str]:
    """Break the title into lines of about ``width`` at most."""
    lines = []
    for line in title.splitlines():
        line = _drawable(line, "bold")
        needed = max(_width(canvas, [line], _TITLE_PT, "bold"), 0.01)
        lines += textwrap.wrap(line, max(int(0.95 * len(line) * width / needed), 1))
    return lines


def _width(
    canvas: FigureCanvasAgg, texts: Iterable[str], points: float, weight: str = "normal"
) -> float:
    """Return the width of the widest of these texts of one line each."""
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    font = font_manager.FontProperties(family=list(_families()), size=points, weight=weight)
    widths = (renderer.get_text_width_height_descent(text, font, False)[0] for text in texts)
    return float(max(widths)) / renderer.dpi


def _style(points: float, weight: str = "normal") -> dict[str, Any]:
    """Return what all texts have in common: our fonts, and that `$` is just a dollar sign."""
    return {"family": list(_families()), "size": points, "weight": weight, "parse_math": False}


def _drawable(text: str, weight: str = "normal") -> str:
    """Replace what our fonts lack by a box; drop what shows nothing by itself (joiners)."""
    glyphs = _glyphs(weight)
    return "".join(
        char if ord(char) in glyphs else "" if unicodedata.category(char) in ("Cf", "Mn") else "□"
        for char in text
    )


@lru_cache
def _glyphs(weight: str) -> frozenset[int]:
    """Return the code points that our fonts can draw, so that matplotlib never warns of one."""
    names = [font_manager.FontProperties(family=name, weight=weight) for name in _families()]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in names]
    return frozenset(code for font in fonts for code in font.get_charmap())


@lru_cache
def _families() -> tuple[str, ...]:
    installed = set(font_manager.fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _MORE_FONTS if name in installed))
