"""The keys of the configuration with their values and meanings, for ``--help``."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from nmt.config.checks import read_valid
from nmt.config.sources import SourceConfig

_PRIVATE_GROUPS = ("hydra", "shared", "schema")  # which other files choose
_FIELD = re.compile(r"    (\w+): [^#]*(?:#(.*))?$")


def read_meanings(schema: type) -> dict[str, str]:
    """Return the comment of each field, above it or at the end of its line, and valid values."""
    meanings: dict[str, str] = {}
    valid = {name: f"({each.description})" for name, each in read_valid(schema).items()}
    for cls in schema.__mro__[-2::-1]:
        comment: list[str] = []
        for line in inspect.getsource(cls).splitlines():
            if line.strip().startswith("#"):
                comment.append(line.strip("# "))
                continue
            if match := _FIELD.match(line):
                parts = [*comment, (match[2] or "").strip(), valid.get(match[1], "")]
                meanings[match[1]] = " ".join(filter(None, parts))
            comment = []
    return meanings


def describe_keys(node: DictConfig, prefix: str = "") -> str:
    """Return one entry for each key that has a meaning: ``key=value`` and what it does.

    Args:
        node: a composed configuration whose groups have schemas.
        prefix: what its keys begin with.
    """
    meanings = read_meanings(OmegaConf.get_type(node) or dict)
    entries = []
    for key in map(str, node):
        if key == "hydra":
            continue
        schema = OmegaConf.get_type(node, key)
        if key == "sources":
            entries += [
                _format(f"{prefix}sources.NAME.{name}", meaning)
                for name, meaning in read_meanings(SourceConfig).items()
            ]
        elif is_dataclass(schema):
            entries.append(describe_keys(node[key], f"{prefix}{key}."))
        else:
            is_missing = OmegaConf.is_missing(node, key)
            value = "???" if is_missing else "null" if node[key] is None else node[key]
            entries.append(_format(f"{prefix}{key}={value}", meanings.get(key, "")))
    return "\n".join(entries)


def describe_groups(folder: Path, names: Sequence[str] = ()) -> str:
    """Return a line for each group of configuration files: its name, and the options to choose.

    Args:
        folder: of the groups.
        names: the groups to list; empty: all.
    """
    lines = []
    for group in sorted(each for each in folder.iterdir() if each.is_dir()):
        if group.name not in _PRIVATE_GROUPS and (not names or group.name in names):
            files = (path.relative_to(group).with_suffix("") for path in group.rglob("*.yaml"))
            shown = [path for path in files if path.parts[0] not in _PRIVATE_GROUPS]
            ordered = sorted(shown, key=lambda path: (len(path.parts), path))
            lines.append(f"{group.name}: {', '.join(path.as_posix() for path in ordered)}")
    return "\n".join(lines)


def _format(entry: str, meaning: str) -> str:
    indent = " " * 6
    lines = textwrap.wrap(meaning, 100, initial_indent=indent, subsequent_indent=indent)
    return "\n".join([entry, *lines])
