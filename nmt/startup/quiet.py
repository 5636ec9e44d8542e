"""Keep the start-up notes of native libraries off the terminal; let everything else through."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# What TensorFlow prints on a machine without a GPU, before its own log level applies, and at the
# first integers that it turns around outside a graph on a CPU without AVX-512; and what
# tensorflow-text prints at every load of a model that does no normalisation.
_NOTES = re.compile(
    rb"All log messages before absl::InitializeLog|Could not find cuda drivers"
    rb"|failed call to cuInit|oneDNN custom operations are on"
    rb"|oneDNN supports DT_INT"
    rb"|precompiled_charsmap is empty|^\s*$"
)


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
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            kept = [line for line in held if not _NOTES.search(line)]
            if kept:
                os.write(2, b"".join(kept))
