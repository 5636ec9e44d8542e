"""Archives of corpora, zip or tar packed by gzip: a member is read from them, none is unpacked."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

from nmt.errors import UserError

DAMAGE = (  # what unpacking a damaged archive raises, apart from an `OSError`
    ValueError,
    EOFError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
GZIP = b"\x1f\x8b"  # how a file begins that is packed by gzip
_CHUNK = 1 << 20  # bytes


def most_unpacked(packed: int) -> int:
    """Return how many bytes an archive of so many bytes may unpack to.

    Text in natural language packs 3 to 10 times, Deflate reaches 1,030: 200 is far from both. The
    64 MiB are for small archives of lines that repeat each other.
    """
    return 200 * packed + (64 << 20)


def bounded(unpacked: IO[bytes] | gzip.GzipFile, path: Path, key: str) -> io.BufferedReader:
    """Return what a file unpacks to, which is refused where it is more than any text would be.

    Args:
        unpacked: of the file, open.
        path: of the file.
        key: of the configuration, for messages.
    """
    return io.BufferedReader(_Bounded(unpacked, path, key))


class _Bounded(io.RawIOBase):
    def __init__(self, unpacked: IO[bytes] | gzip.GzipFile, path: Path, key: str) -> None:
        self._unpacked = unpacked
        self._name = f"{key}={path}"
        self._packed = path.stat().st_size
        self._left = most_unpacked(self._packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._unpacked.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._name} is refused, its {self._packed:,} bytes unpack to more than "
                f"{most_unpacked(self._packed):,}: unpack it yourself if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)


def is_whole_archive(path: Path) -> bool:
    """Whether every member can be unpacked; not tried where that is too much, as reading says."""
    try:
        if _is_packed(path):
            return _is_whole_tar(path)
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            return unpacked > most_unpacked(path.stat().st_size) or archive.testzip() is None
    except (OSError, RuntimeError, *DAMAGE):
        return False


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def _is_whole_tar(path: Path) -> bool:
    most = most_unpacked(path.stat().st_size)
    with gzip.open(path, "rb") as file:
        while file.tell() <= most and file.read(_CHUNK):
            pass
    with _open_tar(path, "") as archive:
        return archive.next() is not None


@contextmanager
def open_member(
    path: Path, key: str, opened: Callable[[IO[bytes]], None], ending: str | None = None
) -> Iterator[BinaryIO]:
    """Open a text file in an archive.

    Args:
        path: of the archive.
        key: of the configuration, for messages.
        opened: takes the open archive.
        ending: of the file's name; None: it is the one text file of pairs.

    Raises:
        UserError: the archive is encrypted, unpacks to too much, or has no such file.
        OSError, BadZipFile and the others of `DAMAGE`: it is damaged.
    """
    if _is_packed(path):
        with _open_tar(path, key) as archive:
            names = [member.name for member in archive if member.isfile()]
        chosen = _choose_member(key, path, names, ending)
        with _open_tar(path, key, opened) as archive:
            member = next(one for one in archive if one.name == chosen)
            yield cast(BinaryIO, archive.extractfile(member))  # a regular one
        return
    with path.open("rb") as whole, zipfile.ZipFile(whole) as zipped:
        opened(whole)
        chosen = _choose_member(key, path, zipped.namelist(), ending)
        if zipped.getinfo(chosen).flag_bits & 1:
            raise UserError(f"{key}={path} is encrypted: give one without a password")
        with zipped.open(chosen) as unpacked:
            yield bounded(unpacked, path, key)


@contextmanager
def _open_tar(
    path: Path, key: str, opened: Callable[[IO[bytes]], None] = lambda file: None
) -> Iterator[tarfile.TarFile]:
    """Open a packed tar from its beginning to its end: seeking would unpack it anew."""
    with path.open("rb") as whole, gzip.GzipFile(fileobj=whole) as unpacked:
        opened(whole)
        with tarfile.open(fileobj=bounded(unpacked, path, key), mode="r|") as archive:
            yield archive


def _choose_member(key: str, path: Path, names: list[str], ending: str | None) -> str:
    """Return the only member of an archive with an ending; without one, that of pairs.

    That is ``spa.txt``, or the only other text file.
    """
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if parts[0] == "" or parts[0].endswith(":") or ".." in parts:
            raise UserError(
                f"{key}={path} is refused, its member {name!r} points outside of the "
                "archive's folder: get the archive from a source you trust"
            )
    seen = [name for name in names if not PurePosixPath(name).name.startswith((".", "_about"))]
    if ending is not None:
        aligned = [name for name in seen if name.endswith(ending)]
        if len(aligned) != 1:
            raise UserError(
                f"{key}={path} holds {len(aligned)} files whose names end in {ending}, where one "
                f"is expected: correct the members of the source ({', '.join(names[:4])})"
            )
        return aligned[0]
    texts = [name for name in seen if name.endswith(".txt")]
    chosen = [name for name in texts if PurePosixPath(name).name == "spa.txt"] or texts
    if len(chosen) != 1:
        found = f"{len(chosen)} text files ({', '.join(chosen[:3])})" if chosen else "no text file"
        raise UserError(
            f"{key}={path} holds {found} where one of sentence pairs is expected, such as "
            "spa.txt: unpack it and use data=tsv data.path=FILE"
        )
    return chosen[0]
