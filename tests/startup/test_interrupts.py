"""Ctrl-C ends a command without a traceback, whatever it interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.startup.interrupts import is_command

pytestmark = pytest.mark.xdist_group("startup")

ROOT = Path(__file__).parents[2]
COLLECTING = """
import gc
import signal
import sys
import time

sys.argv[0] = "nmt-train"
import nmt
from nmt.errors import exit_on_user_error

def interrupt(phase, info):
    gc.callbacks.remove(interrupt)
    raise KeyboardInterrupt

def command():
    gc.callbacks.append(interrupt)
    gc.collect()
    time.sleep(60)
    print("was not interrupted")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
exit_on_user_error(command)
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_interrupt_in_a_callback_that_discards_it_ends_the_command(tmp_path: Path) -> None:
    ended = run("-c", COLLECTING, folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.parametrize("command", ["train", "inspect", "translate"])
def test_an_interrupt_of_the_imports_prints_nothing(command: str, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    ended = run("-m", f"nmt.{command}", folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_other_errors_are_printed(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise KeyError('a bug')", encoding="utf-8")
    ended = run("-m", "nmt.translate", folder=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith("KeyError: 'a bug'\n")
    finalizer = "class Bug:\n    def __del__(self): raise KeyError('a bug')\n"
    ended = run("-c", f"import sys; sys.argv[0] = '-m'\nimport nmt\n{finalizer}Bug()", folder=ROOT)
    assert ended.returncode == 0
    assert ended.stderr.endswith("KeyError: 'a bug'\n")


def test_a_missing_package_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("import not_installed.part", encoding="utf-8")
    ended = run("-m", "nmt.translate", folder=tmp_path)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"error: {sys.executable} has no package not_installed: source .venv")


def test_the_library_leaves_hooks_alone(tmp_path: Path) -> None:
    program = (
        "import sys, nmt\n"
        "assert sys.excepthook is sys.__excepthook__\n"
        "assert sys.unraisablehook is sys.__unraisablehook__"
    )
    assert run("-c", program, folder=tmp_path).returncode == 0


def test_commands_choose_their_backend_whatever_keras_is_configured_to(tmp_path: Path) -> None:
    program = """
import os, sys
sys.argv = [PROGRAM]
os.environ.pop("KERAS_BACKEND", None)
import nmt
print(os.environ.get("KERAS_BACKEND"))
"""
    for name, expected in (("/bin/nmt-train", "tensorflow"), ("program.py", "None")):
        ended = run("-c", program.replace("PROGRAM", repr(name)), folder=tmp_path)
        assert ended.stdout == f"{expected}\n"


@pytest.mark.parametrize(
    ("program", "original", "expected"),
    [
        (["-m"], "python -m nmt.train seed=1", True),
        (["-m"], "python -mnmt.train", True),
        (["-m"], "python -m package_with_nmt", False),
        (["/bin/nmt-train"], "python /bin/nmt-train", True),
        (["program.py"], "python program.py", False),
        (["nmt-demo.py"], "python nmt-demo.py", False),
        ([], "python", False),
    ],
)
def test_commands_are_told_from_programs(
    program: list[str], original: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", program)
    monkeypatch.setattr(sys, "orig_argv", original.split())
    assert is_command() == expected
