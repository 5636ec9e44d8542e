"""Text files in and out: one line of output per line of input, in constant memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nmt.errors import UserError

CHUNK = 1024  # lines translated together: memory stays constant
_CHECKED = 3  # lines of an output that is gone on with that are translated again, and compared

Translate = Callable[[list[str]], list[str]]  # one line of output per line


def group_lines(lines: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    """Yield ``size`` lines at a time."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Decode lines, split at line feeds only, whatever bytes they hold."""
    for line in lines:
        yield line.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


def refuse_same_file(output: Path | None, *inputs: Path | BinaryIO | None) -> None:
    """Check that what is written is none of what is read, under whatever name or link.

    Args:
        output: None: standard output.
        inputs: files, open or not; None is skipped.

    Raises:
        UserError: it is.
    """
    if output is None or not output.exists():
        return
    for given in inputs:
        try:
            same = given is not None and os.path.samestat(
                output.stat(), given.stat() if isinstance(given, Path) else os.fstat(given.fileno())
            )
        except OSError:  # not there, which whoever reads it will say; or no file
            continue
        if same and output.is_file():
            name = given if isinstance(given, Path) else "standard input"
            raise UserError(f"{output} would be written over {name}: name another output")


@contextmanager
def open_output(path: Path | None, *, begin: int | None = None) -> Iterator[TextIO]:
    """Open where lines go: standard output without a path.

    Args:
        path: of a file.
        begin: go on behind so many bytes; None: begin the file anew.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    try:
        out = path.open("w" if begin is None else "r+", encoding="utf-8", newline="\n")
        if begin is not None:
            out.seek(begin)
            out.truncate()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    with out:
        yield out


def count_done(output: Path, source: Path, translate: Translate) -> tuple[int, int]:
    """Return how many lines an interrupted translation has written whole, and their bytes.

    Nothing is changed. An output that holds something else is not gone on with: some of its lines
    are translated again and compared.

    Args:
        output: it may not exist.
        source: what was being translated.
        translate: as it was translated then.

    Raises:
        UserError: the output has more lines than the source, or other lines.
    """
    if not output.exists():
        return 0, 0
    done, whole = 0, 0
    found: dict[int, str] = {}
    try:
        with output.open("rb") as out:
            for line in out:
                if line.endswith(b"\n"):
                    done, whole = done + 1, whole + len(line)
        with source.open("rb") as file, output.open("rb") as out:
            lines = 0
            texts: dict[int, str] = {}
            for number, (text, written) in enumerate(
                zip(decode_lines(file), decode_lines(out), strict=False)
            ):
                lines = number + 1
                if number < done and text.strip() and _is_checked(number, done, len(found)):
                    texts[number], found[number] = text, written
                if number + 1 == done:
                    break
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read: {error.strerror}") from error
    if lines < done:
        raise UserError(
            f"{source} has {lines} lines, of which {done} are said to be translated in {output}: "
            "these are not its translations"
        )
    if found:
        again = dict(zip(texts, translate(list(texts.values())), strict=True))
        if all(again[number] != found[number] for number in found):
            number = next(iter(found))
            raise UserError(
                f"line {number + 1} of {output} is not the translation of that line of {source}: "
                "go on with the options it was begun with, or name another output"
            )
    return done, whole


def _is_checked(number: int, done: int, so_far: int) -> bool:
    """Whether a line is compared: some at the beginning, or spread over a longer output."""
    return so_far < _CHECKED and number >= so_far * (done // _CHECKED)


def translate_file(
    path: Path, done: int, write: Callable[[list[str]], object], *, shown: bool
) -> None:
    """Translate a file chunk by chunk, with a progress bar.

    Args:
        path: the file.
        done: lines at its beginning that are translated already.
        write: translates and writes lines.
        shown: whether the bar is.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[lines]:,} lines"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]} lines/s, left"),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    with path.open("rb") as file, Progress(*columns, console=console, disable=hidden) as progress:
        for _ in range(done):
            file.readline()
        begin = time.monotonic()
        lines = done
        task = progress.add_task(
            "", total=path.stat().st_size, completed=file.tell(), lines=lines, rate="–"
        )
        for chunk in group_lines(decode_lines(file)):
            write(chunk)
            lines += len(chunk)
            rate = f"{(lines - done) / (time.monotonic() - begin):,.0f}"
            progress.update(task, completed=file.tell(), lines=lines, rate=rate)


def translate_terminal(write: Callable[[list[str]], object]) -> None:
    """Translate standard input: line by line from a terminal, chunk by chunk from a pipe."""
    if sys.stdin.isatty():
        for line in sys.stdin:
            write([line.rstrip("\n")])
        return
    for chunk in group_lines(decode_lines(sys.stdin.buffer)):
        write(chunk)
