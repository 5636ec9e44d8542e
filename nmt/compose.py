"""Between Hydra and the program: composed configurations, resumed ones, and errors in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt import config as configuration
from nmt.config import Config
from nmt.errors import UserError, nearest

# What a resumed run may change: when it ends, how often it reports, where it searches for the
# best. Everything else would make it another run.
_CHANGEABLE = re.compile(
    r"training\.(max_\w+|early_stopping|resume|log_every|evaluate_every|evaluation_sentences"
    r"|keep_checkpoints|samples|probes|probe_every|jit_compile)|decoding\..*|cache_dir|runs_dir"
    r"|data\.(archive|path|source_path|target_path|rejected_file)"
)


def guarded(command: Callable[[], Any]) -> Callable[[], None]:
    """Turn what Hydra raises on a bad command line into `UserError`."""

    def run() -> None:
        try:
            command()
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(one_line(error)) from error

    return run


def one_line(error: BaseException) -> str:
    """Say what is wrong with a command line, without Hydra's advice on how to extend the schema."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            return configuration.describe(cause)
        cause = cause.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        missing = error.missing_cfg_file
        group, _, name = missing.rpartition("/")
        options = [option for option in error.options or [] if option != "schema"]
        return f"there is no {group or 'configuration'} '{name}'{nearest(name, options)}"
    text = " ".join(str(error).split())
    unknown_group = re.match(r"Could not override '([^']+)'", text)
    if unknown_group:
        key = unknown_group.group(1).split("@")[0]
        return f"unknown configuration key '{key}'{nearest(key, configuration.known_keys())}"
    return text


def job_config(composed: DictConfig, overrides: list[str]) -> Config:
    """Return the configuration of a job: a new run's, or a resumed run's with ``overrides``.

    Args:
        composed: what Hydra composed.
        overrides: the job's command-line overrides.

    Raises:
        UserError: a wrong key or value, or an override that a resumed run cannot take.
    """
    config = configuration.from_composed(composed)
    if config.training.resume is None:
        return config
    from nmt.run import CONFIG_FILE, RunFolder

    run = RunFolder.open(resumed(config))
    stored = OmegaConf.structured(configuration.load(run.path / CONFIG_FILE))
    for override in OverridesParser.create().parse_overrides(overrides):
        key = override.get_key_element().lstrip("+")
        if not _CHANGEABLE.fullmatch(key):
            raise UserError(
                f"a resumed run keeps its {key}: {run.path / CONFIG_FILE} holds its configuration; "
                "start a new run to change it"
            )
        OmegaConf.update(stored, key, OmegaConf.select(composed, key))
    resumed_config = configuration.from_composed(stored)
    if not run.checkpoints.steps():
        raise UserError(f"{run.path} cannot be resumed: it saved no checkpoint; start a new run")
    return resumed_config


def resumed(config: Config) -> Path:
    """Return the folder of the run to resume."""
    name = str(config.training.resume)
    return Path(config.runs_dir) / name if name == "latest" else Path(name)
