"""Translators that tests of commands share, with their compiled searches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_LOADED: dict[object, object] = {}


@pytest.fixture
def cached_translators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands that load the same run the same translator."""
    from nmt import Translator

    load = Translator.load

    def load_once(
        run: str | Path | Sequence[Path] = "runs/latest", *, log: object = None, **engine: Any
    ) -> object:
        paths = [run] if isinstance(run, str | Path) else run
        key = (*(Path(path).resolve() for path in paths), *engine.items())
        if key not in _LOADED:
            _LOADED[key] = load(run, **engine)
        return _LOADED[key]

    monkeypatch.setattr(Translator, "load", load_once)
