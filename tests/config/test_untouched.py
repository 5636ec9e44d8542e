"""Only `nmt.config` changes a configuration in place, so what is stored is what was used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import nmt
from nmt.config import Config, SourceConfig
from nmt.config.schema import GROUPS

PACKAGE = Path(nmt.__file__).parent
KEYS = {item.name for group in (Config, SourceConfig, *GROUPS.values()) for item in fields(group)}
# Names of variables and attributes that hold a configuration, or a part of one.
HOLDERS = {"config", "configuration", "settings", "finished", "source", "sources", *GROUPS}
MUTATORS = {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update"}
MUTATORS |= {"setdefault", "popitem"}


def names_in(node: ast.expr) -> list[str]:
    """Return ``["self", "_config", "data"]`` for ``self._config.data["x"]``."""
    if isinstance(node, ast.Attribute):
        return [*names_in(node.value), node.attr]
    if isinstance(node, ast.Subscript):
        return names_in(node.value)
    return [node.id] if isinstance(node, ast.Name) else [""]


def holds_configuration(node: ast.expr) -> bool:
    """Whether an expression has the name of a configuration, or of a part of one."""
    names = [name.strip("_") for name in names_in(node)]
    return bool(HOLDERS & set(names)) or any(name.endswith("_config") for name in names)


def targets_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        return [
            part
            for target in node.targets
            for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
        ]
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For) else []


def is_key(node: ast.expr) -> bool:
    """Whether an expression is a key of a configuration, or an element of one."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr in KEYS and holds_configuration(node.value)


def changes_in(source: str) -> Iterator[int]:
    """Yield the lines that set, delete or mutate a value of a configuration."""
    for node in ast.walk(ast.parse(source)):
        yield from (target.lineno for target in targets_of(node) if is_key(target))
        if isinstance(node, ast.Call):
            called = names_in(node.func)[-1]
            if called in ("setattr", "delattr", "__setattr__"):
                changed = any(holds_configuration(argument) for argument in node.args[:1])
            else:
                owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
                changed = called in MUTATORS and is_key(owner)
            if changed:
                yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "config.seed = 3",
        "config.training.resume = None",
        "self._config.decoding.beam_size += 1",
        "run.config.data.sources['a'] = source",
        "run.config.data.sources['a'].weight = 2",
        "a, config.training.max_steps = 1, 2",
        "training.row_lengths.append(128)",
        "config.training.probes.sort()",
        "del config.data.sources['a']",
        "setattr(config.model, key, 1)",
        "object.__setattr__(config, 'seed', 1)",
        "model_config.dropout: float = 0.1",
        "for training.max_steps in range(3): pass",
    ],
)
def test_changes_are_found(code: str) -> None:
    assert list(changes_in(code)) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "config = replace(config, seed=3)",
        "self._config = config",
        "self.training = config.training",
        "rates = [*config.training.row_lengths]; rates.append(1)",
        "variable.name = 'x'",
        "sources = dict(data.sources); sources['a'] = b",
    ],
)
def test_other_code_counts_as_no_change(code: str) -> None:
    assert list(changes_in(code)) == []


def test_only_the_room_of_the_configuration_changes_one() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "config"]
    assert len(paths) > 80
    changes = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in paths
        for line in changes_in(path.read_text(encoding="utf-8"))
    }
    assert changes == set()
