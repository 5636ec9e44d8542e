"""Elements inside of a text of an XML document: to marks, and back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from lxml import etree

from nmt.documents.xml import Edits, Element, XmlText, escape
from nmt.text.marked import MarkedText, MarkedTextBuilder, walk
from nmt.text.spans import Span

_SPACE = re.compile(r"[ \t\r\n]+")
_NOWHERE = (0, 0)


class Role(Enum):
    """What an element is inside of a text."""

    TEXT = auto()
    OPEN = auto()  # its content is translated
    CLOSE = auto()  # the end of such an element
    EMPTY = auto()
    KEPT = auto()  # its content stays, and belongs into the sentence like a noun
    BREAK = auto()  # ends a line
    SPACE = auto()  # one space, or more of them after a space
    START = auto()  # begins a range, which ends at the END of the same key
    KEPT_START = auto()  # begins a range that is not translated
    END = auto()
    DROPPED = auto()  # has no meaning in another text


class Inline(NamedTuple):
    """The role of an element; a key says which START and END belong together."""

    role: Role
    key: str = ""


class Tag(NamedTuple):
    """Where the text of a document has what a mark stands for."""

    opening: Span
    closing: Span = _NOWHERE


@dataclass
class Segment:
    """A text with marks, and the tags of each mark.

    Attributes:
        marked: the text.
        tags: of each mark.
        followed: mark -> the mark that must come before it, if any.
    """

    marked: MarkedText
    tags: list[Tag]
    followed: dict[int, int]

    def write(self, translation: MarkedText, edits: Edits) -> str:
        """Return a translation as the content of an element."""
        tags = [(edits.read(*tag.opening), edits.read(*tag.closing)) for tag in self.tags]
        return write_marks(translation, tags, self.followed, lambda text, _: escape(text))


def write_marks(
    translation: MarkedText,
    tags: Sequence[tuple[str, str]],
    followed: Mapping[int, int],
    write_text: Callable[[str, int | None], str],
) -> str:
    """Return a translation with its marks as tags.

    Args:
        translation: a text with marks.
        tags: what each mark begins and ends with.
        followed: mark -> the mark that must come before it, if any.
        write_text: given a text and the innermost mark that it is in, returns it as XML.
    """
    parts: list[str] = []
    opened: list[int | None] = [None]
    written: set[int] = set()
    waiting: dict[int, list[int]] = {}
    for event in walk(translation):
        if event.begins is not None:
            opened.append(event.begins)
            before = followed.get(event.begins)
            if before is not None and before not in written:
                waiting.setdefault(before, []).append(event.begins)
                continue
            written.add(event.begins)
            parts.append(tags[event.begins][0])
            parts += [tags[after][0] for after in waiting.pop(event.begins, ())]
        elif event.ends is not None:
            opened.pop()
            parts.append(tags[event.ends][1])
        else:
            parts.append(write_text(event.text, opened[-1]))
    return "".join(parts)


def match_pairs(inlines: Iterable[Inline]) -> dict[int, int]:
    """Return the index of the END of each START, and the other way round.

    Pairs are properly nested in each other and in elements; the others are left out.
    """
    partners: dict[int, int] = {}
    # Of each open element: its open beginnings, and how many there are of each key.
    scopes: list[tuple[list[tuple[str, int]], Counter[str]]] = [([], Counter())]
    for index, (role, key) in enumerate(inlines):
        opened, counts = scopes[-1]
        if role is Role.OPEN:
            scopes.append(([], Counter()))
        elif role is Role.CLOSE:
            scopes.pop()
        elif role in (Role.START, Role.KEPT_START):
            opened.append((key, index))
            counts[key] += 1
        elif role is Role.END and counts[key]:
            other = None
            while other != key:
                other, begin = opened.pop()
                counts[other] -= 1
            partners[begin] = index
            partners[index] = begin
    return partners


def read_segment(
    document: XmlText,
    container: Element,
    classify: Callable[[Element], Inline],
    *,
    keeps_space: bool,
) -> Segment:
    """Return the content of an element as a text with marks.

    Args:
        document: the document.
        container: the element.
        classify: returns the role of an element; CLOSE and TEXT are none of them.
        keeps_space: white space is text as it is; otherwise any of it is one space.
    """
    return _Reader(document, container, classify, keeps_space).read()


class _Reader:
    """Reads the content of an element.

    Args:
        document: the document.
        container: the element.
        classify: returns the role of an element.
        keeps_space: white space is text as it is.
    """

    def __init__(
        self,
        document: XmlText,
        container: Element,
        classify: Callable[[Element], Inline],
        keeps_space: bool,
    ) -> None:
        self._spans = document.spans
        self._container = container
        self._classify = classify
        self._keeps_space = keeps_space
        self._builder = MarkedTextBuilder()
        self._tags: list[Tag] = []
        self._followed: dict[int, int] = {}
        self._inlines: dict[Element, Inline] = {}
        self._partners: dict[Element, Element] = {}
        self._unpaired: dict[str, int] = {}  # marks of beginnings without an end, by key
        self._is_at_start = True
        self._ends_in_space = False
        self._skipped_to: Element | None = None  # the END of a kept range

    def read(self) -> Segment:
        """Return the text and its marks."""
        walker = etree.iterwalk(self._container, events=("start", "end", "comment", "pi"))
        for event, node in walker:
            if self._skipped_to is not None:
                if event == "start":
                    walker.skip_subtree()
                elif node is self._skipped_to:
                    self._skipped_to = None
                    self._add_text(node.tail)
            elif event == "start":
                if not self._begin(node):
                    walker.skip_subtree()
            elif node is not self._container:
                if event == "end" and self._inlines[node].role is Role.OPEN:
                    self._builder.close()
                self._add_text(node.tail)
        return Segment(self._builder.build(), self._tags, self._followed)

    def _begin(self, node: Element) -> bool:
        """Add what an element begins with; return whether its content is text."""
        if node is not self._container:
            role, key = self._inlines[node]
            if role is not Role.OPEN:
                self._add_point(node, role, key)
                return False
            begin, content, content_end, end = self._spans[node]
            self._add_tag(self._builder.open(), Tag((begin, content), (content_end, end)))
        children = list(node.iterchildren("*"))
        inlines = [self._classify(child) for child in children]
        self._inlines.update(zip(children, inlines, strict=True))
        # The insides of elements are matched when they begin.
        siblings = (Inline(Role.EMPTY) if each.role is Role.OPEN else each for each in inlines)
        for index, partner in match_pairs(siblings).items():
            self._partners[children[index]] = children[partner]
        self._add_text(node.text)
        return True

    def _add_point(self, node: Element, role: Role, key: str) -> None:
        """Add an element whose content is not translated."""
        begin, _, _, end = self._spans[node]
        partner = self._partners.get(node)
        if role is Role.SPACE and not (self._ends_in_space or self._is_at_start):
            self._add_text(" ")
        elif role is Role.KEPT_START and partner is not None:
            self._add_tag(self._builder.add_kept(), Tag((begin, self._spans[partner].end)))
            self._is_at_start = self._ends_in_space = False
            self._skipped_to = partner
        elif role is Role.START and partner is not None:
            closing = self._spans[partner]
            self._add_tag(self._builder.open(), Tag((begin, end), (closing.begin, closing.end)))
        elif role is Role.END and partner is not None:
            self._builder.close()
        elif role in (Role.KEPT, Role.BREAK):
            index = self._builder.add_kept(breaks_line=role is Role.BREAK)
            self._add_tag(index, Tag((begin, end)))
            self._is_at_start = False
            self._ends_in_space = role is Role.BREAK
        elif role is not Role.DROPPED:
            index = self._builder.add_empty()
            self._add_tag(index, Tag((begin, end)))
            if role in (Role.START, Role.KEPT_START):
                self._unpaired[key] = index
            elif role is Role.END and key in self._unpaired:
                self._followed[index] = self._unpaired[key]

    def _add_tag(self, index: int, tag: Tag) -> None:
        assert index == len(self._tags)
        self._tags.append(tag)

    def _add_text(self, text: str | None) -> None:
        if not text:
            return
        if not self._keeps_space:
            text = _SPACE.sub(" ", text)
            if self._ends_in_space:
                text = text.removeprefix(" ")
        if text:
            self._builder.add_text(text)
            self._is_at_start = False
            self._ends_in_space = text[-1] == " "
