"""The configuration of a job: of a new run, of one that starts from another, or that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.command_line import (
    compose_raw,
    guard,
    resume_config,
    settle_prepared,
    start_config,
)
from nmt.config.files import from_composed, refuse_unknown_keys
from nmt.data.paired import PAIR_FILE
from nmt.errors import UserError
from nmt.runs.folder import LATEST, RunFolder


def compose_config(overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that ``nmt.train`` would run with these overrides.

    Raises:
        UserError: a wrong key or value, or an override that a resumed run cannot take.
    """
    found = []
    guard(lambda: found.append(job_config(compose_raw(overrides), overrides)))()
    return found[0]


def job_config(composed: Any, overrides: Sequence[str]) -> Config:
    """Return the configuration of a job: a new run's, or a resumed run's with ``overrides``.

    A new run may start from the weights of another.

    Args:
        composed: what Hydra composed.
        overrides: the job's command-line overrides.

    Returns:
        The checked configuration; ``training.resume`` is then the folder itself.

    Raises:
        UserError: a wrong key or value, or an override that a resumed run cannot take, or one that
            contradicts the run it starts from.
    """
    refuse_unknown_keys(composed)
    name, start = composed.training.resume, composed.training.start_from
    if name is None and composed.data.prepared is not None:
        from nmt.data.prepared import read_manifest

        where = composed.data.prepared
        manifest = read_manifest(Path(where).expanduser())
        settle_prepared(composed, overrides, manifest["configuration"], where)
    if name is None and start is None:
        return from_composed(composed)
    runs = Path(composed.runs_dir)
    if name is None:
        run = _open(runs, start)
        paired = (run.path / PAIR_FILE).is_file()
        return start_config(composed, overrides, run.config, run.path, paired=paired)
    run = _open(runs, name)
    config = resume_config(composed, overrides, run.config, run.path)
    if not run.checkpoints.steps():
        raise UserError(f"{run.path} cannot be resumed: it saved no checkpoint; start a new run")
    return config


def _open(runs: Path, name: str) -> RunFolder:
    return RunFolder.open(runs / name if name == LATEST else Path(name))
