"""XML documents: a safe tree, and their text, which is edited in place.

Nothing is normalised: quotes, references, line ends, the declaration and its encoding stay.
Characters that the encoding lacks are written as references, those that XML forbids as U+FFFD.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, NamedTuple

from lxml import etree

from nmt.data.safe_xml import decode_xml, parse_xml

Element = Any  # lxml has no types
Edit = tuple[int, int, str]  # characters [begin, end) of a text, and what replaces them

_MARKUP = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+>", re.DOTALL
)
_ATTRIBUTE = re.compile(r"(\s+[^\s=>/\"']+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_EMPTY_END = re.compile(r"\s*/?>\Z")  # of a tag that may be that of an element without content
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;"})
_ESCAPES_IN_TEXT = {sign: escape for sign, escape in _ESCAPES.items() if sign != ord('"')}


class ElementSpan(NamedTuple):
    """Where an element is in the text. An empty-element tag has content = content_end = end."""

    begin: int
    content: int  # the start tag ends here
    content_end: int
    end: int


class XmlText:
    """An XML document as a tree and as text.

    Attributes:
        root: the root element.
        text: the whole document.
        spans: where each element is in the text.

    Args:
        data: the document.
    """

    def __init__(self, data: bytes) -> None:
        self.text, self._encoding = decode_xml(data)
        self.root: Element = parse_xml(self.text)
        self.spans = _locate(self.text, self.root)

    def edit_tag(self, element: Element, name: str, value: str) -> Edit:
        """Return the edit of a start tag that sets an attribute."""
        begin, content, *_ = self.spans[element]
        return begin, content, set_attribute(self.text[begin:content], name, value)

    def edit_content(self, element: Element, content: str, **attributes: str) -> Edit:
        """Return the edit of an element that sets its content, which is XML, and attributes."""
        begin, after_tag, _, end = self.spans[element]
        tag = _EMPTY_END.sub(">", self.text[begin:after_tag])
        name = re.split(r"[\s>]", tag, maxsplit=1)[0].removeprefix("<")
        for attribute, value in attributes.items():
            tag = set_attribute(tag, attribute, value)
        return begin, end, f"{tag}{content}</{name}>"

    def encode(self, text: str) -> bytes:
        """Return an edited text as a document in the same encoding."""
        return text.encode(self._encoding, "xmlcharrefreplace")


class Edits:
    """Edits of a text, which are made from its end to its beginning: inner parts before outer ones.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[Edit] = []  # the last one is the first in the text

    def replace(self, begin: int, end: int, text: str) -> None:
        """Replace characters [begin, end); edits inside of them have been read, and are dropped."""
        while self._edits and self._edits[-1][0] < end:
            self._edits.pop()
        self._edits.append((begin, end, text))

    def read(self, begin: int, end: int) -> str:
        """Return characters [begin, end) as edited."""
        parts = []
        index = bisect_right(self._edits, -begin, key=lambda edit: -edit[0]) - 1
        while index >= 0 and self._edits[index][0] < end:
            first, last, text = self._edits[index]
            parts += [self._text[begin:first], text]
            begin = last
            index -= 1
        return "".join([*parts, self._text[begin:end]])

    def finish(self) -> str:
        """Return the whole text as edited."""
        return self.read(0, len(self._text))


def escape(text: str) -> str:
    """Return a text as the content of an element."""
    return _FORBIDDEN.sub("\ufffd", text).translate(_ESCAPES_IN_TEXT)


def get_attribute(element: Element, name: str, default: str = "") -> str:
    """Return an attribute without a namespace."""
    value: str = element.get(name, default)
    return value


def set_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with another value of an attribute, which is added if it is missing."""
    quoted = f'="{_FORBIDDEN.sub(chr(0xFFFD), value).translate(_ESCAPES)}"'
    end = len(tag)
    for match in _ATTRIBUTE.finditer(tag):
        if match[1].strip() == name:
            return f"{tag[: match.start()]}{match[1]}{quoted}{tag[match.end() :]}"
        end = match.end()
    if not _ATTRIBUTE.search(tag):
        end = len(tag.rstrip("/> \t\r\n"))
    return f"{tag[:end]} {name}{quoted}{tag[end:]}"


def local_name(element: Element, namespace: str | None) -> str:
    """Return the name of an element of a namespace; empty: it is of another one, or a comment."""
    if not isinstance(element.tag, str):
        return ""
    name = etree.QName(element)
    return str(name.localname) if name.namespace == namespace else ""


def find_indent(text: str, end: int) -> str:
    """Return the white space of a text before a place."""
    begin = end
    while begin and text[begin - 1] in " \t\r\n":
        begin -= 1
    return text[begin:end]


def _locate(text: str, root: Element) -> dict[Element, ElementSpan]:
    """Return where each element is; a well-formed document has its tags in the tree's order."""
    spans: dict[Element, ElementSpan] = {}
    elements = root.iter("*")
    opened: list[tuple[Element, int, int]] = []
    for match in _MARKUP.finditer(text):
        begin, end = match.span()
        if text[begin + 1] in "!?":
            continue
        if text[begin + 1] == "/":
            element, *start_tag = opened.pop()
            spans[element] = ElementSpan(start_tag[0], start_tag[1], begin, end)
        elif text[end - 2] == "/":
            spans[next(elements)] = ElementSpan(begin, end, end, end)
        else:
            opened.append((next(elements), begin, end))
    return spans
