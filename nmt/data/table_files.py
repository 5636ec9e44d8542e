"""Rows of files that name their columns: CSV, JSON lines and Parquet.

Each reader yields the number of a line, from 1, and the cells of the chosen columns in UTF-8, in
the order of `Columns`. Of a line without these cells, it yields the text without TABs.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

from nmt.data.columns import ColumnChoice, Columns, flatten_record, is_missing
from nmt.data.lines import LONGEST_LINE, is_cut
from nmt.errors import UserError

JSON_LINES, CSV, PARQUET = (".jsonl", ".ndjson", ".json"), ".csv", ".parquet"

_DELIMITERS = "\t|;,"  # those that are rarer in sentences first
_NAMED_DELIMITER = re.compile(rf"sep=([{_DELIMITERS}])\n")  # a first line that Excel writes
_SAMPLE = 100  # lines that tell the delimiter
_END = b"\0 end of file \0"  # a line after the last one, which an open quote would swallow
_BATCH = 4096  # rows of Parquet that are held in memory

Cells: TypeAlias = tuple[int, tuple[bytes, ...]]

# The csv module's own limit, 131,072 characters, is below that of lines.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))


def read_csv(lines: Iterator[bytes], name: str, choice: ColumnChoice) -> Iterator[Cells]:
    """Yield the rows of a table between commas, semicolons, TABs or bars.

    Text after the quotes around a line break tells that a stray quote joined several rows: each of
    their lines is yielded as text. So is a line that is cut, as `is_cut` tells, and the lines that
    quotes join to it.

    Args:
        lines: of the file, in UTF-8 but for malformed lines.
        name: of the file, for messages.
        choice: of the columns.

    Raises:
        UserError: a quote is not closed, or a column is missing.
    """
    head = list(islice(lines, _SAMPLE))
    texts = list(map(_decode, head))
    delimiter, named = find_delimiter(texts)
    record: list[bytes] = []  # its lines
    records = _read_records(map(_decode, _keep(chain(head, lines, [_END]), record)), delimiter)
    if named:
        next(records)
        record.clear()
    columns: Columns | None = None
    number = 1 + named
    try:
        for cells in records:
            if record == [_END]:
                return
            is_header = False
            if any(map(is_cut, record)) or not _is_valid(record, delimiter):
                yield from ((number + i, (_to_line(line),)) for i, line in enumerate(record))
            else:
                if columns is None and any(map(str.strip, cells)):
                    columns, is_header = choice.find(cells, name, are_names=False)
                if columns is not None and not is_header:
                    yield number, _select(cells, columns)
            begin, number = number, number + len(record)
            record.clear()
    except csv.Error as error:
        raise UserError(
            f"{name}: the cell that begins in line {number:,} is too long ({error}): close its "
            "quotes, or shorten it"
        ) from error
    raise UserError(f"{name}: a quote of the row that begins in line {begin:,} is never closed")


def _read_records(
    lines: Iterable[str], delimiter: str, *, strict: bool = False
) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _keep(lines: Iterable[bytes], kept: list[bytes]) -> Iterator[bytes]:
    """Yield lines, and append them to a list."""
    for line in lines:
        kept.append(line)
        yield line


def _decode(line: bytes) -> str:
    """Return a line as the csv module reads it: an empty one if it is cut, as a quote may be open.

    A malformed byte becomes a surrogate, and the same byte again in `_encode`.
    """
    if is_cut(line):
        return "\n"
    return line.rstrip(b"\r\n").replace(b"\r", b" ").decode("utf-8", "surrogateescape") + "\n"


def _to_line(line: bytes) -> bytes:
    """Return the text of a line that belongs to no valid row; a cut line stays as it is."""
    return line if is_cut(line) else _encode(_decode(line))


def _is_valid(record: list[bytes], delimiter: str) -> bool:
    """Whether lines are one record whose quotes end at delimiters, or at spaces before them."""
    if len(record) == 1 or record[-1] == _END:
        return True
    spaces = re.compile(rf'" +(?={re.escape(delimiter)}|[\r\n]|\Z)')
    texts = (spaces.sub('"', _decode(line)) for line in record)
    try:
        next(_read_records(texts, delimiter, strict=True))
    except csv.Error:
        return False
    return True


def find_delimiter(lines: list[str]) -> tuple[str, int]:
    """Return the delimiter, and how many lines name it: one, such as ``sep=;``, or none.

    If none does, it is the one that cuts most lines into one number of cells, two or more.

    Args:
        lines: with their ends.
    """
    if lines and (named := _NAMED_DELIMITER.fullmatch(lines[0])):
        return named[1], 1

    def count_alike(delimiter: str) -> int:
        try:
            widths = Counter(map(len, _read_records(lines, delimiter)))
        except csv.Error:
            return 0
        return max((count for width, count in widths.items() if width > 1), default=0)

    return max(_DELIMITERS, key=count_alike), 0


def read_json_lines(lines: Iterator[bytes], name: str, choice: ColumnChoice) -> Iterator[Cells]:
    """Yield the rows of JSON objects, one a line; a nested key is dotted: ``translation.es``.

    Args:
        lines: of the file, in UTF-8 but for malformed lines.
        name: of the file, for messages.
        choice: of the columns.

    Raises:
        UserError: the first line is not an object, or it lacks a column.
    """
    names: list[str] = []
    columns = Columns()
    for number, line in enumerate(lines, 1):
        record = _parse_object(line)
        if not names:
            if not record:
                raise UserError(
                    f"{name}: line {number} is not a JSON object: write one object a line, as "
                    "jq -c '.[]' FILE does"
                )
            names = list(record)
            columns, _ = choice.find(names, name, are_names=True)
        cells = _select_named(record, names, columns) if record else None
        yield number, cells or (line.replace(b"\t", b" "),)


def read_parquet(file: io.BufferedReader, name: str, choice: ColumnChoice) -> Iterator[Cells]:
    """Yield the rows of a Parquet file; a field of a structure is dotted: ``translation.es``.

    Args:
        file: at any position.
        name: of the file, for messages.
        choice: of the columns.

    Raises:
        UserError: a column is missing, or the package that reads the format.
        ValueError: the file is damaged.
    """
    try:
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError as error:
        raise UserError(f"{name} needs pyarrow: pip install 'nmt[parquet]'") from error
    table = ParquetFile(file)
    fields = [table.schema.column(index) for index in range(len(table.schema))]
    names = [field.path for field in fields if not field.max_repetition_level]
    columns, _ = choice.find(names, name, are_names=True)
    chosen = [names[column] for column in columns if column is not None]
    # Of all groups of rows at once, pyarrow would hold the whole file in memory.
    records = (
        record
        for group in range(table.num_row_groups)
        for batch in table.iter_batches(_BATCH, [group], columns=chosen)
        for record in batch.to_pylist()
    )
    for number, record in enumerate(records, 1):
        flat = dict.fromkeys(chosen) | flatten_record(record)
        yield number, _select_named(flat, names, columns) or (b"",)


def _parse_object(line: bytes) -> dict[str, Any]:
    """Return the values of a JSON object by their dotted keys; empty if it is none."""
    try:
        record = json.loads(line)
        return flatten_record(record) if isinstance(record, dict) else {}
    except (ValueError, RecursionError):
        return {}


def _select_named(
    record: Mapping[str, Any], names: list[str], columns: Columns
) -> tuple[bytes, ...] | None:
    """Return the cells of the chosen columns; None if the record lacks one."""
    try:
        values = ["" if column is None else record[names[column]] for column in columns]
    except KeyError:
        return None
    return tuple(_encode("" if is_missing(value) else _to_text(value)) for value in values)


def _to_text(value: Any) -> str:
    """Return a value as text; some programs write text to Parquet as bytes without a type."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _select(cells: list[str], columns: Columns) -> tuple[bytes, ...]:
    selected = columns.select(cells)
    return tuple(map(_encode, selected)) if selected else (_encode(" ".join(cells)),)


def _encode(text: str) -> bytes:
    """Return a text in UTF-8, in one line and without TABs."""
    if not text.isprintable():
        text = " ".join(text.split())
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # of JSON: half of a pair of surrogates
        return text.encode("utf-8", "ignore")
