"""Imports point one way (docs/design.md), and heavy packages are imported where they are used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "nmt"

# The packages of nmt ("rooms") that each may import. Folders of analysis and formats are rooms.
ROOMS = {
    "errors": set[str](),
    "files": {"errors"},
    "startup": {"errors"},
    "model": set[str](),
    "text": {"errors"},
    "config": {"errors", "model", "text"},
    "data": {"config", "errors", "files", "startup", "text"},
    "preparing": {"config", "data", "errors", "files", "startup", "text"},
    "viewer": {"model"},
    "runs": {"config", "data", "errors", "files", "model", "text"},
    "formats.weights": {"data", "errors", "files", "model", "runs"},
    "sweeps": {"config", "errors", "files", "runs", "startup"},
    "inference": {
        "config",
        "data",
        "errors",
        "files",
        "formats.weights",
        "model",
        "runs",
        "startup",
    }
    | {"text", "viewer"},
    "analysis": set[str](),
    "analysis.anatomy": {"analysis", "model"},
    "analysis.pictures": {"errors", "files", "inference", "analysis.anatomy", "model"}
    | {"text", "viewer"},
    "analysis.heads": {
        "data",
        "errors",
        "inference",
        "analysis",
        "analysis.pictures",
        "model",
        "startup",
        "text",
    },
    "analysis.comparison": {"config", "data", "errors", "inference", "model", "runs", "startup"}
    | {"analysis", "analysis.heads", "text", "viewer"},
    "analysis.corpora": {"analysis", "config", "data"},
    "analysis.traces": {"data", "inference", "text"},
    "analysis.explaining": {"analysis", "analysis.traces", "data", "errors", "files", "inference"}
    | {"model", "text", "viewer"},
    "analysis.dashboard": {"data", "errors", "inference", "runs", "text", "viewer"}
    | {"analysis.comparison"},
    "training": {
        "config",
        "data",
        "errors",
        "files",
        "inference",
        "model",
        "runs",
        "startup",
        "sweeps",
        "text",
    }
    | {"analysis", "analysis.anatomy", "analysis.heads", "analysis.pictures", "viewer"},
    "formats.marian": {"config", "data", "errors", "files", "inference", "model", "runs"}
    | {"training"},
    "formats": {
        "config",
        "data",
        "errors",
        "files",
        "formats.marian",
        "formats.weights",
        "inference",
    }
    | {"model", "runs", "startup", "text"},
    "documents": {"data", "errors", "files", "inference", "text"},
    "serving": {"data", "documents", "errors", "inference", "text", "viewer"}
    | {"analysis.explaining"},
    "arguments": {"config", "data", "documents", "errors"},
    # the library's face: `Translator`, `fit` and `explain`
    "nmt": {"analysis.explaining", "errors", "inference", "startup", "training"},
}

COMMANDS = {"train", "translate", "evaluate", "inspect", "export", "serve", "convert"} | {
    "prepare",
    "synthesize",
}

WEB_PACKAGES = {"fastapi", "starlette", "pydantic", "uvicorn", "prometheus_client"}

CONFIGURATION_LIBRARIES = {"hydra", "omegaconf"}
LONGEST_FUNCTION = 60  # lines
LONGEST_MODULE = 400  # lines
MAX_METHODS = 15
GRAMMAR = PACKAGE.parent / "data"  # tables of a language's forms are longer
ROOT = PACKAGE.parent
CODE_FOLDERS = (
    PACKAGE,
    ROOT / "data",
    ROOT / "scripts",
    ROOT / "tests/robustness",
    ROOT / "tests/fuzz",
)


class Import(NamedTuple):
    importer: str  # dotted module
    imported: str  # dotted module
    lazy: bool  # inside a function
    line: int


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("nmt", *path.relative_to(PACKAGE).with_suffix("").parts)
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


MODULES = modules()


def imports_in(importer: str, source: str) -> Iterator[Import]:
    """Yield every import of a module, including those inside functions and conditions."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}:{node.lineno}: relative import"
            assert node.module
            # `from nmt.data import corpus` imports a module, `from nmt.data.corpus import Pair`
            # a name from it.
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
    each
    for module, path in MODULES.items()
    for each in imports_in(module, path.read_text(encoding="utf-8"))
]


def room(module: str) -> str:
    """Return the room: ``data`` for ``nmt.data.corpus``, ``analysis.heads`` for its modules."""
    parts = module.split(".")[1:3]
    if not parts:
        return "nmt"
    inner = parts[0] in {"analysis", "formats"} and len(parts) > 1 and is_folder(".".join(parts))
    return ".".join(parts) if inner else parts[0]


def is_folder(dotted: str) -> bool:
    return PACKAGE.joinpath(*dotted.split(".")).is_dir()


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
    assert [(each.imported, each.lazy) for each in imports_in("nmt.x", source)] == [
        ("nmt.data.corpus", False),
        ("json", False),
        ("nmt.config.files", False),
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
        each
        for each in IMPORTS
        if room(each.importer) == name
        and top(each.imported) == "nmt"
        and room(each.imported) not in ROOMS[name] | {name}
    ]
    assert wrong == []


def test_every_room_is_known_and_needs_what_it_may_import() -> None:
    assert {room(module) for module in MODULES} == ROOMS.keys() | COMMANDS
    used = {
        name: {room(each.imported) for each in IMPORTS if room(each.importer) == name}
        for name in ROOMS
    }
    assert {name: sorted(may - used[name]) for name, may in ROOMS.items() if may - used[name]} == {}


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the rooms of an import cycle; an empty list without one."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if cycle := visit(other, [*path, name]):
                return cycle
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(graph))), [])


def graph_of(imports: Iterable[Import]) -> dict[str, set[str]]:
    """Return the rooms that each room imports, also inside functions and only for types."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        here, there = room(each.importer), room(each.imported)
        if top(each.imported) == "nmt" and here != there:
            graph.setdefault(here, set()).add(there)
    return graph


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}}) == []
    for_types = """
from typing import TYPE_CHECKING
import nmt.config, json
if TYPE_CHECKING:
    from nmt.analysis.heads.report import Span
"""
    lazy = "def f():\n    from nmt.analysis.pictures import grids"
    example = [
        *imports_in("nmt.data.corpus", for_types),
        *imports_in("nmt.analysis.heads.report", lazy),
        *imports_in("nmt.analysis.pictures.grids", "from nmt.data import corpus"),
    ]
    graph = graph_of(example)
    assert graph == {
        "data": {"config", "analysis.heads"},
        "analysis.heads": {"analysis.pictures"},
        "analysis.pictures": {"data"},
    }
    assert find_cycle(graph) == ["analysis.heads", "analysis.pictures", "data", "analysis.heads"]
    assert find_cycle(graph_of(example[:-1])) == []


def test_no_rooms_import_each_other() -> None:
    assert find_cycle(graph_of(IMPORTS)) == []
    assert find_cycle(ROOMS) == []  # nor will they, while each keeps to what it may


def test_at_the_top_stand_the_commands_and_little_else() -> None:
    files = {path.stem for path in PACKAGE.glob("*.py")}
    assert files == COMMANDS - {"inspect"} | {"__init__", "arguments", "errors", "files"}


def test_no_function_is_long() -> None:
    lengths = {
        f"{path.name}: {node.name}": node.end_lineno - node.lineno + 1
        for folder in CODE_FOLDERS
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }
    assert len(lengths) > 500
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}


def test_no_module_is_long_and_no_class_has_many_methods() -> None:
    lengths: dict[str, int] = {}
    methods: dict[str, int] = {}
    for folder in CODE_FOLDERS:
        for path in folder.rglob("*.py") if folder != GRAMMAR else ():
            source = path.read_text(encoding="utf-8")
            lengths[str(path)] = source.count("\n")
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.ClassDef):
                    count = sum(isinstance(child, ast.FunctionDef) for child in node.body)
                    methods[f"{path}: {node.name}"] = count
    assert {name: n for name, n in lengths.items() if n > LONGEST_MODULE} == {}
    assert {name: n for name, n in methods.items() if n > MAX_METHODS} == {}


# Modules of the commands that are packages, each beside the `__main__` that wires them.
SUBCOMMANDS = {
    module
    for module in MODULES
    if room(module) in COMMANDS and module.count(".") > 1 and not module.endswith(".__main__")
}


def test_nothing_imports_a_command_but_its_command_line_a_subcommand() -> None:
    command_imports = [
        each for each in IMPORTS if top(each.imported) == "nmt" and room(each.imported) in COMMANDS
    ]
    wired = [
        each
        for each in command_imports
        if each.importer == f"nmt.{room(each.imported)}.__main__" and each.imported in SUBCOMMANDS
    ]
    assert [each for each in command_imports if each not in wired] == []
    assert {each.imported for each in wired} == SUBCOMMANDS
    assert SUBCOMMANDS, "no command is a package: this test needs no exception"


def test_only_configuration_and_the_commands_import_hydra() -> None:
    imports = [each for each in IMPORTS if top(each.imported) in CONFIGURATION_LIBRARIES]
    assert {room(each.importer) for each in imports} == {"config", "prepare", "train"}
    light = ("nmt.config", "nmt.config.schema", "nmt.config.data", "nmt.config.checks")
    assert not [each for each in imports if each.importer in light]


def test_the_web_stays_in_the_application_and_its_command() -> None:
    imports = [each for each in IMPORTS if top(each.imported) in WEB_PACKAGES]
    modules = ("app", "connections", "corrections", "documents", "events", "glossaries", "limits")
    others = ("keras_work", "metrics", "middleware", "problems", "schema", "service", "waiting")
    application = {f"nmt.serving.{name}" for name in (*modules, *others)}
    assert {each.importer for each in imports} == {*application, "nmt.serve"}
    assert all(each.lazy for each in imports if each.importer == "nmt.serve")
    importers = {(each.importer, each.lazy) for each in IMPORTS if each.imported in application}
    outside = {(name, lazy) for name, lazy in importers if room(name) != "serving"}
    assert outside == {("nmt.serve", True)}


def test_tensorboard_stays_where_its_files_are_made_and_read() -> None:
    importers = {
        each.importer for each in IMPORTS if top(each.imported) in {"tensorboard", "werkzeug"}
    }
    assert importers == {
        "nmt.training.events",
        "nmt.analysis.dashboard.links",
        "nmt.analysis.dashboard.plugin",
        "nmt.analysis.dashboard.projector",
    }
    assert not [each for each in IMPORTS if each.imported == "nmt.analysis.dashboard.plugin"]


# The compiled update of each backend, which is imported inside a function.
BACKEND_STEPS = ("nmt.training.jax_", "nmt.training.tensorflow_")


def test_backends_are_imported_inside_functions() -> None:
    backends = {"tensorflow", "tensorflow_text", "jax"}
    backend_imports = [each for each in IMPORTS if top(each.imported) in backends]
    assert backend_imports, "nothing imports TensorFlow: this test has the wrong name"
    early = {each.importer for each in backend_imports if not each.lazy}
    assert {"nmt.training.jax_step", "nmt.training.tensorflow_step"} <= early
    assert all(importer.startswith(BACKEND_STEPS) for importer in early)
    from_elsewhere = [
        each
        for each in IMPORTS
        if each.imported.startswith(BACKEND_STEPS) and not each.importer.startswith(BACKEND_STEPS)
    ]
    assert from_elsewhere
    assert all(each.lazy for each in from_elsewhere)


def test_the_model_imports_keras_and_numpy_alone() -> None:
    """The exception: products with another result type than their operands, which Keras lacks."""
    foreign = [
        each
        for each in IMPORTS
        if room(each.importer) == "model"
        and top(each.imported) not in sys.stdlib_module_names | {"keras", "numpy", "nmt"}
    ]
    assert {each.importer for each in foreign} == {"nmt.model.mixed"}
    assert {top(each.imported) for each in foreign} == {"jax", "tensorflow"}
    assert all(each.lazy for each in foreign)


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
from nmt.data.tokenizer_training import train_tokenizer
config = TokenizerConfig("unigram", 300, 0, 1.0, lowercase_source=False, slots=0)
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
    result = run_python(script, KERAS_BACKEND="jax")
    assert result == {
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
import nmt.analysis.dashboard.plugin
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


def test_what_is_light_stays_light() -> None:
    """Heavy packages are not imported by `nmt`, the help of a command, `nmt.config` and results."""
    show_help = """
import nmt.translate
sys.argv = ["translate", "--help"]
with contextlib.suppress(SystemExit):
    nmt.translate.main()
"""
    results = "import nmt.model.contract, nmt.inference.results"
    script = f"""
import contextlib, json, sys
heavy = {{"keras", "tensorflow", "jax", "hydra", "omegaconf", "numpy", "yaml", "rich"}}
loaded = []
for stage in {["import nmt", show_help, "import nmt.config", results]!r}:
    exec(stage)
    loaded.append(sorted(heavy & {{name.split(".")[0] for name in sys.modules}}))
print(json.dumps(loaded))
"""
    assert run_python(script) == [[], [], [], []]


def test_translating_loads_nothing_heavy(parrot_run: Path) -> None:
    """A process translates without importing a framework."""
    script = f"""
import contextlib, io, json, sys
import nmt.translate
sys.argv = ["translate", "--run", {str(parrot_run)!r}, "Hoy hace frío."]
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
    nmt.translate.main()
heavy = {{"keras", "tensorflow", "tensorflow_text", "jax", "hydra", "sacrebleu", "matplotlib"}}
print(json.dumps([out.getvalue(), *heavy & {{name.split(".")[0] for name in sys.modules}}]))
"""
    [printed] = run_python(script)
    assert printed.strip()
