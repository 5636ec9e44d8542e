"""The fixed position table. Importing this loads no Keras."""

from __future__ import annotations

import numpy as np


def sinusoids(length: int, width: int) -> np.ndarray:
    """Return the position table [length, width] of Vaswani et al. 2017, section 3.5."""
    position = np.arange(length)[:, None]
    frequency = 10000.0 ** (-np.arange(0, width, 2) / width)
    table = np.empty((length, width), dtype=np.float32)
    table[:, 0::2] = np.sin(position * frequency)
    table[:, 1::2] = np.cos(position * frequency)
    return table
