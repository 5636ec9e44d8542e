"""Text files in and out: one line of output per line of input, in constant memory."""

from __future__ import annotations

import codecs
import os
import stat
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO, TypeVar

from nmt.data.encodings import UTF_8, check_text, open_text
from nmt.data.lines import LONGEST_LINE, is_cut, split_lines
from nmt.errors import UserError, attach_filename

CHUNK = 4096  # lines translated together: memory stays constant
_CHECKED = 8  # lines of an output that is gone on with that are translated again, and compared
_SHARE_WRONG = 0.25  # of these, up to which they may differ

Result = TypeVar("Result")
Translate = Callable[[list[str]], list[str]]  # one line of output per line
Stream = Callable[[Iterable[list[str]]], Generator[Result]]  # one result per chunk of lines


def group_lines(lines: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    """Yield ``size`` lines at a time; fewer where they are so long that memory would not do."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == size or characters >= LONGEST_LINE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def group_arriving(lines: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    """Yield lines as they come: those that are there already, read by another thread.

    Where no more have come, an empty group is yielded, and then the next line waited for. Groups
    are as large as those of `group_lines` at most.
    """
    changed = threading.Condition()
    come: list[str] = []
    characters = 0
    errors: list[BaseException] = []
    over = False

    def has_room() -> bool:
        return len(come) < size and characters < LONGEST_LINE

    def read() -> None:
        nonlocal characters, over
        try:
            for line in lines:
                with changed:
                    changed.wait_for(has_room)
                    come.append(line)
                    characters += len(line)
                    changed.notify_all()
        except BaseException as error:  # raised where the lines are wanted
            errors.append(error)
        with changed:
            over = True
            changed.notify_all()

    threading.Thread(target=read, name="reader", daemon=True).start()
    waited = True
    while True:
        with changed:
            if not waited:
                changed.wait_for(lambda: come or over)
            group, ended = come.copy(), over
            come.clear()
            characters = 0
            changed.notify_all()
        if ended and not group:
            break
        yield group
        waited = bool(group)
    if errors:
        yield []  # a stream finishes what it has read before it meets the error
        raise errors[0]


def decode_lines(lines: Iterable[bytes], first: int = 1) -> Iterator[str]:
    """Decode lines from `split_lines`; warn once where they are cut.

    Args:
        lines: of a file in UTF-8, as `open_text` gives it.
        first: number of the first of them in it.
    """
    warned = False
    for number, line in enumerate(lines, first):
        if is_cut(line) and not warned:
            warnings.warn(
                f"line {number} is longer than 1 MiB: of such lines, only the first MiB is "
                "translated",
                stacklevel=2,
            )
            warned = True
        yield _decode(line)


def _decode(line: bytes) -> str:
    if is_cut(line):  # a character may be cut too: it is left out
        return codecs.utf_8_decode(line[:LONGEST_LINE], "strict", False)[0]
    return line.rstrip(b"\n").removesuffix(b"\r").decode()


def check_readable(path: Path) -> None:
    """Check that a file is there; it may be a pipe.

    Raises:
        UserError: it does not exist, or is a folder.
    """
    if not path.exists():
        raise UserError(f"there is no file {path}")
    if path.is_dir():
        raise UserError(f"{path} is a folder: give a file in it")


def check_encoding(path: Path, encoding: str = UTF_8) -> None:
    """Check that a whole file is in an encoding, before anything is made of it.

    Raises:
        UserError: it is not, or cannot be read.
    """
    with _open(path) as file:
        check_text(file, str(path), encoding)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


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
    with attach_filename(path), out:
        yield out


class _Line(NamedTuple):
    number: int  # from 1
    text: str  # of the source
    written: bytes  # to the output, from `split_lines`; without a line feed it is not whole

    @property
    def is_whole(self) -> bool:
        return self.written.endswith(b"\n") or is_cut(self.written)

    def differs(self, expected: str) -> bool:
        """Whether something else was written than the expected line, or than its beginning."""
        return not f"{expected}\n".encode().startswith(self.written)


def count_done(
    output: Path, source: Path, translate: Translate, encoding: str = UTF_8
) -> tuple[int, int]:
    """Return how many lines an interrupted translation has written whole, and their bytes.

    Nothing is changed. An output that holds something else is not gone on with: some of its lines,
    and the one that it ends in the middle of, are translated again and compared.

    Args:
        output: it may not exist.
        source: what was being translated.
        translate: as it was translated then.
        encoding: of the source.

    Raises:
        UserError: the output has more lines than the source, or other lines, or is no file.
    """
    if not output.exists():
        return 0, 0
    if not output.is_file():
        raise UserError(f"{output} is no file, and cannot be gone on with")
    (nothing,) = translate([""])
    try:
        begun, done, whole = _count_lines(output)
        read, chosen = _choose_checked(_pair_lines(source, output, begun, encoding), done, nothing)
    except OSError as error:
        raise UserError(f"{error.filename or output} cannot be read: {error.strerror}") from error
    if read < begun:
        raise UserError(
            f"{source} has {read} lines, of which {begun} are said to be translated in {output}: "
            "these are not its translations"
        )
    expected = translate([line.text for line in chosen])
    wrong = [line for line, one in zip(chosen, expected, strict=True) if line.differs(one)]
    # A near tie may be decided by what a line is translated beside.
    certain = [line for line in wrong if not line.text.strip() or not line.is_whole]
    if certain or len(wrong) > _SHARE_WRONG * len(chosen):
        number = (certain or wrong)[0].number
        raise UserError(
            f"line {number} of {output} is not the translation of that line of {source}: go on "
            "with the options it was begun with, or name another output"
        )
    return done, whole


def _count_lines(path: Path) -> tuple[int, int, int]:
    """Return how many lines a file has, how many of them are whole, and the bytes of these."""
    done = whole = size = 0
    with path.open("rb") as file:
        for piece in iter(partial(file.readline, LONGEST_LINE), b""):
            size += len(piece)
            if piece.endswith(b"\n"):
                done, whole = done + 1, size
    return done + (size > whole), done, whole


def _pair_lines(source: Path, output: Path, count: int, encoding: str) -> Iterator[_Line]:
    """Yield the first lines of both files, as far as both have them."""
    with source.open("rb") as read, output.open("rb") as written:
        texts = map(_decode, split_lines(open_text(read, str(source), encoding)))
        yield from map(_Line, range(1, count + 1), texts, split_lines(written))


def _choose_checked(lines: Iterable[_Line], done: int, nothing: str) -> tuple[int, list[_Line]]:
    """Count lines, and choose those to translate again.

    Some are spread over those that are done; the one that is not whole is another. Of empty lines,
    which become ``nothing``, the first that did not.
    """
    chosen: list[_Line] = []
    read = spread = 0
    empty_differs = False
    for line in lines:
        read = line.number
        if not line.is_whole:
            chosen.append(line)
        elif not line.text.strip():
            if not empty_differs and line.differs(nothing):
                empty_differs = True
                chosen.append(line)
        elif spread < _CHECKED and read > spread * done // _CHECKED:
            spread += 1
            chosen.append(line)
    return read, chosen


def translate_file(
    path: Path,
    done: int,
    stream: Stream[Result],
    write: Callable[[Result], object],
    *,
    shown: bool,
    encoding: str = UTF_8,
) -> None:
    """Translate a file chunk by chunk, with a progress bar.

    Args:
        path: the file, no pipe.
        done: lines at its beginning that are translated already.
        stream: translates chunks of lines, in order; it may read ahead.
        write: writes what a chunk became.
        shown: whether the bar is.
        encoding: of the file.

    Raises:
        UserError: it is in another encoding: see `check_encoding`.
    """
    # Here, since a command that only checks its arguments should not wait for them.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[lines]:,} lines"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]} lines/s, left"),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    reached: deque[tuple[int, int]] = deque()  # lines and bytes read with each chunk in the stream
    with path.open("rb") as file, Progress(*columns, console=console, disable=hidden) as progress:
        read = split_lines(open_text(file, str(path), encoding))
        for _ in islice(read, done):
            pass

        def chunks() -> Iterator[list[str]]:
            lines = done
            for chunk in group_lines(decode_lines(read, first=done + 1)):
                lines += len(chunk)
                reached.append((lines, file.tell()))
                yield chunk

        begin = time.monotonic()
        task = progress.add_task(
            "", total=path.stat().st_size, completed=file.tell(), lines=done, rate="–"
        )

        def write_and_show(found: Result) -> None:
            write(found)
            lines, place = reached.popleft()
            rate = f"{(lines - done) / (time.monotonic() - begin):,.0f}"
            progress.update(task, completed=place, lines=lines, rate=rate)

        _write_each(stream, chunks(), write_and_show)


def translate_arriving(
    file: BinaryIO, stream: Stream[Result], write: Callable[[Result], object]
) -> None:
    """Translate a terminal line by line, a pipe as lines come.

    Args:
        file: from `open_arriving`.
        stream: translates chunks of lines, in order; it may read ahead.
        write: writes what a chunk became.

    Raises:
        UserError: it is in another encoding; what stands before that is translated and written.
    """
    lines = decode_lines(split_lines(file))
    if file.isatty():
        for line in lines:
            _write_each(stream, [[line]], write)
    else:
        _write_each(stream, group_arriving(lines), write)


def open_arriving(path: Path | None, encoding: str | None = None) -> BinaryIO:
    """Open a pipe or a terminal as UTF-8, and wait until it has begun.

    Args:
        path: None: standard input.
        encoding: of it; None: UTF-8, or the terminal's.

    Raises:
        UserError: it begins in another encoding, or is a file in another one, or cannot be read.
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


def _open_standard_input() -> BinaryIO:
    """Return a duplicate: Python closes the original at its exit, when a thread may be reading."""
    try:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    except (OSError, ValueError):  # it has no file descriptor
        return sys.stdin.buffer


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _write_each(
    stream: Stream[Result], chunks: Iterable[list[str]], write: Callable[[Result], object]
) -> None:
    """Write what chunks become; when that ends early, the stream is closed at once."""
    with closing(stream(chunks)) as results:
        for found in results:
            write(found)
