"""HTML and XHTML: text between block elements, with inline elements as marks.

The page is not rebuilt: only translated texts and attributes change, every other byte stays.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import NamedTuple

from nmt.data.encodings import decode
from nmt.documents.formats import Document, DocumentOptions
from nmt.documents.html_attributes import (
    Attribute,
    find_attributes,
    is_in_other_language,
    name_language,
)
from nmt.documents.html_points import Kind, find_content, find_points
from nmt.documents.html_tokens import (
    EMPTY,
    INLINE,
    SPACE,
    collapse,
    find_end,
    match_tags,
    read_tokens,
    unescape,
)
from nmt.text.marked import (
    MarkedText,
    MarkedTextBuilder,
    has_letters,
    has_only_symbols,
    walk,
)
from nmt.text.scripts import is_unspaced_letter

# Not translated; inside of a sentence, and between sentences.
_KEPT_TAGS = frozenset("code kbd math output samp svg var".split())
_SKIPPED = frozenset("audio canvas iframe object pre script style textarea video".split())
_CHOICE = re.compile(r"<input\b[^>]*\btype=[\"']?(?:checkbox|radio)\b", re.IGNORECASE)
_LISTED = frozenset(("a", "label"))  # beside each other, without other text, they are a list
_CHARSET = re.compile(
    rb"""<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)|<\?xml[^>]+encoding=["']([\w-]+)""",
    re.IGNORECASE,
)
# What browsers read in place of these encodings, by their names in Python (WHATWG Encoding
# Standard, section 4.2).
_SUPERSETS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gbk",
    "iso8859-9": "cp1254",
    **dict.fromkeys(("iso8859-11", "tis-620"), "cp874"),
    "shift_jis": "cp932",
}
_HEAD = 2048  # bytes in which a page names its encoding
_NUMBER = re.compile(r"[\[(]?\d+(?:[,;–-]\d+)*[\])]?")
_MAX_TOKENS = 8  # of the number of a note, tags included


_Item = tuple[int, int]  # tokens [begin, end): one, or all of a kept element


class _Element(NamedTuple):
    """Tokens [begin, end) of a mark, with [content, content_end) as its text.

    Elements without content at an end of another one belong to its tags: `<a><img> text</a>`.
    """

    begin: int
    content: int
    content_end: int
    end: int
    is_spaced: bool = False  # without content: white space is on both sides


@dataclass
class _Inline:
    """A segment of inline content: tokens [begin, end)."""

    begin: int
    end: int
    text: MarkedText
    elements: list[_Element]


class HtmlDocument(Document):
    """The texts of a page, and what surrounds them.

    Args:
        data: a page.
        options: its language and encoding, and the language to write into it.

    Raises:
        UserError: it is not in the encoding that it names, or UTF-8 if it names none.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        page, self._encoding = decode(data, options.encoding or _find_encoding(data))
        self._tokens = read_tokens(page)
        begins = [token.begin for token in self._tokens] + [len(page)]
        self._head = page[: begins[0]]
        self._raw = [page[begin:end] for begin, end in pairwise(begins)]
        self._closing = match_tags(self._tokens)
        texts = map(self._read_text, range(len(self._tokens)))
        # The number of texts with letters before each token.
        self._lettered = [0, *accumulate(map(has_letters, texts))]
        self._options = options
        self._targets = sorted(self._find_segments(), key=_first_token)
        self.segments: Sequence[MarkedText] = [target.text for target in self._targets]

    def _find_segments(self) -> Iterator[_Inline | Attribute]:
        run: list[_Item] = []
        i = 0
        while i < len(self._tokens):
            token = self._tokens[i]
            end = i + 1
            is_inline = token.kind not in ("end", "statement") or token.name in INLINE
            if token.kind == "start":
                is_symbol = self._is_symbol(i)
                is_foreign = token.is_kept or is_in_other_language(self._raw[i], self._options)
                is_kept = is_foreign or token.name in _KEPT_TAGS | _SKIPPED or self._is_note(i)
                if is_kept or is_symbol:
                    end = find_end(self._tokens, self._closing, i) + 1
                else:  # attributes are found after it
                    self._raw[i] = name_language(self._raw[i], self._options)
                if token.name not in ("script", "style") and not is_foreign:
                    yield from find_attributes(i, self._raw[i])
                is_inline = token.name in INLINE | EMPTY | _KEPT_TAGS or token.name == "br"
                is_inline = is_inline and not _CHOICE.match(self._raw[i])
            if is_inline:
                run.append((i, end))
            else:
                yield from self._cut(run)
                run = []
            i = end
        yield from self._cut(run)

    def _is_note(self, index: int) -> bool:
        """Whether a start tag begins a number at the end of a word, such as one of a note.

        That is a superscript without letters, or a number that touches the word before it and none
        after it, but no subscript: CO<sub>2</sub> is one word.
        """
        name, end = self._tokens[index].name, self._closing.get(index)
        if name not in INLINE - {"sub"} or end is None:
            return False
        if name == "sup":
            return self._lettered[index] == self._lettered[end]
        if end - index > _MAX_TOKENS:
            return False
        content = "".join(map(self._read_text, range(index, end)))
        before, after = self._read_text(index - 1)[-1:], self._read_text(end + 1)[:1]
        touches_word = before.isalpha() and not is_unspaced_letter(before) and not after.isalnum()
        return touches_word and _NUMBER.fullmatch(content) is not None

    def _read_text(self, index: int) -> str:
        """Return the text of a token; of others than texts it is empty."""
        is_text = 0 <= index < len(self._tokens) and self._tokens[index].kind == "text"
        return unescape(self._raw[index]) if is_text else ""

    def _is_symbol(self, index: int) -> bool:
        """Whether a start tag begins an element that is a character of a font of symbols."""
        end = self._closing.get(index, index)
        return index < end <= index + 4 and has_only_symbols(
            "".join(map(self._read_text, range(index, end)))
        )

    def _cut(self, run: list[_Item]) -> Iterator[_Inline]:
        """Yield the segments of a run: an unmatched tag ends a segment."""
        matches: dict[int, int] = {}  # of items, both ways
        opened: list[tuple[int, str]] = []  # start tags, the innermost one last
        for number, (i, end) in enumerate(run):
            token = self._tokens[i]
            if token.name not in INLINE or end > i + 1:
                continue
            if token.kind == "start":
                opened.append((number, token.name))
            elif token.kind == "end" and opened and opened[-1][1] == token.name:
                start, _ = opened.pop()
                matches[start], matches[number] = number, start
        ends = set(self._find_list(run, matches))
        begin = number = 0
        while number < len(run):
            i, end = run[number]
            is_tag = self._tokens[i].name in INLINE and end == i + 1
            if number in ends:
                yield from self._build(run, matches, begin, number)
                begin = number
            if number in matches:
                number = matches[number]
            elif is_tag:
                yield from self._build(run, matches, begin, number)
                begin = number + 1
            number += 1
        yield from self._build(run, matches, begin, number)

    def _find_list(self, run: list[_Item], matches: dict[int, int]) -> Iterator[int]:
        """Yield the elements that begin a segment of their own, by the number of their first item.

        They touch the element before them, letter to letter; or the run is a list of links.
        """
        outer: list[tuple[int, int]] = []  # items [first, last] of the outermost elements
        number = 0
        has_text = False  # outside of them
        while number < len(run):
            last = matches.get(number, number)
            if last > number:
                outer.append((number, last))
            elif self._tokens[run[number][0]].kind == "text":
                has_text |= has_letters(self._read(run, number, number))
            number = last + 1
        names = {self._tokens[run[first][0]].name for first, _ in outer}
        is_list = not has_text and names <= _LISTED
        for (first, last), (following, end) in pairwise(outer):
            touches = last + 1 == following and (
                self._read(run, first, last)[-1:].isalnum()
                and self._read(run, following, end)[:1].isalnum()
            )
            if is_list or touches:
                yield following

    def _read(self, run: list[_Item], first: int, last: int) -> str:
        """Return the text of items [first, last]."""
        items = (i for i, end in run[first : last + 1] if end == i + 1)
        return unescape("".join(self._raw[i] for i in items if self._tokens[i].kind == "text"))

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
        kinds = {number: self._find_kind(run[number]) for number in range(first, last)}
        points = find_points(kinds, matches)
        closings: dict[int, int] = {}  # end tags, by the first item after the content before them
        number = first
        while number < last:
            i, end = run[number]
            if number in closings:
                builder.close()
                number = closings[number]
            elif number in points:
                number = points[number]
                end = run[number][1]
                builder.add_empty()
                after = "".join(self._raw[end : end + 1])
                is_spaced = builder.ends_with_space and after[:1].isspace()
                elements.append(_Element(i, end, end, end, is_spaced))
            elif self._tokens[i].kind == "text":
                builder.add_text(collapse(self._raw[i]))
            elif number in matches:
                builder.open()
                begin, end = find_content(kinds, points, number, matches[number])
                closings[end] = matches[number]
                elements.append(_Element(i, run[begin][0], run[end][0], run[matches[number]][1]))
                number = begin - 1
            else:
                builder.add_kept(breaks_line=self._tokens[i].name == "br")
                elements.append(_Element(i, end, end, end))
            number += 1
        if has_letters(builder.text):
            tokens = run[first][0], run[last - 1][1]
            yield _Inline(*tokens, builder.build(), elements)

    def _find_kind(self, item: _Item) -> Kind:
        """Return the kind of an item; line breaks, and elements that are kept, count as text."""
        i, end = item
        token = self._tokens[i]
        if token.kind == "text" and end == i + 1:
            return "text" if self._raw[i].strip(SPACE) else "space"
        if token.name == "br" or token.kind == "value":
            return "text"
        is_kept = end > i + 1 and token.name != "sup"
        return "text" if is_kept and not self._is_note(i) and not self._is_symbol(i) else "point"

    def _is_around_text(self, item: _Item) -> bool:
        """Whether an item at an end of a segment can be left out of it."""
        token = self._tokens[item[0]]
        is_skipped = token.kind == "other" or token.name in EMPTY or token.name == "br"
        return is_skipped or self._find_kind(item) == "space"

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
            if isinstance(target, Attribute):
                raw[target.token] = target.write(translation, raw[target.token])
        for target, translation in changed:
            if isinstance(target, _Inline):
                content = self._write(target, translation, raw)
                raw[target.begin : target.end] = [content, *[""] * (target.end - target.begin - 1)]
        page = self._head + "".join(raw)
        return page.encode(self._encoding, "xmlcharrefreplace")

    def _write(self, target: _Inline, translation: MarkedText, raw: list[str]) -> str:
        parts: list[str] = []
        needs_space = False  # before the next text
        for event in walk(translation):
            if event.begins is not None:
                element = target.elements[event.begins]
                if element.content < element.content_end:
                    parts.append("".join(raw[element.begin : element.content]))
                    continue
                if element.is_spaced and parts and not parts[-1][-1:].isspace():
                    parts.append(" ")
                parts += raw[element.begin : element.end]
                needs_space = element.is_spaced
            elif event.ends is not None:
                element = target.elements[event.ends]
                parts.append("".join(raw[element.content_end : element.end]))
            else:
                parts += [" "] * (needs_space and not event.text[:1].isspace())
                needs_space = False
                parts.append(escape(event.text, quote=False))
        return "".join(parts)


def _first_token(target: _Inline | Attribute) -> int:
    return target.begin if isinstance(target, _Inline) else target.token


def _find_encoding(data: bytes) -> str:
    """Return the encoding that a page names, or a superset that gives its bytes back."""
    match = _CHARSET.search(data[:_HEAD])
    name = (match[1] or match[2]).decode("ascii").lower() if match else "utf-8"
    if name.startswith(("utf-16", "utf-32")):  # which could not have been read so far
        return "utf-8"
    if match is None or match[2]:  # XML means what it says
        return name
    try:
        name = codecs.lookup(name.removeprefix("x-")).name
        superset = _SUPERSETS[name]
        is_superset = data.decode(superset).encode(superset) == data
    except (LookupError, UnicodeError):
        return name
    return superset if is_superset else name


extract = HtmlDocument
