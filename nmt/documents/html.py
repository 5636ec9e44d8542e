"""HTML and XHTML: text between block elements, with inline elements as marks.

The page is not rebuilt: only translated texts and attributes change, every other byte stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import NamedTuple

from nmt.documents.encodings import decode
from nmt.documents.formats import DocumentOptions
from nmt.documents.marked import MarkedText, MarkedTextBuilder, has_letters, mark_plain, walk

# Elements inside of a sentence; all others, unknown ones included, end it.
_INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite del dfn em font i ins label mark nobr q rb rt ruby s small
    span strike strong sub sup time tt u""".split()
)
_EMPTY = frozenset("embed img input wbr".split())  # inside of a sentence, without content
# Not translated; inside of a sentence, and between sentences.
_KEPT = frozenset("code kbd math output samp svg var".split())
_SKIPPED = frozenset("audio canvas iframe object pre script style template textarea video".split())
_ATTRIBUTES = re.compile(
    r"""(?<=\s)(?:alt|title|placeholder|aria-label)\s*=\s*(?:"([^"]+)"|'([^']+)')""", re.IGNORECASE
)
_LANGUAGE = re.compile(r"""(?<=\s)((?:xml:)?lang\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s>"']+)""")
_CHARSET = re.compile(
    rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)|<\?xml[^>]+encoding=["']([\w-]+)"""
)
_HEAD = 2048  # bytes in which a page names its encoding
_TAG = re.compile("<[A-Za-z/!?]")
_SPACE = re.compile("[ \t\n\r\f]+")


_Item = tuple[int, int]  # tokens [begin, end): one, or all of a kept element


class _Token(NamedTuple):
    kind: str  # "start", "end", "text" or "other": a comment, a declaration
    begin: int  # its first character
    name: str = ""
    is_kept: bool = False  # translate="no"


class _Tokenizer(HTMLParser):
    """Finds where the tags and texts of a page begin."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        lines = (len(line) + 1 for line in page.split("\n"))
        self._line_begins = [0, *accumulate(lines)]
        self.tokens: list[_Token] = []
        # A tag that does not end is read again and again: what follows the last > is not parsed.
        end = page.rfind(">") + 1
        self.feed(page[:end])
        self.close()
        if end < len(page):
            is_text = not (self.cdata_elem or _TAG.search(page, end))
            self.tokens.append(_Token("text" if is_text else "other", end))

    def _add(self, kind: str, name: str = "", *, is_kept: bool = False) -> None:
        line, column = self.getpos()
        self.tokens.append(_Token(kind, self._line_begins[line - 1] + column, name, is_kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        is_kept = (values.get("translate") or "").lower() == "no"
        is_kept = is_kept or "notranslate" in (values.get("class") or "").split()
        self._add("start", tag, is_kept=is_kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = "start" if tag in _EMPTY or tag == "br" else "other"
        self._add(kind if tag in _INLINE | _EMPTY | {"br"} else "end", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("other" if self.cdata_elem else "text")  # of a script

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


class _Element(NamedTuple):
    """Tokens of a mark: what comes before its content and after it."""

    begin: int  # the first token; of a mark with content its start tag
    end: int  # the last token; of a mark with content its end tag
    has_content: bool


@dataclass
class _Inline:
    """A segment of inline content: tokens [begin, end)."""

    begin: int
    end: int
    text: MarkedText
    elements: list[_Element]


@dataclass
class _Attribute:
    """A segment that is the value of an attribute: characters [begin, end) of a token."""

    token: int
    begin: int
    end: int
    text: MarkedText


class HtmlDocument:
    """A page.

    Args:
        page: the text of the page.
        encoding: gives its bytes back.
        options: the language to write into the page.
    """

    def __init__(self, page: str, encoding: str, options: DocumentOptions) -> None:
        self._encoding = encoding
        self._tokens = _Tokenizer(page).tokens
        begins = [token.begin for token in self._tokens] + [len(page)]
        self._head = page[: begins[0]]
        self._raw = [page[begin:end] for begin, end in pairwise(begins)]
        self._closing = self._match()
        self._targets = sorted(self._find_segments(), key=lambda target: _first_token(target))
        self.segments: Sequence[MarkedText] = [target.text for target in self._targets]
        self._name_language(options)

    def _match(self) -> dict[int, int]:
        """Return the end tag of each start tag that has one."""
        opened: dict[str, list[int]] = defaultdict(list)
        closing: dict[int, int] = {}
        for i, token in enumerate(self._tokens):
            if token.kind == "start":
                opened[token.name].append(i)
            elif token.kind == "end" and opened[token.name]:
                closing[opened[token.name].pop()] = i
        return closing

    def _find_segments(self) -> Iterator[_Inline | _Attribute]:
        run: list[_Item] = []
        i = 0
        while i < len(self._tokens):
            token = self._tokens[i]
            end = i + 1
            is_inline = token.kind != "end" or token.name in _INLINE
            if token.kind == "start":
                is_whole = token.is_kept or token.name in _KEPT | _SKIPPED or self._is_note(i)
                if is_whole and i in self._closing:
                    end = self._closing[i] + 1
                else:
                    yield from self._find_attributes(i)
                is_inline = token.name in _INLINE | _EMPTY | _KEPT or token.name == "br"
            if is_inline:
                run.append((i, end))
            else:
                yield from self._cut(run)
                run = []
            i = end
        yield from self._cut(run)

    def _is_note(self, index: int) -> bool:
        """Whether a start tag begins a superscript without letters, such as a number of a note."""
        end = self._closing.get(index)
        if self._tokens[index].name != "sup" or end is None:
            return False
        return not any(
            token.kind == "text" and has_letters(unescape(raw))
            for token, raw in zip(self._tokens[index:end], self._raw[index:end], strict=True)
        )

    def _find_attributes(self, index: int) -> Iterator[_Attribute]:
        for match in _ATTRIBUTES.finditer(self._raw[index]):
            value = match[1] or match[2]
            if has_letters(value):
                span = match.span(1 if match[1] else 2)
                yield _Attribute(index, *span, mark_plain(_collapse(value)))

    def _cut(self, run: list[_Item]) -> Iterator[_Inline]:
        """Yield the segments of a run: tags whose counterpart is elsewhere end one."""
        matches: dict[int, int] = {}  # of items, both ways
        opened: list[int] = []
        for number, (i, end) in enumerate(run):
            token = self._tokens[i]
            if token.name not in _INLINE or end > i + 1:
                continue
            if token.kind == "start":
                opened.append(number)
            elif token.kind == "end":
                start = self._find_open(run, opened, token.name)
                if start is not None:
                    matches[start], matches[number] = number, start
        begin = number = 0
        while number < len(run):
            i, end = run[number]
            is_tag = self._tokens[i].name in _INLINE and end == i + 1
            if number in matches:
                number = matches[number]
            elif is_tag:
                yield from self._build(run, matches, begin, number)
                begin = number + 1
            number += 1
        yield from self._build(run, matches, begin, number)

    def _find_open(self, run: list[_Item], opened: list[int], name: str) -> int | None:
        """Return the start tag that an end tag closes, if it is the innermost one."""
        if opened and self._tokens[run[opened[-1]][0]].name == name:
            return opened.pop()
        return None

    def _build(
        self, run: list[_Item], matches: dict[int, int], first: int, last: int
    ) -> Iterator[_Inline]:
        """Yield the segment of items [first, last), without what surrounds its text."""
        while first < last:
            if self._is_around_text(run[first]):
                first += 1
            elif self._is_around_text(run[last - 1]):
                last -= 1
            elif matches.get(first) == last - 1:
                first, last = first + 1, last - 1
            else:
                break
        builder = MarkedTextBuilder()
        elements: list[_Element] = []
        for number in range(first, last):
            i, end = run[number]
            token = self._tokens[i]
            if token.kind == "text" and end == i + 1:
                builder.add_text(_collapse(self._raw[i]))
            elif number in matches and token.kind == "end":
                builder.close()
            elif number in matches:
                builder.open()
                elements.append(_Element(i, run[matches[number]][0], True))
            elif token.name == "br" or (end > i + 1 and token.name != "sup"):
                builder.add_kept(breaks_line=token.name == "br")
                elements.append(_Element(i, end - 1, False))
            else:
                builder.add_empty()
                elements.append(_Element(i, end - 1, False))
        if has_letters(builder.text):
            tokens = run[first][0], run[last - 1][1]
            yield _Inline(*tokens, builder.build(), elements)

    def _is_around_text(self, item: _Item) -> bool:
        """Whether an item at an end of a segment can be left out of it."""
        token = self._tokens[item[0]]
        if token.kind == "text":
            return not self._raw[item[0]].strip(" \t\n\r\f")
        return token.kind == "other" or token.name in _EMPTY or token.name == "br"

    def _name_language(self, options: DocumentOptions) -> None:
        if options.target_language == "und":
            return
        for i, token in enumerate(self._tokens):
            if token.kind == "start" and token.name == "html":
                self._raw[i] = _LANGUAGE.sub(rf'\g<1>"{options.target_language}"', self._raw[i])
                return

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the page with other texts: see `Document.fill`."""
        raw = list(self._raw)
        changed = [
            (target, translation)
            for target, translation in zip(self._targets, translations, strict=True)
            if translation != target.text.without_kept()
        ]
        # Attributes from the last one of a tag to the first, so that indices stay right.
        for target, translation in reversed(changed):
            if isinstance(target, _Attribute):
                tag = raw[target.token]
                value = escape(translation.text)
                raw[target.token] = tag[: target.begin] + value + tag[target.end :]
        for target, translation in changed:
            if isinstance(target, _Inline):
                content = self._write(target, translation, raw)
                raw[target.begin : target.end] = [content, *[""] * (target.end - target.begin - 1)]
        page = self._head + "".join(raw)
        return page.encode(self._encoding, "xmlcharrefreplace")

    def _write(self, target: _Inline, translation: MarkedText, raw: list[str]) -> str:
        parts = []
        for event in walk(translation):
            if event.begins is not None:
                begin, end, has_content = target.elements[event.begins]
                parts += raw[begin : begin + 1] if has_content else raw[begin : end + 1]
            elif event.ends is not None:
                element = target.elements[event.ends]
                parts += raw[element.end : element.end + 1] if element.has_content else []
            else:
                parts.append(escape(event.text, quote=False))
        return "".join(parts)


def _first_token(target: _Inline | _Attribute) -> int:
    return target.begin if isinstance(target, _Inline) else target.token


def _collapse(raw: str) -> str:
    return _SPACE.sub(" ", unescape(raw))


def extract(data: bytes, options: DocumentOptions) -> HtmlDocument:
    """Return the texts of a page and what surrounds them.

    Raises:
        UserError: it is not in the encoding that it names, or UTF-8 if it names none.
    """
    match = _CHARSET.search(data[:_HEAD])
    encoding = (match[1] or match[2]).decode("ascii") if match else "utf-8"
    page, encoding = decode(data, encoding)
    return HtmlDocument(page, encoding, options)
