"""Attributes of a page: the texts in them, and the language that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from nmt.data.languages import are_variants
from nmt.documents.formats import DocumentOptions
from nmt.documents.html_tokens import TEMPLATE, collapse, hide_templates
from nmt.text.marked import MarkedText, MarkedTextBuilder, has_letters, walk
from nmt.text.scripts import UNKNOWN_LANGUAGE, is_right_to_left

_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'=<>`]+))?""")
_TRANSLATED = frozenset("alt title placeholder aria-label".split())
# Others, of some tags only.
_TRANSLATED_IN = {
    "label": re.compile("<(?:optgroup|option|track)", re.IGNORECASE),
    "value": re.compile(r"<input\b[^>]*\btype=[\"']?(?:button|reset|submit)\b", re.IGNORECASE),
    "content": re.compile(r"<meta\b[^>]*=[\"']?(?:\w+:)?(?:description|title)\b", re.IGNORECASE),
}
_LANGUAGE = re.compile("[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*")
_HTML = re.compile(r"<html\b", re.IGNORECASE)
_PAGE = re.compile(r"<(?:html|body)\b", re.IGNORECASE)
_META = re.compile(r"<meta\b[^>]*=[\"']?(?:content-language\b|og:locale\b(?!:))", re.IGNORECASE)
_QUOTES = frozenset("\"'")
_KEPT = re.compile(rf"{TEMPLATE.pattern}|&#(?:0*10|[xX]0*[aA]);", re.DOTALL)  # also a line break


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
    for name, match in _read_attributes(tag).items():
        tags = _TRANSLATED_IN.get(name)
        is_translated = name in _TRANSLATED or (tags and tags.match(match.string))
        if is_translated and has_letters(match[2]):
            begin, end = match.span(2)
            if match[2][0] in _QUOTES:
                begin, end = begin + 1, end - 1
            yield _read(token, tag, begin, end)


def _read_attributes(tag: str) -> dict[str, re.Match[str]]:
    """Return the attributes of a start tag that have a value, by their names in lower case.

    The first one of a name wins, as in HTML. Template code in them is hidden.
    """
    attributes: dict[str, re.Match[str]] = {}
    for match in _ATTRIBUTE.finditer(hide_templates(tag)):
        if match[2]:
            attributes.setdefault(match[1].lower(), match)
    return attributes


def _read(token: int, tag: str, begin: int, end: int) -> Attribute:
    builder = MarkedTextBuilder()
    templates: list[str] = []
    at = begin
    for match in _KEPT.finditer(tag, begin, end):
        builder.add_text(collapse(tag[at : match.start()]))
        builder.add_kept(breaks_line=match[0].startswith("&"))
        templates.append(match[0])
        at = match.end()
    builder.add_text(collapse(tag[at:end]))
    return Attribute(token, begin, end, builder.build(), templates)


def is_in_other_language(tag: str, options: DocumentOptions) -> bool:
    """Whether a start tag inside of a page names another language than that of the source."""
    language = _read_language(tag)
    if not language or _PAGE.match(tag) or options.source_language == UNKNOWN_LANGUAGE:
        return False
    return not are_variants(language, options.source_language)


def name_language(tag: str, options: DocumentOptions) -> str:
    """Return a start tag with the target language and its direction in place of others.

    That is a tag that names the source language, or begins a page; where a page begins, a direction
    from right to left is added.
    """
    language = options.target_language
    is_page = _PAGE.match(tag) is not None
    names_source = are_variants(_read_language(tag), options.source_language)
    if language == UNKNOWN_LANGUAGE or not (is_page or names_source):
        return tag
    direction = "rtl" if is_right_to_left(language) else "ltr"
    values = {"lang": language, "xml:lang": language, "dir": direction}
    if _META.match(tag):
        values = {"content": language.replace("-", "_") if "og:locale" in tag else language}
    attributes = _read_attributes(tag)
    for name, match in reversed(attributes.items()):
        begin, end = match.span(2)
        is_changed = name in values and match[2].strip("\"'").lower() != values[name].lower()
        if is_changed and tag[begin:end] == match[2]:
            tag = f'{tag[:begin]}"{values[name]}"{tag[end:]}'
    if _HTML.match(tag) and direction == "rtl" and "dir" not in attributes:
        begin = len("<html")
        tag = f'{tag[:begin]} dir="rtl"{tag[begin:]}'
    return tag


def _read_language(tag: str) -> str:
    """Return the BCP 47 tag of the language that a start tag names; empty: none."""
    names = ("content",) if _META.match(tag) else ("lang", "xml:lang")
    if not any(name in tag.lower() for name in names):
        return ""
    attributes = _read_attributes(tag)
    values = (attributes[name][2].strip("\"'") for name in names if name in attributes)
    return next((value for value in values if _LANGUAGE.fullmatch(value)), "")
