"""Files that are whole or not there: written aside, then moved to their place."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import UserError, attach_filename, explain_full_disk

_PARTIAL = ".partial-"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file for people to read: see `write_text`."""
    write_text(path, format_json(content))


def format_json(content: dict[str, Any]) -> str:
    """Return the text of a JSON file for people to read."""
    return _dump(content, ensure_ascii=False, indent=2) + "\n"


def format_json_line(content: dict[str, Any]) -> str:
    """Return one line of a file of JSON objects."""
    return _dump(content) + "\n"


def _dump(content: dict[str, Any], **options: Any) -> str:
    return json.dumps(_without_nan(content), allow_nan=False, **options)


def _without_nan(content: Any) -> Any:
    """Return the same with null in the place of what JSON has no number for."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


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
            with replace_atomically(path) as file:
                file.write(text.encode("utf-8"))
    except OSError as error:
        raise _refused(path, error) from error


def write_inside(folder: Path, name: str, text: str) -> None:
    """Write a text file in a folder that may come from elsewhere: a link is replaced, not followed.

    Raises:
        UserError: it cannot be written.
    """
    try:
        with replace_atomically(folder / name) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:
        raise _refused(folder / name, error) from error


def _refused(path: Path, error: OSError) -> UserError:
    """Return what is said of a file that cannot be written."""
    return explain_full_disk(error) or UserError(f"{path} cannot be written: {error.strerror}")


def remove_partial(folder: Path) -> None:
    """Remove what killed writers left half written in a folder of which this is the only writer."""
    for path in list(folder.rglob(f"{_PARTIAL}*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def replace_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` once it is written; if that fails, all stays."""
    partial = path.with_name(f"{_PARTIAL}{secrets.token_hex(4)}-{path.name[:100]}")
    try:
        with attach_filename(path), partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
