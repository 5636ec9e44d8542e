"""The page at ``/``, and the content security policy that protects it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

from nmt.viewer.page import inline_script, inline_style

_FOLDER = Path(__file__).parent
# In an order in which each follows those that it imports.
_SCRIPTS = (
    "page_words",
    "page_lights",
    "page_spoken",
    "page_stream",
    "page_input",
    "page_sharing",
    "page_requests",
    "page_reasons",
    "page_alternatives",
    "page_corrections",
    "page_document",
    "page",
)


def load_page() -> tuple[str, str]:
    """Return the page with its style and script inlined, and its content security policy.

    The policy allows this page's own script and style, and requests to this service.
    """
    style = inline_style(_FOLDER / "page.css")
    script = inline_script(*(_FOLDER / f"{name}.js" for name in _SCRIPTS))
    page = (_FOLDER / "page.html").read_text(encoding="utf-8").format(style=style, script=script)
    return page, (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; "
        f"style-src 'sha256-{_digest(style)}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(content: str) -> str:
    return b64encode(hashlib.sha256(content.encode()).digest()).decode()
