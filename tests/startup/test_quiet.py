"""Known notes of native libraries are held back, unless they are asked for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nmt.startup.quiet import quiet_start

NOTE, OTHER = b"E0000 failed call to cuInit: UNKNOWN\n", b"W0000 out of memory\n"


@pytest.mark.parametrize(("level", "shown"), [("3", OTHER), ("0", NOTE + OTHER)])
def test_notes_are_shown_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    level: str,
    shown: bytes,
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    with quiet_start():
        os.write(2, NOTE + OTHER)
    assert capfdbinary.readouterr().err == shown


def test_threads_share_a_capture_and_standard_error_returns(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    first, second = quiet_start(), quiet_start()
    first.__enter__()  # as two threads do, of which the first one ends first
    second.__enter__()
    os.write(2, NOTE)
    first.__exit__(None, None, None)
    os.write(2, OTHER)
    second.__exit__(None, None, None)
    os.write(2, b"after\n")
    assert capfdbinary.readouterr().err == OTHER + b"after\n"


def test_without_a_folder_for_temporary_files_notes_are_shown(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """As in a container whose root is read-only; no descriptor stays open."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        with quiet_start():
            first = os.dup(2)
            os.close(first)
            os.write(2, NOTE)
        with quiet_start():
            second = os.dup(2)
            os.close(second)
    assert first == second
    assert capfdbinary.readouterr().err == NOTE
