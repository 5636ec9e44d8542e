"""The page in a browser: translations are corrected where the service keeps corrections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import Running, serving

from nmt.serving.corrections import CorrectionFile

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "corrections.tsv"


@pytest.fixture
def service(table: Path) -> Iterator[Running]:
    with serving(corrections=CorrectionFile(table, ("es", "en"))) as running:
        yield running


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    page = open_page()
    translate(page)
    return page


def translate(page: Any) -> None:
    page.locator("#source").fill("la casa")
    page.locator("#target-words .word").first.wait_for()


def test_a_correction_is_written_and_saved(page: Any, table: Path) -> None:
    field, state = page.get_by_label("Correction", exact=True), page.locator("#correction-state")
    page.get_by_role("button", name="Correct", exact=True).click()
    api.expect(field).to_be_focused()
    api.expect(field).to_have_value("house the")
    api.expect(field).to_have_attribute("lang", "en")
    api.expect(page.locator("#target-words")).to_be_hidden()
    field.fill("the house")
    page.get_by_role("button", name="Save correction").click()
    api.expect(state).to_have_text("Correction saved.")
    api.expect(state).to_have_attribute("role", "status")
    api.expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
    api.expect(page.locator("#target-words")).to_be_visible()
    assert table.read_text(encoding="utf-8").startswith("la casa\tthe house\thouse the\t")


def test_what_is_refused_can_be_written_again(page: Any, table: Path) -> None:
    field, state = page.get_by_label("Correction", exact=True), page.locator("#correction-state")
    page.get_by_role("button", name="Correct", exact=True).click()
    field.fill(" ")
    page.get_by_role("button", name="Save correction").click()
    api.expect(state).to_have_text("Not saved: correction must not be empty")
    api.expect(field).to_be_visible()
    field.press("Escape")
    api.expect(field).to_be_hidden()
    api.expect(state).to_have_text("")
    page.get_by_role("button", name="Correct", exact=True).click()
    api.expect(field).to_have_value("house the")
    # Another text is another translation.
    page.locator("#source").fill("Hola")
    api.expect(field).to_be_hidden()
    api.expect(page.locator("#target-words")).to_have_text("hello")
    page.locator("#source").fill("")
    api.expect(page.locator("#correcting")).to_be_hidden()
    assert table.read_bytes() == b""


def test_a_correction_is_sent_once_and_the_focus_stays(page: Any, table: Path) -> None:
    held: list[Any] = []
    page.route(re.compile("/corrections"), lambda route: held.append(route))
    page.get_by_role("button", name="Correct", exact=True).click()
    save = page.get_by_role("button", name="Save correction")
    save.click()
    save.click()
    api.expect(save).to_be_focused()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    api.expect(page.locator("#correction-state")).to_have_text("Correction saved.")
    assert len(held) == 1
    assert table.read_text(encoding="utf-8").count("\n") == 1


def test_nothing_is_offered_by_a_service_that_keeps_none(open_page: Callable[..., Any]) -> None:
    with serving() as running:
        page = open_page(running=running)
        translate(page)
        api.expect(page.locator("#title")).to_have_text("Spanish → English")
        api.expect(page.locator("#correcting")).to_be_hidden()
