"""The command that brings MarianMT folders in."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from processes import printed
from rich.console import Console

from nmt import convert, export, translate
from nmt.errors import UserError

RECORDED = Path(__file__).parent / "formats" / "marian" / "recorded"


def converted(*arguments: str | Path) -> str:
    return printed(convert, *arguments)


def test_a_converted_folder_translates_and_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = converted(RECORDED, "--output", tmp_path / "run", "--languages", "es,en")
    assert f"written to {tmp_path / 'run'}" in output
    arguments = ["--run", str(tmp_path / "run"), "El gato duerme.", "--beam", "1"]
    outputs = []
    for engine in ("keras", "ctranslate2"):
        translate.run(translate.make_parser().parse_args([*arguments, "--engine", engine]))
        outputs.append(capsys.readouterr().out)
    assert outputs[0].strip()
    assert outputs[0] == outputs[1]
    console = Console(file=io.StringIO())
    options = ["--format", "transformers", "--run", str(tmp_path / "run")]
    assert export.run(export.make_parser().parse_args(options), console) == 0
    again = converted(tmp_path / "run" / "exports" / "transformers", "--output", tmp_path / "two")
    assert "two" in again


def test_the_run_is_named_after_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    converted(RECORDED)
    assert (tmp_path / "runs" / "recorded" / "config.yaml").is_file()
    with pytest.raises(UserError, match="exists already"):
        converted(RECORDED)


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="nowhere does not exist"):
        converted(tmp_path / "nowhere")
    with pytest.raises(SystemExit) as stopped:
        converted(RECORDED, "--languages", "spanish to english")
    assert stopped.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "is not a pair of languages" in line
