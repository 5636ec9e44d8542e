"""Folders that are complete or absent, keyed by a hash of what they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from nmt.errors import attach_filename
from nmt.files import explain_write_error, partial_path, read_json, remove_abandoned

_SIZES_FILE = ".sizes.json"  # file name -> bytes, of the folder that it is in


def digest_texts(texts: Sequence[str], *more: str) -> str:
    """Return a hash of texts and of whatever else a cached result depends on."""
    state = hashlib.blake2b(digest_size=16)
    for text in (*more, *texts):
        state.update(text.encode("utf-8"))
        state.update(b"\n")
    return state.hexdigest()


def cached_folder(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return ``folder``, which ``write`` fills if it is absent or incomplete.

    The files are written into a temporary folder, which is then renamed, so that ``folder`` is
    never incomplete. What a killed process leaves of the temporary one is removed a day later. Of
    two processes that write at once, the first one wins.

    Raises:
        UserError: it cannot be written.
    """
    if is_complete(folder):
        return folder
    remove_abandoned(folder.parent)
    partial = partial_path(folder)
    try:
        with attach_filename(folder):
            partial.mkdir(parents=True)
            write(partial)
            _seal(partial)
        with suppress(OSError):  # another process was faster, or a damaged folder is there
            partial.replace(folder)
        if not is_complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
            partial.replace(folder)
    except OSError as error:
        if not is_complete(folder):  # another process may have written it at the same moment
            raise explain_write_error(folder, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _seal(folder: Path) -> None:
    """Record the size of each file of a folder, and flush all of them to the disk."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    (folder / _SIZES_FILE).write_text(json.dumps(sizes), encoding="utf-8")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def is_complete(folder: Path) -> bool:
    """Whether `cached_folder` finished writing the folder, and every file has its recorded size."""
    try:
        sizes = read_json(folder / _SIZES_FILE)
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def save_array(path: Path, array: np.ndarray) -> None:
    """Write a .npy file.

    `np.save` bypasses ``write`` of a real file, and then reports a full disk without its error
    number; hence the wrapper.
    """
    with path.open("wb") as file:
        np.save(SimpleNamespace(write=file.write), array)
