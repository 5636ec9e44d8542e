"""Keep the start-up notes of native libraries off the terminal, and show everything else."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


class _StderrCapture:
    """A redirection of file descriptor 2 into a file, shared by all threads that ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved: int | None = None  # duplicate of the descriptor; None: not redirected
        self._file: IO[bytes] | None = None

    def begin(self) -> None:
        """Redirect standard error, unless it is redirected already."""
        with self._lock:
            if not self._users and sys.stderr is not None:
                self._redirect()
            self._users += 1

    def _redirect(self) -> None:
        try:
            saved = os.dup(2)
        except OSError:  # standard error is closed
            return
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115
        except OSError:  # without a folder for temporary files, the notes are shown
            os.close(saved)
            return
        sys.stderr.flush()
        self._saved, self._file = saved, file
        os.dup2(self._file.fileno(), 2)

    def end(self) -> None:
        """Restore standard error when its last user ends."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._release()

    def release(self) -> None:
        """Restore standard error now."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        """Restore standard error, and write the captured lines to it, without the known notes."""
        if self._saved is None or self._file is None:
            return
        sys.stderr.flush()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        lines = [line for line in self._file if not _NOTES.search(line)]
        self._file.close()
        self._saved = self._file = None
        if lines:
            os.write(2, b"".join(lines))


_capture = _StderrCapture()


@contextmanager
def quiet_start() -> Iterator[None]:
    """Capture file descriptor 2, and write all but the known notes to it at the end.

    For imports and constructors: native code bypasses Python's ``sys.stderr``. Nothing is captured
    if ``TF_CPP_MIN_LOG_LEVEL=0`` requests the notes.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    _capture.begin()
    try:
        yield
    finally:
        _capture.end()


def release_stderr() -> None:
    """End every `quiet_start` in progress, and write its captured lines.

    For a thread that ends the process, whose last line would be captured and lost.
    """
    _capture.release()
