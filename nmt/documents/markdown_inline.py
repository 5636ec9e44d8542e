"""The text of a block of Markdown: its elements, and how a translation is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html.entities import codepoint2name
from itertools import takewhile
from typing import NamedTuple

from markdown_it.token import Token

from nmt.documents.html_tokens import VOID
from nmt.documents.markdown_parser import (
    TEXTS,
    Item,
    collapse,
    describe,
    join_texts,
    read_text,
    to_one_line,
)
from nmt.text.marked import MarkedText, MarkedTextBuilder, has_letters, walk

# HTML tags, by type of token.
_EMPHASIS = {"s": "del"} | {name: name for name in "em strong mark ins sub sup".split()}
_KEPT_TAGS = frozenset("code kbd math output samp script style svg textarea var".split())
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_KEPT_ATTRIBUTE = re.compile(r"""\btranslate\s*=\s*["']?no\b|\bnotranslate\b""")

# Where Markdown would read a text as something else.
_SPECIAL = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|\s*$)|[`\[\]~$^]|=(?==)|\+(?=\+)|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)"
    r"|&(?=[#\w])|<(?=[A-Za-z/!?]|$)|\{(?= ?(?:[#.:%{]|[\w-]+=))|!$|#$|^[(:]"
)
_SPECIAL_AT_BEGIN = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-#+=>:|]))")
_SPECIAL_IN_ALT = re.compile(r"[\\`\[\]$*_~{^]|=(?==)|\+(?=\+)|<|&(?=[#\w])")
# Code, math, references and keys are not read side by side.
_CLASH = re.compile(r"``|\$[$\d]|\]\[|\+\+")


class Element(NamedTuple):
    """A mark, with the Markdown that begins and ends it."""

    kind: str  # of `_EMPHASIS`, "link", "tag", "leaf" or "break"
    items: tuple[Item, ...]  # what `begin` is read as
    begin: str
    end: str = ""
    # Of a link that its own text refers to a definition: the text; of an image: that of `alt`.
    label: str = ""
    is_spaced: bool = False  # without text: whether white space is around it
    alt: str = ""  # the text of an image that is translated


class Reader:
    """Reads the text and the elements of a passage.

    Args:
        content: its source.
        tokens: the tokens of it.
    """

    def __init__(self, content: str, tokens: list[Token]) -> None:
        self._content, self._tokens = content, tokens
        self._pairs = _pair_tags(tokens)
        self._builder = MarkedTextBuilder()
        self._ends_with_space = False
        self.elements: list[Element] = []

    def read(self) -> MarkedText:
        """Return the text; the elements are then in `elements`."""
        closing = set(self._pairs.values())
        i = 0
        while i < len(self._tokens):
            token = self._tokens[i]
            name = token.type.removesuffix("_open")
            if token.type in TEXTS:
                self._add_text(read_text(token))
            elif token.nesting < 0 or i in closing:
                self._builder.close()
            elif name in _EMPHASIS:
                self._open(name, i, token.markup, token.markup)
            elif token.type == "link_open" and token.info != "auto":
                self._open_link(i)
            elif i in self._pairs and not _is_kept(token.content) and not self._is_note(i):
                self._open("tag", i, token.content, self._tokens[self._pairs[i]].content)
            else:
                i = self._add_leaf(i)
            i += 1
        return self._builder.build()

    def _is_note(self, at: int) -> bool:
        """Whether a tag begins a superscript without letters, such as the number of a note."""
        match = _TAG.match(self._tokens[at].content)
        if at not in self._pairs or match is None or match[2].lower() != "sup":
            return False
        inside = self._tokens[at + 1 : self._pairs[at]]
        return not any(has_letters(read_text(token)) for token in inside if token.type in TEXTS)

    def _add_text(self, text: str) -> None:
        self._builder.add_text(text.lstrip(" ") if self._ends_with_space else text)
        self._ends_with_space = text.endswith(" ")

    def _keep(self, *, breaks_line: bool) -> None:
        self._builder.add_kept(breaks_line=breaks_line)
        self._ends_with_space = False

    def _open(self, kind: str, at: int, begin: str, end: str, label: str = "") -> None:
        self._builder.open()
        items = tuple(describe([self._tokens[at]], self._content))
        self.elements.append(Element(kind, items, to_one_line(begin), to_one_line(end), label))

    def _open_link(self, at: int) -> None:
        begin, label_begin, label_end, end = self._tokens[at].meta["parts"]
        head, label = self._content[begin:label_begin], self._content[label_begin:label_end]
        tail = self._content[label_end:end]
        is_named_by_text = tail in ("]", "][]")
        self._open("link", at, head, tail, to_one_line(label) if is_named_by_text else "")
        inside = takewhile(lambda token: token.type != "link_close", self._tokens[at + 1 :])
        has_text = any(token.type in TEXTS for token in inside)
        is_spaced = not has_text and self._is_between_spaces(begin, end)
        self.elements[-1] = self.elements[-1]._replace(is_spaced=is_spaced)

    def _is_between_spaces(self, begin: int, end: int) -> bool:
        return not (self._content[max(0, begin - 1) : begin] + self._content[end : end + 1]).strip()

    def _add_leaf(self, first: int) -> int:
        """Add an element whose content is not translated; return its last token."""
        token = self._tokens[first]
        last = first + 2 if token.type == "link_open" else self._pairs.get(first, first)
        items = tuple(describe(self._tokens[first : last + 1], self._content))
        if token.type == "hardbreak":
            self._keep(breaks_line=True)
            # Only the rule for backslashes notes its characters.
            source = "\\\n" if "span" in token.meta else "  \n"
            self.elements.append(Element("break", items, source))
            return last
        span = self._tokens[last].meta["span"]
        begin, end = token.meta.get("span", span)[0], span[1]
        source = to_one_line(self._content[begin:end])
        is_single = first == last and token.type in ("image", "empty", "html_inline")
        is_empty = is_single or self._is_note(first)
        is_spaced = is_empty and self._is_between_spaces(begin, end)
        alt = _read_alt(token, source) if first == last else ""
        label = to_one_line(token.content) if alt else ""
        self.elements.append(Element("leaf", items, source, "", label, is_spaced, alt))
        is_break = source.lower().startswith("<br")
        if is_empty and not is_break:
            self._builder.add_empty()
        else:
            self._keep(breaks_line=is_break)
        return last


class Writer:
    """Writes a translation as Markdown.

    Args:
        elements: what its marks are.
        style: how emphasis is written: as in the "source", with a "star", as "html", as line
            breaks are then.
        is_escaped: whether characters with a meaning are escaped.
    """

    def __init__(self, elements: list[Element], style: str, is_escaped: bool) -> None:
        self._elements, self._style, self._is_escaped = elements, style, is_escaped
        self._parts: list[str] = []
        self._items: list[Item] = []
        self._begins: dict[int, int] = {}  # of an open element: the first part of its content
        self._waiting: list[int] = []  # elements that begin before the next word
        self._has_space = False  # whether one comes before the next word, outside of emphasis

    def write(self, translation: MarkedText) -> tuple[str, list[Item]]:
        """Return the source and what it should be read as."""
        for event in walk(translation):
            if event.begins is not None:
                self._begin(event.begins)
            elif event.ends is not None:
                self._end(event.ends)
            else:
                self._add_text(collapse(event.text))
        if self._parts and self._parts[-1].endswith("\n"):
            self._parts[-1], self._items[-1] = "<br>", ("html_inline", "<br>")
        source = re.sub(r"^\s|\s$", _write_reference, "".join(self._parts))
        return source, join_texts(self._items)

    @property
    def _is_at_line_begin(self) -> bool:
        return not self._parts or self._parts[-1].endswith("\n")

    def _begin(self, index: int) -> None:
        element = self._elements[index]
        if element.kind == "break":
            self._has_space = False
            if self._is_at_line_begin or self._style == "html":
                self._put("<br>", (("html_inline", "<br>"),))
            else:
                self._put(element.begin, element.items)
        elif element.kind == "leaf":
            self._has_space |= element.is_spaced
            self._put(element.begin, element.items)
            self._has_space |= element.is_spaced
        else:
            self._has_space |= element.is_spaced
            self._waiting.append(index)

    def _end(self, index: int) -> None:
        element = self._elements[index]
        if element.kind in ("leaf", "break"):
            return
        if self._waiting and self._waiting[-1] == index:
            if element.kind in _EMPHASIS:
                self._waiting.pop()
                return
            self._put("", ())
        end = self._mark(element)[1]
        if element.label and "".join(self._parts[self._begins[index] :]) != element.label:
            end = f"][{element.label}]"
        self._parts.append(end)
        is_tag = end.startswith("<")
        self._items.append(("html_inline", end) if is_tag else (f"{element.kind}_close", ""))
        self._has_space |= element.is_spaced

    def _mark(self, element: Element) -> tuple[str, str]:
        """Return what begins and ends an element."""
        if element.kind in _EMPHASIS and self._style == "html":
            name = _EMPHASIS[element.kind]
            return f"<{name}>", f"</{name}>"
        if element.kind in ("em", "strong") and self._style == "star":
            return "*" * len(element.begin), "*" * len(element.end)
        return element.begin, element.end

    def _add_text(self, text: str) -> None:
        words = text.strip(" ")
        self._has_space |= text.startswith(" ")
        if words:
            source = words
            if self._is_escaped or "$$" in words:  # which ends math that another block begins
                source = _SPECIAL.sub(r"\\\g<0>", words)
            # After a line break always: a line that its list does not indent can begin any block.
            if (self._is_escaped or self._parts) and self._is_at_line_begin and not self._waiting:
                source = _SPECIAL_AT_BEGIN.sub(r"\1\\", source)
            self._put(source, (("text", words),))
        self._has_space |= text.endswith(" ")

    def _put(self, source: str, items: Sequence[Item]) -> None:
        """Write a word or an element, after the space and the marks that come before it."""
        last = self._parts[-1] if self._parts else ""
        first = self._mark(self._elements[self._waiting[0]])[0] if self._waiting else source
        is_clash = _CLASH.match(last[-1:] + first[:1])
        if (self._has_space or is_clash) and not self._is_at_line_begin:
            self._parts.append(" ")
            self._items.append(("text", " "))
        self._has_space = False
        for index in self._waiting:
            begin = self._mark(self._elements[index])[0]
            is_html = begin.startswith("<") and self._elements[index].kind in _EMPHASIS
            self._parts.append(begin)
            self._begins[index] = len(self._parts)
            self._items += [("html_inline", begin)] if is_html else self._elements[index].items
        self._waiting.clear()
        if source:
            self._parts.append(source)
            self._items += items


def _read_alt(token: Token, source: str) -> str:
    """Return the text of an image, if it stands beside the address and has no elements."""
    if token.type != "image" or not source.startswith("](", len("![") + len(token.content)):
        return ""
    alt = (_read_label(token) or "").strip(" ")
    return alt if has_letters(alt) else ""


def replace_alt(image: Element, alt: str, parse: Callable[[str], list[Token]]) -> Element:
    """Return an image with another text, or the image as it is if Markdown cannot hold the text.

    Args:
        image: an element with a text.
        alt: the text.
        parse: returns the tokens of the text of a block.
    """
    alt = collapse(alt).strip(" ")
    if alt == image.alt:
        return image
    label = _SPECIAL_IN_ALT.sub(r"\\\g<0>", alt)
    begin = f"![{label}{image.begin[len('![') + len(image.label) :]}"
    token, *others = parse(begin)
    if others or token.type != "image" or _read_label(token) != alt:
        return image
    return image._replace(items=(("image", begin),), begin=begin, label=label, alt=alt)


def _read_label(image: Token) -> str | None:
    """Return the text of an image; None if it has elements."""
    children = image.children or []
    is_plain = all(child.type in TEXTS for child in children)
    return "".join(map(read_text, children)) if is_plain else None


def _pair_tags(tokens: list[Token]) -> dict[int, int]:
    """Return the HTML tags that end others, by those: of elements that emphasis does not cut."""
    pairs: dict[int, int] = {}
    opened: list[tuple[int, str]] = []
    for i, token in enumerate(tokens):
        if token.nesting > 0:
            opened.append((i, ""))
        elif token.nesting < 0:
            while opened.pop()[1]:
                pass
        elif token.type == "html_inline" and (match := _TAG.match(token.content)):
            name = match[2].lower()
            if match[1]:
                if opened and opened[-1][1] == name:
                    pairs[opened.pop()[0]] = i
            elif not token.content.endswith("/>") and name not in VOID:
                opened.append((i, name))
    return pairs


def _is_kept(tag: str) -> bool:
    match = _TAG.match(tag)
    is_name_kept = match is not None and match[2].lower() in _KEPT_TAGS
    return is_name_kept or _KEPT_ATTRIBUTE.search(tag) is not None


def _write_reference(match: re.Match[str]) -> str:
    """Return a character reference: the parser drops white space at both ends of a text."""
    code = ord(match[0])
    return f"&{codepoint2name.get(code, f'#{code}')};"
