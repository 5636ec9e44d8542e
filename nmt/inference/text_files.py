"""Text files that commands read and write: checked before any work, opened as UTF-8."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from nmt.data.encodings import UTF_8, check_text, open_text
from nmt.errors import UserError, attach_filename
from nmt.files import explain_write_error


def check_readable(path: Path) -> None:
    """Check that a file exists; it may be a pipe.

    Raises:
        UserError: the file is missing or a folder.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give a file in it")


def check_encoding(path: Path, encoding: str = UTF_8) -> None:
    """Check the encoding of a file to its end.

    Raises:
        UserError: the file is in another encoding or unreadable.
    """
    with _open(path) as file:
        check_text(file, str(path), encoding)


def check_outputs(outputs: Mapping[str, Path | None]) -> None:
    """Check that the files that options write are different, and can be written.

    Args:
        outputs: option -> its file; None: not given.

    Raises:
        UserError: two are the same, one is a folder or in none, or access is denied.
    """
    options: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        other = options.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(f"{other} and {option} need different files")
        if not path.parent.is_dir():
            raise UserError(f"{option} {path}: folder {path.parent} does not exist")
        if path.is_dir():
            raise UserError(f"{option} {path} is a folder and no regular file: name a file")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{option} {path} cannot be written: permission denied")


def check_not_input(output: Path | None, *inputs: Path | BinaryIO | None) -> None:
    """Check that the output is none of the inputs, under whatever name or link.

    Args:
        output: None: standard output.
        inputs: files, open or not; None is skipped.

    Raises:
        UserError: the output is an input.
    """
    if output is None or not output.exists():
        return
    for source in inputs:
        try:
            is_same = source is not None and os.path.samestat(
                output.stat(),
                source.stat() if isinstance(source, Path) else os.fstat(source.fileno()),
            )
        except OSError:  # a missing input, which its reader reports, or no file at all
            continue
        if is_same and output.is_file():
            name = source if isinstance(source, Path) else "standard input"
            raise UserError(f"{output} would be written over {name}: name another output")


@contextmanager
def open_output(path: Path | None, *, begin: int | None = None) -> Iterator[TextIO]:
    """Open a file for lines in UTF-8, or standard output.

    A terminal shows escapes of characters that its encoding lacks.

    Args:
        path: None: standard output.
        begin: append after this many bytes and drop the others; None: overwrite the file.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            if sys.stdout.isatty():
                sys.stdout.reconfigure(errors="backslashreplace")
            else:
                sys.stdout.reconfigure(encoding="utf-8")  # in any locale
        yield sys.stdout
        return
    try:
        out = path.open("w" if begin is None else "r+", encoding="utf-8", newline="\n")
        if begin is not None:
            out.seek(begin)
            out.truncate()
    except OSError as error:
        raise explain_write_error(path, error) from error
    with attach_filename(path), out:
        yield out


def open_pipe(path: Path | None, encoding: str | None = None) -> BinaryIO:
    """Open a pipe or a terminal as UTF-8, and wait for its first bytes.

    Args:
        path: None: standard input.
        encoding: encoding of the content; None: UTF-8, or the terminal's.

    Raises:
        UserError: the first bytes, or any of a redirected file, are in another encoding; or the
            pipe is unreadable.
    """
    if path is not None:
        return open_text(_open(path), str(path), encoding or UTF_8)
    name, file = "standard input", _open_standard_input()
    if encoding is None:
        encoding = sys.stdin.encoding if file.isatty() else UTF_8
    if _is_regular(file):
        begin = file.tell()
        check_text(file, name, encoding)
        file.seek(begin)
    return open_text(file, name, encoding)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _open_standard_input() -> BinaryIO:
    """Return a duplicate: Python closes the original at exit, when a thread may be reading it."""
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except (OSError, ValueError):  # no file descriptor
        return sys.stdin.buffer


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return False
