"""Lines of a source: of the embedded files, an archive, a file of pairs, or two aligned files.

Lines are read as bytes and split at line feeds, or at carriage returns if a file has no line feeds;
other line separators occur inside real sentences. Memory stays constant for any file or archive.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.config.sources import FILES, TRANSLATIONS, SourceConfig, list_paths, source_key
from nmt.data.archives import Archive, inspect_archive, open_member
from nmt.data.bilingual import is_bilingual, read_translations
from nmt.data.columns import ColumnChoice, Columns
from nmt.data.downloading import fetch_archive
from nmt.data.embedded import phrasebook_dir
from nmt.data.encodings import OPTION
from nmt.data.lines import is_cut
from nmt.data.opening import (
    OnOpen,
    explain_errors,
    find_suffix,
    matching_files,
    open_unpacked,
    split_text,
)
from nmt.data.spooling import SPOOLED
from nmt.data.table_files import CSV, JSON_LINES, PARQUET, read_csv, read_json_lines, read_parquet
from nmt.errors import UserError

MALFORMED = "malformed UTF-8"
TOO_LONG = "line over 1 MiB"
JOINED = "carriage return inside the line"  # of a table: several lines of an old Mac, perhaps
_SAMPLE = 50  # lines that tell whether a file is a table, and whether its cells are in quotes
_FEWEST_QUOTED = 5  # lines: a few quotations may be a corpus
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')  # a cell as CSV writes it
_SHOWN = 200  # bytes of a line that is too long


class Row(NamedTuple):
    """One line of a table with TABs, or the cells of a row, before decoding."""

    file: str
    number: int  # of the line in the file, from 1
    # One: a line whose columns TABs separate. Two or more: the cells, in the order of `Columns`.
    lines: tuple[bytes, ...]
    columns: Columns = Columns()  # of a single line


class Line(NamedTuple):
    """One decoded line, before filtering."""

    file: str
    number: int  # from 1
    raw: str  # only the beginning of a line that is too long
    sides: tuple[str, str] | None  # None: a column is missing
    fault: str | None  # MALFORMED, TOO_LONG or JOINED: the line is invalid
    weight: str = ""  # of the pair, as text; empty without such a column, as are the next two
    document: str = ""
    group: str = ""


def read_rows(
    sources: Mapping[str, SourceConfig],
    name: str,
    cache_dir: Path,
    log: Callable[[str], None],
    *,
    hashes: dict[str, str],
    languages: tuple[str, str] = ("und", "und"),
    read_only: bool = False,
    on_open: OnOpen = lambda file: None,
) -> Iterator[Row]:
    """Yield the rows of one source.

    Args:
        sources: all sources by name; messages name the keys of one among them.
        name: of the source to read.
        cache_dir: keeps downloaded archives.
        log: called with progress messages.
        hashes: gets the SHA-256 of an archive, by the name of the source.
        languages: BCP 47 tags of the source's two sides, for files that hold several languages.
        read_only: whether ``cache_dir`` is left unchanged.
        on_open: called with each file; its position tells how much of it has been read.

    Raises:
        UserError: a file is missing, damaged or of another kind, or a download fails.
    """
    source = sources[name]
    option = _encoding_option(name, source)
    choice = ColumnChoice(source, languages, source_key(name, "columns"), option)
    if source.kind == "phrasebook":
        files = sorted(phrasebook_dir().glob("*.tsv"))
        if not files:
            raise UserError(
                f"no embedded corpus in {phrasebook_dir()}: reinstall nmt, or choose "
                "data=files data.train=FILE"
            )
        for path in files:
            lines = _file_lines(path, "phrasebook", on_open)
            yield from _table_rows(path.name, lines, path.name, choice)
    elif source.kind == "zip":
        key = source_key(name, "archive")
        sha256 = source.sha256.lower() if source.sha256 else None
        if source.url and not source.archive:
            opened: AbstractContextManager[Archive] = fetch_archive(
                source.url, cache_dir, key, log, keep=not read_only, sha256=sha256
            )
        else:
            opened = _open_archive(source.archive or "", key)
        with opened as archive:
            if sha256 not in (None, archive.sha256):
                raise UserError(
                    f"{key}={archive.path} has the SHA-256 {archive.sha256}, not {sha256}: get the "
                    f"archive again, or correct {source_key(name, 'sha256')}"
                )
            hashes[name] = archive.sha256
            yield from _archive_rows(archive, key, choice, on_open)
    elif source.kind in (FILES, TRANSLATIONS):
        yield from _source_rows(choice, source_key(name, "path"), on_open)
    else:
        raise ValueError(f"sources of kind {source.kind} have no lines")


def check_files_exist(sources: Mapping[str, SourceConfig]) -> None:
    """Check that the files of all sources exist, without reading them: they may be pipes.

    Raises:
        UserError: one does not.
    """
    for name, source in sources.items():
        names = {source_key(name, "path"): list_paths(source)}
        names[source_key(name, "archive")] = [source.archive] if source.archive else []
        for key, patterns in names.items():
            for path in chain.from_iterable(_matching_files(each, key) for each in patterns):
                with explain_errors(path, key):
                    path.stat()


def _encoding_option(name: str, source: SourceConfig) -> str:
    """Return what sets the encoding of a source, as ``data.encoding=``; empty: only convert it.

    Files of dev and test have no key of their own: theirs is that of the training files.
    """
    if source.encoding is None and name in ("dev", "test"):
        return ""
    if source.kind == "zip":  # to which no short key is passed on
        return f"data.sources.{name}.encoding="
    return f"{source_key(name, 'encoding')}="


def _source_rows(choice: ColumnChoice, key: str, on_open: OnOpen) -> Iterator[Row]:
    """Yield the rows of files of pairs, or of aligned files."""
    sides = [_matching_files(path, key) for path in list_paths(choice.source)]
    if len(sides) == 2 and len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{key} names {len(sides[0])} source files and {len(sides[1])} target files: each "
            "needs the other that translates it"
        )
    for paths in zip(*sides, strict=True):
        if len(paths) == 2:
            encoding, option = choice.source.encoding, choice.encoding_option
            lines = [_file_lines(path, key, on_open, encoding, option) for path in paths]
            yield from _align(str(paths[0]), str(paths[1]), *_check_aligned(paths, key, lines))
        else:
            yield from _file_rows(paths[0], key, choice, on_open)


def _check_aligned(
    paths: Sequence[Path], key: str, sides: Sequence[Iterator[bytes]]
) -> Iterator[Iterator[bytes]]:
    """Return the lines of two files, which must not be tables of pairs.

    Raises:
        UserError: they are.
    """
    formats = list(map(find_suffix, paths))
    are_tables = [is_bilingual(name) or name in (PARQUET, *JSON_LINES) for name in formats]
    are_csv = all(name == CSV for name in formats)
    is_other = are_csv or any(are_tables)  # than text: it is not read
    heads = [] if is_other else [list(islice(side, _SAMPLE)) for side in sides]
    if is_other or all(sum(b"\t" in line for line in head) > len(head) / 2 for head in heads):
        path = paths[are_tables.index(True)] if any(are_tables) else paths[0]
        raise UserError(
            f"{key} names two files, which must be aligned texts, line n of one the translation of "
            f"line n of the other; {path} has pairs: name several such files by a pattern, as "
            f"in '{key}=part*.tsv'"
        )
    return map(chain, heads, sides)


def _file_rows(
    path: Path, key: str, choice: ColumnChoice, on_open: OnOpen = lambda file: None
) -> Iterator[Row]:
    """Yield the rows of a file of pairs in the format that its name tells."""
    name = f"{key}={path}"
    suffix = find_suffix(path)
    with open_unpacked(path, key, on_open) as file:
        if is_bilingual(suffix):
            yield from _bilingual_rows(file, path, name, choice)
            return
        if suffix == PARQUET:
            if path.suffix.lower() != PARQUET:
                raise UserError(f"{name} is compressed, as Parquet is inside: unpack it")
            rows = read_parquet(file, name, choice)
        else:
            lines = split_text(file, name, choice.source.encoding, choice.encoding_option)
            if suffix == CSV:
                rows = read_csv(lines, name, choice)
            elif suffix in JSON_LINES:
                rows = read_json_lines(lines, name, choice)
            else:
                may_be_csv = path.suffix != SPOOLED
                yield from _table_rows(str(path), lines, name, choice, may_be_csv=may_be_csv)
                return
        for number, cells in rows:
            yield Row(str(path), number, cells)


def _table_rows(
    file: str, lines: Iterable[bytes], name: str, choice: ColumnChoice, *, may_be_csv: bool = True
) -> Iterator[Row]:
    """Yield the rows of a table with TABs, without its header.

    Raises:
        UserError: all cells are in quotes, and the table ``may_be_csv``.
    """
    columns: Columns | None = None
    lines = iter(lines)
    head = list(islice(lines, _SAMPLE))
    if may_be_csv and _is_quoted(head):
        raise UserError(f"{name} has its cells in quotes, as CSV has: give it a name in {CSV}")
    for number, line in enumerate(chain(head, lines), 1):
        is_header = False
        if columns is None and line.strip():
            cells = line.decode("utf-8", "replace").rstrip("\r\n").split("\t")
            columns, is_header = choice.find(cells, name, are_names=False)
        if columns is not None and not is_header:
            yield Row(file, number, (line,), columns)


def _is_quoted(lines: Sequence[bytes]) -> bool:
    """Whether cells between TABs are in quotes where they need it, and their own are doubled.

    Either all cells of several lines are in quotes, or one with quotes inside is, and no cell has
    an odd number of them.
    """
    lines = [line for line in lines if line.strip()]
    cells = [cell.strip() for line in lines for cell in line.split(b"\t")]
    if any(cell.count(b'"') % 2 for cell in cells):
        return False
    quoted = [cell for cell in cells if _QUOTED.fullmatch(cell)]
    are_all = len(lines) >= _FEWEST_QUOTED and len(quoted) == len(cells)
    return are_all or any(b'""' in cell[1:-1] for cell in quoted)


def _bilingual_rows(
    file: io.BufferedReader, path: Path, name: str, choice: ColumnChoice
) -> Iterator[Row]:
    """Yield the pairs of a file of TMX, XLIFF or PO."""
    if choice.source.document_column is not None or choice.source.group_column is not None:
        raise UserError(f"{name} has no columns: leave out group_column and document_column")
    # The encoding of training files is also that of dev and test files, which may be text.
    if choice.source.encoding is not None and choice.source.split not in ("dev", "test"):
        raise UserError(f"{name} says its encoding itself: leave out encoding")
    try:
        for number, source, target in read_translations(file, find_suffix(path), choice.languages):
            yield Row(str(path), number, (source.encode(), target.encode()))
    except UserError as error:
        raise UserError(f"{name}: {error}") from error


@contextmanager
def _open_archive(name: str, key: str) -> Iterator[Archive]:
    path, *others = _matching_files(name, key)
    if others:
        raise UserError(
            f"{key}={name} names {1 + len(others)} archives, such as {path} and {others[0]}: make "
            "each a source of its own"
        )
    with explain_errors(path, key):
        archive = inspect_archive(path, key)
    yield archive


def _archive_rows(
    archive: Archive, key: str, choice: ColumnChoice, on_open: OnOpen
) -> Iterator[Row]:
    """Yield the rows of the only table of an archive, or of two members with these endings."""
    members = choice.source.members
    if members is None:
        lines = _archive_lines(archive, key, choice, on_open)
        yield from _table_rows(str(archive.path), lines, f"{key}={archive.path}", choice)
        return
    names = [f"{archive.path} (*{ending})" for ending in members]
    sides = [_archive_lines(archive, key, choice, on_open, ending) for ending in members]
    yield from _align(names[0], names[1], sides[0], sides[1])


def _matching_files(name: str, key: str) -> list[Path]:
    files = matching_files(name)
    if not files:
        raise UserError(f"{key}={name}: no file has such a name")
    return files


def parse_row(row: Row) -> Line:
    """Decode a row."""
    if len(row.lines) > 1:
        texts, faults = zip(*map(_decode, row.lines), strict=True)
        source, target, *others = texts
        fault = next(filter(None, faults), None)
        return Line(row.file, row.number, f"{source}\t{target}", (source, target), fault, *others)
    raw, fault = _decode(row.lines[0])
    if fault is None and "\r" in raw:
        fault = JOINED
    cells = row.columns.select(raw.split("\t"))
    if cells is None:
        return Line(row.file, row.number, raw, None, fault)
    source, target, *others = cells
    return Line(row.file, row.number, raw, (source, target), fault, *others)


def read_file(path: Path, key: str, languages: tuple[str, str]) -> Iterator[Line]:
    """Yield the lines of a file of pairs, which ``key`` of the configuration names.

    Raises:
        UserError: the file is missing or damaged.
    """
    choice = ColumnChoice(SourceConfig(kind=FILES), languages, "")
    yield from map(parse_row, _file_rows(path, key, choice))


def read_aligned(
    source: Path, target: Path, keys: tuple[str, str], encoding: str
) -> Iterator[Line]:
    """Yield the lines of two files that translate each other line by line.

    Raises:
        UserError: a file is missing, damaged or not in this encoding, or the numbers of lines
            differ.
    """
    sources = _file_lines(source, keys[0], encoding=encoding, option=OPTION)
    targets = _file_lines(target, keys[1], encoding=encoding, option=OPTION)
    yield from map(parse_row, _align(str(source), str(target), sources, targets))


def _align(
    source_name: str, target_name: str, sources: Iterator[bytes], targets: Iterator[bytes]
) -> Iterator[Row]:
    rows = zip_longest(sources, targets)
    for number, (source, target) in enumerate(rows, 1):
        if source is None or target is None:
            shorter, longer = number - 1, number + sum(1 for _ in rows)
            counts = (shorter, longer) if source is None else (longer, shorter)
            raise UserError(
                f"{source_name} has {counts[0]:,} lines and {target_name} has {counts[1]:,}: "
                "line n of one must translate line n of the other"
            )
        yield Row(source_name, number, (source, target))


def _decode(line: bytes) -> tuple[str, str | None]:
    """Return the text without its line end, and its fault if it is invalid."""
    if is_cut(line):
        return line[:_SHOWN].decode("utf-8", errors="replace"), TOO_LONG
    line = line.rstrip(b"\r\n")
    try:
        return line.decode("utf-8"), None
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace"), MALFORMED


def _file_lines(
    path: Path,
    key: str,
    on_open: OnOpen = lambda file: None,
    encoding: str | None = None,
    option: str = "",
) -> Iterator[bytes]:
    """Yield the lines of a text file: see `open_unpacked` and `split_text`."""
    with open_unpacked(path, key, on_open) as file:
        yield from split_text(file, f"{key}={path}", encoding, option)


def _archive_lines(
    archive: Archive, key: str, choice: ColumnChoice, on_open: OnOpen, ending: str | None = None
) -> Iterator[bytes]:
    """Yield the lines of a text file in an archive: see `open_member`."""
    path = archive.path
    with explain_errors(path, key), open_member(archive, key, on_open, ending) as file:
        yield from split_text(file, f"{key}={path}", choice.source.encoding, choice.encoding_option)
