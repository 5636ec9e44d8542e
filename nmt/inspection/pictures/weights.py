"""Pictures of weights: positional encodings, and how large each layer's matrices are.

Like `nmt.inspection.pictures.heatmaps`, this never touches matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.inspection.anatomy.norms import Norms, similarity


def draw_norms(norms: Norms) -> Figure:
    """Draw both norms as heatmaps of layers (rows) and parts (columns), with their numbers."""
    width = 1.8 + 0.62 * len(norms.parts)
    height = 1.6 + 0.3 * len(norms.layers)
    figure = Figure(figsize=(width, 2 * height), layout="constrained", facecolor="white")
    titles = ("root mean square of the entries", "largest singular value")
    for axes, values, title in zip(
        figure.subplots(2, 1), (norms.rms, norms.spectral), titles, strict=True
    ):
        image = axes.imshow(values, cmap="viridis", aspect="auto")
        _ticks(axes, norms.parts, norms.layers)
        axes.set_title(title, fontsize=10)
        middle = (np.nanmin(values) + np.nanmax(values)) / 2
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                color = "white" if value < middle else "black"
                axes.text(
                    column, row, f"{value:#.3g}", ha="center", va="center", fontsize=7, color=color
                )
        figure.colorbar(image, ax=axes)
    return figure


def draw_positions(table: np.ndarray, kind: str) -> Figure:
    """Draw the positional encodings [L, D], and how alike every two positions are.

    Args:
        table: [L, D].
        kind: "sinusoidal" or "learned", for the titles.
    """
    figure = Figure(figsize=(12, 5), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    limit = float(np.abs(table).max())
    image = left.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    left.set_title(f"{kind} positions", fontsize=10)
    left.set_xlabel("dimension")
    left.set_ylabel("position")
    figure.colorbar(image, ax=left)
    image = right.imshow(similarity(table), cmap="RdBu_r", vmin=-1, vmax=1)
    right.set_title("cosine of two positions", fontsize=10)
    right.set_xlabel("position")
    right.set_ylabel("position")
    figure.colorbar(image, ax=right)
    return figure


def _ticks(axes: Axes, columns: Sequence[str], rows: Sequence[str]) -> None:
    """Name the columns and rows of a heatmap."""
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
