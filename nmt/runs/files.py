"""Files that are whole or not there: written aside, then moved to their place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nmt.errors import UserError


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file for people to read: see `write_text`."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file.

    A regular file is replaced by a whole one. What is something else, such as a terminal or a link
    that the user has put there, is written to.

    Raises:
        UserError: it cannot be written.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path, text)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def write_inside(folder: Path, name: str, text: str) -> None:
    """Write a text file in a folder that may come from elsewhere: a link is replaced, not followed.

    Raises:
        UserError: it cannot be written.
    """
    try:
        _replace(folder / name, text)
    except OSError as error:
        raise UserError(f"{folder / name} cannot be written: {error.strerror}") from error


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    try:
        with partial.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
