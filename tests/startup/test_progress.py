"""A progress bar counts items on a terminal, and a file gets none."""

from __future__ import annotations

import io

from rich.console import Console

from nmt.startup.progress import track


def test_results_pass_through_and_a_file_gets_no_bar() -> None:
    file = io.StringIO()
    assert list(track(iter("abc"), 3, "reading", Console(file=file))) == ["a", "b", "c"]
    assert file.getvalue() == ""


def test_a_terminal_shows_how_many_items_are_done() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100)
    chunks = track(iter([[1, 2], [3]]), 3, "reading", console, count=len)
    assert next(chunks) == [1, 2]
    assert list(chunks) == [[3]]
    assert "reading" in file.getvalue()
    assert "3/3" in file.getvalue()
    hidden = io.StringIO()
    console = Console(file=hidden, force_terminal=True, width=100)
    assert list(track(iter("ab"), 2, "reading", console, shown=False)) == ["a", "b"]
    assert hidden.getvalue() == ""
