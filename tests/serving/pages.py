"""The page of a fake service in Chromium: a plugin for pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from fake_service import Running, serving

from nmt.serving.corrections import CorrectionFile

pytest_plugins = ("browsers",)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    table: Path = tmp_path_factory.mktemp("corrections") / "corrections.tsv"
    with serving(corrections=CorrectionFile(table, ("es", "en"))) as running:
        yield running


@pytest.fixture
def open_page(browser: Any, service: Running) -> Iterator[Callable[..., Any]]:
    """Return the function that opens the page of a service.

    No script may fail, nothing may violate the content security policy, and nothing may be asked of
    another origin.
    """
    contexts: list[Any] = []
    problems: list[str] = []

    def check_message(message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            problems.append(message.text)

    def open_page(fragment: str = "", running: Running = service, **options: Any) -> Any:
        def check_request(request: Any) -> None:
            if not request.url.startswith((running.url, "data:", "blob:")):
                problems.append(request.url)

        context = browser.new_context(**options)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", check_message)
        page.on("request", check_request)
        page.goto(running.url + fragment)
        page.get_by_role("heading", name="Spanish → English").wait_for()
        return page

    yield open_page
    service.translator.gate.set()
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()
