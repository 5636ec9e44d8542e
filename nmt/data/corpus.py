"""Sentence pairs: read from files, cleaned, and split without leaks.

`load_corpus` is the one entry. Lines are read as bytes and split on the line feed alone, because
other line separators occur inside real sentences. A line is either kept as one `Pair` or counted
under exactly one reason; none disappears.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import urllib.error
import urllib.request
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO
from unicodedata import category, normalize
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

import nmt
from nmt.errors import UserError

if TYPE_CHECKING:  # nmt.config loads Hydra, which reading a corpus does not need
    from nmt.config import DataConfig

DOWNLOAD_TIMEOUT = 30.0  # seconds without a byte, not for the whole download
_CHUNK = 1 << 16  # bytes

_JOINERS = "\u200c\u200d"  # zero width (non-)joiner: Persian spelling and emoji need them
_INVISIBLE = ("Cc", "Cf", "Cs")  # Unicode categories: control, format, lone surrogate
_ASCII_WORD = re.compile("[a-z0-9]+")

# How a file begins that is not UTF-8 text, and what to do about it.
_NOT_TEXT = {
    b"\x1f\x8b": "is gzip-compressed: give it a name that ends in .gz",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\xff\xfe": "is UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text: save it as UTF-8",
}


class Pair(NamedTuple):
    """A sentence and its translation, both cleaned."""

    source: str
    target: str


@dataclass(frozen=True)
class Corpus:
    """The three splits, each in the order of its files, and what became of the other lines."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    rejected: dict[str, int]  # reason -> lines, the most frequent first
    lines: int  # read; the three splits and the rejected lines add up to it


class _Line(NamedTuple):
    """One line as read, before any judgement."""

    file: str
    number: int  # from 1
    raw: str
    sides: tuple[str, str] | None  # None: a column is missing
    well_formed: bool  # valid UTF-8


def load_corpus(
    config: DataConfig, *, cache_dir: Path, report: Callable[[str], None] = lambda message: None
) -> Corpus:
    """Read, clean and split the configured corpus; the same files always give the same corpus.

    Args:
        config: the ``data`` group of the configuration.
        cache_dir: folder that keeps a downloaded archive.
        report: takes one-line messages about what is going on.

    Raises:
        UserError: a file that is missing or damaged, a failed download, no usable line, or
            ``data.dev`` and ``data.test`` larger than the corpus allows.
    """
    pairs: list[Pair] = []
    seen: set[Pair] = set()
    rejected: Counter[str] = Counter()
    with _rejected_sink(config) as sink:
        for line in _read(config, cache_dir, report):
            verdict = _judge(line, config, seen)
            if isinstance(verdict, Pair):
                seen.add(verdict)
                pairs.append(verdict)
                continue
            rejected[verdict] += 1
            if sink:
                sink.write(f"{verdict}\t{line.file}:{line.number}\t{line.raw}\n")
    lines = len(pairs) + rejected.total()
    if not pairs:
        raise UserError(_no_pairs(config.kind, lines, rejected))
    train, dev, test = _split(pairs, config, report)
    report(
        f"corpus: {lines:,} lines, {len(pairs):,} pairs kept: "
        f"{len(train):,} train, {len(dev):,} dev, {len(test):,} test"
    )
    return Corpus(train, dev, test, dict(rejected.most_common()), lines)


def rejection_table(corpus: Corpus) -> Table:
    """Return a table of lines by fate: rejected for which reason, kept, and in which split."""
    table = Table("lines", "count", "share", title=f"Corpus: {corpus.lines:,} lines")
    table.columns[1].justify = table.columns[2].justify = "right"

    def row(label: str, count: int) -> None:
        table.add_row(label, f"{count:,}", f"{count / max(1, corpus.lines):.1%}")

    for reason, count in corpus.rejected.items():
        row(f"rejected: {reason}", count)
    table.add_section()
    row("kept", len(corpus.train) + len(corpus.dev) + len(corpus.test))
    table.add_section()
    row("train", len(corpus.train))
    row("dev", len(corpus.dev))
    row("test", len(corpus.test))
    return table


def phrasebook_dir() -> Path:
    """Return the folder of the embedded corpus: in an installed wheel, or in a checkout."""
    package = Path(nmt.__file__).parent
    packaged = package / "_phrasebook"
    return packaged if packaged.is_dir() else package.parent / "data" / "phrasebook"


# --- Cleaning ---------------------------------------------------------------------------------


def clean_text(text: str) -> str:
    """Return NFC text without control characters, every run of white space one space.

    Zero-width joiners stay. Applying it twice changes nothing. The translator cleans its input
    with it too, so that a model meets the text it was trained on.
    """
    if not text.isprintable():  # printable text has no control character, ASCII or other
        text = "".join(
            sign
            for sign in text
            if sign.isspace() or sign in _JOINERS or category(sign) not in _INVISIBLE
        )
    if not text.isascii():
        text = normalize("NFC", text)
    return " ".join(text.split())


def _judge(line: _Line, config: DataConfig, seen: set[Pair]) -> Pair | str:
    """Return the cleaned pair, or the reason why there is none."""
    if not line.well_formed:
        return "malformed UTF-8"
    if line.sides is None:
        return "missing column"
    pair = Pair(clean_text(line.sides[0]), clean_text(line.sides[1]))
    if not all(side.strip(_JOINERS) for side in pair):
        return "empty side"
    words = [side.count(" ") + 1 for side in pair]
    if min(words) < config.min_words:
        return "too short"
    short, long = sorted(map(len, pair))  # characters
    if max(words) > config.max_words or long > config.max_characters:
        return "too long"
    if long - short > config.length_ratio_margin and long > config.max_length_ratio * short:
        return "length ratio"
    return "duplicate" if pair in seen else pair


def _no_pairs(kind: str, lines: int, rejected: Counter[str]) -> str:
    if not lines:
        return f"data={kind}: the corpus is empty, 0 lines were read: add sentence pairs"
    reason, count = rejected.most_common(1)[0]
    return (
        f"data={kind}: none of the {lines:,} lines read is usable, most often because of "
        f"'{reason}' ({count:,}): check data.columns and the length limits, or see each line "
        "with data.rejected_file=FILE"
    )


@contextmanager
def _rejected_sink(config: DataConfig) -> Iterator[TextIO | None]:
    """Open ``data.rejected_file`` for writing where one is configured."""
    if not config.rejected_file:
        yield None
        return
    path = Path(config.rejected_file).expanduser()
    inputs = (config.path, config.source_path, config.target_path, config.archive)
    if path.resolve() in [Path(name).expanduser().resolve() for name in inputs if name]:
        raise UserError(f"data.rejected_file={path} would overwrite the corpus: name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file name that is no UTF-8 must not stop the report of what is wrong inside it.
        sink = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise UserError(
            f"data.rejected_file={path} cannot be written ({error.strerror}): name another file"
        ) from error
    with sink:
        yield sink


# --- Reading ----------------------------------------------------------------------------------


def _read(config: DataConfig, cache_dir: Path, report: Callable[[str], None]) -> Iterator[_Line]:
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
        yield from _parallel(source_path, target_path)
    else:
        raise ValueError(f"data.kind={config.kind} has no reader")  # nmt.config refuses it first


def _given(key: str, value: str | None) -> Path:
    if not value:
        raise UserError(f"no file to read: give {key}=FILE")
    return Path(value).expanduser()  # no shell expands the ~ of data.path=~/corpus.tsv


def _columns(file: str, lines: Iterable[bytes], config: DataConfig) -> Iterator[_Line]:
    source, target = config.columns
    for number, (raw, well_formed) in enumerate(map(_decode, lines), 1):
        cells = raw.split("\t")
        complete = max(source, target) < len(cells)
        sides = (cells[source], cells[target]) if complete else None
        yield _Line(file, number, raw, sides, well_formed)


def _parallel(source_path: Path, target_path: Path) -> Iterator[_Line]:
    rows = zip_longest(
        map(_decode, _file_lines(source_path, "data.source_path")),
        map(_decode, _file_lines(target_path, "data.target_path")),
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
        yield _Line(str(source_path), number, raw, (source[0], target[0]), source[1] and target[1])


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


# --- Splitting --------------------------------------------------------------------------------


class _Folding(dict[int, str]):
    """A table for `str.translate`, filled as code points are met."""

    def __missing__(self, code: int) -> str:
        kind = category(chr(code))
        self[code] = chr(code) if kind[0] in "LNM" else " "  # letters, numbers, vowel signs
        if kind in ("Mn", "Cf"):  # accents, joiners
            self[code] = ""
        return self[code]


_FOLDING = _Folding()


def normalized(text: str) -> str:
    """Return what two sentences share that differ in case, accents, punctuation and spacing.

    A text without any letter or digit ("...", an emoji) is compared as it stands, casefolded.
    """
    folded = text.casefold()
    if folded.isascii():
        words = _ASCII_WORD.findall(folded)
    else:
        words = normalize("NFD", folded).translate(_FOLDING).split()
    return " ".join(words) or folded


def _groups(pairs: list[Pair], seed: int) -> list[list[int]]:
    """Gather the indices of pairs linked by a source or a target, however long the chain.

    The order of the groups depends on their content and ``seed`` only.
    """
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]  # halves the way for the next search
        return index

    sources = [normalized(pair.source) for pair in pairs]
    targets = [normalized(pair.target) for pair in pairs]
    for sides in (sources, targets):
        first: dict[str, int] = {}
        for index, side in enumerate(sides):
            parent[root(index)] = root(first.setdefault(side, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(root(index), []).append(index)

    def rank(group: list[int]) -> bytes:
        # No other group has this source, so that no two ranks are equal.
        content = f"{seed}\n{min(sources[index] for index in group)}"
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    return sorted(groups.values(), key=rank)


def _split(
    pairs: list[Pair], config: DataConfig, report: Callable[[str], None]
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return train, dev and test: whole groups, so that no sentence is in two of them."""
    wanted = {"test": _size(config.test, len(pairs)), "dev": _size(config.dev, len(pairs))}
    remedy = "set data.dev=0 data.test=0 (or smaller sizes than now), or add data"
    if 2 * sum(wanted.values()) > len(pairs):
        raise UserError(
            f"data.dev={config.dev:g} and data.test={config.test:g} take "
            f"{wanted['dev']:,} + {wanted['test']:,} of {len(pairs):,} usable pairs, and at least "
            f"half must stay for training: {remedy}"
        )
    rest = _groups(pairs, config.split_seed)
    split_of = ["train"] * len(pairs)
    for split, size in wanted.items():
        missing = size
        taken: list[list[int]] = []
        left: list[list[int]] = []
        for group in rest:
            if len(group) <= missing:
                taken.append(group)
                missing -= len(group)
            else:
                left.append(group)
        if size and not taken and left:  # no group is small enough: better a few pairs too many
            smallest = min(left, key=len)
            left.remove(smallest)
            taken.append(smallest)
        elif missing:
            report(f"{split}: {size - missing:,} of {size:,} pairs; every other group is too large")
        for group in taken:
            for index in group:
                split_of[index] = split
        rest = left
    if 2 * (len(pairs) - split_of.count("train")) > len(pairs):
        raise UserError(
            f"the {len(pairs):,} usable pairs share so many sentences that dev and test would "
            f"take more than half of them: {remedy}"
        )
    train, dev, test = (
        [pair for pair, name in zip(pairs, split_of, strict=True) if name == split]
        for split in ("train", "dev", "test")
    )
    return train, dev, test


def _size(amount: float, pairs: int) -> int:
    """Return a number of pairs from ``data.dev`` or ``data.test``: a count, or a share below 1."""
    if amount >= 1:
        return int(amount)
    return max(1, round(amount * pairs)) if amount else 0
