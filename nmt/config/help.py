"""The keys of the configuration with their values and meanings, for ``--help``."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import is_dataclass

from omegaconf import DictConfig, OmegaConf

from nmt.config.checks import read_valid
from nmt.config.sources import SourceConfig

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


def _format(entry: str, meaning: str) -> str:
    indent = " " * 6
    lines = textwrap.wrap(meaning, 100, initial_indent=indent, subsequent_indent=indent)
    return "\n".join([entry, *lines])
