"""Chromium, for tests of pages: a plugin for pytest."""

from __future__ import annotations

from collections.abc import Iterator
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
