"""Code in the documents prints what they say; their links lead to existing files and symbols."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "data" / "README.md",
]
ATTENTION = ROOT / "docs" / "attention.md"
LAYERS = ROOT / "docs" / "layers.md"
PYTHON = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "docs" / "attention.ipynb"

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# [text](address "title"); in a link to code, the title names the symbol that contains the text.
_LINK = re.compile(r'\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\(([^()\s]+)(?: "([^"]+)")?\)')
_PRINTED = re.compile(r"# -> (.*)$", re.MULTILINE)


def symbols(source: str) -> dict[str, str]:
    """Return the code of every function, class and constant by its name, such as A.method."""
    lines = source.splitlines()
    code: dict[str, str] = {}

    def visit(node: ast.Module | ast.ClassDef, prefix: str) -> None:
        for child in node.body:
            names: list[str] = []
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                names = [child.name]
            elif isinstance(child, ast.Assign):
                names = [target.id for target in child.targets if isinstance(target, ast.Name)]
            for name in names:
                code[prefix + name] = "\n".join(lines[child.lineno - 1 : child.end_lineno])
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(source), "")
    return code


def wrong_link(document: Path, text: str, address: str, symbol: str) -> str | None:
    """Return the problem of a relative link or picture; None without one."""
    name, _, fragment = address.partition("#")
    if ":" in name or not name:
        return None
    path = document.parent / name
    if not path.exists():
        return "the file is missing"
    if path.suffix != ".py":
        return None
    if re.fullmatch(r"L\d+", fragment):
        return "lines move: name a symbol"
    if symbol:
        code = symbols(path.read_text(encoding="utf-8"))
        if symbol not in code:
            return f"{symbol} is missing"
        if text.strip("`") not in code[symbol]:
            return f"{symbol} does not contain it"
    return None


def wrong_links(document: Path) -> list[str]:
    """Return the problems of the relative links and pictures of a document."""
    prose = _FENCED.sub("", document.read_text(encoding="utf-8"))
    problems = []
    for text, address, symbol in _LINK.findall(prose):
        problem = wrong_link(document, text, address, symbol)
        if problem:
            problems.append(f"[{text}]({address}): {problem}")
    return problems


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_to_files_and_to_the_symbols_they_name(document: Path) -> None:
    wrong = wrong_links(document)
    assert not wrong, "\n".join(wrong)


def test_the_text_on_attention_names_the_symbols_of_its_links() -> None:
    prose = _FENCED.sub("", ATTENTION.read_text(encoding="utf-8"))
    to_code = [link for link in _LINK.findall(prose) if link[1].endswith(".py")]
    assert len(to_code) > 30
    assert [link for link in to_code if not link[2]] == []


def test_wrong_links_are_found(tmp_path: Path) -> None:
    code = "\nLIMIT = 3\nclass A:\n    def attend(self, x):\n        return f(x)[0]\n"
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    document = tmp_path / "document.md"
    good = (
        '[`attend`](code.py "A.attend") [`f(x)[0]`](code.py "A.attend") [`LIMIT`](code.py "LIMIT") '
        "[web](https://example.com/no.md) [a](#b) [code](code.py)"
    )
    bad = (
        '![lost](lost.png) [`attend`](code.py "attend") [`g(x)`](code.py "A") [`x`](code.py#L9) '
        '[`f`](code.py "LIMIT")'
    )
    document.write_text(f"{good}\n{bad}\n```\n[no](link.md)\n```\n", encoding="utf-8")
    assert wrong_links(document) == [
        "[lost](lost.png): the file is missing",
        "[`attend`](code.py): attend is missing",
        "[`g(x)`](code.py): A does not contain it",
        "[`x`](code.py#L9): lines move: name a symbol",
        "[`f`](code.py): LIMIT does not contain it",
    ]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_code(document: Path) -> dict[str, Any]:
    """Run the code of a document as a notebook, and check what it prints."""
    notebook = load_script("make_notebook").notebook(document.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            printed = [line.rstrip("\n") for output in cell["outputs"] for line in output["text"]]
            assert printed == _PRINTED.findall("".join(cell["source"])), "".join(cell["source"])
    assert sum(cell["cell_type"] == "code" for cell in notebook["cells"]) > 2
    return notebook


@pytest.mark.backend
def test_the_code_on_layers_prints_what_the_text_says() -> None:
    run_code(LAYERS)


def test_the_code_on_python_prints_what_the_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # which gets its runs
    run_code(PYTHON)


@pytest.mark.backend
def test_the_notebook_on_attention_prints_what_the_text_says() -> None:
    notebook = run_code(ATTENTION)
    assert notebook == json.loads(NOTEBOOK.read_text(encoding="utf-8")), (
        "the notebook is outdated: run python scripts/make_notebook.py"
    )
