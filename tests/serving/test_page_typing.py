"""What happens while somebody types: composition, the counter, errors, and what is announced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import Running
from page_checks import record_requests

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


def stop_clock(page: Any) -> None:
    """Let timers of the page run only when the test says so."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


def test_composed_characters_are_translated_once_they_are_complete(page: Any) -> None:
    bodies = record_requests(page, "/translate")
    client = page.context.new_cdp_session(page)
    stop_clock(page)
    page.locator("#source").focus()
    for text in ("n", "に", "にh", "にほ"):
        composed = {"selectionStart": len(text), "selectionEnd": len(text), "text": text}
        client.send("Input.imeSetComposition", composed)
    page.clock.run_for(10_000)
    api.expect(page.locator("#source")).to_have_value("にほ")
    assert bodies == []
    client.send("Input.insertText", {"text": "日本"})
    page.clock.run_for(10_000)
    api.expect(page.locator("#target-words")).to_have_text("日本")
    assert [body["text"] for body in bodies] == ["日本"]


def test_characters_and_words_are_counted_as_the_service_does(page: Any) -> None:
    counter = page.locator("#counter")
    api.expect(counter).to_have_text("0 of 5,000 characters · 0 words")
    page.locator("#source").fill("la \N{GRINNING FACE} casa.")
    api.expect(counter).to_have_text("10 of 5,000 characters · 2 words")
    page.locator("#source").fill("a" * 5000)
    api.expect(counter).to_have_text("5,000 of 5,000 characters · 1 word")
    api.expect(counter).not_to_have_class("note over")
    page.locator("#source").fill("a" * 5001)
    api.expect(counter).to_have_class("note over")
    api.expect(page.locator("#message")).to_contain_text("a text of 5,001 characters")
    described = page.locator("#source").get_attribute("aria-describedby")
    assert described == "counter"


def test_an_error_keeps_the_last_translation_and_says_whose_it_is(page: Any) -> None:
    source, target = page.locator("#source"), page.locator("#target-words")
    stale, message = page.locator("#stale"), page.locator("#message")
    source.fill("la casa")
    api.expect(target).to_have_text("house the")
    ink = target.evaluate("element => getComputedStyle(element).color")
    source.fill("fail")
    api.expect(message).to_have_text("Not translated: the translation failed")
    api.expect(target).to_have_text("house the")
    api.expect(stale).to_have_text("This translates the text before the last change.")
    api.expect(target).not_to_have_css("color", ink)
    api.expect(page.get_by_role("button", name="Try again")).to_be_visible()
    api.expect(page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    # The way back to the text that was translated.
    source.fill("la casa")
    api.expect(stale).to_be_hidden()
    api.expect(message).to_have_text("")
    api.expect(target).to_have_css("color", ink)
    page.context.set_offline(True)
    source.fill("Hola")
    api.expect(message).to_contain_text("does not answer")
    api.expect(target).to_have_text("house the")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    api.expect(target).to_have_text("hello")
    api.expect(stale).to_be_hidden()


def test_an_error_before_any_translation_marks_nothing(page: Any) -> None:
    page.locator("#source").fill("fail")
    api.expect(page.locator("#message")).to_have_text("Not translated: the translation failed")
    api.expect(page.locator("#stale")).to_be_hidden()
    api.expect(page.locator("#tools")).to_be_hidden()


def test_only_new_sentences_are_announced_after_a_pause(page: Any) -> None:
    source, spoken = page.locator("#source"), page.locator("#spoken")
    stop_clock(page)

    def translate(text: str, translation: str) -> None:
        source.fill(text)
        page.clock.run_for(300)
        api.expect(page.locator("#target-words")).to_have_text(translation)

    api.expect(spoken).to_have_attribute("aria-live", "polite")
    translate("la", "the")
    translate("la casa", "house the")
    translate("la casa|Hola", "house the hello")
    api.expect(spoken).to_have_text("")  # nothing while somebody types
    page.clock.run_for(1000)
    api.expect(spoken).to_have_text("house the hello")
    translate("la casa|Hola|mundo", "house the hello world")
    page.clock.run_for(1000)
    api.expect(spoken).to_have_text("world")
    many = [f"w{number}" for number in range(100)]
    translate("|".join(many), " ".join(many).upper())
    page.clock.run_for(1000)
    api.expect(spoken).to_have_text("100 sentences translated.")
    translate("Hola", "hello")
    source.fill("fail")
    page.clock.run_for(2000)
    api.expect(page.locator("#message")).to_have_text("Not translated: the translation failed")
    page.clock.run_for(2000)
    api.expect(spoken).to_have_text("100 sentences translated.")
    source.fill("")
    page.clock.run_for(2000)
    api.expect(spoken).to_have_text("")


def test_attention_is_asked_for_only_while_it_is_open(page: Any, service: Running) -> None:
    bodies = record_requests(page, "/translate")
    loads = service.translator.loads
    page.locator("#source").fill("Hola mundo")
    api.expect(page.locator("#target-words")).to_have_text("world hello")
    assert [body["attention"] for body in bodies] == [False]
    assert service.translator.loads == loads
    page.locator("summary").click()
    page.locator("#viewer svg").wait_for()
    assert [body["attention"] for body in bodies] == [False, False, True]


@pytest.mark.parametrize("text", ["la casa\n\n  Hola", "\tHola\n\nmundo\n"])
def test_paragraphs_are_kept(open_page: Callable[..., Any], text: str) -> None:
    page = open_page()
    page.locator("#source").fill(text)
    page.locator("#target-words .word").first.wait_for()
    page.get_by_role("button", name="Copy", exact=True).click()
    api.expect(page.locator("#done")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert [len(part.split()) for part in copied.split("\n")] == [
        len(part.split()) for part in text.split("\n")[::-1]
    ]
    assert page.locator("#target-words").evaluate("element => element.textContent") == copied
