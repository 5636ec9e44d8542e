"""Attention weights as pictures: (weights, tokens) in, a figure out.

Nothing here reads a model or touches matplotlib's global state (pyplot is never imported), so
figures may be drawn in any thread. Each figure is one `Axes` whose coordinates are inches from the
top left corner: an `Axes` per head would take most of the time.

Dimensions: `N` heatmaps, `H` heads, `T` tokens that attend (rows), `S` tokens attended to
(columns).
"""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from nmt.analysis.pictures.files import COLOURS
from nmt.analysis.pictures.fonts import LINE, CachedText, make_drawable, measure_text, text_style
from nmt.inference.results import Attention
from nmt.model.contract import AttentionKind

# A single heatmap is legible on a card of TensorBoard, which is about 350 pixels wide.
_SINGLE = (3.5, 150, 9.0)  # width in inches, pixels per inch, font size
_SEVERAL = (8.0, 100, 7.5)
_MARGIN = 0.1  # inches
_GAP = 0.15  # inches between heatmaps
_SCALE_WIDTH = 1.0  # inches
_MAX_CELL = 0.4  # inches
_MAX_HEIGHT = 5.0  # inches of a heatmap
_LONGEST_TOKEN = 16  # characters
_MADE_VISIBLE = str.maketrans({"\n": "⏎", "\r": "⏎", "\t": "⇥"})


def draw_mean(attention: Attention, kind: AttentionKind, layer: int, title: str) -> Figure:
    """Draw the mean of a layer's heads, legible on a card 350 pixels wide.

    Args:
        attention: attention of a sentence pair.
        kind: one of its kinds.
        layer: the layer, from 1.
        title: heading of the picture.
    """
    weights = attention.weights[kind.name][layer - 1]  # [H, T, S]
    names = [f"mean of {len(weights)} heads"]
    return _draw_kind(weights.mean(axis=0, keepdims=True), names, attention, kind, title)


def draw_heads(attention: Attention, kind: AttentionKind, layer: int, title: str) -> Figure:
    """Draw each head of a layer, after their mean if there are several; see `draw_mean`."""
    weights = attention.weights[kind.name][layer - 1]  # [H, T, S]
    names = [f"head {number}" for number in range(1, len(weights) + 1)]
    if len(weights) > 1:
        names.insert(0, "mean")
        weights = np.concatenate([weights.mean(axis=0, keepdims=True), weights])
    return _draw_kind(weights, names, attention, kind, title)


def _draw_kind(
    weights: NDArray[Any],
    names: Sequence[str],
    attention: Attention,
    kind: AttentionKind,
    title: str,
) -> Figure:
    row_label, column_label = (
        "source" if axis == "source" else "target" for axis in (kind.rows, kind.columns)
    )
    return draw_heatmaps(
        weights,
        names=names,
        rows=attention.tokens(kind.rows),
        columns=attention.tokens(kind.columns),
        title=title,
        row_label=row_label,
        column_label=column_label,
    )


def draw_heatmaps(
    weights: NDArray[Any],
    *,
    names: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    row_label: str,
    column_label: str,
) -> Figure:
    """Draw heatmaps [N, T, S] of the same tokens, on one colour scale from 0 to 1.

    Tokens of more than 16 characters are cut, characters that no installed font has appear as □,
    and where a cell is smaller than a line of text, only every n-th token is named.

    Args:
        weights: [N, T, S], 0 to 1.
        names: what each of the N heatmaps shows.
        rows: the T tokens that attend, first at the top.
        columns: the S tokens attended to, first at the left.
        title: heading of the picture, wrapped to its width.
        row_label: name of the rows, such as "target".
        column_label: name of the columns, such as "source".

    Raises:
        ValueError: the weights are empty, or do not fit the names and tokens.
    """
    _check_shape(np.shape(weights), names, rows, columns)
    row_tokens, column_tokens = ([_shorten(token) for token in side] for side in (rows, columns))
    layout = _Layout(names, row_tokens, column_tokens, title, row_label)
    figure = Figure((layout.width, layout.height), dpi=layout.dpi, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    write = functools.partial(_write, axes, layout.points)
    for number, text in enumerate(layout.heading):
        write(_MARGIN, _MARGIN + number * layout.line, text, "left", "top")
    for number, (name, heatmap) in enumerate(zip(names, weights, strict=True)):
        x, y = layout.corner(number)
        _show(axes, heatmap, x, y, layout.panel_width, layout.panel_height)
        write(x, y - 0.04, name, "left", "bottom")
        if number % layout.across == 0:  # the first of its row
            for row in range(0, len(rows), layout.every):
                write(x - 0.05, y + (row + 0.5) * layout.cell, row_tokens[row], "right", "center")
            write(_MARGIN, y, row_label, "left", "top", 90)
        if number + layout.across >= len(names):  # the last of its column
            y += layout.panel_height
            for column in range(0, len(columns), layout.every):
                middle = x + (column + 0.5) * layout.cell
                write(middle, y + 0.05, column_tokens[column], "center", "top", 90)
            write(x + layout.panel_width / 2, y + layout.column_room, column_label, "center", "top")
    # The colour scale on one line: 0, colours, 1, "attention weight".
    y = layout.scale
    write(_MARGIN, y, "0", "left", "center")
    x = _MARGIN + layout.line
    _show(axes, np.linspace(0, 1, 256)[None], x, y - 0.04, _SCALE_WIDTH, 0.08)
    write(x + _SCALE_WIDTH + 0.06, y, "1  attention weight", "left", "center")
    return figure


class _Layout:
    """Sizes of a picture in inches, and positions from its top left corner.

    Args:
        names: names of the heatmaps.
        rows: T tokens as they are shown.
        columns: S tokens as they are shown.
        title: heading of the picture.
        row_label: name of the rows.
    """

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[str],
        columns: Sequence[str],
        title: str,
        row_label: str,
    ) -> None:
        width, self.dpi, self.points = _SINGLE if len(names) == 1 else _SEVERAL
        self.line = self.points * LINE
        self.across = math.ceil(math.sqrt(len(names)))  # heatmaps in a row of the picture
        self.left = _MARGIN + self.line + 0.1 + self._measure(rows)
        room = (width - self.left - _MARGIN + _GAP) / self.across - _GAP  # for a heatmap
        self.cell = min(room / len(columns), _MAX_HEIGHT / len(rows), _MAX_CELL)
        self.every = math.ceil(round(self.line / self.cell, 3))  # tokens from one label to the next
        self.panel_width, self.panel_height = self.cell * len(columns), self.cell * len(rows)
        self.step_x = max(self.panel_width, self._measure(names)) + _GAP
        self.width = max(self.left + self.across * self.step_x - _GAP + _MARGIN, _SINGLE[0])
        self.heading = _wrap(title, self.points, self.width - 2 * _MARGIN)
        self.top = _MARGIN + (len(self.heading) + 1) * self.line + 0.1
        height = max(self.panel_height, self._measure([row_label]))
        self.step_y = height + self.line + _GAP
        self.column_room = 0.1 + self._measure(columns)
        bottom = self.corner(len(names) - 1)[1] + height + self.column_room + self.line
        self.scale = bottom + self.line  # middle of the colour scale
        self.height = self.scale + self.line

    def _measure(self, texts: Sequence[str]) -> float:
        """Return the width of the widest text."""
        return max(measure_text(make_drawable(text), self.points) for text in texts)

    def corner(self, number: int) -> tuple[float, float]:
        """Return x and y of a heatmap's top left corner."""
        row, column = divmod(number, self.across)
        return self.left + column * self.step_x, self.top + row * self.step_y


def _check_shape(
    shape: tuple[int, ...], names: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> None:
    if shape != (len(names), len(rows), len(columns)) or 0 in shape:
        raise ValueError(
            f"weights {shape} do not fit {len(names)} names, {len(rows)} rows and "
            f"{len(columns)} columns"
        )


def _write(
    axes: Axes, points: float, x: float, y: float, text: str, ha: str, va: str, rotation: int = 0
) -> None:
    """Write a text with its anchor at (x, y)."""
    style = text_style(points) | {"ha": ha, "va": va, "rotation": rotation}
    axes.add_artist(CachedText(x, y, make_drawable(text), transform=axes.transData, **style))


def _show(
    axes: Axes, values: NDArray[Any], x: float, y: float, width: float, height: float
) -> None:
    """Draw values from 0 to 1 in a frame whose top left corner is (x, y)."""
    axes.imshow(
        values,
        cmap=COLOURS,
        vmin=0,
        vmax=1,
        extent=(x, x + width, y + height, y),
        aspect="auto",
        interpolation="nearest",
    )
    axes.add_patch(Rectangle((x, y), width, height, fill=False, linewidth=0.8))


def _shorten(token: str) -> str:
    """Return the token as its axis shows it: on one line, at most 16 characters."""
    label = make_drawable(token.translate(_MADE_VISIBLE))
    return label if len(label) <= _LONGEST_TOKEN else label[: _LONGEST_TOKEN - 1] + "…"


def _wrap(title: str, points: float, width: float) -> list[str]:
    """Break the title into lines of about ``width`` inches at most."""
    lines = []
    for line in map(make_drawable, title.splitlines()):
        share = width / max(measure_text(line, points), 0.01)
        lines += textwrap.wrap(line, max(int(0.95 * len(line) * share), 1))
    return lines
