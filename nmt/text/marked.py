"""Text with marks: what a format hands to translation, and what it gets back."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Mark(NamedTuple):
    """An element inside of a text, such as a link or a line break."""

    begin: int  # characters [begin, end) of the text; equal: the element is empty
    end: int
    parent: int | None = None  # index of the mark that it is directly inside of
    # Its content is not translated: in a source one character stands for it, in a translation none.
    is_kept: bool = False


@dataclass(frozen=True)
class MarkedText:
    """A text and the elements inside of it.

    Marks are in the order of the source document, also those of a translation: translated marks
    are recognised by their index. Each is inside of its parent, and siblings do not overlap.
    """

    text: str
    marks: tuple[Mark, ...] = ()

    def without_kept(self) -> MarkedText:
        """Return a text without the characters that stand for kept elements.

        It equals the translation that leaves the text unchanged.
        """
        cuts = sorted(mark.begin for mark in self.marks if mark.is_kept and mark.begin < mark.end)
        return delete_characters(self, cuts)


class Event(NamedTuple):
    """A piece of a marked text: some text, or where a mark begins or ends."""

    text: str = ""
    begins: int | None = None  # index of a mark
    ends: int | None = None


def walk(marked: MarkedText) -> Iterator[Event]:
    """Yield the pieces of a marked text in order; marks are always well nested."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for index, mark in enumerate(marked.marks):
        children[mark.parent].append(index)
    for indices in children.values():
        indices.sort(key=lambda index: (*marked.marks[index][:2], index))
    at = 0
    opened: list[tuple[int | None, Iterator[int]]] = [(None, iter(children[None]))]
    while opened:
        mark_index, inside = opened[-1]
        child = next(inside, None)
        if child is not None:
            begin = marked.marks[child].begin
            if begin > at:
                yield Event(marked.text[at:begin])
                at = begin
            yield Event(begins=child)
            opened.append((child, iter(children[child])))
            continue
        opened.pop()
        end = len(marked.text) if mark_index is None else marked.marks[mark_index].end
        if end > at:
            yield Event(marked.text[at:end])
            at = end
        if mark_index is not None:
            yield Event(ends=mark_index)


def delete_characters(marked: MarkedText, indices: list[int]) -> MarkedText:
    """Return a marked text without some of its characters, given by their sorted indices."""
    if not indices:
        return marked
    parts, moved = [], []
    done = 0
    for count, index in enumerate(indices):
        parts.append(marked.text[done:index])
        moved += [at - count for at in range(done, index + 1)]
        done = index + 1
    parts.append(marked.text[done:])
    moved += [at - len(indices) for at in range(done, len(marked.text) + 1)]
    marks = (mark._replace(begin=moved[mark.begin], end=moved[mark.end]) for mark in marked.marks)
    return MarkedText("".join(parts), tuple(marks))


_CHOICE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_PLACEHOLDERS = range(0xF000, 0xF8F0)  # private characters, which are kept spans: `nmt.text.spans`


@dataclass
class MarkedTextBuilder:
    """Collects the text and the elements of a segment in the order of the document."""

    _parts: list[str] = field(default_factory=list)
    _length: int = 0
    _marks: list[Mark] = field(default_factory=list)
    _opened: list[int] = field(default_factory=list)
    _kept: int = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    @property
    def ends_with_space(self) -> bool:
        """Whether the last part of the text ends with white space."""
        return bool(self._parts) and self._parts[-1][-1:].isspace()

    @property
    def parent(self) -> int | None:
        """The innermost open mark."""
        return self._opened[-1] if self._opened else None

    def add_text(self, text: str) -> None:
        """Add text; private characters, which mean kept elements, become spaces."""
        self.add_unchanged("".join(" " if ord(sign) in _PLACEHOLDERS else sign for sign in text))

    def add_unchanged(self, text: str) -> None:
        """Add text as it is."""
        self._parts.append(text)
        self._length += len(text)

    def open(self) -> int:
        """Begin an element whose content is translated; return the index of its mark."""
        self._marks.append(Mark(self._length, self._length, self.parent))
        self._opened.append(len(self._marks) - 1)
        return self._opened[-1]

    def close(self) -> int:
        """End the innermost open element; return the index of its mark."""
        index = self._opened.pop()
        self._marks[index] = self._marks[index]._replace(end=self._length)
        return index

    def add_empty(self) -> int:
        """Add an element without content; return the index of its mark."""
        self.open()
        return self.close()

    def add_kept(self, *, breaks_line: bool = False) -> int:
        """Add an element whose content stays as it is; return the index of its mark.

        The model sees a character that it was trained to copy, so the element comes where its
        meaning belongs: `<code>ls</code>` like a noun.

        Args:
            breaks_line: the element ends a sentence; a line break stands for it.
        """
        begin = self._length
        sign = "\n" if breaks_line else chr(_PLACEHOLDERS[self._kept % len(_PLACEHOLDERS)])
        self._kept += not breaks_line
        self._parts.append(sign)
        self._length += 1
        self._marks.append(Mark(begin, self._length, self.parent, is_kept=True))
        return len(self._marks) - 1

    def build(self) -> MarkedText:
        """Return the marked text; open elements end here."""
        while self._opened:
            self.close()
        return MarkedText(self.text, tuple(self._marks))


def has_letters(text: str) -> bool:
    """Whether a text has anything to translate."""
    return any(map(str.isalpha, text))


def is_message_format(text: str) -> bool:
    """Whether a text chooses between texts, by plural or gender, in ICU's message format."""
    return _CHOICE.search(text) is not None


def has_only_symbols(text: str) -> bool:
    """Whether a text is nothing but private characters, which a font of symbols draws."""
    symbols = text.strip()
    return bool(symbols) and all(ord(sign) in _PLACEHOLDERS for sign in symbols)


def splice(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with other characters in place of some: ``(begin, end, new)`` in order."""
    parts: list[str] = []
    done = 0
    for begin, end, new in changes:
        parts += [text[done:begin], new]
        done = end
    return "".join([*parts, text[done:]])
