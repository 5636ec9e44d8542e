"""The viewer in a browser: inside of TensorBoard, and as a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_chromium
from fake_attention import SENTENCES, SOURCE, TARGET, attention, log
from matplotlib import colormaps
from viewer_checks import BEFORE, NEW, OLD, expect_lit, mean, stored, token, until, written

from nmt.viewer.cells import attention_frame
from nmt.viewer.page import BROWSER, attention_page, inline_script, inline_style

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("browsers", "viewer_pages")
pytestmark = [pytest.mark.xdist_group("attention viewer"), needs_chromium]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write an HTML file of three sentences; return its address."""
    path = tmp_path / "attention.html"
    hostile = ["</script><img src=x>", "<!--<script>", "\n", "\u2028", "שלום", "a" * 70]
    pairs = [
        (SENTENCES[0], attention()),
        ("</script><b>bold</b>", attention(hostile, hostile, heads=1)),
        ("end", attention(["</s>"], ["</s>"], layers=1, heads=1)),
    ]
    path.write_text(attention_page(pairs, "A </title> of ours"), encoding="utf-8")
    return path.as_uri()


def test_the_dashboard_in_tensorboard(
    tensorboard: str, logs: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{tensorboard}#attention", color_scheme="light")
    page.get_by_role("tab", name="Attention").wait_for()
    frame = page.frame_locator("iframe")
    expect = api.expect
    runs = [OLD, NEW]  # and not "latest"
    expect(frame.locator("select[name=run]").locator("option")).to_have_count(2)
    assert sorted(frame.locator("select[name=run]").locator("option").all_inner_texts()) == runs
    frame.locator("select[name=run]").select_option(runs[1])
    expect(frame.get_by_text("300 (3 of 3)")).to_be_visible()
    token(frame, "row", 1).hover()
    expect_lit(frame, "column", written(mean(300, 2, [1, 2, 3])[1]))
    tooltip = frame.get_by_role("tooltip")
    expect(tooltip).to_contain_text("▁redattends to▁roja0.327")
    assert len(page.screenshot()) > 10_000

    # It is as dark as TensorBoard is.
    ink = "getComputedStyle(document.querySelector('.attention-viewer')).color"
    inner = page.frames[1]
    assert inner.evaluate(ink) == "rgb(28, 28, 31)"
    page.evaluate("document.body.classList.add('dark-mode')")
    inner.wait_for_function(f"{ink} == 'rgb(236, 236, 239)'")
    corner = "document.querySelector('.plot canvas').getContext('2d').getImageData(0, 0, 1, 1).data"
    inner.wait_for_function(f"[...{corner}].slice(0, 3).reduce((a, b) => a + b) < 100")

    # Its own tabs know each run once, too.
    for path in ("runs", "plugin/scalars/tags"):
        assert sorted(page.request.get(f"{tensorboard}data/{path}").json()) == [BEFORE, *runs]

    # While a run goes on, its new updates appear, and what was chosen stays.
    frame.locator("select[name=run]").select_option(runs[0])
    frame.get_by_label("lines").check()
    expect(frame.locator("output")).to_have_text("50 (1 of 1)")
    log(logs / runs[0], 60, layers=1)
    reload = page.locator("app-header-reload button")
    for _ in range(100):  # the data server reads again every second
        reload.click()
        page.wait_for_timeout(250)
        if frame.get_by_text("60 (2 of 2)").is_visible():
            break
    expect(frame.locator("output")).to_have_text("60 (2 of 2)")
    expect(frame.get_by_label("lines")).to_be_checked()


@pytest.mark.long
def test_the_slider_goes_through_training(frame: Any) -> None:
    expect = api.expect
    token(frame, "row", 2).click()
    slider = frame.get_by_label("Update")
    slider.focus()
    for key, step in (("Home", 100), ("ArrowRight", 200), ("End", 300)):
        frame.keyboard.press(key)
        expect(frame.locator("output")).to_contain_text(str(step))
        # The token that was clicked stays lit.
        expect_lit(frame, "column", written(mean(step, 2, [1, 2, 3])[2]))
    frame.get_by_role("button", name="Play").click()
    for text in ("100 (1 of 3)", "200 (2 of 3)", "300 (3 of 3)"):
        expect(frame.locator("output")).to_have_text(text)
    expect(frame.get_by_role("button", name="Play")).to_be_visible()


def test_run_sentence_kind_layer_and_heads_are_chosen(frame: Any) -> None:
    expect = api.expect
    heads = frame.get_by_role("group", name="Heads")
    heads.get_by_label("2").check()
    expect(frame.locator(".caption")).to_contain_text("layer 2, head 2")
    token(frame, "column", 3).hover()
    expect_lit(frame, "row", written(mean(300, 2, [2])[:, 3]))
    heads.get_by_label("3").check()
    frame.locator("select[name=layer]").select_option("1")
    expect(frame.locator(".caption")).to_contain_text("layer 1, mean of heads 2, 3")
    token(frame, "column", 3).hover()
    expect_lit(frame, "row", written(mean(300, 1, [2, 3])[:, 3]))
    heads.get_by_label("mean of all").check()
    frame.get_by_role("radio", name="encoder self-attention").check()
    expect(frame.locator(".caption")).to_contain_text("ncoder self-attention, layer 1, mean of all")
    token(frame, "row", 1).hover()
    expect_lit(frame, "column", written(mean(300, 1, [1, 2, 3], "encoder")[1]))
    expect(frame.get_by_role("tooltip")).to_contain_text("is attended to by")
    decoder = frame.get_by_role("radio", name="decoder masked self-attention")
    decoder.check()
    expect(frame.locator(".caption")).to_contain_text("ecoder masked self-attention, layer 1")
    token(frame, "row", 0).hover()
    expect_lit(frame, "column", ["1.000", *["0.000"] * 4])
    frame.get_by_label("Sentence").select_option(label=SENTENCES[1])
    frame.locator("select[name=run]").select_option(OLD)
    expect(frame.locator("output")).not_to_contain_text("300")
    expect(frame.get_by_label("Sentence").locator("option:checked")).to_have_text(SENTENCES[1])
    expect(frame.locator("select[name=layer]").locator("option")).to_have_count(1)
    # The choice outlives the page.
    frame.reload()
    expect(frame.locator("select[name=run]")).to_have_value(OLD)
    expect(decoder).to_be_checked()


def test_the_matrix_shows_the_weights(file: str, open_page: Callable[..., Any]) -> None:
    page = open_page(file, color_scheme="light")
    page.get_by_role("group", name="Heads").get_by_label("1").check()
    api.expect(page.locator(".caption")).to_contain_text("layer 2, head 1")
    pixels = page.evaluate(
        "() => { const canvas = document.querySelector('.plot canvas');"
        "const {width, height} = canvas;"
        "const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;"
        "return [height, width, [...data]]; }"
    )
    assert pixels[:2] == [len(TARGET), len(SOURCE)]
    shown = np.reshape(pixels[2], (len(TARGET), len(SOURCE), 4))
    expected = colormaps["magma_r"](attention().cross[1, 0]) * 255
    np.testing.assert_allclose(shown, expected, atol=4)  # the scale of the PNG heatmaps

    # In the middle of a cell.
    canvas = page.locator(".plot canvas")
    box = canvas.bounding_box()
    cell = box["width"] / len(SOURCE)
    page.mouse.move(box["x"] + 2.5 * cell, box["y"] + 1.5 * cell)
    tooltip = page.get_by_role("tooltip")
    weight = written(stored(attention().cross)[1, 0, 1])[2]
    api.expect(tooltip).to_have_text(f"▁red → ▁roja  {weight}")
    page.mouse.move(0, 0)
    api.expect(tooltip).to_be_hidden()


def test_lines_join_both_sentences(file: str, open_page: Callable[..., Any]) -> None:
    page = open_page(file)
    page.get_by_label("lines").check()
    api.expect(page.locator(".caption")).to_contain_text("Left")
    token(page, "column", 2).hover()
    expect_lit(page, "row", written(mean(300, 2, [1, 2, 3])[:, 2]))
    expect_lit(page, "column", [])
    api.expect(page.get_by_role("tooltip")).to_contain_text("▁rojais attended to by")
    painted = (
        "() => [...document.querySelectorAll('.plot canvas')].reduce((total, canvas) => {"
        "const {width, height} = canvas;"
        "const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;"
        "const drawn = data.reduce((sum, value, i) => sum + (i % 4 == 3 ? value : 0), 0);"
        "return total + drawn * getComputedStyle(canvas).opacity; }, 0)"
    )
    until(page, f"({painted})() > 0")  # the few lines of the spot are drawn in one frame
    some = page.evaluate(painted)
    assert some > 0
    page.mouse.move(0, 0)
    until(page, f"({painted})() > {2 * some}")  # the other lines are back


def test_all_heads_are_thumbnails_that_open(file: str, open_page: Callable[..., Any]) -> None:
    page = open_page(file)
    page.get_by_label("all heads").check()
    api.expect(page.locator(".grid button")).to_have_count(2 * (3 + 1))
    page.get_by_role("button", name="layer 1, head 3").focus()
    page.keyboard.press("Enter")
    api.expect(page.locator(".caption")).to_contain_text("layer 1, head 3")
    api.expect(page.get_by_role("group", name="Heads").get_by_label("3")).to_be_checked()
    assert "view=matrix&layer=0&heads=2" in page.url  # a link to just this
    token(page, "row", 0).hover()
    expect_lit(page, "column", written(mean(300, 1, [3])[0]))


def test_the_keyboard_reaches_everything(file: str, open_page: Callable[..., Any]) -> None:
    page = open_page(file)
    api.expect(page.locator(".plot svg .token")).to_have_count(len(SOURCE) + len(TARGET))
    reached = []
    name = "element => element.name || element.ariaLabel || element.className"
    for _ in range(18):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(f"({name})(document.activeElement)"))
        if page.evaluate("document.activeElement.className") == "plot":
            reached[-1] = "plot"
            break
    # A group of radio buttons is one stop.
    names = ["sentence", "kind", "view", "unit", "layer", *["heads"] * 4, "stretch"]
    assert reached == [*names, *["Save as SVG", "Save as PNG", "Save as CSV", "Copy link"], "plot"]
    live = page.locator("[aria-live]")
    weights = mean(300, 2, [1, 2, 3])
    expect_lit(page, "column", written(weights[0]))
    api.expect(live).to_have_text(re.compile(r"^▁The\s*\. attends to ▁casa 0\.327"))
    page.keyboard.press("ArrowDown")
    expect_lit(page, "column", written(weights[1]))
    page.keyboard.press("ArrowRight")
    api.expect(live).to_have_text(f"▁red ▁La {written(weights[1])[0]}")
    for _ in range(2):
        page.keyboard.press("ArrowUp")
    expect_lit(page, "row", written(weights[:, 0]))
    api.expect(page.get_by_role("tooltip")).to_contain_text("▁La")
    page.keyboard.press("Escape")
    expect_lit(page, "row", [])
    expect_lit(page, "column", [])
    api.expect(page.get_by_role("tooltip")).to_be_hidden()
    page.get_by_role("group", name="Heads").get_by_label("1").check()
    page.get_by_label("lines").check()
    api.expect(page.locator(".caption")).to_contain_text("Left")
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")  # along the strongest line
    expect_lit(page, "row", written(mean(300, 2, [1])[:, 2]))


def test_tokens_are_never_markup(file: str, open_page: Callable[..., Any]) -> None:
    page = open_page(file)
    api.expect(page).to_have_title("A </title> of ours")
    page.get_by_label("Sentence").select_option(label="</script><b>bold</b>")
    api.expect(token(page, "row", 0)).to_have_text("</script><img src=x>")
    api.expect(token(page, "row", 5)).to_have_text(re.compile("^a{10,25}…$"))
    assert page.locator("main img, main b:has(*) b, body > b").count() == 0
    token(page, "row", 0).hover()
    tooltip = page.get_by_role("tooltip")
    api.expect(tooltip).to_contain_text("</script><img src=x>attends to")
    api.expect(tooltip).to_contain_text("⏎")
    page.get_by_label("Sentence").select_option(label="end")
    api.expect(token(page, "row", 0)).to_have_text("</s>")
    token(page, "row", 0).hover()
    expect_lit(page, "column", ["1.000"])


def test_a_long_sentence_on_a_small_screen(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    path = tmp_path / "long.html"
    words = [f"▁word{i}" for i in range(100)]
    long = attention(words, words[:60], layers=1, heads=2)
    path.write_text(attention_page([("long " * 99, long)], "Long"), encoding="utf-8")
    viewport = {"width": 360, "height": 640}
    page = open_page(path.as_uri(), viewport=viewport, color_scheme="light")
    token(page, "row", 59).hover()
    expect_lit(page, "column", written(stored(long.cross)[0].mean(axis=0)[59]))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.get_by_role("tooltip").bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 360

    # A corner of the matrix, where the weight is small, is about as bright as the page.
    corner = (
        "document.querySelector('.plot canvas').getContext('2d').getImageData(0, 59, 1, 1).data"
    )
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for colour in (paper, f"[...{corner}].slice(0, 3)"):
            sign = "<" if scheme == "dark" else ">"
            until(page, f"{colour}.reduce((a, b) => a + b) {sign} 3 * 64")


def test_a_notebook_holds_many(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    expect = api.expect
    path = tmp_path / "notebook.html"
    cells = [attention_frame(attention()), attention_frame(attention(["</s>"], ["</s>"], heads=2))]
    path.write_text(f"<!doctype html><h1>Notebook</h1>{'<hr>'.join(cells)}", encoding="utf-8")
    page = open_page(path.as_uri())
    first, second = (page.frame_locator("iframe").nth(number) for number in (0, 1))
    for frame in (first, second):
        expect(frame.get_by_label("matrix")).to_be_checked()
        expect(frame.get_by_label("Sentence")).to_be_hidden()  # there is one
    first.get_by_label("lines").check()
    first.get_by_role("group", name="Heads").get_by_label("3").check()
    first.get_by_label("encoder self-attention").check()
    expect(first.locator(".caption")).to_contain_text("self-attention, layer 2, head 3. Left")
    token(first, "row", 1).hover()
    expect_lit(first, "column", written(mean(300, 2, [3], "encoder")[1]))
    expect(first.get_by_role("tooltip")).to_contain_text("▁casaattends to")
    # The second is as it was; and no frame has gone to another place.
    expect(second.locator(".caption")).to_contain_text("ross-attention, layer 2, mean of all 2")
    expect(second.get_by_label("matrix")).to_be_checked()
    token(second, "row", 0).hover()
    expect_lit(second, "column", ["1.000"])
    assert [frame.url for frame in page.frames] == [path.as_uri(), "about:srcdoc", "about:srcdoc"]
    assert page.locator("h1").inner_text() == "Notebook"
    outer = "frame => frame.contentDocument.documentElement.scrollWidth <= frame.clientWidth"
    assert page.locator("iframe").first.evaluate(outer)


def test_a_frame_of_a_notebook_is_as_high_as_its_content_and_as_dark(
    tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    path = tmp_path / "notebook.html"
    body = f'<body style="color: #222; background: #fff">{attention_frame(attention())}'
    path.write_text(f"<!doctype html>{body}", encoding="utf-8")
    page = open_page(path.as_uri())
    frame = page.frame_locator("iframe")
    api.expect(frame.get_by_label("matrix")).to_be_checked()
    body = "document.querySelector('iframe').contentDocument.body"
    fits = f"Math.abs(document.querySelector('iframe').clientHeight - {body}.clientHeight) <= 1"
    until(page, fits)
    before = page.locator("iframe").evaluate("frame => frame.clientHeight")
    frame.get_by_label("all heads").check()
    until(page, f"{fits} && document.querySelector('iframe').clientHeight != {before}")
    theme = f"{body}.ownerDocument.documentElement.dataset.theme"
    assert page.evaluate(theme) == "light"
    page.evaluate("document.body.style = 'color: #ddd; background: #111'")
    until(page, f"{theme} == 'dark'")
    paper = f"getComputedStyle({body}).backgroundColor"
    assert page.evaluate(paper) == "rgb(23, 24, 27)"


def test_a_page_holds_many(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    """Two viewers in one document do not know each other; a listener is told what one shows."""
    script = tmp_path / "two.js"
    script.write_text(
        """
import { crossRecord } from "./record.js";
import { mount } from "./viewer.js";
const weights = [[[[0.75, 0.25], [0, 1]], [[0.25, 0.75], [0.5, 0.5]]]];
window.told = [];
window.viewers = ["first", "second"].map((id, number) => mount(document.getElementById(id), {
  runs: async () => [{ name: "", sentences: [{ id: "0", text: "" }] }],
  steps: async () => [{ step: null, time: null }],
  record: async () => crossRecord("", { source: ["a", "b"], target: ["c", "d"], weights }),
  recall: () => "",
  remember: () => {},
  nothing: "",
}, number ? {} : {
  drawn: ({ kind, layer, heads, weights }) => told.push([kind.name, layer, heads, [...weights]]),
  pointed: (spot) => told.push(spot && [spot.row, spot.column]),
}));
""",
        encoding="utf-8",
    )
    path = tmp_path / "two.html"
    mains = '<main id="first"></main><main id="second"></main>'
    module = f'<script type="module">{inline_script(script)}</script>'
    style = f"<style>{inline_style(BROWSER / 'page.css')}</style>"
    path.write_text(f"<!doctype html>{style}{mains}{module}", encoding="utf-8")
    page = open_page(path.as_uri())
    first, second = page.locator("#first"), page.locator("#second")
    first.get_by_label("lines").check()
    first.get_by_role("group", name="Heads").get_by_label("2").check()
    for viewer, view, caption in (
        (first, "lines", "Cross-attention, layer 1, head 2. Left"),
        (second, "matrix", "Cross-attention, layer 1, mean of all 2 heads. Each row"),
    ):
        api.expect(viewer.get_by_label(view)).to_be_checked()
        api.expect(viewer.locator(".caption")).to_contain_text(caption, ignore_case=True)
    page.keyboard.press("Enter")  # in a form
    assert page.evaluate("told.at(-2)") == ["cross", 0, [1], [0.25, 0.75, 0.5, 0.5]]
    token(first, "column", 1).hover()
    expect_lit(first, "row", ["0.750", "0.500"])
    expect_lit(second, "row", [])
    expect_lit(second, "column", [])
    assert page.evaluate("told.at(-1)") == [None, 1]
    token(second, "row", 0).hover()
    expect_lit(second, "column", ["0.500", "0.500"])
    assert page.evaluate("told.at(-1)") is None
    # What is pointed at elsewhere: both rows, of which the mean is shown, and without a tooltip.
    page.mouse.move(0, 0)
    page.evaluate("viewers[0].point({ row: 0, column: null, count: 2 })")
    expect_lit(first, "column", ["0.375", "0.625"])
    assert page.get_by_role("tooltip").count() == 0
    page.evaluate("viewers[0].point({ row: null, column: 0, count: 2 })")
    expect_lit(first, "row", ["1.000", "1.000"])
    page.evaluate("viewers[0].point(null)")
    expect_lit(first, "row", [])
    expect_lit(first, "column", [])


def test_a_source_that_fails_says_so(frame: Any) -> None:
    frame.context.set_offline(True)
    frame.get_by_label("Sentence").select_option(label=SENTENCES[1])
    api.expect(frame.locator(".message")).to_have_text("TensorBoard does not answer.")
    frame.context.set_offline(False)
    frame.get_by_label("lines").check()
    api.expect(frame.locator(".message")).to_have_text("")
