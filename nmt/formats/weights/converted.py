"""The converted weights of a run: made from its best weights, stored and checked.

CTranslate2 reads them and needs neither Keras nor the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nmt.data.tokenizer import Tokenizer
from nmt.errors import UserError
from nmt.files import remove_abandoned, replace_atomically
from nmt.formats.weights.ctranslate2 import NotConvertibleError, check_supported, write_model
from nmt.runs.building import choose_weights
from nmt.runs.checkpoint import DAMAGE, digest_arrays
from nmt.runs.custom_model import read_model_name
from nmt.runs.folder import RunFolder

CONVERTED_FILE = "best.ctranslate2"
_VERSION = "2"  # of the conversion
_ORIGIN = "made_from"  # archive member that identifies the weights that were converted
_MAX_CACHE_BYTES = 2 << 30  # of all converted weights in the user's cache


def load_or_convert(
    run: RunFolder, tokenizer: Tokenizer, alignment_layer: int = -1
) -> dict[str, bytes]:
    """Return the files of a CTranslate2 model with the run's best weights, by name.

    Converted weights are stored beside the checkpoint or, if that folder is read-only, in the
    user's cache. Missing, outdated or damaged ones are converted and stored again.

    Args:
        run: the run folder.
        tokenizer: the run's tokenizer.
        alignment_layer: see `write_model`.

    Raises:
        NotConvertibleError: the run has no best weights yet; or see `check_supported`.
        UserError: the weights are damaged or do not fit the configuration, or converting them
            lacks a folder for temporary files.
    """
    if name := read_model_name(run):
        raise NotConvertibleError(f"CTranslate2 does not support model={name}, a class from Python")
    sizes = check_supported(tokenizer, run.config.model.make_sizes(tokenizer.vocabulary_size))
    best = run.checkpoints.best
    if not best.is_file():
        raise NotConvertibleError("the run has no best weights yet")
    checkpoints = [path for path in (best, run.checkpoints.start) if path.is_file()]
    digests = [digest_arrays(path) for path in checkpoints]
    origin = json.dumps([_VERSION, *digests, tokenizer.fingerprint, repr(sizes), alignment_layer])
    in_run = best.with_name(CONVERTED_FILE)
    in_cache = _user_cache() / f"{hashlib.sha256(origin.encode()).hexdigest()}.ctranslate2"
    for path in (in_run, in_cache):
        if files := _read(path, origin):
            if path == in_cache:
                _mark_used(path)
            return files
    weights = choose_weights(run.load_weights()[0])
    with _make_temporary_folder() as folder:
        write_model(weights, best, sizes, tokenizer, Path(folder), alignment_layer=alignment_layer)
        files = {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}
    for path in (in_run, in_cache):
        try:
            _write(path, origin, files)
            if path == in_cache:
                _prune_cache(path)
            break
        except OSError:  # read-only, full or owned by another user: converted again next time
            continue
    return files


def check_converted_file(path: Path) -> None:
    """Compare the contents of stored converted weights with their checksums.

    Raises:
        UserError: the file is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}; it will be made anew") from error
    if damaged is not None:
        raise UserError(f"{path} is damaged: {damaged}; it will be made anew")


def _make_temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory()
    except FileNotFoundError as error:  # neither TMPDIR nor /tmp or another usual one
        raise UserError(
            "no folder for temporary files, such as /tmp, can be written to: set TMPDIR to one"
        ) from error


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("nmt") / "ctranslate2"


def _mark_used(path: Path) -> None:
    """Set the modification time, by which `_prune_cache` orders files."""
    with suppress(OSError):
        os.utime(path)


def _prune_cache(current: Path) -> None:
    """Remove the least recently used files while the cache is too large, never ``current``.

    A file is read in one go, so removing it disturbs no process that uses it. Several processes
    may prune at a time.
    """
    remove_abandoned(current.parent)
    others: list[tuple[float, int, Path]] = []
    total = 0
    for path in current.parent.iterdir():
        with suppress(OSError):  # removed by another process
            status = path.stat()
            if path.suffix == current.suffix and not path.name.startswith("."):
                total += status.st_size
                if path != current:
                    others.append((status.st_mtime, status.st_size, path))
    for _, size, path in sorted(others):
        if total <= _MAX_CACHE_BYTES:
            break
        with suppress(OSError):
            path.unlink()
        total -= size


def _read(path: Path, origin: str) -> dict[str, bytes]:
    """Return the stored files; empty if missing, damaged or converted from other weights."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                return {}  # members are stored uncompressed; this archive would expand
            if archive.read(_ORIGIN).decode() != origin:
                return {}
            # Reading a member compares it with its checksum.
            return {name: archive.read(name) for name in archive.namelist() if name != _ORIGIN}
    except (*DAMAGE, KeyError):  # KeyError: no such member
        return {}


def _write(path: Path, origin: str, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, content in {_ORIGIN: origin.encode(), **files}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a time: the same bytes
