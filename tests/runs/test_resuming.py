"""Paths of runs in a configuration: links are followed once, and sweeps read none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from sample_configs import LANGUAGES, composed, job

from nmt.errors import UserError
from nmt.runs.resuming import check_trial

LATER = ("data=files", "data.train=corpus.tsv", *LANGUAGES)
SOURCE = ("+data.sources.more.kind=run", "+data.sources.more.split=train")


def trial(*overrides: str) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(composed(*LATER, *overrides))
    return values


@pytest.mark.parametrize("has_folder", [True, False])
def test_links_to_runs_become_the_runs(tmp_path: Path, has_folder: bool) -> None:
    """The link to the latest run points elsewhere as soon as training starts."""
    (tmp_path / "one").mkdir()
    (tmp_path / "latest").symlink_to("one")
    link = tmp_path / "latest" if has_folder else "latest"
    config = job(
        *(*LATER, *SOURCE, f"+data.sources.more.run={link}", f"runs_dir={tmp_path}"),
        *(f"+data.tests.general={link}", "+data.tests.table=held_out.tsv"),
    )
    run = str((tmp_path / "one").resolve())
    assert config.data.tests == {"general": run, "table": "held_out.tsv"}
    assert config.data.sources["more"].run == run


@pytest.mark.parametrize(
    "key", ["training.start_from", "+data.tests.general", "+data.sources.more.run"]
)
def test_trials_of_a_sweep_read_no_run_that_each_of_them_replaces(key: str) -> None:
    check_trial(trial(*SOURCE, f"{key}=runs/first"))
    message = rf"^{key.lstrip('+')}=runs/latest changes with every trial of a sweep: name"
    with pytest.raises(UserError, match=message):
        check_trial(trial(*SOURCE, f"{key}=runs/latest"))
    check_trial(trial("+data.tests.wrong=5", "+data.sources.wrong=5"))  # said later
