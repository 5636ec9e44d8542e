"""Several runs side by side, links to a view, words, saving, and the table of outputs."""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import needs_chromium
from fake_attention import SENTENCES, SOURCE, TARGET, attention, log
from sacrebleu import sentence_chrf
from viewer_checks import NEW, OLD, expect_lit, mean, stored, token, until, written

from nmt.viewer.page import attention_page

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("browsers", "viewer_pages")
pytestmark = [pytest.mark.xdist_group("attention viewer"), needs_chromium]
OpenPage = Callable[..., Any]


def compare(frame: Any) -> None:
    """Show both runs side by side."""
    frame.get_by_role("button", name="Compare with a run").click()
    api.expect(frame.locator(".pane")).to_have_count(2)


def pane(frame: Any, number: int) -> Any:
    return frame.locator(".pane").nth(number)


def address(**choices: Any) -> str:
    parts = [f"p.attention.{key}={quote(str(value), safe='')}" for key, value in choices.items()]
    return "#" + "&".join(["attention", *parts])


def shown_runs(frame: Any) -> list[str]:
    return frame.locator("select[name^=run]:visible").evaluate_all("all => all.map(f => f.value)")


def test_runs_stand_side_by_side_at_the_same_update(frame: Any) -> None:
    expect = api.expect
    compare(frame)
    headings = [pane(frame, number).locator(".heading") for number in (0, 1)]
    expect(headings[0]).to_contain_text(f"{NEW} update 300")
    expect(headings[1]).to_contain_text(f"{OLD} update 50, the nearest that it logged")
    # The slider has the updates of both runs, and moves both.
    expect(frame.locator("output")).to_have_text("300 (4 of 4)")
    frame.locator("input[type=range]").focus()
    frame.keyboard.press("Home")
    # It has a single layer, where the first one shows its second.
    expect(headings[1]).to_have_text(re.compile(r"update 50, layer 1, mean of all 3 headsThe"))
    expect(frame.locator(".caption")).to_contain_text(
        "cross-attention, layer 2, mean of all 3 heads"
    )
    picture = pane(frame, 1).locator(".plot")
    expect(picture).to_have_attribute("aria-label", re.compile("cross-attention, layer 1, "))
    expect(headings[0]).to_contain_text("update 100, the nearest that it logged")
    # Each shows its own weights; a source token lights up in both.
    token(pane(frame, 0), "column", 2).hover()
    expect_lit(pane(frame, 0), "row", written(mean(100, 2, [1, 2, 3])[:, 2]))
    old = stored(attention(layers=1, sharpness=1.0).cross)[0].mean(axis=0)
    expect_lit(pane(frame, 1), "row", written(old[:, 2]))
    expect(frame.get_by_role("tooltip")).to_have_count(1)
    frame.locator("select[name=run2]").select_option("")
    expect(frame.locator(".pane")).to_have_count(1)


def test_a_link_opens_everything_that_was_chosen(
    tensorboard: str, open_page: OpenPage, browser: Any
) -> None:
    expect = api.expect
    choices = {"run": OLD, "run2": NEW, "step": 200, "kind": "encoder", "layer": 0, "heads": "1,2"}
    hash_ = address(**choices, view="lines", unit="words", stretch="true")
    page = open_page(f"{tensorboard}{hash_}")
    frame = page.frame_locator("iframe")
    expect(frame.locator(".caption")).to_have_text(
        re.compile(
            "^encoder self-attention, layer 1, heads 2, 3 in their colours. Left: source word"
        )
    )
    expect(frame.locator("output")).to_have_text("200 (3 of 4)")
    expect(frame.get_by_role("radio", name="words")).to_be_checked()
    expect(frame.get_by_label("Scale to the largest weight")).to_be_checked()
    assert shown_runs(frame) == [OLD, NEW]
    # A choice changes the address; TensorBoard's other keys stay.
    frame.get_by_label("Sentence").select_option(label=SENTENCES[1])
    expect(frame.locator("option:checked", has_text=SENTENCES[1])).to_have_count(1)
    until(page, "location.hash.includes('p.attention.sentence=')")
    # The copied link names the displayed update.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame.get_by_role("button", name="Copy link").click()
    expect(frame.get_by_text("Copied")).to_be_visible()
    link = page.frames[1].evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{tensorboard}#attention&")
    assert "p.attention.step=200" in link
    # The same tab follows another link.
    page.evaluate("hash => { location.hash = hash; }", address(run=NEW, view="grid"))
    expect(frame.locator(".grid button")).to_have_count(2 * (3 + 1))
    assert shown_runs(frame) == [NEW]
    # A later choice adds to those of the link.
    page.evaluate("hash => { location.hash = hash; }", address(run=NEW, view="lines", heads="1,2"))
    heads = frame.get_by_role("group", name="Heads")
    expect(heads.get_by_label("3", exact=True)).to_be_checked()
    heads.get_by_label("1", exact=True).check()
    expect(frame.locator(".caption")).to_contain_text("heads 1, 2, 3 in their colours")
    other = open_page(link)
    there = other.frame_locator("iframe")
    expect(there.locator("output")).to_have_text("200 (3 of 4)")
    assert shown_runs(there) == [OLD, NEW]
    expect(there.locator("option:checked", has_text=SENTENCES[1])).to_have_count(1)


def test_the_runs_that_are_ticked_in_tensorboard_are_shown(
    tensorboard: str, open_page: OpenPage
) -> None:
    expect = api.expect
    page = open_page(f"{tensorboard}#scalars")
    tick = page.locator("tf-runs-selector paper-checkbox").nth(2)  # NEW
    tick.click()
    until(page, "location.hash.includes('runSelectionState')")
    page.get_by_role("tab", name="Attention").click()
    frame = page.frame_locator("iframe")
    expect(frame.locator("select[name=run]")).to_have_value(OLD)
    assert shown_runs(frame) == [OLD]
    page.get_by_role("tab", name="Scalars").click()
    tick.click()
    page.get_by_role("tab", name="Attention").click()
    expect(frame.locator("select[name=run2]")).to_be_visible()
    assert shown_runs(frame) == [NEW, OLD]
    # A choice in the dashboard lasts until other runs are ticked.
    frame.locator("select[name=run2]").select_option("")
    page.get_by_role("tab", name="Scalars").click()
    page.get_by_role("tab", name="Attention").click()
    expect(frame.locator(".pane")).to_have_count(1)
    assert shown_runs(frame) == [NEW]


def test_the_former_address_opens_the_dashboard(tensorboard: str, open_page: OpenPage) -> None:
    page = open_page(f"{tensorboard}#nmt_attention")
    until(page, "location.hash.startsWith('#attention')")
    api.expect(page.frame_locator("iframe:visible").locator(".caption")).to_contain_text("ross")


def test_words_have_the_sums_of_their_pieces(tmp_path: Path, open_page: OpenPage) -> None:
    source, target = ["▁una", "▁bici", "cle", "ta", "</s>"], ["▁a", "▁bi", "ke", ".", "</s>"]
    data = attention(source, target)
    path = tmp_path / "words.html"
    path.write_text(attention_page([("x", data)], "Words"), encoding="utf-8")
    page = open_page(path.as_uri())
    page.get_by_role("radio", name="words").check()
    names = page.locator(".token text")
    api.expect(names).to_have_text(["a", "bike.", "</s>", "una", "bicicleta", "</s>"])
    piece_weights = stored(data.cross)[1].mean(axis=0)
    columns = np.add.reduceat(piece_weights, [0, 1, 4], axis=1)
    expected = np.stack([columns[0], columns[1:4].mean(axis=0), columns[4]])
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-3)
    for row, weights in enumerate(expected):
        token(page, "row", row).hover()
        expect_lit(page, "column", written(weights))
    page.get_by_role("radio", name="encoder self-attention").check()
    api.expect(page.locator(".token")).to_have_count(6)


def test_bytes_of_a_character_are_one_word(tmp_path: Path, open_page: OpenPage) -> None:
    source = ["▁caf", "<0xC3>", "<0xA9>", "我", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "</s>"]
    path = tmp_path / "bytes.html"
    data = attention(source, ["▁a", "<0xC3>", "<0xA9>", "</s>"])
    path.write_text(attention_page([("x", data)], "Bytes"), encoding="utf-8")
    page = open_page(path.as_uri())
    api.expect(page.locator(".pane")).to_contain_text("aé")
    page.get_by_role("radio", name="words").check()
    names = page.locator(".token text")
    api.expect(names).to_have_text(["aé", "</s>", "café", "我", "😀", "</s>"])


def saved(page: Any, name: str) -> Any:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save as {name}").click()
    return download.value


@pytest.fixture
def sentence_page(tmp_path: Path, open_page: OpenPage) -> Any:
    path = tmp_path / "sentence_page.html"
    tokens = ["▁a,b", '▁"', *SOURCE]
    path.write_text(attention_page([("x", attention(tokens))], "One"), encoding="utf-8")
    return open_page(path.as_uri(), color_scheme="light")


def test_csv_has_every_displayed_weight(sentence_page: Any) -> None:
    expected = stored(attention(["▁a,b", '▁"', *SOURCE]).cross)
    download = saved(sentence_page, "CSV")
    assert download.suggested_filename == "attention-cross.csv"
    with Path(download.path()).open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == expected[0, 0].size
    for row in rows:
        place = int(row["row"]) - 1, int(row["column"]) - 1
        assert row["row_token"] == TARGET[place[0]]
        assert row["column_token"] == ["▁a,b", '▁"', *SOURCE][place[1]]
        assert (row["layer"], row["heads"]) == ("2", "1 2 3")
        assert float(row["weight"]) == pytest.approx(expected[1].mean(axis=0)[place], abs=1e-5)
    sentence_page.get_by_label("all heads").check()
    with Path(saved(sentence_page, "CSV").path()).open(encoding="utf-8", newline="") as lines:
        assert sum(float(row["weight"]) for row in csv.DictReader(lines)) == pytest.approx(
            expected.sum(), abs=1e-2
        )


@pytest.mark.parametrize("view", ["matrix", "lines", "all heads"])
def test_svg_and_png_show_the_picture(sentence_page: Any, view: str) -> None:
    sentence_page.get_by_role("radio", name=view, exact=True).check()
    download = saved(sentence_page, "SVG")
    assert download.suggested_filename == "attention-cross.svg"
    root = ElementTree.parse(download.path()).getroot()
    spelled = "".join(root.itertext())
    caption = sentence_page.locator(".caption").text_content()
    assert caption in spelled
    space = {"svg": "http://www.w3.org/2000/svg"}
    paths = "".join(path.get("d", "") for path in root.iterfind(".//svg:path", space))
    if view == "matrix":
        assert paths.count("M") == len(TARGET) * 6  # every weight is above 0
    elif view == "lines":
        mean_weights = attention(["▁a,b", '▁"', *SOURCE]).cross[1].mean(axis=0)
        assert paths.count("C") == (mean_weights >= 0.01).sum()
    else:
        assert len(root.findall(".//svg:image", space)) == 2 * (3 + 1)
    if view != "all heads":
        assert all(text in spelled for text in ("a,b", "casa", "house"))
    assert "var(" not in Path(download.path()).read_text(encoding="utf-8")

    picture = Path(saved(sentence_page, "PNG").path()).read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == tuple(2 * int(root.get(side, 0)) for side in ("width", "height"))


def test_several_heads_have_a_colour_each(sentence_page: Any) -> None:
    sentence_page.get_by_label("lines").check()
    heads = sentence_page.get_by_role("group", name="Heads")
    colours = (
        "() => { const canvas = document.querySelector('.plot canvas');"
        "const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "const seen = new Set();"
        "for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 240)"
        " seen.add([data[i], data[i + 1], data[i + 2]].map((v) => v >> 4).join());"
        "return seen.size; }"
    )
    heads.get_by_label("2").check()
    api.expect(sentence_page.locator(".caption")).to_contain_text("head 2")
    sentence_page.wait_for_function(
        f"({colours})() > 0"
    )  # lines are drawn after the caption is set
    single = sentence_page.evaluate(colours)
    heads.get_by_label("each of them").check()
    api.expect(sentence_page.locator(".caption")).to_contain_text("heads 1, 2, 3 in their colours")
    for head in ("1", "2", "3"):
        api.expect(heads.get_by_label(head, exact=True)).to_be_checked()
    sentence_page.wait_for_function(f"({colours})() > {single}")
    swatch = "label => getComputedStyle(label, '::after').backgroundColor"
    labels = heads.locator("label:has(input)").filter(has_text=re.compile(r"^\d$"))
    assert len({labels.nth(number).evaluate(swatch) for number in range(3)}) == 3


OUTPUTS = {
    "first": (["▁The", "▁red", "▁house", "</s>"], ["▁What", "▁?", "</s>"]),
    "second": (["▁The", "▁red", "▁ho", "use", "</s>"], ["▁Which", "▁who", "▁?", "</s>"]),
}
REFERENCE = "What / who? </script>"


def test_the_table_shows_wins_and_losses_and_opens_them(
    start_tensorboard: Callable[[Path], str], tmp_path: Path, open_page: OpenPage
) -> None:
    expect = api.expect
    for run, targets in OUTPUTS.items():
        log(tmp_path / run, 100, targets=targets, references=("", REFERENCE))
    page = open_page(f"{start_tensorboard(tmp_path)}{address(run='first', run2='second')}")
    frame = page.frame_locator("iframe")
    frame.locator("summary").click()
    rows = frame.locator(".outputs tbody tr")
    expect(rows).to_have_count(2)
    scores = [
        sentence_chrf(output, [REFERENCE], word_order=0).score
        for output in ("What ?", "Which who ?")
    ]
    assert scores[1] > scores[0]
    # The sentence with a reference comes first, and its better output is bold.
    expect(rows.nth(0).locator("td")).to_have_text(
        [SENTENCES[1], REFERENCE, "What ?", "Which who ?", " → ".join(f"{s:.1f}" for s in scores)]
    )
    expect(rows.nth(0).locator("b")).to_have_text("Which who ?")
    expect(rows.nth(1).locator("td").nth(4)).to_have_text("alike 100.0")
    rows.nth(0).get_by_role("button").click()
    expect(frame.locator("option:checked", has_text=SENTENCES[1])).to_have_count(1)
    expect(frame.locator(".pane .output")).to_have_text(["What ?", "Which who ?"])
    expect(rows.nth(0).get_by_role("button")).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("", "a"),
        ("a", ""),
        ("the cat", "the cat"),
        ("a", "the cat sat"),
        ("the cat is here", "a cat was here, there"),
        ("año nuevo", "Año nuevo: 🎉🎉"),
    ],
)
def test_chrf_is_that_of_sacrebleu(browser: Any, output: str, reference: str) -> None:
    from nmt.viewer.page import BROWSER

    code = re.sub(r"^(import .*\n|export )", "", (BROWSER / "outputs.js").read_text(), flags=re.M)
    page = browser.new_page()
    score = page.evaluate(f"([a, b]) => {{ {code}; return chrf(a, b); }}", [output, reference])
    page.close()
    assert score == pytest.approx(sentence_chrf(output, [reference], word_order=0).score, abs=1e-9)


def test_as_many_lines_are_drawn_per_frame_as_the_browser_draws_in_time(browser: Any) -> None:
    from nmt.viewer.page import BROWSER

    code = re.sub(r"^(import .*\n|export )", "", (BROWSER / "lines.js").read_text(), flags=re.M)
    paced = (
        f"times => {{ {code}; const lines = new Lines({{}});"
        "return times.map((time) => { lines.pace(time); return lines.count; }); }"
    )
    page = browser.new_page()
    fast = page.evaluate(paced, [16.7] * 100)
    assert fast == sorted(fast)
    assert fast[-1] > 2 * fast[0]
    *_, before, slow, after = page.evaluate(paced, [16.7] * 100 + [33.3] + [16.7])
    assert slow == pytest.approx(before / 2)
    assert slow < after < 0.7 * before
    recovered = page.evaluate(paced, [16.7] * 100 + [33.3] + [16.7] * 3)[-1]
    assert recovered == pytest.approx(0.8 * before, rel=0.05)  # not what was too much at once
    assert page.evaluate(paced, [100.0] * 20)[-1] == 10  # some are always drawn
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_viewer_has_no_accessibility_violation(
    sentence_page: Any, scheme: str, violations: Callable[[Any], list[str]]
) -> None:
    sentence_page.emulate_media(color_scheme=scheme)
    for view in ("matrix", "lines", "all heads"):
        sentence_page.get_by_role("radio", name=view, exact=True).check()
        assert violations(sentence_page) == []
    sentence_page.get_by_label("lines").check()
    token(sentence_page, "row", 1).click()  # with a tooltip
    api.expect(sentence_page.get_by_role("tooltip")).to_be_visible()
    assert violations(sentence_page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_dashboard_has_no_accessibility_violation(
    frame: Any, scheme: str, violations: Callable[[Any], list[str]]
) -> None:
    frame.emulate_media(color_scheme=scheme)
    compare(frame)
    frame.locator("summary").click()
    api.expect(frame.locator(".outputs tbody tr")).to_have_count(2)
    assert violations(frame) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_borders_and_highlights_have_contrast(sentence_page: Any, scheme: str) -> None:
    """WCAG 2.2: 3:1 for borders of controls (1.4.11), 4.5:1 for text (1.4.3)."""
    sentence_page.emulate_media(color_scheme=scheme)
    probe = (
        "name => { const element = document.createElement('i');"
        "document.querySelector('.attention-viewer').append(element);"
        "element.style.color = `var(--${name})`;"
        "const {color} = getComputedStyle(element); element.remove();"
        "return color.match(/[\\d.]+/g).slice(0, 3).map(Number); }"
    )

    def luminance(name: str) -> float:
        channels = np.array(sentence_page.evaluate(probe, name)) / 255
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(name: str, other: str) -> float:
        low, high = sorted((luminance(name), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    for background in ("paper", "field"):
        assert contrast("edge", background) >= 3
        assert contrast("soft", background) >= 4.5
    assert contrast("ink", "mark") >= 4.5
