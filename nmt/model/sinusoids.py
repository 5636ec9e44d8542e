"""The fixed position table. Importing this loads no Keras."""

from __future__ import annotations

import numpy as np


def sinusoids(length: int, width: int, *, halves: bool = False) -> np.ndarray:
    """Return the position table [length, width] of Vaswani et al. 2017, section 3.5.

    Args:
        length: number of positions.
        width: even.
        halves: whether all sines precede all cosines, as in tensor2tensor and Marian, instead of
            alternating with them.
    """
    position = np.arange(length)[:, None]
    frequency = 10000.0 ** (-np.arange(0, width, 2) / width)
    table = np.empty((length, width), dtype=np.float32)
    sines, cosines = slice(0, None, 2), slice(1, None, 2)
    if halves:
        sines, cosines = slice(0, width // 2), slice(width // 2, None)
    table[:, sines] = np.sin(position * frequency)
    table[:, cosines] = np.cos(position * frequency)
    return table
