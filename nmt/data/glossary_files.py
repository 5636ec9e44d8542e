"""Glossaries from tables of source, target and note."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nmt.data.columns import find_sides
from nmt.data.table_files import CSV, find_delimiter
from nmt.errors import UserError
from nmt.text.cleaning import clean_text
from nmt.text.terms import Glossary, Term

_COMMENT = "#"


def read_glossary(path: Path, languages: tuple[str, str]) -> Glossary:
    """Read a glossary: source TAB target TAB note, a term a line; or a CSV file.

    A first line that names the languages, or source and target, tells their columns. A term without
    target is not translated. Empty lines, and lines that begin with ``#``, are skipped.

    Raises:
        UserError: the file is unreadable, not UTF-8, or has a term without words, or no term, or
            its lines have commas in place of tabs.
    """
    terms: list[Term] = []
    columns: tuple[int, int] | None = None
    for number, row in _read_rows(path):
        cells = [clean_text(cell) for cell in row]
        if not any(cells) or row[0].startswith(_COMMENT):
            continue
        if columns is None:
            header = find_sides(cells, languages)
            columns = header or (0, 1)
            if header:
                continue
        source, target = (cells[i] if i < len(cells) else "" for i in columns)
        if not any(map(str.isalnum, source)):
            raise UserError(f"{path}, line {number}: the term {source!r} has no word")
        notes = [cell for i, cell in enumerate(cells) if i not in columns]
        terms.append(Term(source, target or source, notes[0] if notes else ""))
    if not terms:
        raise UserError(f"{path} has no terms: write lines of source TAB target")
    try:
        return Glossary(terms, languages)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, from 1, and its cells."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a cell may have U+2028
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: save the glossary as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if path.suffix.lower() != CSV:
        _check_tabs(path, lines)
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1))
        return
    records = [f"{line}\n" for line in lines]
    delimiter, named = find_delimiter(records)
    reader = csv.reader(records[named:], delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for cells in reader:
            yield named + reader.line_num, cells or [""]
    except csv.Error as error:
        line = named + reader.line_num
        raise UserError(f"{path}, line {line}: {error}: check its quotes") from error


def _check_tabs(path: Path, lines: Iterable[str]) -> None:
    """Check that the lines of a table are not those of a CSV file.

    Raises:
        UserError: there are several, none has a tab, and all have a comma or semicolon.
    """
    terms = [line for line in lines if line.strip() and not line.startswith(_COMMENT)]
    if len(terms) > 1 and all(re.fullmatch(r"[^\t]*[,;][^\t]*", line) for line in terms):
        raise UserError(
            f"{path} has commas or semicolons and no tab: write a tab between source and target, "
            "or save it as .csv"
        )
