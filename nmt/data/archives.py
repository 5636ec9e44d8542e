"""Archives of corpora, zip or tar packed by gzip: a member is read from them, none is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, TypeAlias, cast

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

Unpacked: TypeAlias = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile


def most_unpacked(packed: int) -> int:
    """Return how many bytes an archive of so many bytes may unpack to.

    Text in natural language packs 3 to 10 times, Deflate reaches 1,030: 200 is far from both. The
    64 MiB are for small archives of lines that repeat each other.
    """
    return 200 * packed + (64 << 20)


def bounded(
    unpacked: Unpacked, path: Path, key: str, called: Path | None = None
) -> io.BufferedReader:
    """Return what a file unpacks to, which is refused where it is more than any text would be.

    Args:
        unpacked: of the file, open.
        path: of the file.
        key: of the configuration, for messages.
        called: what messages call it; None: by its path.
    """
    return io.BufferedReader(_Bounded(unpacked, path, f"{key}={called or path}"))


class _Bounded(io.RawIOBase):
    def __init__(self, unpacked: Unpacked, path: Path, name: str) -> None:
        self._unpacked = unpacked
        self._name = name
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


class Archive(NamedTuple):
    """What one reading of an archive tells."""

    path: Path
    is_tar: bool
    sha256: str
    members: tuple[str, ...]  # names


def inspect_archive(
    path: Path, key: str, *, whole: bool = False, called: Path | None = None
) -> Archive:
    """Read an archive once.

    Args:
        path: of the archive.
        key: of the configuration, for messages.
        whole: try whether every member can be unpacked, but for a zip that is too much, as reading
            one says.
        called: what messages call it; None: by its path.

    Raises:
        UserError: it is a tar that unpacks to too much.
        OSError, BadZipFile and the others of `DAMAGE`: it is damaged.
    """
    with path.open("rb") as file:
        hashed = _Hashed(file)
        is_tar = file.peek(len(GZIP))[: len(GZIP)] == GZIP
        members = _list_tar(hashed, path, key, whole, called) if is_tar else _list_zip(path, whole)
        return Archive(path, is_tar, hashed.finish(), members)


class _Hashed(io.RawIOBase):
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._state = sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        self._state.update(data)
        buffer[: len(data)] = data
        return len(data)

    def finish(self) -> str:
        """Read the rest; return the SHA-256 of the whole file."""
        while self.read(_CHUNK):
            pass
        return self._state.hexdigest()


def _list_tar(
    file: _Hashed, path: Path, key: str, whole: bool, called: Path | None
) -> tuple[str, ...]:
    with (
        gzip.GzipFile(fileobj=file) as unpacked,
        bounded(unpacked, path, key, called) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        kinds = [(member.name, member.isfile()) for member in archive]
        while whole and stream.read(_CHUNK):
            pass
    if not kinds:
        raise tarfile.ReadError("it is empty")
    return tuple(name for name, is_file in kinds if is_file)


def _list_zip(path: Path, whole: bool) -> tuple[str, ...]:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if whole and unpacked <= most_unpacked(path.stat().st_size):
            damaged = archive.testzip()
            if damaged is not None:
                raise zipfile.BadZipFile(f"Bad CRC-32 of {damaged!r}")
        return tuple(archive.namelist())


@contextmanager
def open_member(
    archive: Archive, key: str, opened: Callable[[IO[bytes]], None], ending: str | None = None
) -> Iterator[BinaryIO]:
    """Open a text file in an archive.

    Args:
        archive: inspected.
        key: of the configuration, for messages.
        opened: takes the open archive.
        ending: of the file's name; None: it is the one text file of pairs.

    Raises:
        UserError: the archive is encrypted, unpacks to too much, or has no such file.
        OSError, BadZipFile and the others of `DAMAGE`: it is damaged.
    """
    path = archive.path
    chosen = _choose_member(key, path, archive.members, ending)
    with path.open("rb") as whole:
        opened(whole)
        if archive.is_tar:
            # From its beginning to its end: seeking would unpack it anew.
            with (
                gzip.GzipFile(fileobj=whole) as unpacked,
                tarfile.open(fileobj=bounded(unpacked, path, key), mode="r|") as tar,
            ):
                member = next(one for one in tar if one.name == chosen)
                yield cast(BinaryIO, tar.extractfile(member))  # a regular one
            return
        with zipfile.ZipFile(whole) as zipped:
            if zipped.getinfo(chosen).flag_bits & 1:
                raise UserError(f"{key}={path} is encrypted: give one without a password")
            with zipped.open(chosen) as opened_member:
                yield bounded(opened_member, path, key)


def _choose_member(key: str, path: Path, names: Sequence[str], ending: str | None) -> str:
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
