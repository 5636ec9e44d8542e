"""Values that a configuration leaves to the size of the model and of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import tiny_overrides
from rich.console import Console

from nmt.config import files
from nmt.config import Config
from nmt.training.preparation import dropout_for, learning_rate_for
from nmt.runs.folder import RunFolder
from nmt.train import train


def test_small_corpora_get_more_dropout() -> None:
    assert dropout_for(1_000) > dropout_for(100_000) > 0


def test_the_peak_rate_falls_with_the_width() -> None:
    assert learning_rate_for(128) == pytest.approx(2e-3)
    assert learning_rate_for(512) == pytest.approx(learning_rate_for(128) / 4)


def test_what_was_left_open_is_written_down_as_it_was_resolved(
    tmp_path: Path, compose: Callable[..., Config], quiet_console: Console
) -> None:
    overrides = [*tiny_overrides(tmp_path), "training.learning_rate=null", "model.dropout=null"]
    train(compose(*overrides, "training.max_steps=1", "training.max_minutes=null"), quiet_console)
    written = configuration.load(RunFolder.open(tmp_path / "runs" / "latest").path / "config.yaml")
    assert written.training.learning_rate == pytest.approx(learning_rate_for(64))
    assert written.model.dropout == dropout_for(200)
