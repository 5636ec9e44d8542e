"""The colours of heads can be told apart, also by people with colour blindness."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from nmt.viewer.page import BROWSER

# Simulation of colour blindness in linear RGB, severity 1.0 (Machado, Oliveira & Fernandes 2009,
# A Physiologically-based Model for Simulation of Color Vision Deficiency).
VISION = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Linear RGB to cones, and their cube roots to Oklab (Ottosson 2020, A perceptual color space for
# image processing).
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
APART = 0.14  # in Oklab; 0.02 is just noticeable
PAGES = {"light": "#fbfaf7", "dark": "#17181b"}
Array = NDArray[np.float64]


def linear(colour: str) -> Array:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def oklab(rgb: Array) -> Array:
    return OKLAB @ np.cbrt(CONES @ np.clip(rgb, 0, 1))


def palette(scheme: str) -> list[str]:
    source = (BROWSER / "colours.js").read_text(encoding="utf-8")
    listed = re.search(rf"^  {scheme}: \[(.*)\]", source, re.MULTILINE)
    assert listed
    return re.findall(r"#[0-9a-f]{6}", listed[1])


@pytest.mark.parametrize("scheme", PAGES)
@pytest.mark.parametrize("vision", VISION)
def test_heads_have_colours_that_differ(scheme: str, vision: str) -> None:
    colours = palette(scheme)
    assert len(colours) == 8
    perceived = [oklab(np.array(VISION[vision]) @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(perceived, 2)) >= APART


@pytest.mark.parametrize("scheme", PAGES)
def test_lines_of_heads_have_contrast_with_the_page(scheme: str) -> None:
    """WCAG 2.2, 1.4.11: 3:1."""
    page, *heads = (
        float(linear(colour) @ [0.2126, 0.7152, 0.0722])
        for colour in (PAGES[scheme], *palette(scheme))
    )
    assert all((max(head, page) + 0.05) / (min(head, page) + 0.05) >= 3 for head in heads)
