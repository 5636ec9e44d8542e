"""The menu of other words opens by pointer and keyboard; its choices stay and can be undone."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import Running

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


def words(page: Any) -> Any:
    return page.locator("#target-words .word")


def translated(page: Any, text: str, *translation: str) -> None:
    page.locator("#source").fill(text)
    api.expect(words(page)).to_have_text(list(translation))


def menu(page: Any) -> Any:
    return page.get_by_role("dialog", name="Instead of")


def test_the_model_is_asked_for_words_behind_those_before(page: Any, service: Running) -> None:
    translated(page, "Hola|la casa", "hello", "house", "the")
    words(page).last.click()
    api.expect(page.locator("#alternatives-word")).to_have_text("the")
    api.expect(page.locator("#alternatives-list button")).to_have_count(3)
    assert service.translator.asked[-1] == ("la casa", "house", 8)
    current = page.locator('#alternatives-list [aria-current="true"]')
    api.expect(current).to_have_count(0)
    page.keyboard.press("Escape")
    words(page).nth(1).click()
    api.expect(current).to_have_text("house50%")
    assert service.translator.asked[-1] == ("la casa", "", 8)


def test_keys_move_within_the_menu_and_leave_it(page: Any) -> None:
    translated(page, "la casa", "house", "the")
    words(page).first.focus()
    page.keyboard.press(" ")
    buttons = menu(page).get_by_role("button")
    api.expect(buttons.nth(1)).to_be_focused()  # the first other word
    for key, number in (
        ("ArrowDown", 2),
        ("ArrowDown", 3),  # why the word is there
        ("ArrowDown", 3),
        ("Home", 0),
        ("ArrowUp", 0),
        ("End", 3),
    ):
        page.keyboard.press(key)
        api.expect(buttons.nth(number)).to_be_focused()
    page.keyboard.press("Escape")
    api.expect(menu(page)).to_be_hidden()
    api.expect(words(page).first).to_be_focused()
    page.keyboard.press("Enter")
    api.expect(buttons.nth(1)).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")  # the word that is there: nothing changes
    api.expect(menu(page)).to_be_hidden()
    api.expect(page.locator("#chosen")).to_be_hidden()
    words(page).first.click()
    page.locator("h1").click()
    api.expect(menu(page)).to_be_hidden()
    words(page).first.click()
    api.expect(buttons.nth(1)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    api.expect(menu(page)).to_be_hidden()


def test_a_choice_stays_while_other_sentences_change_and_can_be_undone(page: Any) -> None:
    translated(page, "la casa", "house", "the")
    words(page).first.click()
    menu(page).get_by_role("button", name="home").click()
    api.expect(words(page)).to_have_text(["home", "the"])
    api.expect(page.locator("#chosen")).to_contain_text("Some words were chosen by you.")
    translated(page, "la casa|Hola", "home", "the", "hello")
    words(page).first.click()
    menu(page).get_by_role("button", name="Undo my choices").click()
    api.expect(words(page)).to_have_text(["house", "the", "hello"])
    api.expect(page.locator("#chosen")).to_be_hidden()
    # A choice is forgotten with its sentence.
    words(page).first.click()
    menu(page).get_by_role("button", name="home").click()
    api.expect(words(page)).to_have_text(["home", "the", "hello"])
    translated(page, "Hola", "hello")
    translated(page, "la casa", "house", "the")


def test_a_choice_that_fails_changes_nothing(page: Any) -> None:
    translated(page, "la casa", "house", "the")
    words(page).first.click()
    home = menu(page).get_by_role("button", name="home")
    home.wait_for()
    page.context.set_offline(True)
    home.click()
    api.expect(page.locator("#message")).to_contain_text("does not answer")
    api.expect(words(page)).to_have_text(["house", "the"])
    api.expect(page.locator("#stale")).to_be_hidden()  # it is the translation of this text
    words(page).first.click()
    api.expect(page.locator("#alternatives-state")).to_have_text(
        "No other words: the service does not answer."
    )
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    api.expect(words(page)).to_have_text(["house", "the"])


def test_late_alternatives_do_not_open_the_menu_again(page: Any, service: Running) -> None:
    translated(page, "la casa", "house", "the")
    service.translator.gate.clear()
    words(page).first.click()
    state = page.locator("#alternatives-state")
    api.expect(state).to_have_text("Looking for other words …")
    api.expect(menu(page)).to_be_focused()
    page.keyboard.press("Escape")
    service.translator.gate.set()
    translated(page, "Hola", "hello")
    api.expect(menu(page)).to_be_hidden()
    api.expect(page.locator("#alternatives-list button")).to_have_count(0)


def test_characters_beyond_utf_16_do_not_move_the_prefix(page: Any, service: Running) -> None:
    translated(page, "la \N{GRINNING FACE}", "\N{GRINNING FACE}", "the")
    words(page).last.click()
    api.expect(page.locator("#alternatives-list button")).to_have_count(3)
    assert service.translator.asked[-1] == ("la \N{GRINNING FACE}", "\N{GRINNING FACE}", 8)


def test_words_with_attention_have_alternatives_too(page: Any, service: Running) -> None:
    translated(page, "Hola mundo", "world", "hello")
    page.locator("summary").click()
    page.locator("#viewer svg").wait_for()
    words(page).last.click()
    api.expect(page.locator("#alternatives-list button")).to_have_count(3)
    assert service.translator.asked[-1] == ("Hola mundo", "world", 8)


def test_an_old_translation_has_no_alternatives(page: Any) -> None:
    translated(page, "la casa", "house", "the")
    page.locator("#source").fill("fail")
    api.expect(page.locator("#stale")).to_be_visible()
    words(page).first.click()
    api.expect(menu(page)).to_be_hidden()
