"""Commands that run in their own process group, under a time limit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]


class PartError(Exception):
    """A part failed; the message is one line."""


def stop(message: str) -> NoReturn:
    """Print an error line and exit with status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def run_limited(
    command: Sequence[str], seconds: float, log: Path, environment: dict[str, str] | None = None
) -> str:
    """Run a command in its own process group; return its standard output.

    Args:
        command: the program and its arguments.
        seconds: time limit; then the whole process group is killed.
        log: file to which both outputs are appended.
        environment: variables to add.

    Raises:
        PartError: with the last error line of the command, or the exceeded limit.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            env=os.environ | (environment or {}),
            start_new_session=True,
        )
        timed_out = False
        try:
            output, _ = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        errors.seek(0)
        stderr = errors.read()
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {' '.join(command)}\n{output}{stderr}")
    if timed_out:
        raise PartError(f"stopped after {seconds:.0f} s")
    if process.returncode:
        raise PartError(describe_exit(process.returncode, stderr))
    return output


def describe_exit(status: int, stderr: str) -> str:
    """Return why a process failed, from its exit status and its standard error."""
    line = find_error_line(stderr)
    if status < 0:
        line = f"killed by {signal.Signals(-status).name}" + (f": {line}" if line else "")
    return line or f"exit status {status}"


def describe_error(error: Exception) -> str:
    """Return why a part failed, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PartError) else f"{type(error).__name__}: {text}"


def find_error_line(stderr: str) -> str:
    """Return the last line that names an error, else the last line; tracebacks may end in notes."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?i)error: |[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or [""])[-1]
