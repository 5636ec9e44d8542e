"""Downloads of archives, cached on disk; an incomplete one is never kept."""

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
    keep: bool,
    sha256: str | None,
) -> Iterator[Archive]:
    """Yield the archive at ``url``, from the cache if it holds an intact copy.

    Args:
        url: of a zip or .tgz.
        cache_dir: folder of the cache.
        key: the configuration key that names a local file instead, for messages.
        log: called with messages.
        keep: False leaves ``cache_dir`` unchanged.
        sha256: the expected digest, in lower case; None: any.

    Raises:
        UserError: the download fails or has another SHA-256, or a tar unpacks to too much.
    """
    path = cache_dir / archive_name(url)
    cached = _inspect_cached(path, key)
    if cached is not None and sha256 in (None, cached.sha256):
        log(f"using the archive downloaded before: {path}")
        yield cached
        return
    log(f"downloading {url}")
    if keep:
        yield _download(url, path, key, sha256)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield _download(url, Path(folder) / path.name, key, sha256)


def _inspect_cached(path: Path, key: str) -> Archive | None:
    """Return the archive in the cache; None if it is missing or damaged."""
    try:
        return inspect_archive(path, key, test_members=True)
    except (OSError, RuntimeError, *DAMAGE):
        return None


def archive_name(url: str) -> str:
    """Return the file name in the cache: that of the URL, if any, and a hash of the whole URL.

    So two addresses that end in the same file name are two archives.
    """
    name = PurePosixPath(urlsplit(url).path).name
    suffix = next((end for end in _SUFFIXES if name.endswith(end) and name != end), None)
    hashed = f"{blake2b(url.encode(), digest_size=8).hexdigest()}{suffix or '.zip'}"
    return f"{name.removesuffix(suffix)}-{hashed}" if suffix else hashed


def _download(url: str, path: Path, key: str, sha256: str | None) -> Archive:
    """Download an archive to ``path``, unless it is damaged or has another SHA-256."""
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
        reason = error.reason if type(error) is urllib.error.URLError else error
        line = " ".join(str(reason).split())
        raise UserError(
            f"the download of {url} to {path} failed: {line}; pass {key}=FILE"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def _inspect_downloaded(partial: Path, path: Path, key: str) -> Archive:
    """Inspect a download that will be renamed to ``path``.

    Raises:
        ValueError: it is damaged.
        UserError: it unpacks to too much; it is kept as ``path``, for users who trust it.
    """
    try:
        return inspect_archive(partial, key, test_members=True, label=path)
    except UserError:
        partial.replace(path)
        raise
    except (OSError, RuntimeError, *DAMAGE) as error:
        size = partial.stat().st_size
        raise ValueError(f"its {size:,} bytes are not a complete zip or .tgz") from error


def _fetch(url: str, file: BinaryIO) -> None:
    """Copy the content of ``url`` to ``file``, with a progress bar on terminals."""
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    # Some hosts, such as manythings.org, refuse the default user agent of urllib.
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
