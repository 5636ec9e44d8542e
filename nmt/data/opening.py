"""Text files of a corpus: found by name, unpacked, recoded as UTF-8, split into lines."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import IO, TypeAlias

from backports import zstd

from nmt.config.data import COMPRESSED
from nmt.data.archives import DAMAGE, GZIP, Unpacked, bounded
from nmt.data.encodings import check_text, find_mark, is_text_encoding, is_utf_8, open_text
from nmt.data.lines import LONGEST_LINE, is_cut, split_at_any_end
from nmt.errors import UserError

# Name, first bytes and opener of each compression.
_COMPRESSIONS: tuple[tuple[str, bytes, Callable[[IO[bytes]], Unpacked]], ...] = (
    ("gzip", GZIP, lambda file: gzip.GzipFile(fileobj=file)),
    ("bzip2", b"BZh", bz2.BZ2File),
    ("xz", b"\xfd7zXZ\0", lzma.LZMAFile),
    ("Zstandard", b"\x28\xb5\x2f\xfd", zstd.ZstdFile),
)
_PACKED = dict(zip(COMPRESSED, _COMPRESSIONS, strict=True))
# First bytes of files that are not text, and what to do about them.
_NOT_TEXT = {
    signature: f"is {name}-compressed: give it a name that ends in {suffix}"
    for suffix, (name, signature, _) in _PACKED.items()
} | {
    b"PK\x03\x04": "is a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"PAR1": "is a Parquet file: give it a name that ends in .parquet",
}
_TAR_MARK = slice(257, 265)  # bytes of a header
_TAR_MARKS = (b"ustar\x0000", b"ustar  \x00")  # of POSIX and of GNU
# A text is refused if more than one, and more than this share, of its first lines are not UTF-8.
_MAX_MALFORMED, _FIRST_LINES = 0.1, 1000
# Characters beyond ASCII that show UTF-8. A few may be by accident: "CAFÉ»" in Latin-1 has one.
_FEWEST_UTF_8 = 3
_PATTERN = re.compile(r"[*?[]")

OnOpen: TypeAlias = Callable[[IO[bytes]], None]


def find_suffix(path: Path) -> str:
    """Return the last suffix of a name in lower case, without that of compression."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix in _PACKED else suffix


def matching_files(name: str) -> list[Path]:
    """Return the file of this name, or those matching a pattern of ``*``, ``?`` and ``[…]``.

    They are sorted by name. An existing file is taken literally, whatever its name. As in a shell,
    hidden files match only a pattern that begins with a point.
    """
    path = Path(name).expanduser()  # no shell expands the ~ of data.train=~/corpus.tsv
    if not _PATTERN.search(path.name) or path.exists():
        return [path]
    pattern = re.sub(r"\*+", "*", path.name)  # `glob` has another meaning for two
    matches = sorted(path.parent.glob(pattern))
    if path.name.startswith("."):
        return matches
    return [match for match in matches if not match.name.startswith(".")]


@contextmanager
def open_unpacked(
    path: Path, key: str, on_open: OnOpen = lambda file: None
) -> Iterator[io.BufferedReader]:
    """Open a file for reading, unpacked if its last suffix is that of compression.

    Args:
        path: of the file.
        key: of the configuration, for messages.
        on_open: called with the file; its position tells how much of it has been read.

    Raises:
        UserError: the file is missing, damaged or not compressed as its name says.
    """
    with explain_errors(path, key), path.open("rb") as file:
        on_open(file)
        suffix = path.suffix.lower()
        if suffix not in _PACKED:
            yield file
            return
        name, signature, unpack = _PACKED[suffix]
        if file.peek(len(signature))[: len(signature)] != signature:
            raise UserError(
                f"{key}={path} is not {name}-compressed: compress it, or drop {path.suffix} from "
                "its name"
            )
        yield bounded(unpack(file), path, key)


def split_text(
    file: io.BufferedReader, name: str, encoding: str | None, option: str
) -> Iterator[bytes]:
    """Yield the lines of a text as UTF-8: see `split_at_any_end`.

    Args:
        file: at its beginning.
        name: of the file, for messages.
        encoding: None: that of the byte order mark, or else UTF-8. Then a line that is not UTF-8 is
            yielded as it is.
        option: sets the encoding, for messages; empty: nothing does.

    Raises:
        UserError: the file is not text, or in another encoding.
    """
    beginning = file.peek(_TAR_MARK.stop)
    for signature, problem in _NOT_TEXT.items():
        if beginning.startswith(signature):
            raise UserError(f"{name} {problem}")
    if beginning[_TAR_MARK] in _TAR_MARKS:
        raise UserError(f"{name} is a tar archive: unpack it")
    if encoding is not None and not is_text_encoding(encoding):
        raise UserError(f"{option}{encoding} is not a text encoding: try utf-8, latin-1 or cp1252")
    is_given = encoding is not None and not is_utf_8(encoding)
    encoding = encoding or find_mark(beginning)
    if encoding not in (None, "utf-8-sig"):
        text = open_text(file, name, encoding, option)
        if is_given and _is_surely_utf_8(beginning):
            raise UserError(
                f"{name} is UTF-8, not {encoding}: leave out {option}{encoding}, and convert the "
                "files that are not UTF-8"
            )
        yield from split_at_any_end(text)
        return
    if encoding:
        file.read(len(codecs.BOM_UTF8))
    lines = split_at_any_end(file)
    head: list[bytes] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line)
        if len(head) == _FIRST_LINES or size > LONGEST_LINE:
            break
    malformed = sum(not is_cut(line) and not _is_utf_8(line) for line in head)
    if malformed > max(1, _MAX_MALFORMED * len(head)) or (head and b"\0" in head[0]):
        check_text(io.BytesIO(b"".join(head)), name, option=option)
    yield from chain(head, lines)


def _is_surely_utf_8(beginning: bytes) -> bool:
    """Whether a beginning of a text is in no other encoding; it may end inside a character."""
    if beginning.startswith(codecs.BOM_UTF8):
        return True
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return sum(not character.isascii() for character in text) >= _FEWEST_UTF_8


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def explain_errors(path: Path, key: str) -> Iterator[None]:
    """Turn errors of reading a file into a `UserError` that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{key}={path} {explain_absence(path)}") from error
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


def explain_absence(path: Path) -> str:
    """Return the end of a message: that a file does not exist, and the most similar name."""
    if not path.parent.is_dir():
        return f"does not exist, nor does the folder {path.parent}: give an existing file"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    close = get_close_matches(path.name, names, n=1)
    return "does not exist" + (f"; did you mean '{close[0]}'?" if close else ": check the path")
