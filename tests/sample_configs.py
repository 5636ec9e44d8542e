"""Configurations as the command line composes them, cached for all tests."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from nmt.config import Config
from nmt.config.command_line import read_names, register_schemas
from nmt.config.files import conf_dir, from_composed
from nmt.runs.resuming import job_config

# Overrides that incomplete files require, as their first line says.
LANGUAGES = ("data.source_language=es", "data.target_language=en")
COMPLETION = {
    "data=files": ["data.train=corpus.tsv", *LANGUAGES],
    "data=opus": ["data.archive=en-es.txt.zip", *LANGUAGES],
    "data=prepared": ["data.prepared=folder"],
    "data=corrections": ["data.train=corrections.tsv", "training.start_from=run", *LANGUAGES],
    "experiment=paper_base": ["data.train=a.en,a.de"],
    "experiment=verses_20m": ["data.train=chapters.tsv"],
}
# Values that tests rely on, independent of later tuning of conf/.
PINNED = (
    "model=small",
    "seed=1",
    "model.d_model=256",
    "model.num_heads=4",
    "model.max_length=256",
    "model.attention_kernel=explicit",
    "model.attention_dropout=0",
    "training.batch_tokens=768",
    "training.row_lengths=[64]",
    "training.optimizer=adam",
    "training.weight_decay=0",
    "training.max_steps=null",
    "training.max_epochs=null",
    "training.max_minutes=8",
)
# Every file of a group, and the model variants in folders, such as model=heads/pooled.
OPTIONS = sorted(
    "=".join(path.relative_to(conf_dir()).with_suffix("").as_posix().split("/", 1))
    for pattern in ("*/*.yaml", "model/*/*.yaml")
    for path in conf_dir().glob(pattern)
)


def composed(*overrides: str) -> DictConfig:
    """Return the configuration that the command line would compose.

    Hydra composes each set of files once. The other overrides are applied as in Hydra's last step.
    """
    files = [override for override in overrides if _selects_file(override)]
    config = copy.deepcopy(compose_once(*files))
    others = OverridesParser.create().parse_overrides(
        read_names([override for override in overrides if override not in files])
    )
    ConfigLoaderImpl._apply_overrides_to_config(others, config)
    return config


def _selects_file(override: str) -> bool:
    """Whether an override selects a file or is malformed, rather than setting a key."""
    return not re.match(r"[+]*\w+(\.\w+)+=", override) and not override.startswith("seed=")


@cache
def compose_once(*overrides: str) -> DictConfig:
    """Return the configuration that Hydra composes; do not change it."""
    register_schemas()
    with initialize_config_dir(str(conf_dir().resolve()), version_base="1.3"):
        return compose("train", overrides=list(overrides))


@cache
def configured(*overrides: str) -> Config:
    """Return a configuration that tests share; do not change it."""
    return from_composed(composed(*overrides))


def job(*overrides: str) -> Config:
    """Return the checked configuration of a job of ``nmt.train``."""
    return job_config(composed(*overrides), list(overrides))


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """Return a copy with other values for some keys, in dotted form."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        *owners, name = key.split(".")
        owner: Any = config
        for step in owners:
            owner = owner[step] if isinstance(owner, dict) else getattr(owner, step)
        assert hasattr(owner, name), key
        setattr(owner, name, value)
    return config
