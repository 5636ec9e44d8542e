"""Keep the start-up notes of native libraries off the terminal, and show everything else."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

# TensorFlow prints these on a machine without a GPU before its log level applies, and when it first
# transposes integers outside a graph on a CPU without AVX-512; tensorflow-text prints the last one
# whenever it loads a model without normalisation.
_NOTES = re.compile(
    rb"All log messages before absl::InitializeLog|Could not find cuda drivers"
    rb"|failed call to cuInit|oneDNN custom operations are on"
    rb"|oneDNN supports DT_INT"
    rb"|precompiled_charsmap is empty|^\s*$"
)


@dataclass(frozen=True)
class _Capture:
    """A redirection of standard error into a file."""

    saved: int  # duplicate of the descriptor of standard error
    file: IO[bytes]

    def release(self) -> None:
        """Restore standard error, and write the captured lines to it, without the known notes."""
        sys.stderr.flush()
        os.dup2(self.saved, 2)
        self.file.seek(0)
        lines = [line for line in self.file if not _NOTES.search(line)]
        if lines:
            os.write(2, b"".join(lines))


_captures: list[_Capture] = []  # in progress, the innermost last


@contextmanager
def quiet_start() -> Iterator[None]:
    """Capture file descriptor 2, and write all but the known notes to it at the end.

    For imports and constructors: native code bypasses Python's ``sys.stderr``. Nothing is captured
    if ``TF_CPP_MIN_LOG_LEVEL=0`` requests the notes.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    try:
        saved = os.dup(2)
    except OSError:  # standard error is closed
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
    """End every `quiet_start` in progress, and write its captured lines.

    For a thread that ends the process, whose last line would be captured and lost.
    """
    while _captures:
        _captures.pop().release()
