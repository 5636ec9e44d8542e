"""Log records are lines of standard error, whatever its width."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from logging.config import dictConfig
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from rich.progress import Progress

from nmt.analysis.tables import Listing, print_listings
from nmt.startup.console import make_console

FILE = Path(__file__).parents[2] / "conf" / "hydra" / "job_logging" / "warnings.yaml"


@pytest.fixture(autouse=True)
def _configured() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    dictConfig(yaml.safe_load(FILE.read_text(encoding="utf-8")))
    yield
    root.handlers[:], root.level = before


def test_a_record_is_one_line_without_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = "[bold]words[/bold] " * 20
    logging.getLogger("some.library").warning("many %s", words)
    logging.getLogger("some.library").info("hidden")
    assert capsys.readouterr() == ("", f"WARNING some.library: many {words}\n")


def test_texts_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a:b:c [bold]:id: :smile:"
    console = make_console()
    console.print(text)
    print_listings([Listing(text, text, ["", text], [[text, text]])], console)
    assert capsys.readouterr().out.count(text) == 6


def test_characters_that_an_encoding_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    make_console().print("sí …")
    sys.stdout.flush()
    assert written.getvalue() == b"s\xed \\u2026\n"


@pytest.mark.parametrize("stderr", [False, True])
def test_a_reader_that_leaves_early_is_no_error(stderr: bool) -> None:
    program = (
        "from nmt.startup.console import make_console\n"
        f"make_console(stderr={stderr}).print('x' * 100_000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        (process.stderr if stderr else process.stdout).close()
        assert (process.stdout if stderr else process.stderr).read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("stderr", [False, True])
def test_a_closed_terminal_does_not_end_a_command(stderr: bool) -> None:
    terminal, side = os.openpty()
    program = (
        "import sys\n"
        "from rich.progress import Progress\n"
        "from nmt.startup.console import make_console\n"
        f"console = make_console(stderr={stderr})\n"
        "with Progress(console=console, auto_refresh=False):\n"
        "    sys.stdin.read()\n"  # until the terminal is closed
        "    console.print('lost')\n"
        "console.print('lost, too')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if stderr else side,
        stderr=side if stderr else subprocess.PIPE,
    ) as process:
        os.close(side)
        os.close(terminal)
        assert process.communicate() == ((b"", None) if stderr else (None, b""))
    assert process.returncode == 0


def test_records_are_printed_above_a_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    with Progress(console=Console(file=file, force_terminal=True)):
        logging.getLogger("library").warning("first")
    assert "WARNING library: first\n" in file.getvalue()  # which moves the bar down
    assert capsys.readouterr() == ("", "")
