"""One writer per run: an advisory lock that is released when its process ends."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from nmt.errors import UserError, attach_filename
from nmt.files import explain_write_error, remove_partial

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no such locks: there, a second writer is not detected
    fcntl = None

LOCK_FILE = ".lock"


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock a run folder for writing, and remove partial files of killed writers.

    The operating system releases the lock when the process ends, even if it is killed.

    Raises:
        UserError: another process, which the message names, has the lock.
    """
    if fcntl is None:
        yield
        return
    path = folder / LOCK_FILE
    descriptor = _lock(path)
    try:
        owner = {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}",
        }
        os.ftruncate(descriptor, 0)
        with attach_filename(path):
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        remove_partial(folder)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Lock a file; return its descriptor."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise explain_write_error(path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 1000, 0)
            os.close(descriptor)
            raise UserError(
                f"{path.parent} is being written by {_describe(owner)}: stop it, or wait for it"
            ) from error
        except OSError:  # a file system without locks
            return descriptor
        # Between opening and locking, its owner may have removed the file, and another process may
        # have created and locked a new one.
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
        os.close(descriptor)


def _describe(owner: bytes) -> str:
    try:
        record = json.loads(owner)
        return f"process {record['process']} on {record['host']} since {record['since']}"
    except (ValueError, TypeError, KeyError):
        return "another process"
