"""The page in a browser: what is typed is translated, and words light what they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import FakeTranslator, Running, serving
from page_checks import record_messages, record_requests

from nmt.errors import UserError

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with serving() as running:
        yield running


def open_attention(page: Any, text: str) -> None:
    """Enter a text, and ask for attention once it is translated."""
    source = page.locator("#source")
    source.fill(text)
    page.locator("#target-words .word").first.wait_for()
    page.locator("summary").click()
    source.focus()


def expect_translation(page: Any, text: str) -> None:
    """Wait for the words of a translation, and for its heatmap, which is drawn after them."""
    words = text.split()
    api.expect(page.locator("#target-words .word")).to_have_text(words)
    api.expect(page.locator('#viewer .token[data-side="row"]').first).to_have_text(f"▁{words[0]}")


def expect_weights(page: Any, side: str, expected: dict[str, str]) -> None:
    """Wait until these words of a side are lit, with these weights, and no others."""
    lit = page.locator(f'.word.lit[data-side="{side}"]')
    api.expect(lit).to_have_count(len(expected))
    for word, weight in expected.items():
        same = lit.filter(has_text=re.compile(f"^{word}$"))
        api.expect(same).to_have_attribute("data-weight", weight)


def expect_pieces(page: Any, side: str, expected: list[str]) -> None:
    """Wait until the lit pieces of a side of the heatmap have these weights."""
    lit = page.locator(f'.token.lit[data-side="{side}"]')
    api.expect(lit).to_have_count(len(expected))
    for number, weight in enumerate(expected):
        api.expect(lit.nth(number)).to_have_attribute("data-weight", weight)


def expect_active(page: Any, side: str, expected: list[str]) -> None:
    """Wait until these pieces of a side are pointed at."""
    api.expect(page.locator(f'.token.active[data-side="{side}"]')).to_have_text(expected)


def strength(word: Any) -> float:
    """Return how much of the marking colour the word's background has."""
    return word.evaluate("element => Number(getComputedStyle(element).getPropertyValue('--w'))")


def test_words_light_those_they_come_from_without_attention(page: Any, service: Running) -> None:
    loads = service.translator.loads
    page.locator("#source").press_sequentially("la casa Hola")
    target, source = page.locator("#target-words .word"), page.locator("#source-words .word")
    api.expect(target).to_have_text(["hello", "house", "the"])
    api.expect(source).to_have_text(["la", "casa", "Hola"])
    tooltip = page.get_by_role("tooltip")
    target.filter(has_text="house").hover()
    expect_weights(page, "source", {"casa": "1.00"})
    api.expect(tooltip).to_have_text("house translates\ncasa\nconfidence 0.12")
    api.expect(page.locator(".word.active")).to_have_text(["house"])
    source.filter(has_text="Hola").hover()
    expect_weights(page, "target", {"hello": "1.00"})
    api.expect(tooltip).to_have_text("Hola is translated by\nhello")
    page.locator("h1").hover()
    expect_weights(page, "target", {})
    api.expect(tooltip).to_be_hidden()
    # By the keyboard, too.
    page.keyboard.press("Tab")
    expect_weights(page, "target", {"the": "1.00"})
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect_weights(page, "source", {"casa": "1.00"})
    api.expect(page.locator(":focus")).to_have_attribute("aria-describedby", "tooltip")
    page.keyboard.press("Escape")
    expect_weights(page, "source", {})
    assert service.translator.loads == loads


def test_words_that_the_model_is_unsure_of_are_underlined(page: Any) -> None:
    page.locator("#source").fill("la casa")
    unsure = page.locator(".word.unsure")
    api.expect(unsure).to_have_text(["house"])
    api.expect(unsure).to_have_css("text-decoration-style", "dotted")
    api.expect(unsure).to_have_attribute("aria-description", "the model is unsure")
    confidence = page.locator("#confidence")
    api.expect(confidence).to_have_text("Confidence 0.61 1 unsure word")
    page.locator("summary").click()
    page.locator("#viewer svg").wait_for()
    api.expect(unsure).to_have_text(["house"])
    page.locator("#source").fill("Hola mundo")
    api.expect(confidence).to_have_text("Confidence 0.61")
    api.expect(unsure).to_have_count(0)
    page.locator("#source").fill("")
    api.expect(confidence).to_be_hidden()


def test_characters_beyond_utf_16_do_not_move_words(page: Any) -> None:
    page.locator("#source").fill("la \N{GRINNING FACE} casa")
    target = page.locator("#target-words .word")
    api.expect(target).to_have_text(["house", "\N{GRINNING FACE}", "the"])
    api.expect(page.locator("#source-words .word")).to_have_text(
        ["la", "\N{GRINNING FACE}", "casa"]
    )
    target.first.hover()
    expect_weights(page, "source", {"casa": "1.00"})


def test_line_breaks_are_kept(page: Any) -> None:
    page.locator("#source").fill("la casa\n\n  Hola")
    target = page.locator("#target-words")
    api.expect(target.locator(".word")).to_have_count(3)
    assert target.evaluate("element => element.innerText") == "hello\n\n  house the"
    assert page.locator("#source-words").evaluate("element => element.innerText") == (
        "la casa\n\n  Hola"
    )


def test_separators_of_lines_do_not_end_an_event(page: Any) -> None:
    page.locator("#source").fill("la casa\u2028")
    api.expect(page.locator("#target-words .word")).to_have_text(["house", "the"])
    api.expect(page.get_by_text("does not answer")).to_be_hidden()


def test_what_the_model_left_out_is_named(page: Any) -> None:
    page.locator("#source").fill("lose")
    lost = page.locator("#lost")
    api.expect(lost).to_have_text("The model left out, and the service inserted: 12")
    page.locator("#source").fill("Hola")
    api.expect(lost).to_be_hidden()


def test_a_run_without_confidence_lights_words_and_says_why_none_is_underlined(
    open_page: Callable[..., Any],
) -> None:
    with serving() as running:
        running.translator.missing_quality = "the run has no quality.json"
        page = open_page(running=running)
        page.locator("#source").fill("la\ncasa")
        target = page.locator("#target-words")
        api.expect(target).to_have_text("house\nthe", use_inner_text=True)
        api.expect(page.locator(".unsure")).to_have_count(0)
        api.expect(page.locator("#confidence")).to_have_text(
            "Confidence is unavailable: the run has no quality.json."
        )
        target.locator(".word").first.hover()
        expect_weights(page, "source", {"casa": "1.00"})
        api.expect(page.get_by_role("tooltip")).to_have_text("house translates\ncasa")
        page.locator("summary").click()
        page.locator("#viewer svg").wait_for()
        page.locator("#target-words .word").first.hover()
        expect_weights(page, "source", {"la": "0.10", "casa": "0.80", "end": "0.10"})


def test_attention_that_is_closed_is_no_longer_asked_for(open_page: Callable[..., Any]) -> None:
    with serving() as running:
        page = open_page(running=running)
        bodies = record_requests(page, "/translate")
        open_attention(page, "Hola mundo")
        expect_translation(page, "world hello")
        page.locator("summary").click()
        api.expect(page.locator("#source-words .word")).to_have_text(["Hola", "mundo"])
        page.locator("#source").fill("la casa")
        api.expect(page.locator("#target-words")).to_have_text("house the")
        assert [body["attention"] for body in bodies] == [False, False, True, False, False]


def test_typing_translates_and_words_light_what_they_looked_at(page: Any) -> None:
    expect = api.expect
    expect(page).to_have_title("Spanish → English")
    expect(page.locator("#run")).to_have_text("a-run · BLEU 50.1 ± 2.8")
    open_attention(page, "Hola mundo")
    expect_translation(page, "world hello")
    expect(page.get_by_role("textbox", name="Spanish", exact=True)).to_have_value("Hola mundo")
    expect(page.locator("#source-words")).to_have_text("Hola mundo end ")
    tokens = ["▁world", "▁hel", "lo", "</s>", "▁Ho", "la", "▁mundo", "</s>"]
    expect(page.locator("#viewer .token")).to_have_text(tokens)

    # Last layer, mean of both heads. "hello" is two target pieces, "Hola" two source pieces.
    hello = page.locator("#target-words .word", has_text="hello")
    hello.hover()
    expect_weights(page, "source", {"Hola": "0.80", "mundo": "0.10", "end": "0.10"})
    source = page.locator("#source-words .word")
    # The colour goes by the square root of the weight.
    strengths = [strength(word) for word in source.all()]
    assert strengths == pytest.approx([0.894, 0.316, 0.316], abs=1e-3)
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_have_text("hello looked at\nHola 0.80\nmundo 0.10\nend 0.10")
    # So do its pieces in the heatmap, where the columns of "Hola" have 0.80 in all.
    expect_pieces(page, "column", ["0.450", "0.350", "0.100", "0.100"])
    expect_active(page, "row", ["▁hel", "lo"])
    band = page.locator("#viewer .band.of-row")
    expect(band).to_be_visible()
    canvas = page.locator("#viewer .plot canvas").bounding_box()
    box = {side: float(band.get_attribute(side)) for side in ("height", "width")}
    assert box == {"height": canvas["height"] / 2, "width": canvas["width"]}

    source.filter(has_text="mundo").hover()
    expect_weights(page, "target", {"world": "0.80", "hello": "0.10"})
    expect_weights(page, "source", {})
    expect(tooltip).to_contain_text("mundo was looked at by\nworld 0.80")
    expect_pieces(page, "row", ["0.800", "0.100", "0.100", "0.000"])
    source.filter(has_text="Hola").hover()
    expect_pieces(page, "row", ["0.100", "0.900", "0.700", "0.000"])  # both columns in all

    page.locator("h1").hover()
    expect_weights(page, "source", {})
    expect_weights(page, "target", {})
    expect_pieces(page, "row", [])
    expect_pieces(page, "column", [])
    expect(tooltip).to_be_hidden()


def test_layers_and_heads_can_be_chosen(page: Any) -> None:
    open_attention(page, "Hola mundo")
    expect_translation(page, "world hello")
    world = page.locator("#target-words .word", has_text="world")
    page.get_by_role("group", name="Heads").get_by_label("1").check()
    world.hover()
    expect_weights(page, "source", {"mundo": "1.00"})
    page.locator("h1").hover()
    page.get_by_role("combobox", name="Layer").select_option("1")
    world.hover()
    expect_weights(page, "source", {"Hola": "0.50", "mundo": "0.25", "end": "0.25"})
    # What was chosen stays while the sentence grows.
    page.locator("#source").fill("la casa")
    expect_translation(page, "house the")
    page.locator("#target-words .word", has_text="house").hover()
    expect_weights(page, "source", {"la": "0.50", "casa": "0.25", "end": "0.25"})
    api.expect(page.locator(".caption")).to_contain_text("layer 1, head 1")
    page.get_by_label("all heads", exact=True).check()
    api.expect(page.locator("#viewer .grid button")).to_have_count(2 * (2 + 1))
    page.get_by_role("button", name="layer 2, head 1").click()
    api.expect(page.get_by_role("application")).to_be_focused()  # once it is drawn
    page.locator("#target-words .word", has_text="house").hover()
    expect_weights(page, "source", {"casa": "1.00"})


def test_what_is_pointed_at_in_the_heatmap_lights_words(page: Any) -> None:
    open_attention(page, "Hola mundo")
    expect_translation(page, "world hello")
    picture = page.get_by_role("application")
    tooltip = page.get_by_role("tooltip")
    page.get_by_role("combobox", name="Layer").select_option("1")
    api.expect(page.locator(".caption")).to_contain_text("layer 1")
    box = page.locator("#viewer .plot canvas").bounding_box()
    cell = box["width"] / 4
    picture.scroll_into_view_if_needed()
    box = page.locator("#viewer .plot canvas").bounding_box()
    page.mouse.move(box["x"] + 2.5 * cell, box["y"] + 0.5 * cell)
    api.expect(tooltip).to_have_text("▁world → ▁mundo  0.250")
    expect_weights(page, "source", {"Hola": "0.50", "mundo": "0.25", "end": "0.25"})
    api.expect(page.locator(".word.active")).to_have_text(["world"])
    page.get_by_role("combobox", name="Layer").select_option("2")
    api.expect(page.locator(".caption")).to_contain_text("layer 2")
    page.locator('.token[data-side="column"]', has_text="la").hover()  # half of "Hola"
    api.expect(tooltip).to_contain_text("lais attended to by")
    expect_weights(page, "target", {"hello": "0.80", "world": "0.10"})
    page.locator('.token[data-side="row"]').first.click()  # it stays lit
    page.locator("h1").hover()
    hello = {"Hola": "0.80", "mundo": "0.10", "end": "0.10"}
    world = {"Hola": "0.10", "mundo": "0.80", "end": "0.10"}
    expect_weights(page, "source", world)
    # Words come first, and then it is lit again.
    page.locator("#target-words .word", has_text="hello").hover()
    expect_active(page, "row", ["▁hel", "lo"])
    expect_weights(page, "source", hello)
    page.locator("h1").hover()
    expect_active(page, "row", ["▁world"])
    expect_weights(page, "source", world)
    picture.focus()
    page.keyboard.press("Escape")
    expect_weights(page, "source", {})
    page.keyboard.press("ArrowDown")
    expect_weights(page, "source", hello)
    # A new translation begins anew.
    page.locator("#source").fill("la casa")
    expect_translation(page, "house the")
    expect_active(page, "row", [])
    expect_weights(page, "source", {})


def test_the_keyboard_reaches_every_word(page: Any) -> None:
    open_attention(page, "Hola mundo")
    expect_translation(page, "world hello")
    page.keyboard.press("Tab")
    expect_weights(page, "target", {"hello": "0.80", "world": "0.10"})  # from "Hola"
    page.keyboard.press("ArrowRight")
    expect_weights(page, "target", {"world": "0.80", "hello": "0.10"})  # from "mundo"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect_weights(page, "source", {"Hola": "0.10", "mundo": "0.80", "end": "0.10"})  # from "world"
    api.expect(page.locator(":focus")).to_have_attribute("aria-describedby", "tooltip")
    page.keyboard.press("Escape")
    expect_weights(page, "source", {})


def test_stale_answers_are_dropped(page: Any, service: Running) -> None:
    service.translator.gate.clear()
    record_messages(page)
    source = page.locator("#source")
    with page.expect_request("**/translate"):
        source.fill("la")
    with page.expect_event("requestfailed") as dropped:
        source.fill("la casa")
    assert dropped.value.post_data_json["text"] == "la"
    service.translator.gate.set()
    api.expect(page.locator("#target-words")).to_have_text("house the ")
    assert page.evaluate("messages") == []
    source.fill("")
    api.expect(page.locator("#target-words")).to_have_text("")
    api.expect(page.locator("#attention")).to_be_hidden()


def test_text_is_never_markup(page: Any) -> None:
    page.locator("#source").fill("<img/src=x> <b>")
    api.expect(page.locator("#target-words")).to_have_text("<B> <IMG/SRC=X> ")
    assert page.locator("main img, main b").count() == 0
    page.locator("summary").click()
    page.locator("#source").fill("<script>alert(1)</script>")
    api.expect(page.locator("#target-words")).to_have_text("<SCRIPT>ALERT(1)</SCRIPT>")
    api.expect(page.locator("#hint")).to_contain_text("translated in parts")


def test_it_says_when_the_service_refuses_fails_or_is_away(page: Any, service: Running) -> None:
    message = page.locator("#message")
    source = page.locator("#source")
    source.fill("a" * 5001)
    api.expect(message).to_contain_text("Not translated: a text of 5,001 characters")
    source.fill("fail")
    api.expect(message).to_have_text("Not translated: the translation failed")
    page.context.set_offline(True)
    source.fill("Hola mundo")
    api.expect(message).to_contain_text("does not answer")
    assert source.input_value() == "Hola mundo"
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    api.expect(page.locator("#target-words")).to_have_text("world hello ")
    api.expect(message).to_have_text("")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(open_page: Callable[..., Any], scheme: str) -> None:
    page = open_page(viewport={"width": 360, "height": 640}, color_scheme=scheme)
    open_attention(page, "Hola mundo")
    page.locator("#viewer svg").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(part) for part in background.removeprefix("rgb(").rstrip(")").split(",")]
    assert (sum(channels) < 3 * 128) == (scheme == "dark")


def test_the_translation_is_there_before_attention_is(open_page: Callable[..., Any]) -> None:
    with serving() as running:
        running.translator.loading_gate.clear()
        page = open_page(running=running)
        open_attention(page, "Hola mundo")
        api.expect(page.locator("#target-words")).to_have_text("world hello")
        api.expect(page.locator("#hint")).to_have_text("Attention is being loaded …")
        api.expect(page.locator("#viewer")).to_be_hidden()
        running.translator.loading_gate.set()
        page.locator("#viewer svg").wait_for()
        api.expect(page.locator("#source-words")).to_have_text("Hola mundo end ")
        api.expect(page.locator("#hint")).to_have_text("")
        calls = len(running.translator.calls)
        page.locator("#source").fill("Hola amigo")
        api.expect(page.locator("#source-words")).to_have_text("Hola amigo end ")
        assert len(running.translator.calls) == calls + 1  # attention is asked for at once now


def test_a_translation_stays_when_attention_cannot_be_loaded(open_page: Callable[..., Any]) -> None:
    with serving() as running:
        running.translator.loading_error = UserError("the weights are damaged")
        page = open_page(running=running)
        bodies = record_requests(page, "/translate")
        target, hint = page.locator("#target-words"), page.locator("#hint")
        page.locator("#source").fill("Hola mundo")
        api.expect(target).to_have_text("world hello")
        page.locator("summary").click()
        api.expect(hint).to_have_text("Attention is unavailable: the weights are damaged.")
        api.expect(target).to_have_text("world hello")
        api.expect(page.locator("#message")).to_have_text("")
        api.expect(page.locator("#viewer")).to_be_hidden()
        # The reason will not change: attention is requested once.
        page.locator("#source").fill("la casa")
        api.expect(target).to_have_text("house the")
        api.expect(hint).to_have_text("Attention is unavailable: the weights are damaged.")
        assert [body["attention"] for body in bodies] == [False, False, True, False]


def test_a_translation_stays_when_attention_fails_once(open_page: Callable[..., Any]) -> None:
    with serving() as running:
        page = open_page(running=running)
        bodies = record_requests(page, "/translate")
        target, hint = page.locator("#target-words"), page.locator("#hint")
        page.locator("#source").fill("Hola mundo")
        api.expect(target).to_have_text("world hello")
        page.locator("summary").click()
        api.expect(page.locator("#source-words")).to_have_text("Hola mundo end ")
        running.translator.attention_error = RuntimeError("asked to fail")
        page.locator("#source").fill("la casa")
        api.expect(target).to_have_text("house the")
        api.expect(hint).to_have_text(
            "Attention is unavailable: the attention could not be computed."
        )
        running.translator.attention_error = None
        page.locator("#source").fill("Hola casa")
        api.expect(page.locator("#source-words")).to_have_text("Hola casa end ")
        api.expect(hint).to_have_text("")
        assert [body["attention"] for body in bodies] == [False, False, True, True, False, True]


def test_a_service_without_attention_is_not_asked_for_it(open_page: Callable[..., Any]) -> None:
    translator = FakeTranslator()
    translator.has_attention = False
    with serving(translator) as running:
        page = open_page(running=running)
        bodies = record_requests(page, "/translate")
        page.locator("#source").fill("Hola mundo")
        api.expect(page.locator("#target-words")).to_have_text("world hello")
        page.locator("summary").click()
        api.expect(page.locator("#hint")).to_have_text(
            "Attention is unavailable: the engine of this service does not compute it."
        )
        page.locator("#source").fill("la casa")
        api.expect(page.locator("#target-words")).to_have_text("house the")
        assert [body["attention"] for body in bodies] == [False, False, False]
        assert running.translator.loads == 0
