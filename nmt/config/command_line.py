"""Between Hydra and the program: composed configurations, resumed ones, and errors in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.config import files
from nmt.config.schema import GROUPS, Config, known_beside
from nmt.errors import UserError, nearest

# What a resumed run may change: when it ends, how often it reports, where it searches for the
# best. Everything else would make it another run.
_CHANGEABLE = re.compile(
    r"training\.(max_\w+|early_stopping|resume|log_every|evaluate_every|evaluation_sentences"
    r"|keep_checkpoints|samples|probes|probe_every|attention_every|jit_compile)|decoding(\..*)?"
    r"|cache_dir|runs_dir|data\.rejected_file"
    r"|data\.(sources\.\w+\.)?(archive|path|source_path|target_path)"
)


def register_schema() -> None:
    """Store the schema where the defaults list of ``conf/train.yaml`` finds it."""
    ConfigStore.instance().store(name="schema", node=Config, provider="nmt")


def guard(command: Callable[[], Any]) -> Callable[[], None]:
    """Turn what Hydra raises on a bad command line into `UserError`."""

    def run() -> None:
        try:
            command()
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(say_in_one_line(error)) from error
        except ValueError as error:
            # Hydra's own for some malformed overrides; anywhere else, a bug.
            if not _raised_in(error, "hydra"):
                raise
            groups = ", ".join(GROUPS)
            raise UserError(
                f"{say_in_one_line(error)}; the groups are {groups}: choose as in model=small"
            ) from error

    return run


def _raised_in(error: BaseException, package: str) -> bool:
    """Whether the innermost frame of a traceback belongs to a package."""
    traceback = error.__traceback__
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        traceback = traceback.tb_next
    return module.split(".")[0] == package


def say_in_one_line(error: BaseException) -> str:
    """Say what is wrong with a command line, without Hydra's advice on how to extend the schema."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OmegaConfBaseException):
            return files.describe(cause)
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
        return files.unknown_key(key, known_beside(key))
    return text


def compose_config(overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that ``nmt.train`` would run with these overrides.

    Raises:
        UserError: a wrong key or value.
    """
    found = []

    def compose_it() -> None:
        with initialize_config_dir(str(files.conf_dir()), version_base="1.3"):
            found.append(job_config(compose("train", list(overrides)), overrides))

    register_schema()
    guard(compose_it)()
    return found[0]


def job_config(composed: DictConfig, overrides: Sequence[str]) -> Config:
    """Return the configuration of a job: a new run's, or a resumed run's with ``overrides``.

    Args:
        composed: what Hydra composed.
        overrides: the job's command-line overrides.

    Returns:
        The checked configuration; ``training.resume`` is then the folder itself.

    Raises:
        UserError: a wrong key or value, or an override that a resumed run cannot take.
    """
    files.refuse_unknown_keys(composed)
    name = OmegaConf.select(composed, "training.resume")
    if name is None:
        return files.from_composed(composed)
    from nmt.runs.folder import CONFIG_FILE, LATEST, RunFolder

    run = RunFolder.open(Path(composed.runs_dir) / name if name == LATEST else Path(name))
    stored = OmegaConf.structured(files.load(run.path / CONFIG_FILE))
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        key = override.get_key_element().lstrip("+")
        if not _CHANGEABLE.fullmatch(key):
            raise UserError(
                f"a resumed run keeps its {key}: {run.path / CONFIG_FILE} holds its configuration; "
                "start a new run to change it"
            )
        OmegaConf.update(stored, key, OmegaConf.select(composed, key))
    stored.training.resume = str(run.path)
    config = files.from_composed(stored)
    if not run.checkpoints.steps():
        raise UserError(f"{run.path} cannot be resumed: it saved no checkpoint; start a new run")
    return config
