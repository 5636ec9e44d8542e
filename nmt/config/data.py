"""The ``data`` group: named sources of sentence pairs, cleaning, and splitting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from nmt.config.checks import MISSING, check_above_zero, check_at_least, check_one_of
from nmt.errors import UserError

KINDS = ("phrasebook", "grammar", "zip", "tsv", "parallel")
SPLITS = ("shares", "train", "dev", "test")

# Keys of a source that may be given to the group itself, ``data.path=FILE``, and then belong to
# its one source of a kind that has them.
SHORT = {
    "archive": ("zip",),
    "url": ("zip",),
    "path": ("tsv",),
    "columns": ("zip", "tsv", "phrasebook"),
    "source_path": ("parallel",),
    "target_path": ("parallel",),
}
_NAME = re.compile(r"\w+")


@dataclass
class SourceConfig:
    """Where sentence pairs come from, what they are for, and how much of an epoch they are."""

    # phrasebook: the embedded sentences | grammar: patterns expanded by the embedded grammar
    # | zip: an archive with one text file of pairs | tsv: one table | parallel: two aligned files
    kind: str = MISSING
    archive: str | None = None  # zip: a file already on disk, instead of downloading
    url: str | None = None  # zip: where it is fetched from
    path: str | None = None  # tsv: one file, plain or .gz
    # zip, tsv and phrasebook: source, target column from 0
    columns: list[int] = field(default_factory=lambda: [0, 1])
    source_path: str | None = None  # parallel: two line-aligned files, plain or .gz
    target_path: str | None = None
    pairs: int = 0  # grammar: how many are expanded
    # shares: to train on, but for the shares data.dev and data.test | train: to train on, without
    # what has a side in common with dev or test | dev | test: nothing else
    split: str = "shares"
    # Share of an epoch, relative to the other sources' that have one: pairs are repeated to come
    # near it. null: every pair once.
    weight: float | None = None
    tag: str | None = None  # a word put before every source sentence, such as <2en>


@dataclass
class DataConfig:
    """Which sentence pairs, how they are cleaned, and how they are split."""

    name: str = MISSING  # part of the name of a run
    source_language: str = MISSING  # BCP 47 tag, for labels and scores only
    target_language: str = MISSING
    sources: dict[str, SourceConfig] = field(default_factory=dict)  # by a name of your choice

    # Short for a key of the one source that has it; null in a finished configuration.
    archive: str | None = None
    url: str | None = None
    path: str | None = None
    columns: list[int] | None = None
    source_path: str | None = None
    target_path: str | None = None

    min_words: int = MISSING  # per side
    max_words: int = MISSING  # per side
    max_characters: int = MISSING  # per side
    max_length_ratio: float = MISSING  # longer side / shorter side, in characters
    length_ratio_margin: int = MISSING  # characters by which any pair may differ all the same
    rejected_file: str | None = None  # where training writes rejected lines, with their reasons

    # Pairs: a count (>= 1), or a share (< 1) of the sources with split=shares. Of no use where a
    # source has split=dev, or split=test.
    dev: float = MISSING
    test: float = MISSING
    split_seed: int = MISSING  # apart from `seed`, so that runs compare on one test split


def key_of(sources: Mapping[str, SourceConfig], name: str, key: str) -> str:
    """Return what a user writes to set a key of a source: the short form where it is enough."""
    kinds = SHORT.get(key, ())
    alone = sum(source.kind in kinds for source in sources.values()) == 1
    return f"data.{key}" if alone and sources[name].kind in kinds else f"data.sources.{name}.{key}"


def without_short_keys(data: DataConfig) -> DataConfig:
    """Return the configuration with each short key moved to the source that it is about.

    Raises:
        UserError: no source has such a key, or several have.
    """
    sources = dict(data.sources)
    for key, kinds in SHORT.items():
        value = getattr(data, key)
        if value is None:
            continue
        names = [name for name, source in sources.items() if source.kind in kinds]
        if len(names) != 1:
            longer = ", ".join(f"data.sources.{name}.{key}" for name in names or sources)
            which = "more than one source" if names else "no source"
            raise UserError(
                f"data.{key}={value}: {which} of data has such a key; there is {longer}"
            )
        sources[names[0]] = replace(sources[names[0]], **{key: value})
    nothing: dict[str, Any] = dict.fromkeys(SHORT)
    return replace(data, sources=sources, **nothing)


def check_data(config: DataConfig) -> None:
    """Check what types cannot.

    Raises:
        UserError: names the first key that is wrong and what it may be.
    """
    if not config.sources:
        raise UserError("data.sources is empty: choose a corpus, such as data=tsv data.path=FILE")
    for name in config.sources:
        if not _NAME.fullmatch(name):
            raise UserError(f"data.sources: '{name}' is no name: use letters, digits and _")
        _check_source(config.sources, name)
    if not any(source.split in ("shares", "train") for source in config.sources.values()):
        raise UserError("data.sources has nothing to train on: no source has split=shares or train")
    check_at_least("data.min_words", config.min_words, 1)
    check_at_least("data.max_words", config.max_words, config.min_words)
    check_at_least("data.max_characters", config.max_characters, 1)
    check_at_least("data.max_length_ratio", config.max_length_ratio, 1)
    check_at_least("data.dev", config.dev, 0)
    check_at_least("data.test", config.test, 0)


def _check_source(sources: Mapping[str, SourceConfig], name: str) -> None:
    source = sources[name]
    check_one_of(f"data.sources.{name}.kind", source.kind, KINDS)
    check_one_of(f"data.sources.{name}.split", source.split, SPLITS)
    needed = {"tsv": ("path",), "parallel": ("source_path", "target_path")}.get(source.kind, ())
    missing = [key_of(sources, name, key) for key in needed if not getattr(source, key)]
    if missing:
        which = f"data={source.kind}" if len(sources) == 1 else f"source '{name}'"
        wanted = " and ".join(f"{key_of(sources, name, key)}=FILE" for key in needed)
        raise UserError(f"{which} needs {wanted}")
    columns = source.columns
    if len(columns) != 2 or min(columns) < 0 or columns[0] == columns[1]:
        raise UserError(
            f"{key_of(sources, name, 'columns')}={columns}: give two different column numbers, "
            "source then target, counted from 0"
        )
    check_at_least(f"data.sources.{name}.pairs", source.pairs, 0)
    if source.pairs and source.kind != "grammar":
        raise UserError(f"data.sources.{name}.pairs belongs to sources of kind grammar")
    if source.kind == "grammar" and source.split != "train":
        raise UserError(f"data.sources.{name}: what a grammar makes is for split=train alone")
    check_above_zero(f"data.sources.{name}.weight", source.weight, ", or null")
    if source.tag is not None and (not source.tag or len(source.tag.split()) != 1):
        raise UserError(f"data.sources.{name}.tag='{source.tag}' must be one word, or null")


def upgrade_data(stored: dict[str, object]) -> dict[str, object]:
    """Return the ``data`` group of a run of before version 0.2, which had one corpus, in sources.

    Groups that have sources come back as they are.
    """
    if "kind" not in stored:
        return stored
    data = {key: value for key, value in stored.items() if key not in _OF_ONE_CORPUS}
    kind = str(stored["kind"])
    files = {key: stored[key] for key in SHORT if stored.get(key) is not None}
    data |= {"name": kind}
    if kind == "phrasebook":
        patterns, share = stored.get("patterns", 0), stored.get("pattern_share", 0.5)
        assert isinstance(share, float | int)
        data["sources"] = {"written": {"kind": kind, "weight": 1 - share} | files} | (
            {"patterns": {"kind": "grammar", "pairs": patterns, "weight": share, "split": "train"}}
            if patterns
            else {}
        )
    else:
        of_kind = {"tatoeba": "zip"}.get(kind, kind)
        known = {item.name for item in fields(SourceConfig)}
        used = {key: value for key, value in files.items() if of_kind in SHORT[key]}
        data["sources"] = {"pairs": {"kind": of_kind} | {k: used[k] for k in used if k in known}}
    return data


_OF_ONE_CORPUS = ("kind", "patterns", "pattern_share", *SHORT)
