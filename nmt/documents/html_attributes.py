"""Attributes of a page: the texts in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from nmt.documents.html_tokens import TEMPLATE, collapse, hide_templates
from nmt.text.marked import MarkedText, MarkedTextBuilder, has_letters, walk

ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'=<>`]+))?""")
_TRANSLATED = frozenset("alt title placeholder aria-label".split())
# Others, of some tags only.
_TRANSLATED_IN = {
    "label": re.compile("<(?:optgroup|option|track)", re.IGNORECASE),
    "value": re.compile(r"<input\b[^>]*\btype=[\"']?(?:button|reset|submit)\b", re.IGNORECASE),
    "content": re.compile(r"<meta\b[^>]*=[\"']?(?:\w+:)?(?:description|title)\b", re.IGNORECASE),
}
_QUOTES = frozenset("\"'")


@dataclass
class Attribute:
    """A segment that is the value of an attribute: characters [begin, end) of a token."""

    token: int
    begin: int
    end: int
    text: MarkedText
    templates: list[str]  # its marks

    def write(self, translation: MarkedText, tag: str) -> str:
        """Return the tag with a translation as the value."""
        value = "".join(
            escape(event.text) if event.begins is None else self.templates[event.begins]
            for event in walk(translation)
        )
        if tag[self.begin - 1] not in _QUOTES:
            value = f'"{value}"'
        return tag[: self.begin] + value + tag[self.end :]


def find_attributes(token: int, tag: str) -> Iterator[Attribute]:
    """Yield the attributes of a start tag that are translated.

    Args:
        token: the index of the tag.
        tag: its source.
    """
    hidden = hide_templates(tag)
    for match in ATTRIBUTE.finditer(hidden):
        name, value = match[1].lower(), match[2] or ""
        tags = _TRANSLATED_IN.get(name)
        is_translated = name in _TRANSLATED or (tags and tags.match(hidden))
        if is_translated and has_letters(value):
            begin, end = match.span(2)
            if value[0] in _QUOTES:
                begin, end = begin + 1, end - 1
            yield _read(token, tag, begin, end)


def _read(token: int, tag: str, begin: int, end: int) -> Attribute:
    builder = MarkedTextBuilder()
    templates: list[str] = []
    at = begin
    for match in TEMPLATE.finditer(tag, begin, end):
        builder.add_text(collapse(tag[at : match.start()]))
        builder.add_kept()
        templates.append(match[0])
        at = match.end()
    builder.add_text(collapse(tag[at:end]))
    return Attribute(token, begin, end, builder.build(), templates)
