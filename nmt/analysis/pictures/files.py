"""Figures as files: PNG with few colours for event files, and PNG, SVG or PDF on disk."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from nmt.errors import UserError

COLOURS = "magma_r"  # of attention weights, as in nmt/viewer/browser/colours.js
SUFFIXES = (".png", ".svg", ".pdf")

_FILE_DPI = 200  # pixels per inch, for slides and print


def render_png(figure: Figure) -> bytes:
    """Return a heatmap of `COLOURS` as the bytes of a PNG file.

    It has 256 colours, which takes a third of the bytes of all colours, and less time.
    """
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
    scale = colormaps[COLOURS](np.linspace(0, 1, 224))[:, :3]  # [224, 3]
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
    """Write the figure in the format of its suffix, and create missing folders.

    Raises:
        UserError: the suffix is none of `SUFFIXES`, or the file cannot be written.
    """
    suffix = check_suffix(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format=suffix[1:], dpi=_FILE_DPI)
    except OSError as error:
        raise UserError(f"{path}: cannot write the picture: {error.strerror}") from error
