"""Files written atomically: under a temporary name, then renamed. And checksums of files."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import UserError, attach_filename, explain_full_disk

UNFINISHED = (".new-", ".old-")  # prefixes of the folders that `replace_folder` works with
PARTIAL = ".partial-"  # prefix of temporary names
_ABANDONED_SECONDS = 24 * 3600  # what nobody has changed for longer has no writer any more


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an indented JSON file: see `write_bytes`.

    A lone surrogate, as in the name of a file that is not UTF-8, is written as its escape.
    """
    write_bytes(path, format_json(content).encode("utf-8", "backslashreplace"))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def format_json(content: dict[str, Any]) -> str:
    """Return the text of an indented JSON file."""
    return _dump(content, ensure_ascii=False, indent=2) + "\n"


def format_json_line(content: dict[str, Any]) -> str:
    """Return one line of a JSON Lines file."""
    return _dump(content) + "\n"


def _dump(content: dict[str, Any], **options: Any) -> str:
    return json.dumps(replace_non_finite(content), allow_nan=False, **options)


def replace_non_finite(content: Any) -> Any:
    """Return a copy with null in place of NaN and infinity, which JSON lacks."""
    if isinstance(content, dict):
        return {key: replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [replace_non_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def write_text(path: Path, text: str) -> None:
    """Write a text file: see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file: atomically, unless ``path`` is a link or no regular file.

    A link and a device, such as a terminal, are written through: the user has put them there. A
    file in a folder without write permission is overwritten in place.

    Raises:
        UserError: it cannot be written.
    """
    is_replaceable = path.is_file() and os.access(path.parent, os.W_OK)
    if path.is_symlink() or (path.exists() and not is_replaceable):
        try:
            with attach_filename(path):
                path.write_bytes(data)
        except OSError as error:
            raise explain_write_error(path, error) from error
    else:
        _replace(path, data)


def write_inside(folder: Path, name: str, text: str) -> None:
    """Write a text file into a folder that may be untrusted: a link is replaced, not followed.

    Raises:
        UserError: it cannot be written.
    """
    _replace(folder / name, text.encode("utf-8"))


def _replace(path: Path, data: bytes) -> None:
    try:
        with replace_atomically(path) as file:
            file.write(data)
    except OSError as error:
        raise explain_write_error(path, error) from error


def make_folder(folder: Path) -> Path:
    """Create a folder, unless it exists, and return it.

    Raises:
        UserError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be created: {error.strerror}") from error
    return folder


def explain_write_error(path: Path, error: OSError) -> UserError:
    """Return the error to show if a file or folder cannot be written."""
    return explain_full_disk(error) or UserError(f"{path} cannot be written: {error.strerror}")


def remove_partial(folder: Path) -> None:
    """Remove the temporary files of killed writers; the caller must be the folder's only writer."""
    for path in list(folder.rglob(f"{PARTIAL}*")):
        _remove(path)


def remove_abandoned(folder: Path, pattern: str = f"{PARTIAL}*") -> None:
    """Remove what killed writers have left directly in a folder, a day after its last change.

    Others may write into the folder meanwhile.

    Args:
        folder: the folder.
        pattern: of temporary names.
    """
    oldest = time.time() - _ABANDONED_SECONDS
    for path in list(folder.glob(pattern)):
        with suppress(OSError):  # removed by another process
            if max(each.lstat().st_mtime for each in (path, *path.rglob("*"))) < oldest:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    """Return a new temporary name beside ``path``, which `remove_partial` recognises."""
    return path.with_name(f"{PARTIAL}{secrets.token_hex(4)}-{path.name[:40]}")  # 255 bytes at most


@contextmanager
def replace_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` at the end; after an error, ``path`` is unchanged."""
    partial = partial_path(path)
    try:
        with attach_filename(path), partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that replaces ``folder``, or what it links to, in the end.

    After an exception the temporary folder is removed, and ``folder`` is unchanged. What a killed
    writer of the same folder left is removed by a call that is made a day later.

    Raises:
        UserError: the temporary folder cannot be created.
    """
    folder = folder.resolve()
    # Not names for `remove_partial`: a run may be locked while an export is written into it.
    name, token = folder.name[:40], secrets.token_hex(4)
    partial, old = (folder.with_name(f"{prefix}{token}-{name}") for prefix in UNFINISHED)
    remove_abandoned(folder.parent, f"{UNFINISHED[0]}*-{escape(name)}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise explain_write_error(folder, error) from error
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


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
