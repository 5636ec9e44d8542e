"""Tables of values between commas, semicolons or tabs (.csv, .tsv): cells of chosen columns.

The table is not rebuilt: only the characters of translated cells change, and quotes come around
those that need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

from nmt.data.columns import list_names
from nmt.data.encodings import decode
from nmt.documents.formats import Document, DocumentOptions
from nmt.errors import UserError
from nmt.text.marked import (
    MarkedText,
    has_letters,
    is_message_format,
    splice,
)

_DELIMITERS = ",;\t"
# A cell with any of them needs quotes. Few readers of tabs guess another delimiter, or know quotes.
_SPECIAL = frozenset(f'"\r\n{_DELIMITERS}')
_SPECIAL_BETWEEN_TABS = frozenset('"\r\n\t')
_SAMPLE = 100  # rows that tell the delimiter
_MAX_DIGITS = 6  # of the number of a column
# Before the rows: a byte order mark, and the line by which Excel names the delimiter.
_START = re.compile(rf"\ufeff?(?:sep=([{_DELIMITERS}])\r?\n)?")


class _Cell(NamedTuple):
    """A cell: characters [begin, end) of the table, without the quotes around them."""

    begin: int
    end: int
    value: str
    is_quoted: bool


class TableDocument(Document):
    """The texts in the columns of a table.

    Args:
        data: a table.
        options: its columns; if one is a name, the first row is a header and stays.

    Raises:
        UserError: no columns are chosen, the table lacks them or is damaged, or it is not UTF-8 or
            UTF-16.
    """

    def __init__(self, data: bytes, options: DocumentOptions) -> None:
        self._text, self._encoding = decode(data)
        columns = [column.strip() for column in options.columns]
        self._delimiter = _find_delimiter(self._text, columns)
        rows = _read_rows(self._text, self._delimiter)
        first = next(rows, [])
        indices, has_header = _find_columns([cell.value for cell in first], columns)
        body = rows if has_header else chain([first], rows)
        chosen = (row[index] for row in body for index in indices if index < len(row))
        texts = [cell for cell in chosen if has_letters(cell.value) and cell.value[0] != "="]
        self._cells = [cell for cell in texts if not is_message_format(cell.value)]
        self.skipped = len(texts) - len(self._cells)
        self.segments: Sequence[MarkedText] = [MarkedText(cell.value) for cell in self._cells]

    def fill(self, translations: Sequence[MarkedText]) -> bytes:
        """Return the table with other texts: see `Document.fill`."""
        texts = zip(self._cells, self.segments, translations, strict=True)
        changes = (
            (cell.begin, cell.end, self._write(cell, translation.text))
            for cell, segment, translation in texts
            if translation != segment
        )
        return splice(self._text, changes).encode(self._encoding)

    def _write(self, cell: _Cell, value: str) -> str:
        escaped = value.replace('"', '""')
        if cell.is_quoted:
            return escaped
        special = _SPECIAL_BETWEEN_TABS if self._delimiter == "\t" else _SPECIAL
        if self._text[cell.begin : cell.end] == cell.value:
            special = special.difference(cell.value)  # which needs no quotes here
        is_quote_safe = cell.value[0] == '"' or value.lstrip()[:1] != '"'
        # A blank row would be skipped by readers.
        is_safe = value.strip() and is_quote_safe and special.isdisjoint(value)
        return value if is_safe else f'"{escaped}"'


@cache
def _cell_pattern(delimiter: str) -> re.Pattern[str]:
    """Return the expression of a cell; it fails where a quote is not closed.

    The same where text follows quotes around a line break: they may begin cells of two rows.
    Between tabs, it never fails: many files have stray quotes there, and no cell has a tab.
    """
    tab = delimiter if delimiter == "\t" else ""
    quoted = rf'[^"{tab}]*+(?:""[^"{tab}]*+)*+'
    in_line = rf'[^"\r\n{tab}]*+(?:""[^"\r\n{tab}]*+)*+'
    other = rf"[^{delimiter}\r\n]*"
    plain = other if tab else rf'(?!"){other}'
    return re.compile(
        rf' *"(?P<inner>{quoted})" *(?=[{delimiter}\r\n]|\Z)'
        rf'|"(?P<begin>{in_line})"(?P<rest>{other})'  # text after the quotes
        rf"|(?P<plain>{plain})"
    )


def _read_start(text: str) -> tuple[int, str | None]:
    """Return where the rows begin, and the delimiter that is named before them."""
    start = _START.match(text)
    return (start.end(), start[1]) if start else (0, None)


def _read_rows(text: str, delimiter: str) -> Iterator[list[_Cell]]:
    """Yield the cells of each row that is not blank.

    Raises:
        UserError: a quote is not closed.
    """
    pattern = _cell_pattern(delimiter)
    row: list[_Cell] = []
    at, _ = _read_start(text)
    number = 1
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise UserError(
                f'a quote in row {number} is not closed: end the cell with ", and write "" for a '
                "quote inside of it"
            )
        if match["inner"] is not None:
            value = match["inner"].replace('""', '"')
            row.append(_Cell(*match.span("inner"), value, True))
        elif match["begin"] is not None:
            value = match["begin"].replace('""', '"') + match["rest"]
            row.append(_Cell(*match.span(), value, False))
        else:
            row.append(_Cell(*match.span(), match["plain"], False))
        at = match.end()
        if text[at : at + 1] != delimiter:
            if len(row) > 1 or row[0].value.strip():
                yield row
            row = []
            number += 1
            at += text.startswith("\r\n", at)
        at += 1
    if row:  # a delimiter ends the table
        yield row


def _find_delimiter(text: str, columns: Sequence[str]) -> str:
    """Return the delimiter that is named, or by which rows are alike and the header has columns."""
    _, named = _read_start(text)
    if named:
        return named
    scores = {}
    for delimiter in _DELIMITERS:
        names: list[str] = []
        widths: list[int] = []
        try:
            for row in islice(_read_rows(text, delimiter), _SAMPLE):
                names = names or [cell.value.strip() for cell in row]
                widths.append(len(row))
        except UserError:
            pass  # perhaps not with the right delimiter
        width = widths[0] if widths else 0
        likeness = widths.count(width) / max(len(widths), 1)
        is_tab = delimiter == "\t" and width > 1  # texts have commas, but seldom tabs
        scores[delimiter] = (len(set(columns) & set(names)), width > 1, likeness, is_tab, width)
    return max(scores, key=lambda delimiter: scores[delimiter])


def _find_columns(header: list[str], columns: Sequence[str]) -> tuple[list[int], bool]:
    """Return the sorted indices of columns, and whether the first row is a header.

    Raises:
        UserError: no columns are given, or the table lacks one.
    """
    if not header:
        return [], False
    names = [name.strip() for name in header]
    choices = list_names(names)
    if not columns:
        raise UserError(
            f"a table needs --columns NAME,... (or numbers from 1): its first row is {choices}"
        )
    indices: set[int] = set()
    has_header = False
    for column in columns:
        is_number = column.isascii() and column.isdecimal() and len(column) <= _MAX_DIGITS
        if column in names:
            indices |= {index for index, name in enumerate(names) if name == column}
            has_header = True
        elif is_number and 1 <= int(column) <= len(names):
            indices.add(int(column) - 1)
        else:
            raise UserError(
                f"--columns {column}: the table has no such column; choose from: {choices} "
                f"(or numbers from 1 to {len(names)})"
            )
    return sorted(indices), has_header


extract = TableDocument
