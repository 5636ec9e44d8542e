"""Addresses of links in Markdown that templates write: code of Liquid, Jinja or Hugo in them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from markdown_it import helpers

_REST = r"(?:(?!\{[{%])[^\s()<>])*"
_ADDRESS = re.compile(rf"{_REST}(?:(?:\{{\{{[^{{}}\n]*\}}\}}|\{{%[^{{}}\n]*%\}}){_REST})+")
_ENDS_ADDRESS = re.compile(r"[\s()]")


def _parse_address(text: str, begin: int, end: int) -> Any:
    """Return where an address ends; spaces and parentheses in code do not end it."""
    match = _ADDRESS.match(text, begin, end)
    if match is None:
        return helpers.parseLinkDestination(text, begin, end)
    address = _ENDS_ADDRESS.sub("_", match[0])
    result = helpers.parseLinkDestination(address, 0, len(address))
    result.pos += begin
    return result


# In place of those of `MarkdownIt.helpers`.
LINK_HELPERS: Any = SimpleNamespace(
    parseLinkDestination=_parse_address,
    parseLinkLabel=helpers.parseLinkLabel,
    parseLinkTitle=helpers.parseLinkTitle,
)
