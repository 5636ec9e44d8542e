"""Lines of a source: of the embedded files, an archive, a table, or two aligned files.

Lines are read as bytes and split at line feeds, or at carriage returns if a file has no line feeds;
other line separators occur inside real sentences. Memory stays constant for any file or archive.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from nmt.config.sources import FILES, TRANSLATIONS, SourceConfig, list_paths, source_key
from nmt.data.archives import (
    DAMAGE,
    GZIP,
    Archive,
    Unpacked,
    bounded,
    inspect_archive,
    open_member,
)
from nmt.data.bilingual import is_bilingual, read_pairs
from nmt.data.downloading import fetch_archive
from nmt.data.embedded import phrasebook_dir
from nmt.data.encodings import open_text
from nmt.data.lines import is_cut, split_at_any_end
from nmt.errors import UserError

BZIP2, XZ = b"BZh", b"\xfd7zXZ\0"  # first bytes of compressed files
_PACKED: dict[str, tuple[str, bytes, Callable[[IO[bytes]], Unpacked]]] = {
    ".gz": ("a gzip", GZIP, lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": ("a bzip2", BZIP2, bz2.BZ2File),
    ".xz": ("an xz", XZ, lzma.LZMAFile),
}
# First bytes of files that are not UTF-8 text, and what to do about them.
_NOT_TEXT = {
    GZIP: "is gzip-compressed: give it a name that ends in .gz",
    BZIP2: "is bzip2-compressed: give it a name that ends in .bz2",
    XZ: "is xz-compressed: give it a name that ends in .xz",
    b"\x28\xb5\x2f\xfd": "is compressed by Zstandard: unpack it first",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\xff\xfe": "is UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text: save it as UTF-8",
}

MALFORMED = "malformed UTF-8"
TOO_LONG = "line over 1 MiB"
JOINED = "carriage return inside the line"  # of a table: several lines of an old Mac, perhaps
_PATTERN = re.compile(r"[*?[]")
_SHOWN = 200  # bytes of a line that is too long

OnOpen: TypeAlias = Callable[[IO[bytes]], None]


class Row(NamedTuple):
    """One line of a table, or two aligned lines, before decoding."""

    file: str
    number: int  # from 1
    lines: tuple[bytes, ...]


class Line(NamedTuple):
    """One decoded line, before filtering."""

    file: str
    number: int  # from 1
    raw: str  # only the beginning of a line that is too long
    sides: tuple[str, str] | None  # None: a column is missing
    fault: str | None  # MALFORMED, TOO_LONG or JOINED: the line is invalid
    weight: str = ""  # of the pair, as text; empty without such a column
    group: str = ""  # id of the pair's document or speaker; empty without such a column


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
    if source.kind == "phrasebook":
        files = sorted(phrasebook_dir().glob("*.tsv"))
        if not files:
            raise UserError(
                f"no embedded corpus in {phrasebook_dir()}: reinstall nmt, or choose "
                "data=files data.train=FILE"
            )
        for path in files:
            yield from _number(path.name, _file_lines(path, "phrasebook", on_open))
    elif source.kind == "zip":
        key = source_key(name, "archive")
        sha256 = source.sha256.lower() if source.sha256 else None
        if source.url and not source.archive:
            opened: AbstractContextManager[Archive] = fetch_archive(
                source.url, cache_dir, key, log, keep=not read_only, sha256=sha256
            )
        else:
            opened = _open_archive(_matching_files(source.archive or "", key)[0], key)
        with opened as archive:
            if sha256 not in (None, archive.sha256):
                raise UserError(
                    f"{key}={archive.path} has the SHA-256 {archive.sha256}, and {sha256} is "
                    "expected: get the archive again, or correct what is expected"
                )
            hashes[name] = archive.sha256
            yield from _archive_rows(archive, key, source.members, on_open)
    elif source.kind in (FILES, TRANSLATIONS):
        yield from _file_rows(source, source_key(name, "path"), languages, on_open)
    else:
        raise ValueError(f"sources of kind {source.kind} have no lines")


def _file_rows(
    source: SourceConfig, key: str, languages: tuple[str, str], on_open: OnOpen
) -> Iterator[Row]:
    """Yield the rows of files of pairs, or of aligned files."""
    sides = [_matching_files(path, key) for path in list_paths(source)]
    if len(sides) == 2 and len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{key} names {len(sides[0])} source files and {len(sides[1])} target files: each "
            "needs the other that translates it"
        )
    for paths in zip(*sides, strict=True):
        if len(paths) == 2:
            lines = [_file_lines(path, key, on_open) for path in paths]
            yield from _align(str(paths[0]), str(paths[1]), *lines)
        elif is_bilingual(paths[0]):
            yield from _bilingual_rows(paths[0], key, languages)
        else:
            yield from _number(str(paths[0]), _file_lines(paths[0], key, on_open))


def _bilingual_rows(path: Path, key: str, languages: tuple[str, str]) -> Iterator[Row]:
    """Yield the pairs of a file of TMX, XLIFF or PO."""
    with _explain_errors(path, key):
        try:
            for number, source, target in read_pairs(path, languages):
                yield Row(str(path), number, (source.encode(), target.encode()))
        except UserError as error:
            raise UserError(f"{key}={path}: {error}") from error


@contextmanager
def _open_archive(path: Path, key: str) -> Iterator[Archive]:
    with _explain_errors(path, key):
        archive = inspect_archive(path, key)
    yield archive


def _archive_rows(
    archive: Archive, key: str, members: Sequence[str] | None, on_open: OnOpen
) -> Iterator[Row]:
    """Yield the rows of the only table of an archive, or of two members with these endings."""
    if members is None:
        yield from _number(str(archive.path), _archive_lines(archive, key, on_open))
        return
    names = [f"{archive.path} (*{ending})" for ending in members]
    sides = [_archive_lines(archive, key, on_open, ending) for ending in members]
    yield from _align(names[0], names[1], sides[0], sides[1])


def _matching_files(name: str, key: str) -> list[Path]:
    files = matching_files(name)
    if not files:
        raise UserError(f"{key}={name}: no file has such a name")
    return files


def matching_files(name: str) -> list[Path]:
    """Return the file of this name, or those matching a pattern of ``*``, ``?`` and ``[…]``.

    They are sorted by name. An existing file is taken literally, whatever its name.
    """
    path = Path(name).expanduser()  # no shell expands the ~ of data.path=~/corpus.tsv
    if not _PATTERN.search(path.name) or path.exists():
        return [path]
    return sorted(path.parent.glob(path.name))


def parse_row(row: Row, columns: Sequence[int] | None, group_column: int | None = None) -> Line:
    """Decode a row.

    Args:
        row: one line of a table, or two aligned lines.
        columns: of a table: source, target and optionally weight, from 0; None: 0 and 1.
        group_column: of a table, from 0; None: pairs have no group.
    """
    if len(row.lines) == 2:
        (source, source_fault), (target, target_fault) = map(_decode, row.lines)
        fault = source_fault or target_fault
        return Line(row.file, row.number, f"{source}\t{target}", (source, target), fault)
    columns = columns or (0, 1)
    raw, fault = _decode(row.lines[0])
    if fault is None and "\r" in raw:
        fault = JOINED
    cells = raw.split("\t")
    has_all = max(*columns, group_column or 0) < len(cells)
    sides = (cells[columns[0]], cells[columns[1]]) if has_all else None
    weight = cells[columns[2]] if has_all and len(columns) > 2 else ""
    group = cells[group_column] if has_all and group_column is not None else ""
    return Line(row.file, row.number, raw, sides, fault, weight, group)


def read_table(path: Path, key: str, columns: Sequence[int]) -> Iterator[Line]:
    """Yield the lines of a table, which ``key`` of the configuration names: see `parse_row`.

    Raises:
        UserError: the file is missing or damaged.
    """
    for row in _number(str(path), _file_lines(path, key)):
        yield parse_row(row, columns)


def _number(file: str, lines: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        yield Row(file, number, (line,))


def read_aligned(
    source: Path, target: Path, keys: tuple[str, str], encoding: str
) -> Iterator[Line]:
    """Yield the lines of two files that translate each other line by line.

    Raises:
        UserError: a file is missing, damaged or not in this encoding, or the numbers of lines
            differ.
    """
    sources = _file_lines(source, keys[0], encoding=encoding)
    targets = _file_lines(target, keys[1], encoding=encoding)
    for row in _align(str(source), str(target), sources, targets):
        yield parse_row(row, ())


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
    *,
    encoding: str | None = None,
) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked if its suffix is in `_PACKED`.

    With an encoding, lines are recoded as UTF-8, and an invalid one is an error. Without one,
    `parse_row` reports lines that are not UTF-8.
    """
    with _explain_errors(path, key), path.open("rb") as file:
        on_open(file)
        text = file
        if path.suffix in _PACKED:
            name, signature, unpack = _PACKED[path.suffix]
            if file.peek(len(signature))[: len(signature)] != signature:
                raise UserError(
                    f"{key}={path} is not {name} file: compress it, or drop {path.suffix} from "
                    "its name"
                )
            text = bounded(unpack(file), path, key)
        if encoding is not None:
            yield from split_at_any_end(open_text(text, f"{key}={path}", encoding))
            return
        beginning = text.peek(4)
        for signature, problem in _NOT_TEXT.items():
            if beginning.startswith(signature):
                raise UserError(f"{key}={path} {problem}")
        yield from split_at_any_end(text)


def _archive_lines(
    archive: Archive, key: str, on_open: OnOpen, ending: str | None = None
) -> Iterator[bytes]:
    """Yield the lines of a text file in an archive: see `open_member`."""
    with _explain_errors(archive.path, key), open_member(archive, key, on_open, ending) as file:
        yield from split_at_any_end(file)


@contextmanager
def _explain_errors(path: Path, key: str) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError` that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{key}={path} {_explain_absence(path)}") from error
    except IsADirectoryError as error:
        raise UserError(f"{key}={path} is a folder: give a file in it") from error
    except (gzip.BadGzipFile, *DAMAGE) as error:
        raise UserError(
            f"{key}={path} is truncated, damaged or not an archive ({error}): get it again"
        ) from error
    except NotImplementedError as error:
        raise UserError(f"{key}={path} cannot be unpacked ({error}): zip it again") from error
    except OSError as error:
        if error.errno is None:  # raised by bz2, not by the system
            raise UserError(
                f"{key}={path} is truncated or damaged ({error}): get it again"
            ) from error
        raise UserError(
            f"{key}={path} cannot be read ({error.strerror or error}): give a readable file"
        ) from error


def _explain_absence(path: Path) -> str:
    if not path.parent.is_dir():
        return f"does not exist, nor does the folder {path.parent}: give an existing file"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    close = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean '{close[0]}'?" if close else ": check the path")
