"""`UserError`, the exception for errors that a user can fix, and how a command ends on one."""

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
_MAX_LISTED = 60  # candidates in one message


class UserError(Exception):
    """An error in the configuration, the input or the environment.

    Its message is one line that names the cause and the remedy. Commands print it to standard
    error without a traceback and exit with status 2.
    """


def suggest(word: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the closest candidate, or else ``; choose from: …``.

    Empty without candidates, or if they are too many to list.
    """
    candidates = sorted(candidates)
    if match := get_close_matches(word, candidates, n=1, cutoff=0.5):
        return f"; did you mean '{match[0]}'?"
    is_listed = 0 < len(candidates) <= _MAX_LISTED
    return f"; choose from: {', '.join(candidates)}" if is_listed else ""


def fail(error: UserError) -> NoReturn:
    """Print a user error in one line and exit with its status."""
    line = " ".join(str(error).splitlines())  # text that it quotes may have line breaks
    print(f"error: {line}", file=sys.stderr)
    sys.exit(USER_ERROR_STATUS)


@contextmanager
def attach_filename(path: Path) -> Iterator[None]:
    """Add the file name to errors of the operating system that lack it, as those of writing do."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


# TensorFlow's message; it raises errors of its own.
_DISK_FULL = re.compile(rf"(\S+); {re.escape(os.strerror(errno.ENOSPC))}")


def explain_full_disk(error: Exception) -> UserError | None:
    """Return the error to show if a full disk is the cause."""
    if isinstance(error, OSError):
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        name = error.filename
        if name is None:
            return UserError("a file cannot be written, its disk is full: free space, then resume")
    elif match := _DISK_FULL.search(str(error)):
        name = match[1]
    else:
        return None
    disk = Path(name).absolute().parent
    while not disk.is_mount():
        disk = disk.parent
    return UserError(
        f"{name} cannot be written, the disk at {disk} is full: free space, then resume; "
        "files saved before are intact"
    )


def explain_denied_access(error: Exception) -> UserError | None:
    """Return the error to show if a file or folder may not be read or written."""
    denied = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG)
    if isinstance(error, OSError) and error.errno in denied and error.filename is not None:
        return UserError(f"{error.filename}: {error.strerror}")
    return None


BACKENDS = ("tensorflow", "jax")


def read_backend() -> str:
    """Return the backend that ``KERAS_BACKEND`` names; Keras takes an empty value for none."""
    return os.environ.get("KERAS_BACKEND") or BACKENDS[0]


def explain_missing_backend(error: Exception) -> UserError | None:
    """Return the error to show if ``KERAS_BACKEND`` names none, or JAX is not installed."""
    backend = read_backend()
    if backend not in BACKENDS and isinstance(error, ValueError | ModuleNotFoundError):
        return UserError(f"KERAS_BACKEND must be {' or '.join(BACKENDS)}, got {backend}")
    if not (isinstance(error, ModuleNotFoundError) and error.name in ("jax", "jaxlib")):
        return None
    return UserError(
        f"KERAS_BACKEND=jax needs the package {error.name}: NMT_EXTRAS=jax bash scripts/setup.sh "
        "or pip install 'nmt[jax]'; for NVIDIA GPUs, jax-gpu in place of jax"
    )


@contextmanager
def exit_on_fixable_error() -> Iterator[None]:
    """Exit with status 2 and one line on a `UserError` or what a user can fix."""
    try:
        yield
    except UserError as error:
        fail(error)
    except Exception as error:
        explained = (
            explain_full_disk(error)
            or explain_denied_access(error)
            or explain_missing_backend(error)
        )
        if explained is not None:
            fail(explained)
        raise


def exit_without_reader() -> NoReturn:
    """Exit with 0: closed standard output (`| head`) is not an error."""
    # Discard the buffer, which Python would fail to write at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def exit_on_user_error(command: Callable[[], int | None]) -> NoReturn:
    """Run ``command`` and exit: 0 or its own status, 2 on a `UserError`, 130 on Ctrl-C.

    A full disk, denied access and a missing backend count as a `UserError`. Every other exception
    is a bug and keeps its traceback.
    """
    try:
        with exit_on_fixable_error():
            status = command() or 0
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        exit_without_reader()
    sys.exit(status)
