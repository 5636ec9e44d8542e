"""Cells of a notebook share one viewer, and show a table where it is not."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import needs_chromium
from fake_attention import attention, unpack_frame

from nmt.viewer import cells
from nmt.viewer.cells import attention_frame, notebook_cell

pytest_plugins = ("browsers", "viewer_pages")
pytestmark = pytest.mark.xdist_group("attention viewer")

HOSTILE = "<script>alert(`x`)</script>"
NOTE = "The interactive viewer is stored with the first attention"


@pytest.fixture
def run_cell(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], str]:
    """Return a function that shows an attention in the cell of a notebook with this id."""
    messages: list[dict[str, Any]] = [{}]
    shell = SimpleNamespace(get_parent=lambda: messages[-1])
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(cells, "_carrier", None)

    def run(cell: str | None) -> str:
        messages.append({"metadata": {"cellId": cell} if cell else {}})
        return notebook_cell(attention())

    return run


def carries(cell: str) -> bool:
    return len(re.findall("viewer = `(.*?)`", html.unescape(cell))[0]) > 0


def test_the_first_cell_carries_the_viewer_also_when_it_is_run_again(
    run_cell: Callable[[str | None], str],
) -> None:
    shown = [carries(run_cell(cell)) for cell in ("a", "b", "a", "a", "c")]
    assert shown == [True, False, True, True, False]
    assert len(run_cell("b")) < len(run_cell("a")) / 3


def test_every_cell_carries_it_where_the_notebook_does_not_tell_which_is_running(
    run_cell: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert carries(run_cell("a"))
    assert carries(run_cell(None))
    shell = SimpleNamespace()  # IPython in a terminal
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert carries(notebook_cell(attention()))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert carries(notebook_cell(attention()))


@needs_chromium
def test_without_frames_and_styles_a_table_is_shown(
    run_cell: Callable[[str | None], str], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    """Untrusted notebooks, and GitHub, take both from an output."""
    from playwright.sync_api import expect

    cell = run_cell("a")
    note = "The interactive viewer is shown in trusted notebooks only"
    page = open_page(write_notebook(tmp_path / "trusted.html", cell))
    expect(page.frame_locator("iframe").get_by_label("matrix")).to_be_checked()
    expect(page.get_by_text(note)).to_be_hidden()
    sanitized = re.sub(r"(?s)<(iframe|style).*?</\1>", "", cell)
    page = open_page(write_notebook(tmp_path / "untrusted.html", sanitized))
    expect(page.get_by_text(note)).to_be_visible()
    expect(page.locator("tr").nth(1)).to_contain_text("▁The")


def test_frames_have_the_same_page_with_and_without_the_viewer() -> None:
    pages = [
        unpack_frame(html.unescape(attention_frame(attention(), carries_viewer=carrying)))
        for carrying in (True, False)
    ]
    assert pages[0] == pages[1]


def write_notebook(path: Path, *outputs: str) -> str:
    path.write_text(f"<!doctype html><h1>Notebook</h1>{'<hr>'.join(outputs)}", encoding="utf-8")
    return path.as_uri()


@needs_chromium
def test_later_frames_take_the_viewer_of_one_before_or_behind_them(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    from playwright.sync_api import expect

    later = attention_frame(attention(), carries_viewer=False)
    first = attention_frame(attention(["</s>"], ["</s>"], heads=2))
    page = open_page(write_notebook(tmp_path / "a.html", later, first, later))
    for number in range(3):
        frame = page.frame_locator("iframe").nth(number)
        expect(frame.get_by_label("matrix")).to_be_checked()
        expect(frame.get_by_text(NOTE)).to_have_count(0)
    expect(page.frame_locator("iframe").nth(2).locator(".caption")).to_contain_text("mean of all 3")


@needs_chromium
def test_a_cell_alone_shows_a_table_until_the_viewer_comes(
    tmp_path: Path, open_page: Callable[..., Any], violations: Callable[[Any], list[str]]
) -> None:
    from playwright.sync_api import expect

    source = ["▁La", HOSTILE, "</s>"]
    later = attention_frame(attention(source=source), carries_viewer=False)
    page = open_page(write_notebook(tmp_path / "a.html", later))
    frame = page.frame_locator("iframe")
    expect(frame.get_by_text(NOTE)).to_be_visible()
    expect(frame.locator("caption")).to_contain_text("ross-attention, last layer")
    weights = attention(source=source).cross[-1].mean(axis=0)
    strongest = weights[0].argmax()
    cells_of_row = frame.locator("tr").nth(1).locator("td")
    expect(cells_of_row.nth(1)).to_have_text(source[strongest])
    expect(cells_of_row.nth(2)).to_have_text(f"{weights[0].max():.2f}")
    assert violations(page.frames[1]) == []
    carrying = attention_frame(attention())
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", carrying)
    for number in range(2):
        expect(page.frame_locator("iframe").nth(number).get_by_label("matrix")).to_be_checked()
