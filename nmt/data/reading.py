"""Raw lines of a corpus: from the embedded files, a zip archive, a table, or two aligned files.

Lines are read as bytes and split on the line feed alone, because other line separators occur
inside real sentences.
"""

from __future__ import annotations

import gzip
import os
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from http.client import HTTPException
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

import nmt
from nmt.errors import UserError

if TYPE_CHECKING:  # nmt.config loads Hydra, which reading a corpus does not need
    from nmt.config import DataConfig

DOWNLOAD_TIMEOUT = 30.0  # seconds without a byte, not for the whole download
_CHUNK = 1 << 16  # bytes

# How a file begins that is not UTF-8 text, and what to do about it.
_NOT_TEXT = {
    b"\x1f\x8b": "is gzip-compressed: give it a name that ends in .gz",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\xff\xfe": "is UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text: save it as UTF-8",
}


class Line(NamedTuple):
    """One line as read, before any judgement."""

    file: str
    number: int  # from 1
    raw: str
    sides: tuple[str, str] | None  # None: a column is missing
    well_formed: bool  # valid UTF-8


def phrasebook_dir() -> Path:
    """Return the folder of the embedded corpus: in an installed wheel, or in a checkout."""
    return _data_dir("phrasebook")


def grammar_dir() -> Path:
    """Return the folder of the bilingual grammar: in an installed wheel, or in a checkout."""
    return _data_dir("grammar")


def _data_dir(name: str) -> Path:
    package = Path(nmt.__file__).parent
    packaged = package / f"_{name}"
    return packaged if packaged.is_dir() else package.parent / "data" / name


def read_lines(
    config: DataConfig, cache_dir: Path, report: Callable[[str], None]
) -> Iterator[Line]:
    """Yield every line of the configured corpus.

    Raises:
        UserError: a file that is missing or damaged, or a failed download.
    """
    if config.kind == "phrasebook":
        files = sorted(phrasebook_dir().glob("*.tsv"))
        if not files:
            raise UserError(
                f"no embedded corpus in {phrasebook_dir()}: reinstall nmt, or choose "
                "data=tsv data.path=FILE"
            )
        for path in files:
            yield from _columns(path.name, _file_lines(path, "phrasebook"), config)
    elif config.kind == "tatoeba":
        if config.url and not config.archive:
            archive = _download(config.url, cache_dir, report)
        else:
            archive = _given("data.archive", config.archive)
        yield from _columns(str(archive), _zip_lines(archive), config)
    elif config.kind == "tsv":
        path = _given("data.path", config.path)
        yield from _columns(str(path), _file_lines(path, "data.path"), config)
    elif config.kind == "parallel":
        source_path = _given("data.source_path", config.source_path)
        target_path = _given("data.target_path", config.target_path)
        yield from aligned_lines(source_path, target_path)
    else:
        raise ValueError(f"data.kind={config.kind} has no reader")  # nmt.config refuses it first


def _given(key: str, value: str | None) -> Path:
    if not value:
        raise UserError(f"no file to read: give {key}=FILE")
    return Path(value).expanduser()  # no shell expands the ~ of data.path=~/corpus.tsv


def _columns(file: str, lines: Iterable[bytes], config: DataConfig) -> Iterator[Line]:
    source, target = config.columns
    for number, (raw, well_formed) in enumerate(map(_decode, lines), 1):
        cells = raw.split("\t")
        complete = max(source, target) < len(cells)
        sides = (cells[source], cells[target]) if complete else None
        yield Line(file, number, raw, sides, well_formed)


def aligned_lines(
    source_path: Path,
    target_path: Path,
    source_key: str = "data.source_path",
    target_key: str = "data.target_path",
) -> Iterator[Line]:
    """Yield the lines of two files that translate each other line by line.

    Raises:
        UserError: a file that is missing or damaged, or the numbers of lines differ.
    """
    rows = zip_longest(
        map(_decode, _file_lines(source_path, source_key)),
        map(_decode, _file_lines(target_path, target_key)),
    )
    for number, (source, target) in enumerate(rows, 1):
        if source is None or target is None:
            shorter, longer = number - 1, number + sum(1 for _ in rows)
            counts = (shorter, longer) if source is None else (longer, shorter)
            raise UserError(
                f"{source_path} has {counts[0]:,} lines and {target_path} has {counts[1]:,}: "
                "line n of one must translate line n of the other"
            )
        raw = f"{source[0]}\t{target[0]}"
        yield Line(str(source_path), number, raw, (source[0], target[0]), source[1] and target[1])


def _decode(line: bytes) -> tuple[str, bool]:
    """Return the text without its line end, and whether it was valid UTF-8."""
    line = line.rstrip(b"\r\n")
    try:
        return line.decode("utf-8"), True
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace"), False


def _file_lines(path: Path, key: str) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked where its name ends in ``.gz``."""
    packed = path.suffix == ".gz"
    with _reading(path, key), path.open("rb") as file:
        if packed and file.peek(2)[:2] != b"\x1f\x8b":
            raise UserError(
                f"{key}={path} is not a gzip file: compress it, or drop .gz from its name"
            )
        text = gzip.GzipFile(fileobj=file) if packed else file
        beginning = text.peek(4)
        for signature, problem in _NOT_TEXT.items():
            if beginning.startswith(signature):
                raise UserError(f"{key}={path} {problem}")
        yield from text


def _zip_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of the one text file of pairs in a zip; nothing is unpacked to disk."""
    with _reading(path, "data.archive"), zipfile.ZipFile(path) as archive:
        member = _pairs_member(path, archive.namelist())
        if archive.getinfo(member).flag_bits & 1:
            raise UserError(f"data.archive={path} is encrypted: give one without a password")
        with archive.open(member) as file:
            yield from file


def _pairs_member(path: Path, names: list[str]) -> str:
    """Return ``spa.txt``, or the only other text file, among the members of an archive."""
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if parts[0] == "" or parts[0].endswith(":") or ".." in parts:
            raise UserError(
                f"data.archive={path} is refused, its member {name!r} points outside of the "
                "archive's folder: get the archive from a source you trust"
            )
    texts = [
        name
        for name in names
        if name.endswith(".txt") and not PurePosixPath(name).name.startswith(("_about", "."))
    ]
    chosen = [name for name in texts if PurePosixPath(name).name == "spa.txt"] or texts
    if len(chosen) != 1:
        found = f"{len(chosen)} text files ({', '.join(chosen[:3])})" if chosen else "no text file"
        raise UserError(
            f"data.archive={path} holds {found} where one of sentence pairs is expected, such as "
            "spa.txt: unpack it and use data=tsv data.path=FILE"
        )
    return chosen[0]


@contextmanager
def _reading(path: Path, key: str) -> Iterator[None]:
    """Turn what can go wrong with an input file into a `UserError` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{key}={path} {_absence(path)}") from error
    except IsADirectoryError as error:
        raise UserError(f"{key}={path} is a folder: give a file in it") from error
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{key}={path} is truncated, damaged or not an archive ({error}): get it again"
        ) from error
    except NotImplementedError as error:
        raise UserError(f"{key}={path} cannot be unpacked ({error}): zip it again") from error
    except OSError as error:
        raise UserError(
            f"{key}={path} cannot be read ({error.strerror or error}): give a readable file"
        ) from error


def _absence(path: Path) -> str:
    if not path.parent.is_dir():
        return f"does not exist, nor does the folder {path.parent}: give an existing file"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    close = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean '{close[0]}'?" if close else ": check the path")


# --- Download ---------------------------------------------------------------------------------


def _download(url: str, folder: Path, report: Callable[[str], None]) -> Path:
    """Return the archive behind ``url``, fetched into ``folder`` unless it is there, whole."""
    name = PurePosixPath(urlsplit(url).path).name
    path = folder / (name if name.endswith(".zip") else "spa-eng.zip")
    if _is_whole_zip(path):
        report(f"using the archive downloaded before: {path}")
        return path
    report(f"downloading {url}")
    part = folder / f"{path.name}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            _fetch(url, file)
        if not _is_whole_zip(part):
            raise ValueError(f"its {part.stat().st_size:,} bytes are not a whole zip archive")
        part.replace(path)
    except (OSError, HTTPException, ValueError) as error:
        why = error.reason if type(error) is urllib.error.URLError else error
        raise UserError(
            f"the download of {url} to {path} failed: {' '.join(str(why).split())}; "
            "pass data.archive=/path/to/spa-eng.zip"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()
    return path


def _fetch(url: str, file: BinaryIO) -> None:
    """Copy the content of ``url`` to ``file``, with a progress bar on a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    # Some hosts, manythings.org among them, refuse urllib's own name.
    request = urllib.request.Request(url, headers={"User-Agent": "nmt"})
    with progress, urllib.request.urlopen(request, timeout=DOWNLOAD_TIMEOUT) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        task = progress.add_task("downloading", total=total)
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            progress.update(task, advance=len(chunk))
    if total is not None and file.tell() < total:
        raise ValueError(f"the connection ended after {file.tell():,} of {total:,} bytes")


def _is_whole_zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        return False
