"""Options of commands."""

from __future__ import annotations

import pytest

from nmt.text.options import find_options
from nmt.text.spans import find_spans

READ = {"otra", "dijo", "no", "la", "salida", "help", "dry", "run"}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Usa --version para ver la versión.", ["--version"]),
        ("Usa -v o --verbose.", ["-v", "--verbose"]),
        ("Pon --output-dir, -R y (--no-color).", ["--output-dir", "-R", "--no-color"]),
        ("-x/--y: ver", ["-x"]),
        # Words that the model reads, and dashes that are punctuation.
        ("palabra --otra-- palabra, --No sé, y --dijo ella--.", []),
        ("Usa --help, --dry-run o --salida.", []),
        ("Es --franco-alemán, --qwx-- y ex-v -más o -qué.", []),
        ("Y -a, -y, -O, -A mí no; -D. Juan, - v, n-v, -5", []),
        # Kept already.
        ("Usa `ls -v`, -h, --qwx y --qwx=ab.", []),
    ],
)
def test_options_that_are_no_words_are_found(text: str, options: list[str]) -> None:
    found = find_options(text, [*find_spans(text)], lambda begin, end: text[begin:end] in READ)
    assert [text[begin:end] for begin, end in found] == options


def test_where_all_is_read_nothing_is_found() -> None:
    assert not [*find_options("Usa -v o --verbose.", [], lambda begin, end: True)]
