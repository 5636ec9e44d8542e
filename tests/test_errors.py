"""A full disk ends a command in one line, wherever it occurs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt import errors
from nmt.errors import UserError, attach_filename, explain_full_disk
from nmt.files import replace_atomically, write_json
from nmt.runs.folder import RunFolder
from nmt.training.events import EventWriter


def fill_up(number: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_from_other_errors(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    explained = explain_full_disk(full)
    assert explained is not None
    assert "its disk is full" in str(explained)
    with (
        pytest.raises(OSError, match="No space") as caught,
        attach_filename(tmp_path / "a" / "file"),
    ):
        raise full
    explained = explain_full_disk(caught.value)
    assert explained is not None
    disk = next(folder for folder in tmp_path.parents if folder.is_mount())
    assert f"{tmp_path / 'a' / 'file'} cannot be written, the disk at {disk}" in str(explained)
    assert explain_full_disk(PermissionError(errno.EACCES, "no")) is None
    reported = RuntimeError(
        f"{tmp_path / 'b'}; No space left on device\n [Op:some]"
    )  # TensorFlow's
    assert f"{tmp_path / 'b'} cannot be written, the disk at {disk}" in str(
        explain_full_disk(reported)
    )
    assert explain_full_disk(ValueError("no")) is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOTDIR])
def test_a_command_ends_on_denied_access_with_one_line(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    with pytest.raises(SystemExit) as caught:
        errors.exit_on_user_error(command)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"error: /some/file: {os.strerror(number)}\n"


def test_a_missing_file_that_nobody_checked_is_a_bug() -> None:
    with pytest.raises(FileNotFoundError):
        errors.exit_on_user_error(lambda: Path("/none/such").stat().st_size)


def test_a_command_ends_on_a_full_disk_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.txt"

    def command() -> None:
        with attach_filename(out):
            fill_up(0)

    with pytest.raises(SystemExit) as caught:
        errors.exit_on_user_error(command)
    assert caught.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {out} cannot be written, the disk at ")


def test_a_backend_that_is_not_installed_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def command(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    with pytest.raises(SystemExit) as caught:
        errors.exit_on_user_error(lambda: command("jax"))
    assert caught.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: KERAS_BACKEND=jax needs the package jax: NMT_EXTRAS=jax ")
    with pytest.raises(ModuleNotFoundError):
        errors.exit_on_user_error(lambda: command("nmt.missing"))


@pytest.mark.parametrize("error", [ValueError("no such backend"), ModuleNotFoundError("torch")])
def test_an_unknown_backend_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(SystemExit):
        errors.exit_on_user_error(command)
    expected = "error: KERAS_BACKEND must be tensorflow or jax, got torch\n"
    assert capsys.readouterr().err == expected
    for value in ("tensorflow", ""):  # Keras takes an empty one for none
        monkeypatch.setenv("KERAS_BACKEND", value)
        with pytest.raises(type(error)):
            errors.exit_on_user_error(command)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """What is still buffered is not written at exit, where Python would fail."""
    program = (
        "import sys; from nmt.errors import exit_on_user_error\n"
        "exit_on_user_error(lambda: print('x' * 100_000, flush=True))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_an_error_is_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        errors.fail(UserError("unknown key 'a\nerror: b'"))
    assert capsys.readouterr().err == "error: unknown key 'a error: b'\n"


def test_what_was_there_stays_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("kept")
    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(OSError, match="No space") as caught, replace_atomically(path) as file:
        file.write(b"new")
    assert caught.value.filename == str(path)
    with pytest.raises(UserError, match=rf"{path} cannot be written, the disk at "):
        write_json(path, {})
    assert path.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_reports_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as caught:
        RunFolder(tmp_path).metrics.append({"step": 1})
    assert caught.value.filename == str(tmp_path / "metrics.jsonl")
    events = EventWriter(tmp_path / "logs")
    os.dup2(os.open("/dev/full", os.O_WRONLY), events._records._writer.fileno())
    events.scalar("a", 1.0, 1)
    with pytest.raises(OSError, match="No space") as caught:
        events.flush()
    assert str(caught.value.filename).startswith(str(tmp_path / "logs"))
