"""Configurations as the command line composes them, composed once for all tests that share them."""

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
from nmt.config.command_line import register_schema
from nmt.config.files import conf_dir, from_composed

# Files that are written to be completed: what their first line tells the user to add.
LANGUAGES = ("data.source_language=es", "data.target_language=en")
COMPLETION = {
    "data=tsv": ["data.path=corpus.tsv", *LANGUAGES],
    "data=opus": ["data.archive=en-es.txt.zip", *LANGUAGES],
    "data=prepared": ["data.prepared=folder"],
    "data=parallel": ["data.source_path=a.es", "data.target_path=a.en", *LANGUAGES],
    "experiment=paper_base": ["data.source_path=a.en", "data.target_path=a.de"],
}
# Values that tests count on, however the files in conf/ are tuned.
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
# Every file of a group, and the variants in folders of `model`: model=heads/pooled.
OPTIONS = sorted(
    "=".join(path.relative_to(conf_dir()).with_suffix("").as_posix().split("/", 1))
    for pattern in ("*/*.yaml", "model/*/*.yaml")
    for path in conf_dir().glob(pattern)
)


def composed(*overrides: str) -> DictConfig:
    """Return what the command line would compose.

    Choices of files are composed by Hydra, once for each set of them; the other overrides are then
    applied as Hydra applies them, which is its last step.
    """
    chosen = [each for each in overrides if _chooses(each)]
    config = copy.deepcopy(compose_once(*chosen))
    others = OverridesParser.create().parse_overrides([o for o in overrides if not _chooses(o)])
    ConfigLoaderImpl._apply_overrides_to_config(others, config)
    return config


def _chooses(override: str) -> bool:
    """Whether an override is none of a single key: those that choose files, and malformed ones."""
    return not re.match(r"[+]*\w+(\.\w+)+=", override) and not override.startswith("seed=")


@cache
def compose_once(*overrides: str) -> DictConfig:
    """Return what Hydra composes; nobody may change it."""
    register_schema()
    with initialize_config_dir(str(conf_dir().resolve()), version_base="1.3"):
        return compose("train", overrides=list(overrides))


@cache
def configured(*overrides: str) -> Config:
    """Return a configuration that nobody may change: the tests share it."""
    return from_composed(composed(*overrides))


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """Return a copy with some keys, given in dotted form, set to other values."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        *owners, name = key.split(".")
        owner: Any = config
        for step in owners:
            owner = owner[step] if isinstance(owner, dict) else getattr(owner, step)
        assert hasattr(owner, name), key
        setattr(owner, name, value)
    return config
