"""The scripts of the browser are read by people, too: no function is longer than a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[2] / "nmt"
LONGEST = 60  # lines
NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "with", "await"}
# What holds no code, in the order in which it is looked for. A slash begins a regular expression
# where no value stands before it.
TEXT = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""
    r"|(?<=[(,=:\[!&|?{};])\s*/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+/",
    re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}


class Function(NamedTuple):
    name: str  # "": anonymous
    line: int
    lines: int


def without_texts(source: str) -> str:
    """Return a script with spaces for its comments, strings and regular expressions.

    Of a template the code in it stays.
    """
    code: list[str] = []
    open_braces: list[int] = []  # of each template that we are inside of
    place, in_template = 0, False
    while place < len(source):
        text = None if in_template else TEXT.match(source, place)
        if text:
            code.append(re.sub(r"[^\n]", " ", text[0]))
            place = text.end()
            continue
        sign = source[place]
        shown = " " if in_template and sign != "\n" else sign
        if in_template and sign == "\\":
            shown, place = "  ", place + 1
        elif in_template and source.startswith("${", place):
            shown, place, in_template = " {", place + 1, False
            open_braces.append(1)
        elif sign == "`":
            shown, in_template = " ", not in_template
        elif not in_template and open_braces and sign in "{}":
            open_braces[-1] += 1 if sign == "{" else -1
            if not open_braces[-1]:
                open_braces.pop()
                in_template = True
        code.append(shown)
        place += 1
    return "".join(code)


def end_of(code: str, place: int) -> int:
    """Return the place of the last sign of a function's body: a block, or else an expression."""
    stack: list[str] = []
    block = code[place] == "{"
    for here in range(place, len(code)):
        sign = code[here]
        if not stack and not block and sign in ",;)]}":
            return here - 1
        if sign in CLOSING:
            stack.append(CLOSING[sign])
        elif stack and sign == stack[-1]:
            stack.pop()
            if block and not stack:
                return here
    raise ValueError("a bracket is not closed")


def begin_of(code: str, place: int) -> int:
    """Return the place of the parenthesis that the one at a place closes."""
    depth = 0
    for here in range(place, -1, -1):
        depth += {")": 1, "(": -1}.get(code[here], 0)
        if not depth:
            return here
    raise ValueError("a parenthesis is not opened")


def functions(source: str) -> Iterator[Function]:
    """Yield functions, methods and arrow functions, those inside of others as well."""
    code = without_texts(source)
    for match in re.finditer(r"\)\s*\{|=>\s*", code):
        if match[0].startswith(")"):
            begin = begin_of(code, match.start())
            before = re.search(r"([\w$]*)\s*$", code[:begin])
            name = before[1] if before else ""
            if name in NO_FUNCTIONS:
                continue
            end = end_of(code, match.end() - 1)
        else:
            begin, name = match.start(), ""
            end = end_of(code, match.end())
        first, last = (code.count("\n", 0, place) + 1 for place in (begin, end))
        yield Function(name, first, last - first + 1)


def scripts() -> dict[str, str]:
    """Return every script of the package: files, and those that stand in a page."""
    scripts = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.js")}
    for path in PACKAGE.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        for script in re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL):
            scripts[path.name] = scripts.get(path.name, "") + script
    return scripts


SCRIPTS = scripts()


def test_the_reader_of_functions_sees_them_all() -> None:
    source = r"""
// function comment() {
class Picture extends Object {
  draw({ width, height } = {}) {
    if (width) { return "}"; }
    for (const one of [1, 2]) {
      say(`{ ${one} ${[one].map((two) => { return `}${two}`; })} \` }`);
    }
  }
}
async function ask(
  path,
) {
  const quote = path.replace(/["{]/g, "'");
  return new Promise((done) => {
    done(quote);
  });
}
const sum = (a, b) =>
  [a, b].reduce(
    (x, y) => x + y,
  );
"""
    lengths = {(function.name, function.line): function.lines for function in functions(source)}
    assert lengths == {
        ("draw", 4): 6,
        ("", 7): 1,
        ("ask", 11): 8,
        ("", 15): 3,
        ("", 19): 4,
        ("", 21): 1,
    }


@pytest.mark.parametrize("head", ["function f() {", "  f() {", "const f = () => {", "on(() => ({"])
def test_a_long_function_is_found(head: str) -> None:
    tail = {"{": "}", "({": "}))"}["({" if head.endswith("({") else "{"]
    for lines in (LONGEST, LONGEST + 1):
        source = "\n".join(
            ["const before = 1;", head, *["  a({});"] * (lines - 2), tail, "after();"]
        )
        assert max(function.lines for function in functions(source)) == lines


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_function_is_long(name: str) -> None:
    listed = list(functions(SCRIPTS[name]))
    assert {function for function in listed if function.lines > LONGEST} == set()


def test_every_script_was_read() -> None:
    assert {"viewer.js", "plugin.js", "file.js", "page.js", "page.html"} <= SCRIPTS.keys()
    named = {function.name for function in functions(SCRIPTS["viewer.js"])}
    assert {"mount", "constructor", "show", "draw", "light", "naming"} <= named
    for script, names in (
        ("page.js", {"translate", "show", "explain"}),
        ("page_lights.js", {"constructor", "light", "focusNextUnsure"}),
    ):
        assert names <= {function.name for function in functions(SCRIPTS[script])}
