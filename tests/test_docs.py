"""The documents keep their word: code prints what they say, links lead where they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ATTENTION = ROOT / "docs" / "attention.md"

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\(([^()\s]+)\)")  # [text](address)
_PRINTED = re.compile(r"# -> (.*)$", re.MULTILINE)


def shown(code: str, line: str) -> bool:
    """Whether a line of code holds an expression or, if it is a bare name, defines it."""
    if not code.isidentifier():
        return code in line
    return bool(re.search(rf"\b(?:(?:def|class) {code}\b|{code} = )", line))


def wrong_links(document: Path) -> list[str]:
    """Return what is wrong with the relative links and pictures of a document."""
    found = []
    prose = _FENCED.sub("", document.read_text(encoding="utf-8"))
    for text, address in _LINK.findall(prose):
        name, _, fragment = address.partition("#")
        if ":" in name or not name:
            continue
        path = document.parent / name
        if not path.exists():
            found.append(f"[{text}]({address}): there is no such file")
        elif re.fullmatch(r"L\d+", fragment):
            lines = path.read_text(encoding="utf-8").splitlines()
            numbered = dict(enumerate(lines, start=1))
            code = text.strip("`")
            line = numbered.get(int(fragment[1:]), "")
            if not shown(code, line):
                right = [number for number, line in numbered.items() if shown(code, line)]
                found.append(f"[{text}]({address}): that line is {line!r}; try {right}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_to_files_and_to_the_lines_they_name(document: Path) -> None:
    wrong = wrong_links(document)
    assert not wrong, "\n".join(wrong)


def test_wrong_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("\ndef attend(x):\n    return f(x)[0]\n", encoding="utf-8")
    document = tmp_path / "document.md"
    good = "[`attend`](code.py#L2) [`f(x)[0]`](code.py#L3) [web](https://example.com/no.md) [a](#b)"
    bad = "![lost](lost.png) [`attend`](code.py#L3) [`f(x)[0]`](code.py#L9)"
    document.write_text(f"{good}\n{bad}\n```\n[no](link.md)\n```\n", encoding="utf-8")
    assert wrong_links(document) == [
        "[lost](lost.png): there is no such file",
        "[`attend`](code.py#L3): that line is '    return f(x)[0]'; try [2]",
        "[`f(x)[0]`](code.py#L9): that line is ''; try [3]",
    ]


@pytest.mark.backend
def test_the_code_of_attention_md_prints_what_stands_behind_its_arrows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = ATTENTION.read_text(encoding="utf-8")
    blocks = [match for match in _FENCED.finditer(text) if match[1] == "python"]
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        above = text.count("\n", 0, block.start(2))  # so that errors name the document's lines
        exec(compile("\n" * above + block[2], str(ATTENTION), "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed == _PRINTED.findall(block[2]), f"attention.md, block of line {above + 1}"
