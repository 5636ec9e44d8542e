"""Files of a prepared folder: equal content gives equal bytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import numpy as np

from nmt.files import replace_atomically


def replace_array(path: Path, array: np.ndarray) -> None:
    """Write a .npy file atomically."""
    with replace_atomically(path) as file:
        np.save(SimpleNamespace(write=file.write), array)  # see `save_array`


@contextmanager
def write_gzip(path: Path) -> Iterator[TextIO]:
    """Open a .gz file to write text; it holds no time and no name."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, "utf-8", "backslashreplace", newline="\n") as text,
    ):
        yield text


def read_gzip(path: Path) -> list[str]:
    """Return the lines of a file of `write_gzip`."""
    with gzip.open(path, "rb") as file:
        return file.read().decode("utf-8").split("\n")[:-1]
