"""Pictures of weights: positional encodings, and norms of each layer's matrices.

Like `nmt.analysis.pictures.heatmaps`, this never touches matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from nmt.analysis.anatomy.norms import Norms, similarity


def draw_norms(norms: Norms) -> Figure:
    """Draw both norms as heatmaps of layers (rows) and parts (columns), with numbers."""
    width = 1.8 + 0.62 * len(norms.parts)
    height = 1.6 + 0.3 * len(norms.layers)
    figure = Figure(figsize=(width, 2 * height), layout="constrained", facecolor="white")
    titles = ("root mean square of the entries", "largest singular value")
    for axes, values, title in zip(
        figure.subplots(2, 1), (norms.rms, norms.spectral), titles, strict=True
    ):
        image = axes.imshow(values, cmap="viridis", aspect="auto")
        axes.set_xticks(range(len(norms.parts)), norms.parts, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(range(len(norms.layers)), norms.layers, fontsize=8)
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


def draw_positions(table: np.ndarray) -> Figure:
    """Draw positional encodings [L, D], and the similarity of any two positions."""
    figure = Figure(figsize=(12, 5), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    limit = float(np.abs(table).max())
    image = left.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    left.set_title("vectors of positions", fontsize=10)
    left.set_xlabel("dimension")
    left.set_ylabel("position")
    figure.colorbar(image, ax=left)
    image = right.imshow(similarity(table), cmap="RdBu_r", vmin=-1, vmax=1)
    right.set_title("cosine of two positions", fontsize=10)
    right.set_xlabel("position")
    right.set_ylabel("position")
    figure.colorbar(image, ax=right)
    return figure


def draw_distances(stacks: Mapping[str, np.ndarray]) -> Figure:
    """Draw how the distance changes the score of a query and a key, a line for each head.

    Args:
        stacks: [H, 2 L - 1] by title; distances from 1 - L (the key follows the query) to L - 1;
            NaN is not drawn.
    """
    figure = Figure(figsize=(6 * len(stacks), 4), layout="constrained", facecolor="white")
    for axes, (title, values) in zip(
        figure.subplots(1, len(stacks), squeeze=False)[0], stacks.items(), strict=True
    ):
        reach = values.shape[1] // 2
        for head, line in enumerate(values, start=1):
            axes.plot(np.arange(-reach, reach + 1), line, label=f"head {head}", linewidth=1)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("tokens back from the query to the key")
        if len(values) > 1:
            axes.legend(fontsize=8)
    return figure
