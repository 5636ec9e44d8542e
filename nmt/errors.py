"""The one exception that means "the user can mend this", and how a command ends on it."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

USER_ERROR_STATUS = 2


class UserError(Exception):
    """A mistake in the configuration, the input or the environment.

    Its message is one line that names the culprit and the remedy. Commands print it to standard
    error without a traceback and exit with status 2.
    """


def suggest(word: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest candidate, or the list of candidates."""
    candidates = sorted(candidates)
    match = get_close_matches(word, candidates, n=1, cutoff=0.5)
    if match:
        return f"; did you mean '{match[0]}'?"
    return f"; there is: {', '.join(candidates)}" if candidates else ""


def fail(error: UserError) -> NoReturn:
    """Print the one line of a user error and exit with its status."""
    line = " ".join(str(error).splitlines())  # what it quotes may have several
    print(f"error: {line}", file=sys.stderr)
    sys.exit(USER_ERROR_STATUS)


@contextmanager
def attach_filename(path: Path) -> Iterator[None]:
    """Let errors of the operating system name the file: those of writing to it do not."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


# As TensorFlow says it, which raises errors of its own.
_FULL = re.compile(rf"(\S+); {re.escape(os.strerror(errno.ENOSPC))}")


def explain_full_disk(error: Exception) -> UserError | None:
    """Return what a user can do about an error, if that is to make room."""
    if isinstance(error, OSError):
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        name = error.filename
        if name is None:
            return UserError("a file cannot be written, its disk is full: make room, and go on")
    elif told := _FULL.search(str(error)):
        name = told[1]
    else:
        return None
    disk = Path(name).absolute().parent
    while not disk.is_mount():
        disk = disk.parent
    return UserError(
        f"{name} cannot be written, the disk at {disk} is full: make room, and go on; "
        "what was saved before is intact"
    )


def explain_missing_backend(error: Exception) -> UserError | None:
    """Return what a user can do about an error, if that is to install JAX."""
    if not (isinstance(error, ModuleNotFoundError) and error.name in ("jax", "jaxlib")):
        return None
    return UserError(
        f"KERAS_BACKEND=jax needs the package {error.name}: NMT_EXTRAS=jax bash scripts/setup.sh "
        "or pip install 'nmt[jax]'; for NVIDIA GPUs, jax-gpu in place of jax"
    )


def fail_if_fixable(error: Exception) -> None:
    """Fail with one line if an error is about a full disk or a backend that is not installed."""
    explained = explain_full_disk(error) or explain_missing_backend(error)
    if explained is not None:
        fail(explained)


def exit_on_user_error(command: Callable[[], int | None]) -> NoReturn:
    """Run ``command`` and exit: 0 or its own status, 2 on a `UserError`, 130 on Ctrl-C.

    A full disk and a missing backend are `UserError`, too, wherever they are met.

    Every other exception is a bug and keeps its traceback.
    """
    try:
        status = command() or 0
    except UserError as error:
        fail(error)
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The reader of our output (`| head`) is gone; nothing is wrong on this side.
        sys.stderr.close()
        status = 0
    except Exception as error:
        fail_if_fixable(error)
        raise
    sys.exit(status)
