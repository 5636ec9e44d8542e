"""Training speed is measured only for updates that training would make."""

from __future__ import annotations

from pathlib import Path

import bench_train
import pytest
from conftest import tiny_overrides


def test_an_update_whose_size_is_open_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Corpus and machine determine it after the batches are planned."""
    with pytest.raises(SystemExit) as raised:
        bench_train.prepare([*tiny_overrides(tmp_path), "size=xs", "training.batch_tokens=auto"])
    assert raised.value.code == 2
    assert capsys.readouterr().err == (
        "error: training.batch_tokens=auto leaves the size of an update open: set "
        "training.update_tokens=N\n"
    )
