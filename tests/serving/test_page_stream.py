"""A long translation is shown sentence by sentence, in order, until all of it is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from conftest import needs_chromium
from fake_service import SOON, FakeTranslator, Running, serving
from page_checks import record_messages

from nmt.inference.contract import SearchRequest
from nmt.inference.segments import Segment, SegmentedText

api = pytest.importorskip("playwright.sync_api")

pytest_plugins = ("pages",)
pytestmark = [pytest.mark.xdist_group("serving"), needs_chromium]


class SlowTranslator(FakeTranslator):
    """Waits before each sentence that begins with "slow" or "fail"; sentences are paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.slow_gate = threading.Event()

    def segment(self, text: str, *options: Any) -> SegmentedText:
        segmented = super().segment(text, *options)
        spaced = [replace(each, space="\n" * bool(n)) for n, each in enumerate(segmented.segments)]
        return segmented._replace(segments=tuple(spaced))

    def hypotheses(self, segments: Sequence[Segment], request: SearchRequest) -> Any:
        if segments[0].text.startswith(("slow", "fail")):
            assert self.slow_gate.wait(SOON)
        return super().hypotheses(segments, request)


@pytest.fixture
def service() -> Iterator[Running]:
    with serving(SlowTranslator(), max_batch=1) as running:
        yield running
        running.translator.slow_gate.set()


def test_sentences_are_shown_as_they_arrive(page: Any, service: Running) -> None:
    page.locator("#source").fill("Hola|la casa|slow|mundo")
    target = page.locator("#target-words")
    api.expect(target).to_have_text("hello\nhouse the", use_inner_text=True)
    api.expect(target).to_have_attribute("aria-busy", "true")
    api.expect(page.locator("#spoken")).to_be_empty()
    service.translator.slow_gate.set()
    api.expect(target.locator(".word")).to_have_text(["hello", "house", "the", "SLOW", "world"])
    api.expect(target).not_to_have_attribute("aria-busy", "true")


def test_a_new_text_takes_the_place_of_what_has_arrived(page: Any, service: Running) -> None:
    record_messages(page)
    page.locator("#source").fill("Hola|slow")
    target = page.locator("#target-words")
    api.expect(target).to_have_text("hello")
    with page.expect_event("requestfailed") as dropped:
        page.locator("#source").fill("mundo")
    assert dropped.value.post_data_json["text"] == "Hola|slow"
    service.translator.slow_gate.set()
    api.expect(target.locator(".word")).to_have_text(["world"])
    assert page.evaluate("messages") == []


def test_an_error_brings_the_last_translation_back(page: Any, service: Running) -> None:
    page.locator("#source").fill("la casa")
    target = page.locator("#target-words")
    api.expect(target.locator(".word")).to_have_text(["house", "the"])
    page.locator("#source").fill("Hola|fail")
    api.expect(target).to_have_text("hello")
    service.translator.slow_gate.set()
    api.expect(target.locator(".word")).to_have_text(["house", "the"])
    api.expect(page.locator("#stale")).to_be_visible()
    api.expect(page.locator("#message")).to_have_text("Not translated: the translation failed")
