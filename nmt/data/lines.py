"""Lines of bytes, however long they are, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

# Bytes of a line without its line feed: far above any sentence or paragraph, so that whatever is
# longer is no text in lines; and little enough to hold.
LONGEST_LINE = 1 << 20


def split_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, split at line feeds only, each with its own if it has one.

    Of a line above `LONGEST_LINE` come the first bytes, as `is_cut` tells, and the rest is skipped.
    """
    read = partial(file.readline, LONGEST_LINE + 1)
    for line in iter(read, b""):
        rest = line
        while is_cut(rest):
            rest = read()
        yield line


def is_cut(line: bytes) -> bool:
    """Whether a line from `split_lines` is only the beginning of one that is too long."""
    return len(line) > LONGEST_LINE and not line.endswith(b"\n")
