"""Plain text: its paragraphs, the items of its lists, and the lines that an e-mail quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from nmt.data.encodings import decode
from nmt.documents.formats import Document, DocumentOptions
from nmt.text.columns import GAP, find_gaps
from nmt.text.labels import TIME_STAMP, begins_with_label
from nmt.text.marked import MarkedText, splice
from nmt.text.scripts import WIDE, join_lines
from nmt.text.spans import Span, find_spans

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|$)")
_LINE_END = re.compile(r"\r\n?|\n")
# White space, and the signs of a quotation in an e-mail.
_INDENT = re.compile(r"\ufeff?\s*(?:>[>\s]*)?")
# A line of nothing but such signs separates; "-- " is the one before a signature.
_SIGNS = "[-–—=_~*#+.]{2,}"
_RULE = re.compile(rf"{_SIGNS}(?:\s+{_SIGNS})*|\|[-:| ]+\|")
# A line between such signs is a title, as that of a forwarded e-mail.
_TITLE = re.compile(r"[-–—=_~*#+]{3,}\s*[^\W_].*[-–—=_~*#+]{3}")
# What begins an item of a list, or a line of a dialogue or a chat; not a time in brackets, which
# may be inside of a sentence.
_MARK = re.compile(
    r"[-*•·–—▪▫■□●○◦►▶▸‣⁃]\s|[–—]\w|(?:\d{1,3}|[IVX]+|[ivx]+)[.)]\s|[A-Za-z]\)\s|\d{1,3}\.-"
    rf"|(?!\(){TIME_STAMP}"
)
# The same, if another line begins with the letter before or after it; not p. ej., a. m., v. Ley.
_LETTER = re.compile(r"([a-z])\.\s(?!\d|[^\W\d_]{1,2}\.)")
_WIDE_SIGN = re.compile(f"[{WIDE}]")  # each takes two columns
# Two count as a word: no line begins with a mark, or with some of the letters.
_FIRST_WORD = re.compile(rf"[^\w\s]*(?:[{WIDE}]{{1,2}}[^\w\s]*|[^\s{WIDE}]*)")
_CLAUSE_END = re.compile(r"[.,;:!?…-][\"'”’»)\]]*$|[)\]”»]$")
_SPACES = re.compile(r"\s+")
# Between columns; they mean nothing in lines that wrap.
_WIDE_SPACES = re.compile(rf"[ \u00a0]{{{GAP},}}")
_SMALLEST_GAP = 2  # spaces between columns, in a line that has some
_SPACES_BETWEEN = re.compile(rf"[ \u00a0]{{{_SMALLEST_GAP},}}")
_NARROWEST = 40  # columns: text is wrapped at this width or a larger one


class TextDocument(Document):
    """Paragraphs, and the white space around them; lines of a paragraph are joined.

    Args:
        data: a text.
        options: not used.

    Raises:
        UserError: it is not UTF-8 or UTF-16.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self._text, self._encoding = decode(data)
        self._spans = list(_find_paragraphs(self._text))
        self.segments: Sequence[MarkedText] = [self._read(*span) for span in self._spans]

    def _read(self, begin: int, end: int) -> MarkedText:
        first, *others = _LINE_END.split(self._text[begin:end])
        lines = [first, *(line[_measure_indent(line) :] for line in others)]
        joined = join_lines(line.strip() for line in lines)
        gaps = set[Span]() if others else _find_kept_gaps(joined)
        return MarkedText(
            _SPACES.sub(
                lambda match: match[0] if match.span() in gaps else _shorten(match[0]), joined
            )
        )

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the text with other paragraphs: see `Document.fill`."""
        texts = zip(self._spans, self.segments, translations, strict=True)
        changes = (
            (*span, _pad_columns(segment.text, translation.text))
            for span, segment, translation in texts
            if translation != segment
        )
        return splice(self._text, changes).encode(self._encoding)


def _shorten(space: str) -> str:
    """Return the tabs of white space, which separate columns, or one space."""
    return "\t" * space.count("\t") or " "


def _find_kept_gaps(line: str) -> set[Span]:
    """Return the characters [begin, end) of spaces that may separate columns of a line."""
    pattern = _SPACES_BETWEEN if _is_bordered(line) else _WIDE_SPACES
    return {*find_gaps(line), *(match.span() for match in pattern.finditer(line))}


def _is_bordered(line: str) -> bool:
    """Whether a line is a row of a table with borders: | a | b |."""
    return len(line) > 1 and line[0] == line[-1] == "|"


def _pad_columns(source: str, translation: str) -> str:
    """Return a translation whose columns begin where those of the source do, if there is room."""
    old, new = _SPACES_BETWEEN.split(source), _SPACES_BETWEEN.split(translation)
    if len(old) != len(new):
        return translation
    gaps = _SPACES_BETWEEN.findall(source)
    end, row = 0, ""
    for old_cell, gap, new_cell in zip(old, gaps, new, strict=False):
        end += len(old_cell) + len(gap)
        row += new_cell
        row = row.ljust(max(end, len(row) + _SMALLEST_GAP))
    return row + new[-1]


def _find_paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the characters [begin, end) of paragraphs, without white space around them."""
    for line_begin, begin, end in _find_blocks(text):
        lines = [match.span() for match in _LINE.finditer(text, line_begin, end) if match[0]]
        contents = [text[first:last].rstrip() for first, last in lines]
        start = begin
        for is_end, following, (first, _) in zip(
            _find_ends(contents), contents[1:], lines[1:], strict=True
        ):
            if is_end:
                yield start, start + len(text[start:first].rstrip())
                start = first + _measure_indent(following)
        yield start, end


def _find_ends(lines: Sequence[str]) -> Iterator[bool]:
    """Yield, for each line of a block but the last, whether a paragraph ends with it.

    A line that ends although the next word had room ends a paragraph, too, if a new one may begin
    there: the lines of an address or of a recipe. A small letter begins one in a list, and after a
    heading in capitals or a line of at most half the width. Each row of a table is a paragraph, and
    so is each line with a label if at least half of the lines have one, as in the head of an
    e-mail.
    """
    longest = max(map(_measure_width, filter(_can_wrap, lines)), default=0)
    width = max(_NARROWEST, longest)
    # No text is wrapped as narrowly, and a sentence has marks.
    is_list = len(lines) > 2 and longest < _NARROWEST and not any(map(_CLAUSE_END.search, lines))
    unindented = [line[_measure_indent(line) :] for line in lines]
    are_rows = [_is_bordered(line) or bool(find_gaps(line)) for line in unindented]
    # Justified text has gaps, too, but its lines may begin with small letters.
    is_table = sum(are_rows) > 1 and not any(line[0].islower() for line in unindented[1:])
    have_labels = [begins_with_label(line) for line in unindented]
    is_form = sum(have_labels) > 1 and 2 * sum(have_labels) >= len(lines)
    begins = True  # whether the line begins a paragraph
    for line, following, rows, has_label in zip(
        lines, unindented[1:], pairwise(are_rows), have_labels[1:], strict=False
    ):
        word = _FIRST_WORD.match(following)
        longer = join_lines((line, word[0])) if word else line
        has_room = _measure_width(longer) <= width
        # Inside of a paragraph, it is what an e-mail program left of a line that it wrapped again.
        is_short = begins and longest >= _NARROWEST and 2 * _measure_width(line) <= longest
        may_begin = not following[0].islower() or is_list or is_short or _is_heading(line)
        is_end = has_room and (may_begin or _is_kept(following))
        begins = is_end or (is_table and any(rows)) or (is_form and has_label)
        yield begins


def _find_blocks(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield lines between blank ones, rules, titles and marks of lists.

    Of each block: where its first line begins, and the characters [begin, end) of its text.
    """
    line_begin = begin = end = depth = 0
    is_title = False
    lines = (match[0] for match in _LINE.finditer(text))
    letters = {match[1] for line in lines if (match := _match_letter(line))}
    for match in _LINE.finditer(text):
        indent = _measure_indent(match[0])
        content = match[0][indent:].rstrip()
        is_text = bool(content) and not _RULE.fullmatch(content)
        quotes = match[0].count(">", 0, indent)
        follows_title, is_title = is_title, _TITLE.fullmatch(content) is not None
        is_item = _MARK.match(content) is not None or (
            (letter := _match_letter(match[0])) is not None
            and not letters.isdisjoint(chr(ord(letter[1]) + step) for step in (-1, 1))
        )
        begins = is_title or follows_title or is_item
        continues = is_text and quotes == depth and not begins
        if begin < end and not continues:
            yield line_begin, begin, end
            begin = end
        if is_text:
            if begin == end:
                line_begin, begin = match.start(), match.start() + indent
            end = match.start() + indent + len(content)
            depth = quotes
    if begin < end:
        yield line_begin, begin, end


def _match_letter(line: str) -> re.Match[str] | None:
    return _LETTER.match(line, _measure_indent(line))


def _measure_indent(line: str) -> int:
    match = _INDENT.match(line)
    return match.end() if match else 0


def _is_heading(line: str) -> bool:
    """Whether all letters of a line are capitals."""
    return line.isupper() and all(map(str.isupper, filter(str.isalpha, line)))


def _is_kept(line: str) -> bool:
    """Whether a line is one kept span, such as an e-mail address."""
    return next(find_spans(line), None) == (0, len(line))


def _can_wrap(line: str) -> bool:
    """Whether a line is not one long word, such as an address."""
    return " " in line[_measure_indent(line) :] or _WIDE_SIGN.search(line) is not None


def _measure_width(line: str) -> int:
    """Return the columns that a line takes; in Chinese and Japanese, marks are wide, too."""
    wide = sum(not sign.isascii() for sign in line) if _WIDE_SIGN.search(line) else 0
    return len(line) + wide


extract = TextDocument
