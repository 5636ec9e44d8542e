"""Imports point one way (DESIGN.md), and heavy packages load where they are used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "nmt"

# What each room may import of nmt; "nmt" is the package itself (a version, a path), "errors" and
# "quiet" are small and import nothing.
ROOMS = {
    "model": {"model"},
    "data": {"data", "config", "errors", "quiet", "nmt"},
    "inference": {"inference", "model", "data", "config", "devices", "errors", "quiet"},
    "inspection": {"inspection", "inference", "model", "data", "config", "errors", "quiet"},
    "serving": {"serving", "inference", "errors"},
    "exporting": {"exporting", "inference", "model", "data"}
    | {"config", "devices", "errors", "quiet"},
    "errors": set(),
    "quiet": set(),
    "config": {"errors"},
}
# `Translator.load` opens a run folder; nmt.runs.folder knows checkpoints, so the import waits for the call.
LAZY_EXCEPTION = ("nmt.inference.translator", "nmt.runs.folder")

COMMANDS = {"train", "translate", "evaluate", "inspect", "export", "serve"}

WEB_PACKAGES = {"fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client"}

CONFIGURATION_LIBRARIES = {"hydra", "omegaconf"}
MAY_IMPORT_THEM = {"nmt.config", "nmt.config.command_line", "nmt.train"}
# The report prints the configuration into TensorBoard as YAML.
YAML_EXCEPTION = ("nmt.training.journal", "omegaconf")


class Import(NamedTuple):
    importer: str  # dotted module
    imported: str  # dotted module
    lazy: bool  # inside a function
    line: int


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("nmt", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports_in(importer: str, source: str) -> Iterator[Import]:
    """Yield every import of a module, those inside functions and conditions included."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}:{node.lineno}: relative import"
            assert node.module
            # `from nmt.data import corpus` imports a module, `from nmt.data.corpus import Pair`
            # what is in it.
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                names.append(name if name in MODULES else node.module)
        for name in names:
            yield Import(importer, name, lazy, node.lineno)
        within = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, within)

    yield from visit(ast.parse(source), False)


IMPORTS = [
    found
    for module, path in MODULES.items()
    for found in imports_in(module, path.read_text(encoding="utf-8"))
]


def room(module: str) -> str:
    """Return ``data`` for ``nmt.data.corpus``, ``run`` for ``nmt.runs.folder``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def test_the_reader_of_imports_sees_them_all() -> None:
    source = """
import nmt.data.corpus, json
from nmt.config import files
from nmt.data.tokenizer import BOS
class A:
    import hydra
    def f(self):
        if True:
            from nmt.runs.folder import RunFolder
        async def g():
            import tensorflow as tf
try:
    import tensorflow_text
except ImportError:
    pass
"""
    assert [(found.imported, found.lazy) for found in imports_in("nmt.x", source)] == [
        ("nmt.data.corpus", False),
        ("json", False),
        ("nmt.config", False),
        ("nmt.data.tokenizer", False),
        ("hydra", False),
        ("nmt.runs.folder", True),
        ("tensorflow", True),
        ("tensorflow_text", False),
    ]
    assert {"nmt", "nmt.config", "nmt.data.corpus", "nmt.model.transformer"} <= MODULES.keys()
    assert len(IMPORTS) > 100


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_only_what_stands_before_it(name: str) -> None:
    assert any(room(module) == name for module in MODULES), f"no room {name}"
    wrong = [
        found
        for found in IMPORTS
        if room(found.importer) == name
        and top(found.imported) == "nmt"
        and room(found.imported) not in ROOMS[name]
        and (found.importer, found.imported) != LAZY_EXCEPTION
    ]
    assert wrong == []


def test_the_exceptions_are_still_needed_and_lazy() -> None:
    runs = [found for found in IMPORTS if (found.importer, found.imported) == LAZY_EXCEPTION]
    assert runs
    assert all(found.lazy for found in runs)
    assert any((found.importer, found.imported) == YAML_EXCEPTION for found in IMPORTS)


# Modules of the commands that are packages, each beside the `__main__` that wires them.
SUBCOMMANDS = {
    module
    for module in MODULES
    if room(module) in COMMANDS and module.count(".") > 1 and not module.endswith(".__main__")
}


def test_nothing_imports_a_command_but_its_command_line_a_subcommand() -> None:
    of_commands = [
        found
        for found in IMPORTS
        if top(found.imported) == "nmt" and room(found.imported) in COMMANDS
    ]
    wired = [
        found
        for found in of_commands
        if found.importer == f"nmt.{room(found.imported)}.__main__"
        and found.imported in SUBCOMMANDS
    ]
    assert [found for found in of_commands if found not in wired] == []
    assert {found.imported for found in wired} == SUBCOMMANDS
    assert SUBCOMMANDS, "no command is a package: this test needs no exception"


def test_training_does_not_know_what_is_wired_around_it() -> None:
    wiring = COMMANDS | {"compose", "prepare"}
    assert [
        found
        for found in IMPORTS
        if room(found.importer) not in wiring
        and top(found.imported) == "nmt"
        and room(found.imported) in wiring
    ] == []


def test_only_configuration_and_the_command_import_hydra() -> None:
    assert [
        found
        for found in IMPORTS
        if top(found.imported) in CONFIGURATION_LIBRARIES
        and found.importer not in MAY_IMPORT_THEM
        and (found.importer, top(found.imported)) != YAML_EXCEPTION
    ] == []


def test_the_web_stays_in_the_application_and_its_command() -> None:
    found = [found for found in IMPORTS if top(found.imported) in WEB_PACKAGES]
    assert {one.importer for one in found} == {"nmt.serving.app", "nmt.serve"}
    assert all(one.lazy for one in found if one.importer == "nmt.serve")
    applications = {one for one in IMPORTS if one.imported == "nmt.serving.app"}
    assert {(one.importer, one.lazy) for one in applications} == {("nmt.serve", True)}


def test_tensorboard_stays_where_its_files_are_made_and_read() -> None:
    found = {one.importer for one in IMPORTS if top(one.imported) in {"tensorboard", "werkzeug"}}
    assert found == {
        "nmt.training.events",
        "nmt.inspection.dashboard.plugin",
        "nmt.inspection.dashboard.projector",
    }
    assert not [one for one in IMPORTS if one.imported == "nmt.inspection.dashboard.plugin"]


# Itself imported inside a function, where Keras runs on JAX.
BACKEND_EXCEPTION = "nmt.training.jax_step"


def test_backends_are_imported_inside_functions() -> None:
    backends = {"tensorflow", "tensorflow_text", "jax"}
    of_backends = [found for found in IMPORTS if top(found.imported) in backends]
    assert of_backends, "nothing imports TensorFlow: this test looks for the wrong name"
    early = [found for found in of_backends if not found.lazy]
    assert {found.importer for found in early} == {BACKEND_EXCEPTION}
    of_exception = [found for found in IMPORTS if found.imported == BACKEND_EXCEPTION]
    assert of_exception
    assert all(found.lazy for found in of_exception)


def test_the_model_imports_keras_and_numpy_alone() -> None:
    foreign = {
        top(found.imported)
        for found in IMPORTS
        if room(found.importer) == "model" and top(found.imported) not in sys.stdlib_module_names
    }
    assert foreign <= {"keras", "numpy", "nmt"}


def run_python(script: str, **environment: str) -> Any:
    """Run a script in a fresh interpreter; return the JSON value on its last line of output."""
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=PACKAGE.parent,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_data_and_model_run_on_jax_without_tensorflow() -> None:
    names = [module for module in MODULES if room(module) in ("data", "model")]
    script = f"""
import importlib, json, sys

def heavy():
    return [name for name in sys.modules if name.split(".")[0].startswith("tensorflow")]

for name in {names!r}:
    importlib.import_module(name)
import keras
imported = heavy()

from nmt.config import TokenizerConfig
from nmt.data.tokenizer import train_tokenizer
config = TokenizerConfig("unigram", 300, 0, 1.0)
texts = ["Good morning, Ana.", "Good night, Ana."] * 10
tokenizer = train_tokenizer(config, texts, print)
decoded = tokenizer.decode(tokenizer.encode(texts[:2]))
print(json.dumps({{
    "backend": [keras.config.backend()],
    "imported": imported,
    "decoded": decoded,
    "used": heavy(),
}}))
"""
    seen = run_python(script, KERAS_BACKEND="jax")
    assert seen == {
        "backend": ["jax"],
        "imported": [],
        "decoded": ["Good morning, Ana.", "Good night, Ana."],
        "used": [],
    }


def test_tensorboard_loads_its_plugin_at_little_cost() -> None:
    script = """
import json, sys
from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from tensorboard.data import provider
from tensorboard.plugins import base_plugin
before = set(sys.modules)
import nmt.inspection.dashboard.plugin
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
    new = set(run_python(script)) - set(sys.stdlib_module_names)
    assert new == {"nmt"}


def test_commands_start_without_keras() -> None:
    names = [module for module in MODULES if room(module) in COMMANDS]
    assert {f"nmt.{command}" for command in COMMANDS} | SUBCOMMANDS <= set(names)
    script = f"""
import importlib, json, sys
for name in {["nmt", "nmt.config.command_line", *names]!r}:
    importlib.import_module(name)
heavy = {{"keras", "tensorflow", "tensorflow_text", "jax", "matplotlib", "sacrebleu", "fastapi"}}
print(json.dumps(sorted(heavy & {{name.split(".")[0] for name in sys.modules}})))
"""
    assert run_python(script) == []
