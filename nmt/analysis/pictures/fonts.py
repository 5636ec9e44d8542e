"""Texts in pictures: their fonts, their widths, and drawing them quickly."""

from __future__ import annotations

import math
import unicodedata
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

LINE = 1.25 / 72  # height of a line of text in inches, per point of font size

# For the scripts that DejaVu Sans, which comes with matplotlib, lacks; used where installed.
_MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Zen Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Microsoft YaHei", "Malgun Gothic"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai"),
    *("Noto Sans Ethiopic", "Nirmala UI", "Arial Unicode MS"),
)
_DPI = 100  # of layouts: pixels per inch


def text_style(points: float) -> dict[str, Any]:
    """Return the properties that all texts share: the fonts, and `$` as a plain dollar sign."""
    return {"fontproperties": _make_font(points), "parse_math": False}


class CachedText(Text):
    """A text whose pixels are drawn once and copied wherever the text recurs.

    Pictures are drawn while a model trains, and to draw letters is what takes matplotlib longest;
    all pictures of a sentence have the same tokens. Vector formats get an ordinary text.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text, in black and never clipped."""
        if not isinstance(renderer, RendererAgg):
            super().draw(renderer)
            return
        pixels = _draw_pixels(
            self.get_text(),
            self.get_fontsize(),
            self.get_rotation(),
            self.get_horizontalalignment(),
            self.get_verticalalignment(),
            renderer.dpi,
        )
        x, y = self.get_transform().transform(self.get_position())
        reach = len(pixels) // 2
        renderer.draw_image(renderer.new_gc(), round(x) - reach, round(y) - reach, pixels)


@lru_cache(maxsize=1024)
def _draw_pixels(
    text: str, points: float, angle: float, ha: str, va: str, dpi: float
) -> NDArray[np.uint8]:
    """Return RGBA pixels of a text, bottom row first, in a square around its anchor."""
    reach = math.ceil((measure_text(text, points, dpi) + 2 * points / 72) * dpi)
    renderer = RendererAgg(2 * reach, 2 * reach, dpi)  # type: ignore[no-untyped-call]
    artist = Text(reach, reach, text, rotation=angle, ha=ha, va=va, **text_style(points))
    artist.set_figure(Figure(dpi=dpi))
    artist.draw(renderer)
    return np.asarray(renderer.buffer_rgba())[::-1].copy()  # type: ignore[no-untyped-call]


@lru_cache(maxsize=1024)
def measure_text(text: str, points: float, dpi: float = _DPI) -> float:
    """Return the width of a line of text in inches; it depends a little on the pixels per inch."""
    renderer = RendererAgg(1, 1, dpi)  # type: ignore[no-untyped-call]
    width, _, _ = renderer.get_text_width_height_descent(text, _make_font(points), False)  # type: ignore[no-untyped-call]
    return float(width) / dpi


def make_drawable(text: str) -> str:
    """Replace characters that the fonts lack by □, and drop invisible ones such as joiners.

    Warns of the first letter that is replaced, and names fonts to install.
    """
    glyphs = _list_glyphs()
    return "".join(char if ord(char) in glyphs else _replace(char) for char in text)


def _replace(char: str) -> str:
    """Return what stands for a character that the fonts lack."""
    category = unicodedata.category(char)
    if category.startswith("L"):
        _warn_of_missing_font()
    return "" if category in ("Cf", "Mn") else "□"


@lru_cache  # warns once
def _warn_of_missing_font() -> None:
    names = ", ".join(name for name in _MORE_FONTS if name.startswith("Noto"))
    warnings.warn(
        f"pictures show □ for letters that no installed font has: install one of {names}",
        stacklevel=2,
    )


@lru_cache(maxsize=64)
def _make_font(points: float) -> font_manager.FontProperties:
    return font_manager.FontProperties(family=list(_list_families()), size=points)


@lru_cache
def _list_glyphs() -> frozenset[int]:
    """Return the code points that the fonts can draw: matplotlib warns of any other."""
    names = [font_manager.FontProperties(family=name) for name in _list_families()]
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in names]
    return frozenset(code for font in fonts for code in font.get_charmap())


@lru_cache
def _list_families() -> tuple[str, ...]:
    installed = set(font_manager.fontManager.get_font_names())
    return ("DejaVu Sans", *(name for name in _MORE_FONTS if name in installed))
