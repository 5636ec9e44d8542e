"""Markdown: CommonMark with extensions.

They are tables, strikethrough, marked and inserted text, subscripts, superscripts, footnotes, math,
front matter, admonitions of MkDocs and Docusaurus, imports and exports of MDX, keys (++ctrl+c++)
and links of wikis.

A document filled with its own texts is the same bytes. A paragraph that changes is written on one
line, or one for each hard line break; character references in it become characters, markers of
emphasis that the new text would make unreadable become HTML tags, and emphasis that got no word is
left out. Links to headings of the document follow these. Code, math, HTML blocks, titles of
links, definitions, and texts of images that have elements or refer to a definition stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple
from urllib.parse import unquote

from nmt.data.encodings import decode
from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.markdown_inline import Element, Reader, Writer, replace_alt
from nmt.documents.markdown_parser import ABBREVIATED, Item, MarkdownParser, describe
from nmt.text.marked import MarkedText, has_letters, splice

# A byte order mark, then lines between --- or +++; an empty line after the first is a rule's.
_FRONT = re.compile(
    r"\ufeff?(?:(---|\+\+\+)[ \t]*\n(?![ \t]*\n)(?:.*\n)*?(?:\1|\.\.\.)[ \t]*(?:\n|\Z))?"
)
_LINE_END = re.compile(r"\r\n?|\n")
# What begins a task, a footnote, the definition of a word or an abbreviation.
_MARKER = re.compile(rf"\[[ xX]\][ \t]+|\[\^[^\[\]\s]+\]:[ \t]*\n?|{ABBREVIATED}|:[ \t]+")
# Of a link to a heading of the same document.
_ANCHOR = re.compile(r"(?<=^\]\(#)[^)\s]+")
_NO_ANCHOR = re.compile(r"[^\w\- ]")  # what anchors lack of their headings
_HEADING = "# "  # begins one
_GIVEN_ANCHOR = re.compile(r"\{[^{}]*#")  # {#anchor} at a heading
_SHOWN = frozenset(("text", "code_inline", "kept"))  # items whose text anchors have
_PIPE = re.compile(r"(?<!\\)\|")


class _Passage(NamedTuple):
    """A segment: characters [begin, end) of the document."""

    begin: int
    end: int
    content: str  # without what the lines of quotes and lists begin with
    indent: str = ""  # what further lines begin with
    marker: str | None = ""  # what it can be parsed with on its own; None: it is inside of a line
    is_cell: bool = False
    is_heading: bool = False


class _FilledPassage(NamedTuple):
    """A passage, and its translation."""

    passage: _Passage
    before: list[Element]
    elements: list[Element]  # with the translated texts of images
    unchanged: MarkedText  # the translation that equals the source
    translation: MarkedText


class MarkdownDocument(Document):
    """The texts of a document, and what surrounds them.

    Args:
        data: a document.
        options: not used.

    Raises:
        UserError: it is not UTF-8 or UTF-16.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self._text, self._encoding = decode(data)
        # The parser wants \n; positions differ by the \r of \r\n.
        self._source = _LINE_END.sub("\n", self._text)
        returns = enumerate(re.finditer("\r\n", self._text))
        self._returns = [match.start() - count for count, match in returns]
        line_end = _LINE_END.search(self._text)
        self._line_end = line_end[0] if line_end else "\n"
        self._parser = MarkdownParser()
        self._passages: list[tuple[_Passage, list[Element], MarkedText]] = []
        self.segments: Sequence[MarkedText] = self._read()

    def _read(self) -> list[MarkedText]:
        """Return the text of each passage, and after it those of its images."""
        segments = []
        for passage in self._find_passages():
            reader = Reader(passage.content, self._parser.parse_inline(passage.content))
            text = reader.read()
            texts = [text] if has_letters(text.text) else []
            texts += [MarkedText(element.alt) for element in reader.elements if element.alt]
            segments += texts
            self._passages.append((passage, reader.elements, text))
        return segments

    def _find_passages(self) -> Iterator[_Passage]:
        front = _FRONT.match(self._source)
        offset = front.end() if front else 0
        row = -1
        cells: Iterator[tuple[int, int]] = iter(())
        for before, token in pairwise(self._parser.parse_blocks(self._source[offset:])):
            if token.type != "inline":
                continue
            begins = [begin + offset for begin in token.meta["begins"]]
            is_heading = before.type == "heading_open"
            if before.type in ("th_open", "td_open"):
                if begins[0] != row:
                    row = begins[0]
                    cells = self._split_row(row)
                begin, end = next(cells, (row, row))
                content = self._source[begin:end].replace("\\|", "|")
                yield _Passage(begin, end, content, "", "" if begin == row else None, True)
            elif before.type == "title_open" or before.markup.startswith("#"):
                end = self._find_line_end(begins[0])
                begin = self._source.rfind(token.content, begins[0], end)
                end = begin + len(token.content)
                marker = _HEADING if is_heading else None
                yield _Passage(begin, end, token.content, marker=marker, is_heading=is_heading)
            else:
                yield self._join(begins)._replace(is_heading=is_heading)

    def _find_line_end(self, begin: int) -> int:
        end = self._source.find("\n", begin)
        return end if end >= 0 else len(self._source)

    def _split_row(self, begin: int) -> Iterator[tuple[int, int]]:
        """Yield the characters of the cells of a row."""
        line = self._source[begin : self._find_line_end(begin)].rstrip()
        cuts = [match.start() for match in _PIPE.finditer(line)]
        spans = list(zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(line)], strict=True))
        spans = spans[line.startswith("|") : len(spans) - (cuts[-1:] == [len(line) - 1])]
        for first, last in spans:
            cell = line[first:last]
            end = begin + first + len(cell.rstrip())
            yield max(begin + first, end - len(cell.strip())), end

    def _join(self, begins: list[int]) -> _Passage:
        """Return the passage of a paragraph or an underlined heading.

        Args:
            begins: where the text of its lines begins.
        """
        lines = [self._source[begin : self._find_line_end(begin)] for begin in begins]
        content = "\n".join(lines).rstrip()
        marker = _MARKER.match(content)
        skipped = marker.end() if marker else 0
        end = begins[-1] + len(lines[-1].rstrip())
        indent = ""
        if len(begins) > 1:
            indent = self._source[self._source.rfind("\n", 0, begins[1]) + 1 : begins[1]]
        is_line = content[:skipped].endswith("\n")
        begin = begins[1] if is_line else begins[0] + skipped
        return _Passage(begin, end, content[skipped:], indent)

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the document with other texts: see `Document.fill`."""
        return splice(self._text, self._list_changes(translations)).encode(self._encoding)

    def _list_changes(self, translations: Sequence[MarkedText]) -> Iterator[tuple[int, int, str]]:
        """Yield the replacements: characters [begin, end) and the new text."""
        remaining = iter(translations)
        filled = []
        for passage, before, text in self._passages:
            unchanged = text.without_kept()
            translation = next(remaining) if has_letters(text.text) else unchanged
            elements = [
                replace_alt(element, next(remaining).text, self._parser.parse_inline)
                if element.alt
                else element
                for element in before
            ]
            filled.append(_FilledPassage(passage, before, elements, unchanged, translation))
        anchors = self._map_anchors(each for each in filled if each.passage.is_heading)
        for passage, before, elements, unchanged, translation in filled:
            elements = [_move_anchor(element, anchors) for element in elements]
            if translation != unchanged or elements != before:
                begin, end = self._find_original(passage.begin), self._find_original(passage.end)
                yield begin, end, self._write(passage, elements, translation)

    def _map_anchors(self, headings: Iterable[_FilledPassage]) -> dict[str, str]:
        """Return new anchors of headings by their old ones, as GitHub makes and numbers them."""
        anchors: dict[str, str] = {}
        old_counts, new_counts = Counter[str](), Counter[str]()
        for passage, _, elements, unchanged, translation in headings:
            if any(_GIVEN_ANCHOR.match(element.begin) for element in elements):
                continue
            old = describe(self._parser.parse_inline(passage.content), passage.content)
            new = old
            if translation != unchanged:
                _, new = Writer(elements, "source", is_escaped=False).write(translation)
            anchors.setdefault(_make_anchor(old, old_counts), _make_anchor(new, new_counts))
        return {old: new for old, new in anchors.items() if old != new}

    def _find_original(self, at: int) -> int:
        return at + bisect_left(self._returns, at)

    def _write(self, passage: _Passage, elements: list[Element], translation: MarkedText) -> str:
        """Return the first way to write a translation that reads as it should."""
        source = ""
        for style, is_escaped in product(("source", "star", "html"), (False, True)):
            source, items = Writer(elements, style, is_escaped).write(translation)
            if self._reads_as(source, items, passage.marker):
                break
        else:
            # A tag that begins a line would begin an HTML block; an empty text would end one.
            source = "&#32;" + source if source else "&nbsp;"
        if passage.is_cell:
            source = source.replace("|", "\\|")
            source += " " * source.endswith("\\")
        return source.replace("\n", self._line_end + passage.indent)

    def _reads_as(self, source: str, items: list[Item], marker: str | None) -> bool:
        if not source:
            return False
        if marker is not None:
            tokens = self._parser.parse_blocks(marker + source, is_excerpt=True)
            if len(tokens) != 3 or tokens[0].tag != ("h1" if marker else "p"):
                return False
            source = tokens[1].content
        return describe(self._parser.parse_inline(source), source) == items


def _make_anchor(heading: list[Item], counts: Counter[str]) -> str:
    """Return the anchor of a heading; repeated ones are counted, and get numbers."""
    text = "".join(value for kind, value in heading if kind in _SHOWN)
    anchor = _NO_ANCHOR.sub("", text.lower()).replace(" ", "-")
    counts[anchor] += 1
    repeated = counts[anchor] - 1
    return f"{anchor}-{repeated}" if repeated else anchor


def _move_anchor(element: Element, anchors: Mapping[str, str]) -> Element:
    """Return a link to a heading with the heading's new anchor; another element as it is."""
    end = _ANCHOR.sub(lambda match: anchors.get(unquote(match[0]), match[0]), element.end)
    return element._replace(end=end)


extract = MarkdownDocument
