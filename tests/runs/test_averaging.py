"""Runs and checkpoints to average are opened, or named if they are gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.config import Config
from nmt.errors import UserError
from nmt.runs.averaging import open_run
from nmt.runs.folder import RunFolder


def test_a_checkpoint_that_training_removed_is_named(
    tmp_path: Path, compose: Callable[..., Config]
) -> None:
    run = RunFolder.create(compose(f"runs_dir={tmp_path}"))
    checkpoint = run.checkpoints.path(50)
    with pytest.raises(UserError, match=r"checkpoint .*step_00000050\.npz does not exist: "):
        open_run(checkpoint)
    checkpoint.parent.mkdir()
    checkpoint.touch()
    assert open_run(checkpoint).path == open_run(run.path).path == run.path.resolve()
