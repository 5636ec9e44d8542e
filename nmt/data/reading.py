"""Raw lines of a source: from the embedded files, an archive, a table, or two aligned files.

Lines are read as bytes and split at line feeds, or at carriage returns where a file has no line
feeds: other line separators occur inside real sentences. Memory stays constant, whatever a file
holds or unpacks to.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple

from nmt.config.sources import SourceConfig, source_key
from nmt.data.archives import (
    DAMAGE,
    GZIP,
    Archive,
    Unpacked,
    bounded,
    inspect_archive,
    open_member,
)
from nmt.data.downloading import fetch_archive
from nmt.data.embedded import phrasebook_dir
from nmt.data.encodings import open_text
from nmt.data.lines import is_cut, split_at_any_end
from nmt.errors import UserError

BZIP2, XZ = b"BZh", b"\xfd7zXZ\0"  # how a file begins that is packed by these
_PACKED: dict[str, tuple[str, bytes, Callable[[IO[bytes]], Unpacked]]] = {
    ".gz": ("a gzip", GZIP, lambda file: gzip.GzipFile(fileobj=file)),
    ".bz2": ("a bzip2", BZIP2, bz2.BZ2File),
    ".xz": ("an xz", XZ, lzma.LZMAFile),
}
# How a file begins that is not UTF-8 text, and what to do about it.
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
JOINED = "carriage return inside the line"  # of a table: it may be several lines of an old Mac
_PATTERN = re.compile(r"[*?[]")
_SHOWN = 200  # bytes of a line that is too long


class Line(NamedTuple):
    """One line as read, before any judgement."""

    file: str
    number: int  # from 1
    raw: str  # the beginning where it is too long
    sides: tuple[str, str] | None  # None: a column is missing
    fault: str | None  # why it cannot be judged: MALFORMED, TOO_LONG, JOINED
    weight: str = ""  # of the pair, as it stands there; empty: there is none


class Row(NamedTuple):
    """What one line is made of, before it is decoded."""

    file: str
    number: int  # from 1
    lines: tuple[bytes, ...]  # one; of two aligned files, two


def read_rows(
    sources: Mapping[str, SourceConfig],
    name: str,
    cache_dir: Path,
    log: Callable[[str], None],
    *,
    hashes: dict[str, str],
    read_only: bool = False,
    opened: Callable[[IO[bytes]], None] = lambda file: None,
) -> Iterator[Row]:
    """Yield what every line of one source is made of.

    Args:
        sources: of the configuration, by name; the others tell how to speak of this one's keys.
        name: of the source.
        cache_dir: keeps a downloaded archive.
        log: takes one-line messages.
        hashes: takes the SHA-256 of an archive, by the name of the source.
        read_only: an archive that is not in ``cache_dir`` is not kept there either.
        opened: takes each file as it is opened; how far it is read tells how far this is.

    Raises:
        UserError: a file that is missing, damaged or another than expected, or a failed download.
    """
    source = sources[name]
    if source.kind == "phrasebook":
        files = sorted(phrasebook_dir().glob("*.tsv"))
        if not files:
            raise UserError(
                f"no embedded corpus in {phrasebook_dir()}: reinstall nmt, or choose "
                "data=tsv data.path=FILE"
            )
        for path in files:
            yield from _number(path.name, _file_lines(path, "phrasebook", opened))
    elif source.kind == "zip":
        key = source_key(sources, name, "archive")
        sha256 = source.sha256.lower() if source.sha256 else None
        if source.url and not source.archive:
            inspected: AbstractContextManager[Archive] = fetch_archive(
                source.url, cache_dir, key, log, keep=not read_only, sha256=sha256
            )
        else:
            inspected = nullcontext(_inspect(_given(sources, name, "archive")[0], key))
        with inspected as archive:
            _check_sha256(archive, key, sha256)
            hashes[name] = archive.sha256
            yield from _archive_rows(archive, key, source.members, opened)
    elif source.kind == "tsv":
        key = source_key(sources, name, "path")
        for path in _given(sources, name, "path"):
            yield from _number(str(path), _file_lines(path, key, opened))
    elif source.kind == "parallel":
        yield from _aligned_rows(sources, name, opened)
    else:
        raise ValueError(f"sources of kind {source.kind} have no lines")


def _archive_rows(
    archive: Archive,
    key: str,
    members: Sequence[str] | None,
    opened: Callable[[IO[bytes]], None],
) -> Iterator[Row]:
    """Yield the rows of the one table in an archive, or of two aligned files with these endings."""
    if members is None:
        yield from _number(str(archive.path), _archive_lines(archive, key, opened))
        return
    names = [f"{archive.path} (*{ending})" for ending in members]
    sides = [_archive_lines(archive, key, opened, ending) for ending in members]
    yield from _align(names[0], names[1], sides[0], sides[1])


def _aligned_rows(
    sources: Mapping[str, SourceConfig], name: str, opened: Callable[[IO[bytes]], None]
) -> Iterator[Row]:
    keys = "source_path", "target_path"
    paths = [_given(sources, name, key) for key in keys]
    one, other = (source_key(sources, name, key) for key in keys)
    if len(paths[0]) != len(paths[1]):
        raise UserError(
            f"{one} names {len(paths[0])} files and {other} {len(paths[1])}: each needs the other "
            "that translates it"
        )
    for source, target in zip(*paths, strict=True):
        lines = _file_lines(source, one, opened), _file_lines(target, other, opened)
        yield from _align(str(source), str(target), *lines)


def _given(sources: Mapping[str, SourceConfig], name: str, key: str) -> list[Path]:
    """Return the files that a key of a source names: one, or those that a pattern stands for."""
    value = getattr(sources[name], key)
    if not value:
        raise UserError(f"no file to read: give {source_key(sources, name, key)}=FILE")
    found = matching_files(value)
    if not found:
        raise UserError(f"{source_key(sources, name, key)}={value}: no file has such a name")
    return found


def matching_files(name: str) -> list[Path]:
    """Return the file of this name, or those that a pattern with ``*``, ``?`` or ``[…]`` matches.

    In the order of their names. A file that is called like a pattern is that file.
    """
    path = Path(name).expanduser()  # no shell expands the ~ of data.path=~/corpus.tsv
    if not _PATTERN.search(path.name) or path.exists():
        return [path]
    return sorted(path.parent.glob(path.name))


def parse_row(row: Row, columns: Sequence[int]) -> Line:
    """Decode a row.

    Args:
        row: of a table, or of two aligned files.
        columns: of a table: source and target, from 0, and that of weights if there is one.
    """
    if len(row.lines) == 2:
        (source, no_source), (target, no_target) = map(_decode, row.lines)
        fault = no_source or no_target
        return Line(row.file, row.number, f"{source}\t{target}", (source, target), fault)
    raw, fault = _decode(row.lines[0])
    if fault is None and "\r" in raw:
        fault = JOINED
    cells = raw.split("\t")
    complete = max(columns) < len(cells)
    sides = (cells[columns[0]], cells[columns[1]]) if complete else None
    weight = cells[columns[2]] if complete and len(columns) > 2 else ""
    return Line(row.file, row.number, raw, sides, fault, weight)


def read_table(path: Path, key: str, columns: Sequence[int]) -> Iterator[Line]:
    """Yield the lines of a table.

    Args:
        path: of the table.
        key: of the configuration, for messages.
        columns: source and target, from 0, and that of weights if there is one.

    Raises:
        UserError: it is missing or damaged.
    """
    for row in _number(str(path), _file_lines(path, key)):
        yield parse_row(row, columns)


def _number(file: str, lines: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        yield Row(file, number, (line,))


def read_aligned(
    source_path: Path, target_path: Path, source_key: str, target_key: str, encoding: str
) -> Iterator[Line]:
    """Yield the lines of two files that translate each other line by line.

    Raises:
        UserError: a file that is missing, damaged or not in this encoding, or the numbers of lines
            differ.
    """
    lines = (
        _file_lines(source_path, source_key, encoding=encoding),
        _file_lines(target_path, target_key, encoding=encoding),
    )
    for row in _align(str(source_path), str(target_path), *lines):
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
    """Return the text without its line end, and why it cannot be judged."""
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
    opened: Callable[[IO[bytes]], None] = lambda file: None,
    *,
    encoding: str | None = None,
) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked where its name ends as one of `_PACKED`.

    With an encoding, they are recoded as UTF-8, and a line in another encoding is an error; without
    one, lines that are not UTF-8 are left for `parse_row` to judge.
    """
    with _reading(path, key), path.open("rb") as file:
        opened(file)
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
    archive: Archive, key: str, opened: Callable[[IO[bytes]], None], ending: str | None = None
) -> Iterator[bytes]:
    """Yield the lines of a text file in an archive: see `open_member`."""
    with _reading(archive.path, key), open_member(archive, key, opened, ending) as file:
        yield from split_at_any_end(file)


def _inspect(path: Path, key: str) -> Archive:
    with _reading(path, key):
        return inspect_archive(path, key)


def _check_sha256(archive: Archive, key: str, expected: str | None) -> None:
    """Check that an archive has the expected SHA-256, if there is one."""
    if expected not in (None, archive.sha256):
        raise UserError(
            f"{key}={archive.path} has the SHA-256 {archive.sha256}, and {expected} is expected: "
            "get the archive again, or correct what is expected"
        )


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    """Turn what can go wrong with an input file into a `UserError` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{key}={path} {_absence(path)}") from error
    except IsADirectoryError as error:
        raise UserError(f"{key}={path} is a folder: give a file in it") from error
    except (gzip.BadGzipFile, *DAMAGE) as error:
        raise UserError(
            f"{key}={path} is truncated, damaged or not an archive ({error}): get it again"
        ) from error
    except NotImplementedError as error:
        raise UserError(f"{key}={path} cannot be unpacked ({error}): zip it again") from error
    except OSError as error:
        if error.errno is None:  # not of the system: what bz2 raises
            raise UserError(
                f"{key}={path} is truncated or damaged ({error}): get it again"
            ) from error
        raise UserError(
            f"{key}={path} cannot be read ({error.strerror or error}): give a readable file"
        ) from error


def _absence(path: Path) -> str:
    if not path.parent.is_dir():
        return f"does not exist, nor does the folder {path.parent}: give an existing file"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    close = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean '{close[0]}'?" if close else ": check the path")
