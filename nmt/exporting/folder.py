"""The folder of an export: whole or not there, and never another folder's end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import UserError

MANIFEST_FILE = "manifest.json"
CONFIG_FILE = "config.yaml"  # of the run, with the export's search


def check_place(place: Path) -> None:
    """Refuse to overwrite what is no export.

    Raises:
        UserError: something else stands there.
    """
    if not place.exists() or (place / MANIFEST_FILE).is_file():
        return
    if place.is_dir() and not any(place.iterdir()):
        return
    raise UserError(f"{place} is there and is not an export: choose another --output")


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``place`` that takes its place in the end.

    If anything is raised, it is removed, and ``place`` stays as it was.

    Raises:
        UserError: the folder cannot be made.
    """
    partial = place.with_name(f".{place.name}.partial-{os.getpid()}")
    old = place.with_name(f".{place.name}.old-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{place} cannot be written: {error.strerror}") from error
    try:
        yield partial
        if place.exists():
            place.rename(old)
        partial.rename(place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)
