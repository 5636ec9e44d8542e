"""Splitting files into lines of bytes, in constant memory whatever their length."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import BinaryIO

# Bytes of a line without its line feed: far more than any sentence or paragraph, and little memory.
LONGEST_LINE = 1 << 20


def split_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file with their line feeds; other line separators do not split.

    A line above `LONGEST_LINE` is cut, as `is_cut` tells, and the rest of it is skipped.
    """
    yield from _split_from(file.readline(LONGEST_LINE + 1), file)


def _split_from(line: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield a line that has been read from a file, and the lines after it."""
    read = partial(file.readline, LONGEST_LINE + 1)
    while line:
        rest = line
        while is_cut(rest):
            rest = read()
        yield line
        line = read()


def split_at_any_end(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines as `split_lines` does, or split at carriage returns in text without line feeds.

    If the first MiB has carriage returns and no line feed, as text of an old Mac does, lines end at
    CR, LF or CRLF and are yielded with a line feed. In other files a carriage return is part of its
    line: crawled sentences contain some, and splitting there would misalign two aligned files.
    """
    beginning = file.readline(LONGEST_LINE + 1)
    if beginning.endswith(b"\n") or b"\r" not in beginning:
        yield from _split_from(beginning, file)
    else:
        yield from split_lines(io.BufferedReader(_WithLineFeeds(beginning, file)))


class _WithLineFeeds(io.RawIOBase):
    """The bytes of a file, from a beginning already read, with every line end as one line feed."""

    def __init__(self, beginning: bytes, file: BinaryIO) -> None:
        self._blocks = chain([beginning], iter(partial(file.read, io.DEFAULT_BUFFER_SIZE), b""))
        self._decoder = io.IncrementalNewlineDecoder(None, translate=True)  # takes text only
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            block = next(self._blocks, None)
            text = self._decoder.decode((block or b"").decode("latin-1"), final=block is None)
            self._ready = text.encode("latin-1")
            if block is None:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def is_cut(line: bytes) -> bool:
    """Whether a line of `split_lines` is only the beginning of one above `LONGEST_LINE`."""
    return len(line) > LONGEST_LINE and not line.endswith(b"\n")
