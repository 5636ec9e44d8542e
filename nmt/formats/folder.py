"""The folder of an export: complete or absent, and never in place of another folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import UserError, attach_filename
from nmt.formats.manifest import list_other_files


def check_output(folder: Path) -> None:
    """Check that an export may be written to a folder: it is absent, empty, or just an export.

    Raises:
        UserError: something else exists there, which would be lost.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    others = list_other_files(folder)
    if others is None:
        raise UserError(f"{folder} exists and is not an export: choose another --output")
    if others:
        raise UserError(
            f"{folder} is an export with other files, such as {others[0]}, which would be lost: "
            "choose another --output"
        )


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that replaces ``folder`` in the end.

    After an exception the temporary folder is removed, and ``folder`` is unchanged.

    Raises:
        UserError: the temporary folder cannot be created.
    """
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    try:
        with attach_filename(folder):
            yield partial
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
