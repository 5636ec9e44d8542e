"""Numbers per head as pictures: layers down, heads across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray


class Grid(NamedTuple):
    """A number for each head of one kind of attention."""

    title: str
    values: NDArray[Any]  # [layers, H]; NaN: not measured


class Row(NamedTuple):
    """Grids of the same measure, on one colour scale from the smallest to the largest value."""

    measure: str
    digits: int  # decimal places
    grids: Sequence[Grid]


def draw_grids(rows: Sequence[Row]) -> Figure:
    """Draw rows of grids, one below the other."""
    layers = max(len(grid.values) for row in rows for grid in row.grids)
    heads = max(grid.values.shape[1] for row in rows for grid in row.grids)
    across = max(len(row.grids) for row in rows)
    figure = Figure(
        figsize=(across * (1.5 + 0.55 * heads) + 1, len(rows) * (1.2 + 0.45 * layers)),  # inches
        layout="constrained",
    )
    rows_of_axes = figure.subplots(len(rows), across, squeeze=False)
    for (measure, digits, grids), axes_row in zip(rows, rows_of_axes, strict=True):
        values = np.concatenate([grid.values.ravel() for grid in grids])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        for grid, axes in zip(grids, axes_row, strict=True):
            image = axes.imshow(grid.values, cmap="magma_r", vmin=low, vmax=high, aspect="auto")
            axes.set_title(grid.title, fontsize=10)
            for axis, count in ((axes.yaxis, len(grid.values)), (axes.xaxis, grid.values.shape[1])):
                axis.set_ticks(range(count), labels=[str(number + 1) for number in range(count)])
            axes.set_xlabel("head")
            axes.set_ylabel("layer")
            for (layer, head), value in np.ndenumerate(grid.values):
                if np.isfinite(value):
                    dark = value > low + 0.4 * (high - low)
                    axes.text(
                        head,
                        layer,
                        f"{value:.{digits}f}",
                        ha="center",
                        va="center",
                        fontsize=8,
                        color="white" if dark else "black",
                    )
        figure.colorbar(image, ax=list(axes_row), label=measure)
    return figure
