"""The accessibility check reports the faults of a page, and none for a correct page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import needs_chromium

Violations = Callable[[Any], list[str]]
pytest_plugins = ("browsers",)
pytestmark = needs_chromium

CORRECT = """<!doctype html><html lang="en"><title>Page</title><main><h1>Page</h1>
<label>Name <input></label><p style="color: {ink}">Text</p></main></html>"""


@pytest.fixture
def page(browser: Any) -> Any:
    page = browser.new_page()
    yield page
    page.close()


def test_a_correct_page_has_no_violation(page: Any, violations: Violations) -> None:
    page.set_content(CORRECT.format(ink="#000"))
    assert violations(page) == []


def test_violations_are_named_with_rule_and_element(page: Any, violations: Violations) -> None:
    page.set_content(CORRECT.format(ink="#ccc").replace("<label>Name <input></label>", "<input>"))
    entries = violations(page)
    assert [entry.split(":")[:2] for entry in entries] == [
        ["color-contrast", " p"],
        ["label", " input"],
    ]
    assert "#cccccc" in entries[0]


def test_a_content_security_policy_does_not_prevent_the_check(
    page: Any, violations: Violations
) -> None:
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page.set_content(CORRECT.format(ink="#000").replace("<main>", f"{policy}<main>"))
    assert violations(page) == []
