"""Plain text: its paragraphs and the items of its lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.data.encodings import decode
from nmt.documents.formats import DocumentOptions
from nmt.documents.marked import MarkedText, mark_plain

# Lines up to a blank one, or one that begins with the mark of a list.
_PARAGRAPH = re.compile(
    r"[^\s\ufeff](?:.*\S)?"
    r"(?:[^\S\n]*\n(?![^\S\n]*(?:\n|[-*•·–—]\s|\d+[.)]\s))[^\S\n]*\S(?:.*\S)?)*"
)


class TextDocument:
    """Paragraphs, and the white space around them; lines of a paragraph are joined."""

    def __init__(self, data: bytes) -> None:
        self._text, self._encoding = decode(data)
        self._spans = [match.span() for match in _PARAGRAPH.finditer(self._text)]
        self.segments: Sequence[MarkedText] = [self._read(*span) for span in self._spans]

    def _read(self, begin: int, end: int) -> MarkedText:
        return mark_plain(" ".join(self._text[begin:end].split()))

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the text with other paragraphs: see `Document.fill`."""
        parts = []
        done = 0
        for (begin, end), segment, translation in zip(
            self._spans, self.segments, translations, strict=True
        ):
            is_same = translation == segment
            parts += [
                self._text[done:begin],
                self._text[begin:end] if is_same else translation.text,
            ]
            done = end
        return "".join([*parts, self._text[done:]]).encode(self._encoding)


def extract(data: bytes, options: DocumentOptions) -> TextDocument:
    """Return the paragraphs of a text.

    Raises:
        UserError: it is not UTF-8 or UTF-16.
    """
    return TextDocument(data)
