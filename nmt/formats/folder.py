"""The folder of an export: whole or not there, and never another folder's end."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import UserError, attach_filename
from nmt.files import digest_file

MANIFEST_FILE = "manifest.json"
CONFIG_FILE = "config.yaml"  # of the run, with the export's search


def check_output(place: Path) -> None:
    """Refuse to overwrite what is no export.

    Raises:
        UserError: something else stands there.
    """
    if not place.exists() or (place / MANIFEST_FILE).is_file():
        return
    if place.is_dir() and not any(place.iterdir()):
        return
    raise UserError(f"{place} is there and is not an export: choose another --output")


def find_damage(place: Path) -> dict[str, str | None]:
    """Compare the files of an export with its manifest.

    Returns:
        What is wrong with each file that the manifest names, None where nothing is.

    Raises:
        UserError: the manifest is missing or damaged.
    """
    path = place / MANIFEST_FILE
    try:
        digests = dict(json.loads(path.read_text(encoding="utf-8"))["files"])
    except FileNotFoundError as error:
        raise UserError(f"{place} is not an export: it has no {MANIFEST_FILE}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error
    found: dict[str, str | None] = {}
    for name, digest in digests.items():
        try:
            if not (place / name).resolve().is_relative_to(place.resolve()):
                raise ValueError("it is outside of the export")
            equal = digest_file(place / name) == digest
            found[name] = None if equal else f"its SHA-256 is not the one in {MANIFEST_FILE}"
        except (OSError, ValueError) as error:  # ValueError: no name of a file here
            found[name] = getattr(error, "strerror", None) or str(error)
    return found


def check_files(place: Path) -> None:
    """Compare an export with its manifest, if it has one: while it is made, it has none.

    Raises:
        UserError: a file is not the one that was written.
    """
    if (place / MANIFEST_FILE).is_file():
        for name, reason in find_damage(place).items():
            if reason:
                raise UserError(f"{place / name} is damaged: {reason}; export the run again")


@contextmanager
def replace_folder(place: Path) -> Iterator[Path]:
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
        with attach_filename(place):
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
