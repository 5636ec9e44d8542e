"""The plot of a comparison: quality against time and against size, every run named."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.analysis.comparison.runs import TEST_SCORE, RunSummary

_DPI = 110  # pixels per inch
_LABEL_GAP = 0.045  # between two labels, as a share of the plot's height

Point = tuple[tuple[float, float], str, Any]  # (x, y), name, colour


def render_plot(figure: Figure) -> bytes:
    """Return a plot for a page as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()


def render_comparison(runs: Sequence[RunSummary]) -> bytes:
    """Return the plot as the bytes of a PNG file."""
    return render_plot(draw_comparison(runs))


def draw_comparison(runs: Sequence[RunSummary]) -> Figure:
    """Draw dev BLEU against minutes, and quality against parameters."""
    height = max(4.5, 1.2 + 0.18 * len(runs))
    figure = Figure(figsize=(13, height), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    palette, styles = colormaps["tab10"].colors, ("-", "--", ":", "-.")  # type: ignore[attr-defined]
    colours = [palette[i % len(palette)] for i in range(len(runs))]
    ends: list[Point] = []
    for i, run in enumerate(runs):
        if run.curve:
            style = styles[i // len(palette) % len(styles)]
            left.plot(*zip(*run.curve, strict=True), style, color=colours[i], marker=".", lw=1.2)
            ends.append((run.curve[-1], run.name, colours[i]))
    left.set(xlabel="minutes of training", ylabel="dev BLEU, greedy", title="Quality against time")
    _label_points(left, ends)
    on_test = all(run.test_bleu is not None for run in runs)
    dots: list[Point] = []
    for run, colour in zip(runs, colours, strict=True):
        value = run.test_bleu if on_test else run.best
        if value is not None:
            point = (run.parameters / 1e6, value)
            dots.append((point, run.name, colour))
            width = run.scores[TEST_SCORE]["half_width"] if on_test else None
            right.errorbar(*point, yerr=width, fmt="o", color=colour, elinewidth=0.6)
    right.set(
        xlabel="parameters, millions",
        ylabel="test BLEU, 95% interval" if on_test else "best dev BLEU, greedy",
        title="Quality against size",
    )
    right.margins(x=0.15)
    _label_points(right, dots)
    return figure


def _label_points(axes: Axes, points: Sequence[Point]) -> None:
    """Name points at the right edge, where no name covers another, and draw a line to each.

    Everything else has to be drawn before: the limits of the axes are fixed here.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    heights = spread([(y - low) / (high - low) for (_, y), _, _ in points], _LABEL_GAP)
    for (point, name, colour), height in zip(points, heights, strict=True):
        axes.annotate(
            name,
            point,
            xytext=(1.06, height),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.5,
                "alpha": 0.6,
                "relpos": (0.0, 0.5),  # from the left edge of the name
                "shrinkA": 1.0,
            },
        )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions within 0 to 1 so that they are ``gap`` apart, in the same order.

    The sum of squared shifts is minimal: with the gaps subtracted, positions may not decrease, and
    neighbours that would are pooled (Ayer et al. 1955).
    """
    from scipy.optimize import isotonic_regression  # slow to import

    order = np.argsort(positions, kind="stable")
    steps = len(positions) - 1
    gap = min(gap, 1 / max(steps, 1))
    offsets = gap * np.arange(len(positions))
    levels = isotonic_regression(np.take(positions, order) - offsets).x
    shifted = np.empty(len(positions))
    shifted[order] = np.clip(levels, 0, 1 - gap * steps) + offsets
    return shifted.tolist()
