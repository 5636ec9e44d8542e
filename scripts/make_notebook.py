"""Make docs/attention.ipynb from docs/attention.md: prose in Markdown cells, Python in code cells.

    python scripts/make_notebook.py

The code is run, and its output is stored in its cell. A test runs the code and compares both files.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT, NOTEBOOK = DOCS / "attention.md", DOCS / "attention.ipynb"

_CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def cells(text: str) -> list[tuple[str, str]]:
    """Return ("markdown" or "code", content) of every cell, in order."""
    blocks = []
    end = 0
    for block in _CODE.finditer(text):
        blocks += [("markdown", text[end : block.start()]), ("code", block[1])]
        end = block.end()
    blocks.append(("markdown", text[end:]))
    return [(kind, content.strip("\n")) for kind, content in blocks if content.strip()]


def notebook(text: str) -> dict[str, Any]:
    """Return the notebook of a text, its code run from top to bottom."""
    notebook_cells: list[dict[str, Any]] = []
    names: dict[str, object] = {}
    for number, (kind, content) in enumerate(cells(text), start=1):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": content.splitlines(keepends=True),
        }
        if kind == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(content, f"cell {number}", "exec"), names)
            lines = printed.getvalue().splitlines(keepends=True)
            output = {"output_type": "stream", "name": "stdout", "text": lines}
            cell |= {"execution_count": None, "outputs": [output] if lines else []}
        notebook_cells.append(cell)
    return {
        "cells": notebook_cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main() -> None:
    content = notebook(TEXT.read_text(encoding="utf-8"))
    NOTEBOOK.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"written to {NOTEBOOK.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
