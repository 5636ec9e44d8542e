"""Why a word is there: numbers in a table, marks in the source, and a choice of other words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import FakeTranslator, Running, serving

from nmt.errors import UserError

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


def words(page: Any, side: str = "target") -> Any:
    return page.locator(f"#{side}-words .word")


def translated(page: Any, text: str, *translation: str) -> None:
    page.locator("#source").fill(text)
    api.expect(words(page)).to_have_text(list(translation))


def ask_why(page: Any) -> Any:
    """Ask why the first word is there; return the dialog."""
    words(page).first.click()
    api.expect(page.locator("#alternatives-list button")).to_have_count(3)
    page.get_by_role("button", name="Why this word?").click()
    return page.get_by_role("dialog", name="Why house")


def test_a_word_is_explained_with_numbers_and_marks(page: Any, service: Running) -> None:
    translated(page, "la casa", "house", "the")
    dialog = ask_why(page)
    state = dialog.get_by_role("status")
    api.expect(state).to_have_text("“house” is 7.4 times as probable as “home”.")
    api.expect(dialog.get_by_role("row")).to_have_text(
        [
            *("wordread speaks for it", "la20%+1.50", "casa40%−0.25"),
            *("all of the sentence60%+2.00", "translation before it40%−0.75"),
        ]
    )
    assert service.translator.explained[-1] == ("la casa", "", "house", "home")
    marked = words(page, "source")
    for number, weight in enumerate(("0.20", "0.40")):
        api.expect(marked.nth(number)).to_have_attribute("data-weight", weight)
        api.expect(marked.nth(number)).to_have_class("word lit")
    page.keyboard.press("Escape")
    api.expect(dialog).to_be_hidden()
    api.expect(words(page).first).to_be_focused()
    api.expect(marked.first).not_to_have_attribute("data-weight", "0.20")


def test_keys_choose_the_word_that_it_is_held_against(page: Any, service: Running) -> None:
    translated(page, "la casa", "house", "the")
    words(page).first.focus()
    page.keyboard.press("Enter")
    api.expect(page.locator("#alternatives-list button").nth(1)).to_be_focused()
    page.keyboard.press("End")
    api.expect(page.locator("#why")).to_be_focused()
    page.keyboard.press("Enter")
    other = page.get_by_label("and not")
    api.expect(other).to_be_focused()
    api.expect(other.locator("option")).to_have_text(["home", "hut"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    state = page.locator("#reasons-state")
    api.expect(state).to_have_text("“house” is 7.4 times as probable as “hut”.")
    assert service.translator.explained[-1] == ("la casa", "", "house", "hut")
    page.keyboard.press("Escape")
    words(page).first.click()  # it opens with the other words again
    api.expect(page.get_by_role("dialog", name="Instead of")).to_be_visible()


def test_a_late_explanation_marks_nothing(page: Any, service: Running) -> None:
    translated(page, "la casa", "house", "the")
    service.translator.attention_gate.clear()
    dialog = ask_why(page)
    api.expect(dialog.get_by_role("status")).to_have_text("Asking the model …")
    page.keyboard.press("Escape")
    service.translator.attention_gate.set()
    translated(page, "Hola", "hello")
    api.expect(dialog).to_be_hidden()
    api.expect(words(page, "source").first).not_to_have_attribute("data-weight", "0.60")


def test_an_error_says_why_there_is_no_explanation(page: Any) -> None:
    translated(page, "la casa", "house", "the")
    page.route("**/explain", lambda route: route.abort())
    dialog = ask_why(page)
    api.expect(dialog.get_by_role("status")).to_have_text(
        "No explanation: the service does not answer."
    )
    api.expect(dialog.get_by_role("table")).to_be_hidden()


def test_a_model_that_cannot_explain_says_so(open_page: Callable[..., Any]) -> None:
    translator = FakeTranslator()
    translator.loading_error = UserError("the weights are missing")
    with serving(translator) as running:
        page = open_page(running=running)
        translated(page, "la casa", "house", "the")
        status = ask_why(page).get_by_role("status")
        api.expect(status).to_have_text("No explanation: the weights are missing.")
    translator = FakeTranslator()
    translator.has_attention = False
    with serving(translator) as running:
        page = open_page(running=running)
        translated(page, "la casa", "house", "the")
        words(page).first.click()
        api.expect(page.locator("#alternatives-list button")).to_have_count(3)
        api.expect(page.locator("#why")).to_be_hidden()


def test_a_model_without_contributions_gives_contrasts(
    page: Any, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.translator, "missing_contributions", "it is recurrent")
    translated(page, "la casa", "house", "the")
    dialog = ask_why(page)
    api.expect(dialog.get_by_role("status")).to_contain_text("No shares: it is recurrent.")
    api.expect(dialog.get_by_role("row").nth(1)).to_have_text("la–+1.50")
