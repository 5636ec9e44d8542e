"""Lines of bytes, however long they are, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import BinaryIO

# Bytes of a line without its line feed: far above any sentence or paragraph, so that whatever is
# longer is no text in lines; and little enough to hold.
LONGEST_LINE = 1 << 20


def split_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, split at line feeds only, each with its own if it has one.

    Of a line above `LONGEST_LINE` come the first bytes, as `is_cut` tells, and the rest is skipped.
    """
    yield from _split_from(file.readline(LONGEST_LINE + 1), file)


def _split_from(line: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield a line that has been read from a file, and those that follow it."""
    read = partial(file.readline, LONGEST_LINE + 1)
    while line:
        rest = line
        while is_cut(rest):
            rest = read()
        yield line
        line = read()


def split_at_any_end(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a corpus as `split_lines` does, or those of a file without line feeds.

    Where carriage returns, and no line feed, come in the first MiB, as in text of an old Mac, lines
    end at CR, LF or CRLF, and each that is whole comes with a line feed. In other files a carriage
    return belongs to the line that it is in: crawled sentences hold some, and a line more in one of
    two aligned files would misalign the rest.
    """
    beginning = file.readline(LONGEST_LINE + 1)
    if beginning.endswith(b"\n") or b"\r" not in beginning:
        yield from _split_from(beginning, file)
    else:
        yield from split_lines(io.BufferedReader(_WithLineFeeds(beginning, file)))


class _WithLineFeeds(io.RawIOBase):
    """The bytes of a file whose beginning has been read, with every line end one line feed."""

    def __init__(self, beginning: bytes, file: BinaryIO) -> None:
        self._blocks = chain([beginning], iter(partial(file.read, io.DEFAULT_BUFFER_SIZE), b""))
        self._decoder = io.IncrementalNewlineDecoder(None, translate=True)  # of text, not of bytes
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
    """Whether a line from `split_lines` is only the beginning of one that is too long."""
    return len(line) > LONGEST_LINE and not line.endswith(b"\n")
