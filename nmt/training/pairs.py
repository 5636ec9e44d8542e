"""The configuration of a run whose corpus is passed from Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.data.spooling import spool_pairs
from nmt.errors import UserError
from nmt.runs.resuming import compose_config

_SOURCES = {"train": "pairs", "dev": "dev", "test": "test"}  # of data=files, by split


def compose_with_pairs(overrides: Sequence[str], splits: Mapping[str, Iterable[Any]]) -> Config:
    """Return the configuration of a run that reads these pairs from tables in ``cache_dir``.

    Args:
        overrides: configuration overrides, which name the languages.
        splits: pairs by the name of their split, ``train`` and perhaps ``dev`` and ``test``; empty:
            the configured corpus is used.

    Raises:
        UserError: an override is invalid, or names another corpus; or an item is not a pair.
    """
    if not splits:
        return compose_config(overrides)
    if "train" not in splits:
        raise UserError("dev and test need pairs; a configured corpus has data.dev=FILE")
    if any(re.match(r"training\.resume=(?!null$)", override) for override in overrides):
        config = compose_config(overrides)
    else:
        config = compose_config([*_choose_files(overrides, splits), *overrides])
    languages = config.data.source_language, config.data.target_language
    sources = dict(config.data.sources)
    for split, pairs in splits.items():
        name = _SOURCES[split]
        if name not in sources:
            raise UserError(f"the run has no {split} pairs from Python: leave out {split}")
        path = spool_pairs(pairs, languages, Path(config.cache_dir) / "pairs")
        sources[name] = replace(sources[name], path=str(path.resolve()))
    return replace(config, data=replace(config.data, sources=sources))


def _choose_files(overrides: Sequence[str], splits: Mapping[str, Any]) -> list[str]:
    """Return overrides that choose tables as the corpus; `compose_with_pairs` sets their paths.

    Raises:
        UserError: another override chooses a corpus.
    """
    keys = ["data", "data.columns", *(f"data.{split}" for split in splits)]
    for override in overrides:
        if override.split("=")[0].lstrip("+") in keys:
            raise UserError(f"the corpus is passed as pairs: leave out {override}")
    return ["data=files", "data.columns=[0,1]", *(f"data.{split}=pairs.tsv" for split in splits)]
