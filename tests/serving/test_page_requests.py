"""What the page says where a proxy answers in place of the service, and not in JSON."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import needs_chromium

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


def refuse(page: Any, path: str, status: int = 413) -> None:
    """Answer requests to a path as a proxy does."""
    page.route(
        re.compile(f"/{path}"),
        lambda route: route.fulfill(
            status=status, content_type="text/html", body="<html>Request Entity Too Large</html>"
        ),
    )


def translated(page: Any) -> None:
    page.locator("#source").fill("la casa")
    api.expect(page.locator("#target-words .word")).to_have_text(["house", "the"])


@pytest.mark.parametrize(("status", "is_tried_again"), [(413, False), (502, True)])
def test_a_text_is_refused(page: Any, status: int, is_tried_again: bool) -> None:
    refuse(page, "translate", status)
    page.locator("#source").fill("la casa")
    message = page.locator("#message")
    api.expect(message).to_have_text(f"Not translated: the server answered {status}")
    api.expect(page.get_by_role("button", name="Try again")).to_be_visible(visible=is_tried_again)


def test_other_words_are_refused(page: Any) -> None:
    translated(page)
    refuse(page, "alternatives")
    page.locator("#target-words .word").first.click()
    api.expect(page.locator("#alternatives-state")).to_have_text(
        "No other words: the server answered 413."
    )


def test_an_explanation_is_refused(page: Any) -> None:
    translated(page)
    refuse(page, "explain")
    page.locator("#target-words .word").first.click()
    api.expect(page.locator("#alternatives-list button")).to_have_count(3)
    page.get_by_role("button", name="Why this word?").click()
    api.expect(page.locator("#reasons-state")).to_have_text(
        "No explanation: the server answered 413."
    )


def test_a_correction_is_refused(page: Any) -> None:
    translated(page)
    refuse(page, "corrections")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_role("button", name="Save correction").click()
    api.expect(page.locator("#correction-state")).to_have_text("Not saved: the server answered 413")


def test_a_document_is_refused(page: Any) -> None:
    refuse(page, "documents")
    file = {"name": "a.txt", "mimeType": "", "buffer": b"Hola"}
    page.locator("#file").set_input_files(file)
    api.expect(page.locator("#outcome")).to_have_text("Not translated: the server answered 413")
