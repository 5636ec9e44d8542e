"""Five tasks of a user, done with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_chromium

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


_MAX_STOPS = 40  # of the Tab key, on the whole page


def tab_to(page: Any, target: Any, key: str = "Tab") -> None:
    """Press Tab, or another key, until an element has the focus."""
    for _ in range(_MAX_STOPS):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{_MAX_STOPS} times {key} do not reach {target}")


def words(page: Any) -> Any:
    return page.locator("#target-words .word")


def test_a_file_is_translated(page: Any, tmp_path: Path) -> None:
    letter = tmp_path / "carta.txt"
    letter.write_text("Hola mundo\n\nla casa\n", encoding="utf-8")
    page.on("filechooser", lambda chooser: chooser.set_files(letter))  # the system's dialog
    tab_to(page, page.get_by_role("button", name="Translate a file"))
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Download carta.en.txt")
    link.wait_for()
    tab_to(page, link)
    with page.expect_download() as downloading:
        page.keyboard.press("Enter")
    content = Path(downloading.value.path()).read_text("utf-8")
    assert content == "world hello\n\nhouse the\n"


def test_a_word_is_fixed_by_an_alternative(page: Any) -> None:
    page.keyboard.type("la casa")  # the field has the focus
    api.expect(words(page)).to_have_text(["house", "the"])
    tab_to(page, words(page).first)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Instead of")
    others = ["house50%", "home25%", "hut< 0.1%"]
    api.expect(dialog.get_by_role("button")).to_have_text([*others, "Why this word?"])
    home = dialog.get_by_role("button", name="home")
    api.expect(home).to_be_focused()
    page.keyboard.press("Enter")
    api.expect(words(page)).to_have_text(["home", "the"])
    api.expect(words(page).first).to_be_focused()
    api.expect(dialog).to_be_hidden()


def test_an_unsure_word_is_found(page: Any) -> None:
    page.keyboard.type("Hola la casa")
    button = page.get_by_role("button", name="1 unsure word")
    button.wait_for()
    tab_to(page, button)
    page.keyboard.press("Enter")
    focused = page.locator(":focus")
    api.expect(focused).to_have_text("house")
    api.expect(focused).to_have_attribute("aria-description", "the model is unsure")
    api.expect(page.get_by_role("tooltip")).to_contain_text("confidence 0.12")


def test_a_glossary_is_used(page: Any) -> None:
    page.keyboard.type("gato")
    api.expect(page.locator("#target-words")).to_have_text("GATO")
    tab_to(page, page.get_by_role("combobox", name="Glossary"), "Shift+Tab")
    page.keyboard.press("ArrowDown")
    api.expect(page.locator("#target-words")).to_have_text("GATO tomcat")
    api.expect(page.locator("#terms")).to_have_text("All terms are used.")


def test_what_is_shared_opens_as_it_was(open_page: Callable[..., Any]) -> None:
    page = open_page()
    requests: list[str] = []
    page.keyboard.type("la casa")
    api.expect(words(page)).to_have_text(["house", "the"])
    tab_to(page, page.get_by_role("combobox", name="Glossary"), "Shift+Tab")
    word = words(page).first.element_handle()
    page.keyboard.press("ArrowDown")
    word.wait_for_element_state("hidden")  # the words are those of another translation
    tab_to(page, words(page).first)
    page.keyboard.press("Enter")
    api.expect(page.locator("#alternatives-list button:focus")).to_have_text("home25%")
    page.keyboard.press("Enter")
    api.expect(words(page)).to_have_text(["home", "the"])
    tab_to(page, page.get_by_role("button", name="Copy link"))
    page.keyboard.press("Enter")
    api.expect(page.locator("#done")).to_have_text("Link copied. It contains the text.")
    address = page.evaluate("navigator.clipboard.readText()")
    assert address == page.url

    other = open_page()
    other.on("request", lambda request: requests.append(request.url))
    other.goto("about:blank")
    other.goto(address)
    api.expect(words(other)).to_have_text(["home", "the"])
    api.expect(other.locator("#source")).to_have_value("la casa")
    api.expect(other.locator("#glossary")).to_have_value("animals")
    api.expect(other.locator("#chosen")).to_contain_text("chosen by whoever made the link")
    assert requests, "the page and what it asks for"
    assert not any("casa" in url.split("#")[0] for url in requests), "no server gets the text"
