"""Pictures of weights: positional encodings, and how large each layer's matrices are.

Like `nmt.inspection.heatmaps`, this never touches matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.model.transformer import Transformer

_ATTENTION_PARTS = ("query", "key", "value", "output")
_PARTS = (
    *(("self-attention", "self_attention", part) for part in _ATTENTION_PARTS),
    *(("self-attention", "causal_self_attention", part) for part in _ATTENTION_PARTS),
    *(("cross-attention", "cross_attention", part) for part in _ATTENTION_PARTS),
    *(("feed-forward", "feed_forward", part) for part in ("gate", "inner", "outer")),
)


@dataclass(frozen=True)
class Norms:
    """Norms of the kernels, by layer and part; NaN where a layer has no such part."""

    layers: list[str]
    parts: list[str]
    rms: np.ndarray  # float64 [layers, parts]: root mean square of the entries
    spectral: np.ndarray  # float64 [layers, parts]: largest singular value


def weight_norms(model: Transformer) -> Norms:
    """Measure every kernel of the encoder and decoder blocks.

    The root mean square says how large the entries are, whatever the shape; the largest singular
    value how much a matrix can stretch a vector.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for name, weight in model.named_weights().items():
        folders = name.split("/")
        if folders[-1] != "kernel":
            continue
        [label] = [
            f"{shown} {part}"
            for shown, kind, part in _PARTS
            if (kind, part) == (folders[1], folders[2])
        ]
        kernel = np.asarray(weight, np.float64)
        rms = float(np.sqrt(np.mean(kernel**2)))
        found[folders[0], label] = (rms, float(np.linalg.norm(kernel, 2)))
    layers = list(dict.fromkeys(layer for layer, _ in found))
    shown = [f"{label} {part}" for label, _, part in _PARTS]
    parts = [part for part in dict.fromkeys(shown) if any(part == label for _, label in found)]
    missing = (float("nan"), float("nan"))
    both = np.array([[found.get((layer, part), missing) for part in parts] for layer in layers])
    return Norms([_numbered(layer) for layer in layers], parts, both[..., 0], both[..., 1])


def _numbered(layer: str) -> str:
    """Return "encoder 1" for "encoder_0": people count layers from 1, as all pictures here do."""
    stack, _, number = layer.partition("_")
    return f"{stack} {int(number) + 1}"


def norms_figure(norms: Norms) -> Figure:
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


def position_table(model: Transformer) -> np.ndarray:
    """Return the positional encodings of a model, float32 [max_length, D]."""
    return np.asarray(model.positions.table, np.float32)


def similarity(table: np.ndarray) -> np.ndarray:
    """Return the cosine of every two positions' vectors: [L, D] -> [L, L].

    For sinusoids it depends on the distance of the positions alone.
    """
    unit = table / np.linalg.norm(table, axis=-1, keepdims=True)
    return unit @ unit.T


def positions_figure(table: np.ndarray, kind: str) -> Figure:
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
