"""The folder of an export: complete or absent, and never in place of another folder."""

from __future__ import annotations

from pathlib import Path

from nmt.errors import UserError
from nmt.formats.manifest import list_other_files


def check_output(folder: Path) -> None:
    """Check that an export may be written to a folder: it is absent, empty, or just an export.

    Raises:
        UserError: something else exists there, which would be lost, or it cannot be replaced.
    """
    if folder.is_mount():
        raise UserError(f"{folder} is a mount point: choose a folder inside of it")
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
