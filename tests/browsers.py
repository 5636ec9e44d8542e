"""Chromium, for tests of pages: a plugin for pytest, and a check of accessibility."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import CHROMIUM, PATIENCE


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE)
    with api.sync_playwright() as playwright:
        # Root in a container cannot use the sandbox.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def violations() -> Callable[[Any], list[str]]:
    """Return the function that finds violations of accessibility rules in a page."""
    return find_violations


def find_violations(page: Any) -> list[str]:
    """Return what axe-core finds wrong, as "rule: element: explanation", one entry per element.

    Args:
        page: a page or frame of Playwright; frames inside of it are not checked.
    """
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "iframes": False}
    entries = []
    for rule in Axe().run(page, options=options).response["violations"]:
        for node in rule["nodes"]:
            element = " ".join(map(str, node["target"]))
            explanation = " ".join(node["failureSummary"].split())
            entries.append(f"{rule['id']}: {element}: {explanation}")
    return entries
