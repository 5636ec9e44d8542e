"""What tests of the page look at: the requests that it sends."""

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
