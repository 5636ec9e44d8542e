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

# Arguments of `fit`, which are also names of sources, and the keys of data=files that they replace.
_KEYS = {"pairs": "data.train", "dev": "data.dev", "test": "data.test"}
_SOURCE_KEY = re.compile(r"data\.sources\.(\w+)\.(kind|path|columns|encoding)")


def compose_with_pairs(overrides: Sequence[str], splits: Mapping[str, Iterable[Any]]) -> Config:
    """Return the configuration of a run that reads these pairs from tables in ``cache_dir``.

    Args:
        overrides: configuration overrides, which name the languages.
        splits: ``pairs`` and perhaps ``dev`` and ``test``, by these names; empty: the configured
            corpus is used.

    Raises:
        UserError: an override is invalid, or names another corpus; or an item is not a pair.
    """
    if not splits:
        return compose_config(overrides)
    if "pairs" not in splits:
        raise UserError("dev and test need pairs; a configured corpus has data.dev=FILE")
    if any(re.match(r"training\.resume=(?!null$)", override) for override in overrides):
        config = compose_config(overrides)
    else:
        config = compose_config([*_choose_files(overrides, splits), *overrides])
    languages = config.data.source_language, config.data.target_language
    sources = dict(config.data.sources)
    for name, pairs in splits.items():
        if name not in sources:
            raise UserError(f"the run was started without {name} from Python: leave out {name}")
        path = spool_pairs(pairs, languages, Path(config.cache_dir) / "pairs", name)
        sources[name] = replace(sources[name], path=str(path.resolve()))
    return replace(config, data=replace(config.data, sources=sources))


def _choose_files(overrides: Sequence[str], splits: Mapping[str, Any]) -> list[str]:
    """Return overrides that choose tables as the corpus; `compose_with_pairs` sets their paths.

    Raises:
        UserError: another override says where the pairs are, or how they are read.
    """
    replaced = {"data", "data.columns", "data.encoding", *(_KEYS[name] for name in splits)}
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        match = _SOURCE_KEY.fullmatch(key)
        if key in replaced or (match and match[1] in splits):
            raise UserError(f"the corpus is passed as {', '.join(splits)}: leave out {override}")
    return ["data=files", "data.columns=[0,1]", *(f"{_KEYS[name]}=pairs.tsv" for name in splits)]
