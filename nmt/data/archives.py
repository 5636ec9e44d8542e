"""Reading members of corpus archives, zip or gzipped tar, without unpacking them to disk."""

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
from typing import IO, NamedTuple, TypeAlias, cast

from backports import zstd

from nmt.errors import UserError

DAMAGE = (  # raised when a damaged archive is unpacked, apart from `OSError`
    ValueError,
    EOFError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    zstd.ZstdError,
)
GZIP = b"\x1f\x8b"  # first bytes of a gzip file
_CHUNK = 1 << 20  # bytes

Unpacked: TypeAlias = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | zstd.ZstdFile


def max_unpacked(packed: int) -> int:
    """Return the unpacked size, in bytes, that is allowed for an archive of ``packed`` bytes.

    Natural language compresses 3 to 10 times, and Deflate up to 1,030 times: 200 is far from both.
    The 64 MiB allow for small archives of repetitive lines.
    """
    return 200 * packed + (64 << 20)


def bounded(
    unpacked: Unpacked, path: Path, key: str, label: Path | None = None
) -> io.BufferedReader:
    """Return the content of a packed file; reading beyond `max_unpacked` bytes is a `UserError`.

    Messages name the file by ``key``, of the configuration, and ``label``, by default its path.
    """
    return io.BufferedReader(_Bounded(unpacked, path, f"{key}={label or path}"))


class _Bounded(io.RawIOBase):
    def __init__(self, unpacked: Unpacked, path: Path, name: str) -> None:
        self._unpacked = unpacked
        self._name = name
        self._packed_size = path.stat().st_size
        self._left = max_unpacked(self._packed_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._unpacked.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._name} is rejected, its {self._packed_size:,} bytes unpack to more than "
                f"{max_unpacked(self._packed_size):,}: unpack it yourself if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)


class Archive(NamedTuple):
    """An archive that has been read once."""

    path: Path
    is_tar: bool
    sha256: str
    members: tuple[str, ...]  # names


def inspect_archive(
    path: Path, key: str, *, test_members: bool = False, label: Path | None = None
) -> Archive:
    """Read an archive once.

    Args:
        path: of the archive.
        key: of the configuration, for messages.
        test_members: whether every member is unpacked; not done for a zip that is too large, which
            fails when a member is read.
        label: name of the archive in messages; None: its path.

    Raises:
        UserError: a tar unpacks to more than `max_unpacked`.
        OSError or one of `DAMAGE`: the archive is damaged.
    """
    with path.open("rb") as file:
        hashed = _Hashed(file)
        is_tar = file.peek(len(GZIP))[: len(GZIP)] == GZIP
        members = (
            _list_tar(hashed, path, key, test_members, label)
            if is_tar
            else _list_zip(path, test_members)
        )
        return Archive(path, is_tar, hashed.finish(), members)


class _Hashed(io.RawIOBase):
    """A file that is hashed while it is read."""

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
    file: _Hashed, path: Path, key: str, test_members: bool, label: Path | None
) -> tuple[str, ...]:
    with (
        gzip.GzipFile(fileobj=file) as unpacked,
        bounded(unpacked, path, key, label) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        members = [(member.name, member.isfile()) for member in archive]
        while test_members and stream.read(_CHUNK):
            pass
    if not members:
        raise tarfile.ReadError("it is empty")
    return tuple(name for name, is_file in members if is_file)


def _list_zip(path: Path, test_members: bool) -> tuple[str, ...]:
    with zipfile.ZipFile(path) as archive:
        unpacked_size = sum(member.file_size for member in archive.infolist())
        if test_members and unpacked_size <= max_unpacked(path.stat().st_size):
            damaged = archive.testzip()
            if damaged is not None:
                raise zipfile.BadZipFile(f"Bad CRC-32 of {damaged!r}")
        return tuple(archive.namelist())


@contextmanager
def open_member(
    archive: Archive, key: str, on_open: Callable[[IO[bytes]], None], ending: str | None
) -> Iterator[io.BufferedReader]:
    """Open a text file in an archive.

    Args:
        archive: from `inspect_archive`.
        key: of the configuration, for messages.
        on_open: called with the open archive.
        ending: of the file's name; None: the only text file of pairs.

    Raises:
        UserError: the archive is encrypted, unpacks to too much, or has no such file.
        OSError or one of `DAMAGE`: the archive is damaged.
    """
    path = archive.path
    chosen = _choose_member(key, path, archive.members, ending)
    with path.open("rb") as packed:
        on_open(packed)
        if archive.is_tar:
            # Streamed from the beginning: seeking would unpack it again.
            with (
                gzip.GzipFile(fileobj=packed) as unpacked,
                tarfile.open(fileobj=bounded(unpacked, path, key), mode="r|") as tar,
            ):
                member = next(member for member in tar if member.name == chosen)
                # A regular file, so not None.
                yield cast(io.BufferedReader, tar.extractfile(member))
            return
        with zipfile.ZipFile(packed) as zipped:
            if zipped.getinfo(chosen).flag_bits & 1:
                raise UserError(f"{key}={path} is encrypted: give one without a password")
            with zipped.open(chosen) as member_file:
                yield bounded(member_file, path, key)


def _choose_member(key: str, path: Path, names: Sequence[str], ending: str | None) -> str:
    """Return the only member with this ending; without an ending, ``spa.txt`` or the only .txt."""
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if parts[0] == "" or parts[0].endswith(":") or ".." in parts:
            raise UserError(
                f"{key}={path} is rejected, its member {name!r} points outside of the "
                "archive's folder: get the archive from a source you trust"
            )
    visible = [name for name in names if not PurePosixPath(name).name.startswith((".", "_about"))]
    if ending is not None:
        matches = [name for name in visible if name.endswith(ending)]
        if len(matches) != 1:
            raise UserError(
                f"{key}={path} holds {len(matches)} files whose names end in {ending}, where one "
                f"is expected: correct the members of the source ({', '.join(names[:4])})"
            )
        return matches[0]
    texts = [name for name in visible if name.endswith(".txt")]
    chosen = [name for name in texts if PurePosixPath(name).name == "spa.txt"] or texts
    if len(chosen) != 1:
        names = f" ({', '.join(chosen[:3])})" if chosen else ""
        raise UserError(
            f"{key}={path} holds {len(chosen) or 'no'} text files{names}, where one of sentence "
            "pairs is expected, such as spa.txt: unpack it and use data=files data.train=FILE"
        )
    return chosen[0]
