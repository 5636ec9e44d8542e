"""What tests of the page look at: the requests that it sends, and the messages that it shows."""

from __future__ import annotations

from typing import Any


def record_requests(page: Any, path: str) -> list[Any]:
    """Return a list that grows with the body of every request for a path."""
    bodies: list[Any] = []
    page.on(
        "request",
        lambda request: (
            bodies.append(request.post_data_json) if request.url.endswith(path) else None
        ),
    )
    return bodies


def record_messages(page: Any) -> None:
    """Let the page keep all messages that it shows in its variable ``messages``."""
    page.evaluate(
        """() => {
          const element = document.getElementById("message");
          window.messages = [];
          const record = () => element.textContent && window.messages.push(element.textContent);
          new MutationObserver(record).observe(element, { childList: true, subtree: true });
        }"""
    )
