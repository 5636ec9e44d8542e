"""One number per head as a picture: layers down, heads across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray


class Grid(NamedTuple):
    """The heads of one kind of attention."""

    title: str
    values: NDArray[Any]  # [layers, H]; NaN: not measured


class Row(NamedTuple):
    """Grids of the same measure, on one colour scale from the smallest to the largest value."""

    measure: str
    digits: int  # shown behind the point
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
    axes = figure.subplots(len(rows), across, squeeze=False)
    for (measure, digits, grids), line in zip(rows, axes, strict=True):
        values = np.concatenate([grid.values.ravel() for grid in grids])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        for grid, spot in zip(grids, line, strict=True):
            image = spot.imshow(grid.values, cmap="magma_r", vmin=low, vmax=high, aspect="auto")
            spot.set_title(grid.title, fontsize=10)
            for axis, count in ((spot.yaxis, len(grid.values)), (spot.xaxis, grid.values.shape[1])):
                axis.set_ticks(range(count), labels=[str(number + 1) for number in range(count)])
            spot.set_xlabel("head")
            spot.set_ylabel("layer")
            for (layer, head), value in np.ndenumerate(grid.values):
                if np.isfinite(value):
                    dark = value > low + 0.4 * (high - low)
                    spot.text(
                        head,
                        layer,
                        f"{value:.{digits}f}",
                        ha="center",
                        va="center",
                        fontsize=8,
                        color="white" if dark else "black",
                    )
        figure.colorbar(image, ax=list(line), label=measure)
    return figure
