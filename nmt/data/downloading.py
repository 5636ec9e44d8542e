"""Archives from the web, kept in the cache: whole, or not there."""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from nmt.data.archives import DAMAGE, Archive, inspect_archive
from nmt.errors import UserError
from nmt.files import partial_path

DOWNLOAD_TIMEOUT = 30.0  # seconds without a byte, not for the whole download
_CHUNK = 1 << 16  # bytes
_SUFFIXES = (".zip", ".tgz", ".tar.gz")


@contextmanager
def fetch_archive(
    url: str,
    cache_dir: Path,
    key: str,
    log: Callable[[str], None],
    *,
    keep: bool = True,
    sha256: str | None = None,
) -> Iterator[Archive]:
    """Yield the archive behind ``url``, fetched unless it is in ``cache_dir``, whole.

    Args:
        url: of a zip, or a .tgz.
        cache_dir: where it is kept, and looked for.
        key: what a user sets to name a file instead.
        log: takes one-line messages.
        keep: False leaves ``cache_dir`` as it is.
        sha256: what the archive must have, in lower case; None: any.

    Raises:
        UserError: the download failed, or is of another SHA-256; or a tar unpacks to too much.
    """
    path = cache_dir / archive_name(url)
    kept = _inspect_kept(path, key)
    if kept is not None and sha256 in (None, kept.sha256):
        log(f"using the archive downloaded before: {path}")
        yield kept
        return
    log(f"downloading {url}")
    if keep:
        yield _download(url, path, key, sha256)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield _download(url, Path(folder) / path.name, key, sha256)


def _inspect_kept(path: Path, key: str) -> Archive | None:
    """Return the archive in the cache; None: it is missing or damaged."""
    try:
        return inspect_archive(path, key, whole=True)
    except (OSError, RuntimeError, *DAMAGE):
        return None


def archive_name(url: str) -> str:
    """Return the name in the cache: that in the URL if it is an archive's, and a hash of all of it.

    Two addresses that end in the same file name are two archives.
    """
    name = PurePosixPath(urlsplit(url).path).name
    suffix = next((one for one in _SUFFIXES if name.endswith(one) and name != one), None)
    hashed = f"{blake2b(url.encode(), digest_size=8).hexdigest()}{suffix or '.zip'}"
    return f"{name.removesuffix(suffix)}-{hashed}" if suffix else hashed


def _download(url: str, path: Path, key: str, sha256: str | None) -> Archive:
    """Fetch an archive; it is whole, and what it is to be, or not there."""
    partial = partial_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            _fetch(url, file)
        archive = _inspect_downloaded(partial, path, key)
        if sha256 not in (None, archive.sha256):
            raise ValueError(f"its SHA-256 is {archive.sha256}, and {sha256} is expected")
        partial.replace(path)
        return archive._replace(path=path)
    except (OSError, HTTPException, ValueError) as error:
        why = error.reason if type(error) is urllib.error.URLError else error
        raise UserError(
            f"the download of {url} to {path} failed: {' '.join(str(why).split())}; pass {key}=FILE"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def _inspect_downloaded(partial: Path, path: Path, key: str) -> Archive:
    """Inspect a download that is to be kept as ``path``.

    Raises:
        ValueError: it is not whole.
        UserError: it unpacks to too much; it is kept, for those who trust it.
    """
    try:
        return inspect_archive(partial, key, whole=True, called=path)
    except UserError:
        partial.replace(path)
        raise
    except (OSError, RuntimeError, *DAMAGE) as error:
        size = partial.stat().st_size
        raise ValueError(f"its {size:,} bytes are no whole archive, zip or .tgz") from error


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
