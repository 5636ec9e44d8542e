"""Known notes of native libraries are held back, unless they are asked for."""

from __future__ import annotations

import os

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
