"""Checkpoints: named arrays and metadata in one ``.npz``, written atomically."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import UserError
from nmt.files import replace_atomically

STABILITY_ADVICE = "lower training.learning_rate, or set training.precision=float32"
_METADATA = "metadata.json"
DAMAGE = (  # what reading a damaged archive raises
    ValueError,
    OSError,
    EOFError,
    MemoryError,  # a header requests more memory than available
    RuntimeError,  # encrypted, or an unknown compression
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,  # the header of an array
    zipfile.BadZipFile,
    zlib.error,
)
_STEP_FILE = re.compile(r"step_(\d+)\.npz")


def write_arrays(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write a checkpoint atomically.

    Raises:
        UserError: an array holds NaN or infinity; nothing is written.
    """
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"{path} is not written: {name} holds NaN or infinity; earlier checkpoints "
                f"are intact; {STABILITY_ADVICE}"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    with replace_atomically(path) as file:
        # Metadata last: if the end of the archive's directory is lost, it is missing.
        np.savez(file, **arrays, **{_METADATA: text})  # type: ignore[arg-type]


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint: its arrays by name, and its metadata.

    Raises:
        UserError: it is missing or damaged.
    """
    with _open(path) as archive:
        # Members are stored uncompressed. Together they are longer if they expand or overlap.
        if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            raise UserError(f"{path} is damaged: its members are larger than the file")
        arrays = {
            # Reading the whole member compares its checksum before the array is parsed.
            name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)))
            for name in archive.namelist()
        }
        if _METADATA not in arrays:
            raise UserError(f"{path} is not a checkpoint of this program")
        return arrays, _parse_metadata(path, arrays.pop(_METADATA))


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata of a checkpoint, without its arrays.

    Raises:
        UserError: it is missing or damaged.
    """
    with _open(path) as archive:
        try:
            content = archive.read(f"{_METADATA}.npy")
        except KeyError as error:
            raise UserError(f"{path} is not a checkpoint of this program") from error
        return _parse_metadata(path, np.lib.format.read_array(io.BytesIO(content)))


def _parse_metadata(path: Path, text: np.ndarray) -> dict[str, Any]:
    metadata = json.loads(text.tobytes())
    if not isinstance(metadata, dict):
        raise UserError(f"{path} is damaged: its metadata is not an object")
    return metadata


def digest_arrays(path: Path) -> str:
    """Return a digest of the names, sizes and checksums in a checkpoint, without its arrays.

    Raises:
        UserError: it is missing, or its directory is damaged.
    """
    digest = hashlib.sha256()
    with _open(path) as archive:
        for member in archive.infolist():
            digest.update(f"{member.filename} {member.file_size} {member.CRC}\n".encode())
    return digest.hexdigest()


@contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a checkpoint; what reading it raises becomes a `UserError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError as error:
        raise UserError(f"checkpoint {path} does not exist") from error
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}") from error


class Checkpoints:
    """A run's checkpoints: the last few complete ones, and the best weights.

    Args:
        folder: ``checkpoints`` of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: set[int] = set()  # steps whose checkpoint could not be read

    @property
    def best(self) -> Path:
        """Path of the weights with the best dev score; it may not exist yet."""
        return self.folder / "best.npz"

    @property
    def start(self) -> Path:
        """Path of the weights that are not trained; it exists only if there are any."""
        return self.folder / "start.npz"

    def read_start(self) -> dict[str, np.ndarray]:
        """Read the weights that are not trained; empty if all are.

        Raises:
            UserError: the file is damaged.
        """
        return read_arrays(self.start)[0] if self.start.is_file() else {}

    def steps(self) -> list[int]:
        """Return the steps that have a complete checkpoint, ascending."""
        matches = (_STEP_FILE.fullmatch(path.name) for path in self.folder.glob("step_*"))
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint after ``step`` updates."""
        return self.folder / f"step_{step:08d}.npz"

    def save(
        self, step: int, arrays: dict[str, np.ndarray], metadata: dict[str, Any], *, keep: int
    ) -> None:
        """Write a complete checkpoint, then remove old, damaged and newer ones.

        Newer ones exist if training was resumed from before them or rewound; `load_latest` must not
        return to them.

        Args:
            step: updates made so far.
            arrays: the state of training.
            metadata: the position of training.
            keep: number of checkpoints to keep, this one included.

        Raises:
            UserError: an array holds NaN or infinity; nothing is written.
        """
        write_arrays(self.path(step), arrays, metadata)
        self._damaged.discard(step)
        before = [other for other in self.steps() if other <= step and other not in self._damaged]
        for other in set(self.steps()).difference(before[-keep:]):
            self.path(other).unlink(missing_ok=True)

    def load_latest(
        self, log: Callable[[str], object] = lambda message: None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Read the newest complete checkpoint that is not damaged; None without any checkpoint.

        Damaged ones are remembered, and removed by the next `save`.

        Args:
            log: called with a message for each damaged one, which is skipped.

        Raises:
            UserError: all are damaged.
        """
        newest_error: UserError | None = None
        for step in reversed(self.steps()):
            try:
                checkpoint = read_arrays(self.path(step))
                self._damaged.discard(step)
                return checkpoint
            except UserError as error:
                self._damaged.add(step)
                newest_error = newest_error or error
                log(f"{error}: skipped")
        if newest_error is not None:
            raise newest_error
        return None
