"""The configuration of a job: a new run, one that starts from another run, or a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.combining import (
    apply_prepared,
    check_effects,
    check_held_out,
    combine_for_resume,
    combine_for_start,
)
from nmt.config.command_line import compose_raw, convert_hydra_errors, read_names
from nmt.config.files import from_composed
from nmt.data.paired import PAIR_FILE
from nmt.errors import UserError
from nmt.runs.folder import LATEST, RunFolder

CORRECTIONS = "corrections"  # the name of conf/data/corrections.yaml


@convert_hydra_errors()
def compose_config(overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that ``nmt.train`` would use with these overrides.

    Raises:
        UserError: see `job_config`.
    """
    return job_config(compose_raw(overrides), read_names(overrides))


def job_config(composed: Any, overrides: Sequence[str]) -> Config:
    """Return the checked configuration of a job; its ``training.resume`` is the run's own folder.

    Args:
        composed: the configuration that Hydra composed.
        overrides: the job's command-line overrides.

    Raises:
        UserError: a wrong key or value, an override that a resumed run does not accept, or one that
            contradicts the run from which this one starts.
    """
    training, prepared = composed.training, composed.data.prepared
    if training.resume is not None:
        run = _open(composed.runs_dir, training.resume)
        config = combine_for_resume(composed, overrides, run.config, run.path)
        if not run.checkpoints.steps():
            raise UserError(
                f"{run.path} cannot be resumed: it saved no checkpoint; start a new run"
            )
        return config
    if prepared is not None:
        from nmt.data.prepared import read_manifest

        manifest = read_manifest(Path(prepared).expanduser())
        apply_prepared(composed, overrides, manifest["configuration"], prepared)
    if training.start_from is not None:
        run = _open(composed.runs_dir, training.start_from)
        is_paired = (run.path / PAIR_FILE).is_file()
        config = combine_for_start(
            composed, overrides, run.config, run.path, has_paired_tokenizer=is_paired
        )
    elif composed.data.get("name") == CORRECTIONS:
        raise UserError(
            f"data={CORRECTIONS} needs training.start_from=RUN, the run that made the translations"
        )
    else:
        config = from_composed(composed)
    check_held_out(config.data, overrides)
    check_effects(config, overrides)
    return _resolve_runs(config)


def check_trial(composed: Any) -> None:
    """Check that a trial of a sweep reads no run by the link to the latest one.

    Each trial replaces that link, so that the next one would read another run.

    Args:
        composed: the configuration that Hydra composed, as a dictionary.

    Raises:
        UserError: it does.
    """
    data = composed["data"]
    runs = {"training.start_from": composed["training"]["start_from"]}
    runs |= {f"data.tests.{name}": where for name, where in (data.get("tests") or {}).items()}
    for name, source in (data.get("sources") or {}).items():
        if isinstance(source, dict):
            runs[f"data.sources.{name}.run"] = source.get("run")
    for key, where in runs.items():
        if isinstance(where, str) and Path(where).name == LATEST:
            raise UserError(
                f"{key}={where} changes with every trial of a sweep: name the run's own folder"
            )


def _resolve_runs(config: Config) -> Config:
    """Return the configuration with the folders of the runs that it reads, in place of links.

    The link to the latest run soon points to the run that has this configuration.
    """
    data, runs_dir = config.data, config.runs_dir
    tests = {name: _follow_link(runs_dir, where) for name, where in data.tests.items()}
    sources = {
        name: replace(source, run=source.run and _follow_link(runs_dir, source.run))
        for name, source in data.sources.items()
    }
    return replace(config, data=replace(data, tests=tests, sources=sources))


def _follow_link(runs_dir: str, name: str) -> str:
    path = _locate(runs_dir, name).expanduser()
    return str(path.resolve()) if path.is_symlink() and path.is_dir() else name


def _open(runs_dir: str, name: str) -> RunFolder:
    return RunFolder.open(_locate(runs_dir, name))


def _locate(runs_dir: str, name: str) -> Path:
    """Return the path of a run; the latest one is named without its folder."""
    return Path(runs_dir, name) if name == LATEST else Path(name)
