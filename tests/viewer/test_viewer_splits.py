"""Wins and losses of two runs over a whole split, in the dashboard."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import needs_chromium
from fake_attention import attention, log
from viewer_checks import token

from nmt.analysis.dashboard.attending import AttentionProcess, AttentionRequest
from nmt.errors import UserError
from nmt.runs.checkpoint import read_metadata
from nmt.runs.folder import RunFolder
from nmt.viewer.records import encode

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("browsers", "viewer_pages")
pytestmark = [pytest.mark.xdist_group("attention viewer"), needs_chromium]
OpenPage = Callable[..., Any]
A, B = "a/logs", "b/logs"
WINS = 60  # of the second run: more than are listed at first
HOSTILE = "¿<b>Quién</b> / sí & no? 59"
PROBLEM = "a model of one's own"


@pytest.fixture(scope="module")
def board(
    tiny_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
    start_tensorboard: Callable[[Path], str],
) -> Iterator[str]:
    """Run TensorBoard over two runs with the same test split; models are not loaded."""
    folder = tmp_path_factory.mktemp("splits")
    for name in "ab":
        shutil.copytree(tiny_run, folder / name)
        shutil.rmtree(folder / name / "logs")
        log(folder / name / "logs", 10)
        rows = [
            {
                "source": HOSTILE if number == 59 else f"Número {number}",
                "reference": f"number {'x' * number}",
                "output": "number" if name == "a" else f"number {'x' * number}",
            }
            for number in range(1, WINS + 1)
        ]
        worst = "worse" if name == "a" else ""
        rows.append({"source": "peor", "reference": "worse", "output": worst})
        content = {"scores": {}, "outputs": rows}
        (folder / name / "evaluation_test.json").write_text(json.dumps(content), encoding="utf-8")

    def compute(self: AttentionProcess, request: AttentionRequest) -> bytes:
        run = Path(request.run).name
        if request.source == "peor" and run == "b":
            raise UserError(PROBLEM)
        target = ["▁of", f"▁{run}", "</s>"]
        return encode(request.source, attention(["▁x", "</s>"], target), request.reference)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttentionProcess, "compute", compute)
        yield start_tensorboard(folder)


def open_frame(board: str, open_page: OpenPage, **choices: str) -> Any:
    choices = {"run": A, "run2": B} | choices
    parts = [f"p.attention.{key}={quote(value, safe='')}" for key, value in choices.items()]
    return open_page(f"{board}#{'&'.join(['attention', *parts])}")


def test_a_sentence_of_the_test_split_opens_in_both_runs(
    board: str, open_page: OpenPage, tiny_run: Path
) -> None:
    expect = api.expect
    best = read_metadata(RunFolder.open(tiny_run).checkpoints.best)["best_step"]
    page = open_frame(board, open_page)
    frame = page.frame_locator("iframe")
    frame.locator("summary").click()
    frame.get_by_label("Outputs of").select_option(label="test split")
    rows = frame.locator(".outputs tbody tr")
    expect(rows).to_have_count(50)
    expect(frame.locator(".outputs p")).to_contain_text(
        f"test split: of 61 sentences, {A} (update {best}) is better in 1 and {B} (update {best}) "
        "in 60."
    )
    frame.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(WINS)
    expect(frame.get_by_role("button", name="Show more")).to_have_count(0)
    frame.get_by_role("button", name=HOSTILE).click()
    expect(frame.locator(".pane .output")).to_have_text(["of a", "of b"])
    expect(frame.locator(".pane .note")).to_have_text([f"update {best}, the best weights"] * 2)
    expect(frame.locator("select[name=sentence] option:checked")).to_have_text(HOSTILE)
    expect(frame.get_by_role("slider")).to_be_hidden()  # each run has its best weights only
    expect(frame.locator("[aria-current=true]")).to_have_text(HOSTILE)
    expect(rows).to_have_count(WINS)  # a choice of a sentence leaves the table as it is
    token(frame.locator(".pane").nth(0), "column", 0).hover()
    expect(frame.locator(".pane").nth(1).locator(".token.lit[data-side=row]")).to_have_count(3)
    # A link opens the same.
    other = open_page(page.url).frame_locator("iframe")
    expect(other.locator(".pane .output")).to_have_text(["of a", "of b"])
    expect(other.locator(".outputs [aria-current=true]")).to_have_text(HOSTILE)
    # Probes are one choice away.
    frame.get_by_label("Outputs of").select_option(label="probe sentences")
    expect(rows).to_have_count(2)


def test_the_run_that_cannot_show_a_sentence_says_why(board: str, browser: Any) -> None:
    expect = api.expect
    page = browser.new_page()  # the browser reports the failed request on its console

    def open_page(address: str) -> Any:
        page.goto(address)
        return page

    open_frame(board, open_page, split="test", better="first")
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("radio", name=f"{A} is better")).to_be_checked()
    expect(frame.locator(".outputs tbody b")).to_have_text("worse")
    frame.get_by_role("button", name="peor").click()
    expect(frame.locator(".pane .note").nth(1)).to_have_text(PROBLEM)
    expect(frame.locator(".pane .output").nth(0)).to_have_text("of a")
    frame.locator("summary").click()
    expect(frame.locator(".outputs .table")).to_be_hidden()
    page.goto("about:blank")
    open_frame(board, open_page, sentence="split/test/no such sentence")
    expect(frame.get_by_role("status").first).to_have_text("No displayed run has this sentence.")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_of_a_split_has_no_accessibility_violation(
    board: str, open_page: OpenPage, scheme: str, violations: Callable[[Any], list[str]]
) -> None:
    page = open_page(f"{board}data/plugin_entry.html?name=attention", color_scheme=scheme)
    page.get_by_role("button", name="Compare with a run").click()
    page.locator("summary").click()
    page.get_by_label("Outputs of").select_option(label="test split")
    api.expect(page.locator(".outputs tbody tr").first).to_be_visible()
    assert violations(page) == []
