"""Addresses of links in Markdown that templates write: code of Liquid, Jinja or Hugo in them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from markdown_it import helpers

_CODE = re.compile(r"\{\{[^{}\n]*\}\}|\{%[^{}\n]*%\}")
_ENDS_ADDRESS = re.compile(r"[\s()]")


def _parse_address(text: str, begin: int, end: int) -> Any:
    """Return where an address ends; spaces and parentheses in code do not end it."""
    line_end = text.find("\n", begin, end)
    line = text[begin : end if line_end < 0 else line_end]
    without_code = _CODE.sub(lambda code: _ENDS_ADDRESS.sub("_", code[0]), line)
    result = helpers.parseLinkDestination(without_code, 0, len(without_code))
    result.pos += begin
    return result


# In place of those of `MarkdownIt.helpers`.
LINK_HELPERS: Any = SimpleNamespace(
    parseLinkDestination=_parse_address,
    parseLinkLabel=helpers.parseLinkLabel,
    parseLinkTitle=helpers.parseLinkTitle,
)
