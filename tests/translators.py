"""Translators that tests of commands share, with their compiled searches."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nmt.runs.folder import RunFolder

_LOADED: dict[object, object] = {}


@pytest.fixture
def cached_translators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give commands that load the same run the same translator."""
    from nmt import Translator

    load = Translator.load

    def load_once(
        run: Path | RunFolder | Sequence[RunFolder], *, log: object = None, **engine: Any
    ) -> object:
        runs = [run] if isinstance(run, Path | RunFolder) else run
        paths = (each.path if isinstance(each, RunFolder) else each for each in runs)
        key = (*(path.resolve() for path in paths), *engine.items())
        if key not in _LOADED:
            _LOADED[key] = load(run, **engine)
        return _LOADED[key]

    monkeypatch.setattr(Translator, "load", load_once)


@pytest.fixture
def context_run(tiny_run: Path, tmp_path: Path) -> Path:
    """Return a copy of the tiny run that reads a sentence of context before each sentence."""
    run = tmp_path / "context_run"
    shutil.copytree(tiny_run, run)
    path = run / "config.yaml"
    _checksum, _, config = path.read_text(encoding="utf-8").partition("\n")
    for before, after in (("  context: 0", "  context: 1"), ("ordered: false", "ordered: true")):
        assert config.count(before) == 1
        config = config.replace(before, after)
    path.write_text(config, encoding="utf-8")
    return run
