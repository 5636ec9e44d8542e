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
