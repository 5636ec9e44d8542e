"""Translators that several tests of commands share: what was compiled for one serves the next."""

from __future__ import annotations

from pathlib import Path

import pytest

_LOADED: dict[Path, object] = {}


@pytest.fixture
def kept_translators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that load the same run get the same translator."""
    from nmt import Translator

    load = Translator.load

    def load_once(run: str | Path = "runs/latest") -> object:
        path = Path(run).resolve()
        if path not in _LOADED:
            _LOADED[path] = load(run)
        return _LOADED[path]

    monkeypatch.setattr(Translator, "load", load_once)
