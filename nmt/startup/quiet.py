"""Keep the start-up notes of native libraries off the terminal; let everything else through."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

# What TensorFlow prints on a machine without a GPU, before its own log level applies, and at the
# first integers that it turns around outside a graph on a CPU without AVX-512; and what
# tensorflow-text prints at every load of a model that does no normalisation.
_NOTES = re.compile(
    rb"All log messages before absl::InitializeLog|Could not find cuda drivers"
    rb"|failed call to cuInit|oneDNN custom operations are on"
    rb"|oneDNN supports DT_INT"
    rb"|precompiled_charsmap is empty|^\s*$"
)


@dataclass(frozen=True)
class _Capture:
    """What is written to standard error goes to a file for a while."""

    saved: int  # a descriptor of what standard error was
    file: IO[bytes]

    def release(self) -> None:
        """Restore standard error, and pass on what the file holds, all but the known notes."""
        sys.stderr.flush()
        os.dup2(self.saved, 2)
        self.file.seek(0)
        lines = [line for line in self.file if not _NOTES.search(line)]
        if lines:
            os.write(2, b"".join(lines))


_captures: list[_Capture] = []  # in progress, the innermost last


@contextmanager
def quiet_start() -> Iterator[None]:
    """Hold back what is written to file descriptor 2, and pass on all but the known notes.

    Meant for imports and constructors: native code writes past Python's ``sys.stderr``. With
    ``TF_CPP_MIN_LOG_LEVEL=0``, which asks for notes, everything passes at once.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    try:
        saved = os.dup(2)
    except OSError:  # no standard error at all
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        capture = _Capture(saved, file)
        _captures.append(capture)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            if capture in _captures:
                _captures.remove(capture)
                capture.release()
            os.close(saved)


def release_stderr() -> None:
    """Pass on what every `quiet_start` in progress holds back, and end them.

    For a thread that ends the process: what it prints would be held back, and lost.
    """
    while _captures:
        _captures.pop().release()
