"""Files, pipes and terminals translated chunk by chunk, in constant memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from nmt.data.encodings import UTF_8, check_text, is_utf_8, open_text
from nmt.data.lines import split_lines
from nmt.inference.lines import decode_line, decode_lines, group_arriving, group_lines
from nmt.text.context import NO_CONTEXT, PreviousSentences, add_contexts

if TYPE_CHECKING:
    from rich.progress import Progress

Result = TypeVar("Result")
Stream = Callable[[Iterable[list[str]]], Generator[Result]]  # one result per chunk of lines


def translate_file(
    path: Path,
    done: int,
    stream: Stream[Result],
    write: Callable[[Result], object],
    *,
    shows_progress: bool,
    encoding: str = UTF_8,
    previous: PreviousSentences = NO_CONTEXT,
) -> None:
    """Translate a file and write the results, with a progress bar.

    Args:
        path: a regular file.
        done: lines at its beginning to skip: they are already translated.
        stream: translates chunks of lines, in order; it may read ahead.
        write: writes the result of a chunk.
        shows_progress: whether to show a progress bar, if standard error is a terminal.
        encoding: encoding of the file.
        previous: adds the previous sentences to each line, as context.

    Raises:
        UserError: the file is in another encoding: see `check_encoding`.
    """
    positions: deque[tuple[int, int]] = deque()  # (lines, bytes) up to the end of each chunk
    offset = 0  # bytes of the lines so far, as UTF-8

    def count_bytes(lines: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal offset
        for line in lines:
            offset += len(line)
            yield line

    total = _measure(path, encoding)
    with path.open("rb") as file, make_progress(is_visible=shows_progress) as progress:
        lines = count_bytes(split_lines(open_text(file, str(path), encoding)))
        for _ in add_contexts(map(decode_line, islice(lines, done)), previous):
            pass  # translated already, but `previous` has to see them
        texts = add_contexts(decode_lines(lines, first=done + 1), previous)

        def chunks() -> Iterator[list[str]]:
            count = done
            for chunk in group_lines(texts):
                count += len(chunk)
                positions.append((count, offset))
                yield chunk

        begin = time.monotonic()
        task = progress.add_task("", total=total, completed=offset, count=done, rate="–")

        def write_and_advance(result: Result) -> None:
            write(result)
            count, completed = positions.popleft()
            rate = f"{(count - done) / (time.monotonic() - begin):,.0f}"
            progress.update(task, completed=completed, count=count, rate=rate)

        _write_results(stream, chunks(), write_and_advance)
        progress.update(task, completed=total)  # lines that are cut end before


def _measure(path: Path, encoding: str) -> int:
    """Return the size of a file as UTF-8, in bytes."""
    if is_utf_8(encoding):
        return path.stat().st_size
    with path.open("rb") as file:
        return check_text(file, str(path), encoding)


def make_progress(unit: str = "lines", *, is_visible: bool) -> Progress:
    """Return a progress bar on standard error, if that is a terminal.

    Its tasks have the fields ``count`` and ``rate``, in units and units per second.
    """
    # Here, so that a command that fails on its arguments does not wait for the import.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn(f"{{task.fields[count]:,}} {unit}"),
        BarColumn(),
        TextColumn(f"{{task.percentage:>3.0f}}%  {{task.fields[rate]}} {unit}/s, left"),
        TimeRemainingColumn(),
        console=console,
        disable=not (is_visible and console.is_terminal),
    )


def translate_pipe(
    file: BinaryIO,
    stream: Stream[Result],
    write: Callable[[Result], object],
    previous: PreviousSentences = NO_CONTEXT,
) -> None:
    """Translate a terminal line by line, or a pipe as lines arrive, and write the results.

    Args:
        file: from `open_pipe`.
        stream: translates chunks of lines, in order; it may read ahead.
        write: writes the result of a chunk.
        previous: adds the previous sentences to each line, as context.

    Raises:
        UserError: a line is in another encoding; the lines before it are written.
    """
    lines = add_contexts(decode_lines(split_lines(file)), previous)
    if file.isatty():
        for line in lines:
            _write_results(stream, [[line]], write)
    else:
        _write_results(stream, group_arriving(lines), write)


def _write_results(
    stream: Stream[Result], chunks: Iterable[list[str]], write: Callable[[Result], object]
) -> None:
    """Write the results of chunks; on an error, close the stream at once."""
    with closing(stream(chunks)) as results:
        for result in results:
            write(result)
