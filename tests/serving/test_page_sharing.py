"""Translations leave the page: copied, downloaded, and as an address."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from conftest import needs_chromium

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]

TEXT = "la casa\n\nHola \N{GRINNING FACE}"
TRANSLATION = "\N{GRINNING FACE} hello\n\nhouse the"


def translated(page: Any, text: str = TEXT, translation: str = TRANSLATION) -> None:
    page.locator("#source").fill(text)
    target = page.locator("#target-words")
    api.expect(target).to_have_text(translation, use_inner_text=True)


def test_a_translation_is_copied_with_its_paragraphs(page: Any) -> None:
    translated(page)
    page.get_by_role("button", name="Copy", exact=True).click()
    done = page.locator("#done")
    api.expect(done).to_have_text("Copied.")
    api.expect(done).to_have_attribute("role", "status")
    assert page.evaluate("navigator.clipboard.readText()") == TRANSLATION


def test_a_page_without_a_clipboard_copies_all_the_same(page: Any) -> None:
    """Browsers give the clipboard to pages of https and of this machine only."""
    translated(page)
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('insecure')); }"
    )
    button = page.get_by_role("button", name="Copy", exact=True)
    button.click()
    api.expect(page.locator("#done")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == TRANSLATION
    api.expect(button).to_be_focused()
    page.evaluate("() => { document.execCommand = () => false; }")
    button.click()
    api.expect(page.locator("#done")).to_have_text(
        "The browser does not allow copying: select the text."
    )


def test_a_translation_is_downloaded_as_text(page: Any) -> None:
    translated(page)
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download", exact=True).click()
    assert downloading.value.suggested_filename == "translation.en.txt"
    assert Path(downloading.value.path()).read_text("utf-8") == TRANSLATION
    api.expect(page.locator("#done")).to_have_text("Downloaded as translation.en.txt.")


def test_an_address_holds_the_text_until_it_is_changed(page: Any) -> None:
    translated(page)
    page.get_by_role("button", name="Copy link").click()
    api.expect(page.locator("#done")).to_have_text("Link copied. It contains the text.")
    assert page.url.partition("#")[2] == urlencode({"text": TEXT})
    page.locator("#source").press_sequentially("a")
    assert page.evaluate("location.hash") == ""


def test_an_address_in_the_same_page_is_opened(page: Any) -> None:
    page.evaluate("location.hash = '#text=Hola'")
    api.expect(page.locator("#target-words")).to_have_text("hello")
    page.evaluate("location.hash = '#elsewhere'")
    api.expect(page.locator("#source")).to_have_value("Hola")


def test_an_address_that_would_be_too_long_is_refused(page: Any) -> None:
    text = "\N{GRINNING FACE}" * 700  # 12 characters each in an address
    page.locator("#source").fill(text)
    page.locator("#target-words .word").first.wait_for()
    page.get_by_role("button", name="Copy link").click()
    done = page.locator("#done")
    api.expect(done).to_contain_text("The text is too long for a link: it would have 8,4")
    api.expect(done).to_contain_text("of 8,000 characters.")
    assert page.evaluate("location.hash") == ""


@pytest.mark.parametrize(
    "fragment",
    [
        "#text=<img src=x onerror=alert(1)>",
        "#text=Hola&prefix=nonsense&prefix=[1]&prefix=%5B%22Hola%22%2C%22<b>x</b> %22%5D",
        f"#text=Hola&glossary={quote('<script>alert(1)</script>')}",
    ],
)
def test_a_hostile_address_is_only_text(open_page: Callable[..., Any], fragment: str) -> None:
    page = open_page(fragment)
    page.locator("#target-words .word").first.wait_for()
    assert page.locator("main img, main b:not(#alternatives b), main script").count() == 0


def test_words_that_an_address_chose_are_marked_and_undone(open_page: Callable[..., Any]) -> None:
    fragment = urlencode({"text": "la casa", "prefix": json.dumps(["la casa", "home "])})
    page = open_page(f"#{fragment}")
    target, chosen = page.locator("#target-words"), page.locator("#chosen")
    api.expect(target).to_have_text("home the")
    api.expect(chosen).to_contain_text("Some words were chosen by whoever made the link.")
    page.get_by_role("button", name="Undo all").click()
    api.expect(target).to_have_text("house the")
    api.expect(chosen).to_be_hidden()
    api.expect(target.locator(".word").first).to_be_focused()


def test_a_glossary_that_is_missing_is_named(open_page: Callable[..., Any]) -> None:
    page = open_page("#text=gato&glossary=plants")
    api.expect(page.locator("#target-words")).to_have_text("GATO")
    api.expect(page.locator("#message")).to_have_text(
        "This service has no glossary “plants”: translated without it."
    )
