"""The plot of a corpus: how long its sentences are, and how the two sides compare."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from nmt.analysis.corpora.lengths import Lengths

_BINS = 60  # about
_SHOWN = 99.5  # percentile of the longer side up to which lengths are shown


def draw_lengths(lengths: Lengths, languages: tuple[str, str]) -> Figure:
    """Draw histograms of both sides, and characters of the target against those of the source."""
    figure = Figure(figsize=(12, 4.5), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    source, target = lengths.characters.T
    end = np.percentile(lengths.characters.max(axis=1), _SHOWN)
    width = math.ceil(end / _BINS)  # each bin holds as many lengths
    edges = np.arange(0, end + width + 1, width) - 0.5
    for column, language in zip((source, target), languages, strict=True):
        left.hist(column, edges, histtype="step", label=language)
    left.set(xlabel="characters", ylabel="pairs", title="Length of a sentence")
    left.legend()
    image = right.hist2d(source, target, [edges, edges], cmap="Blues", norm="log", cmin=1)[3]
    right.set(xlabel=f"characters, {languages[0]}", ylabel=f"characters, {languages[1]}")
    right.set_title("Length of both sides")
    figure.colorbar(image, ax=right, label="pairs")
    return figure
