"""Run commands as a user does: each in its own process, or several in one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import IO

from conftest import users_environment
from rich.console import Console

from nmt.inspect.__main__ import make_parser

Done = subprocess.CompletedProcess[bytes]
LIMIT = 3600  # seconds; pytest ends tests that are not slow sooner (pyproject.toml)


def printed(module: ModuleType, *arguments: str | Path) -> str:
    """Run a command in this process; return its console output."""
    console = Console(file=io.StringIO(), highlight=False, markup=False, soft_wrap=True)
    module.run(module.make_parser().parse_args(list(map(str, arguments))), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def inspected(*arguments: str | Path) -> str:
    """Run a subcommand of `nmt.inspect` in this process; return its console output."""
    console = Console(file=io.StringIO(), width=200, highlight=False, markup=False, soft_wrap=True)
    parsed = make_parser().parse_args(list(map(str, arguments)))
    parsed.run_command(parsed, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def command(
    *arguments: str | Path, stdin: bytes | IO[bytes] = b"", cwd: Path | None = None
) -> Done:
    """Run a module in its own process; return its exit status, output and errors."""
    streams = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        check=False,
        timeout=LIMIT,
        env=users_environment() | {"COLUMNS": "200"},
        **streams,  # type: ignore[call-overload]
    )


def commands(module: str, lines: Sequence[Sequence[str]], *, cwd: Path) -> list[Done]:
    """Run a module's ``main`` for each command line in turn, all in one process."""
    program = """
        import contextlib, importlib, io, json, sys, traceback
        module, lines = importlib.import_module(sys.argv[1]), json.loads(sys.argv[2])
        done = []
        for line in lines:
            sys.argv = [f"python -m {module.__name__}", *line]
            out, err = io.StringIO(), io.StringIO()
            status = 0
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    module.main()
                except SystemExit as ended:
                    status = ended.code or 0
                except BaseException:
                    status = 1
                    traceback.print_exc()
            done.append([status, out.getvalue(), err.getvalue()])
        print(json.dumps(done))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), module, json.dumps(lines)],
        capture_output=True,
        cwd=cwd,
        check=False,
        timeout=LIMIT,
        env=users_environment() | {"COLUMNS": "200"},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return [
        Done(list(line), status, out.encode(), err.encode())
        for line, (status, out, err) in zip(
            lines, json.loads(ran.stdout.splitlines()[-1]), strict=True
        )
    ]


def one_line_error(done: Done) -> str:
    """Check the contract of user errors; return the line."""
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert len(error.splitlines()) == 1, error
    assert error.startswith("error: ")
    return error
