"""Checkpoints: named arrays and a little metadata in one ``.npz``, written atomically."""

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
from collections.abc import Callable
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
    MemoryError,  # a header asks for more than there is
    RuntimeError,  # encrypted, or compressed in an unknown way
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,  # the header of an array
    zipfile.BadZipFile,
    zlib.error,
)
_STEP_FILE = re.compile(r"step_(\d+)\.npz")


def write_arrays(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write a checkpoint: it is whole or not there.

    Raises:
        UserError: a number is not finite; nothing is written.
    """
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"{path} is not written: {name} holds numbers that are not finite; what was saved "
                f"before is intact; {STABILITY_ADVICE}"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    with replace_atomically(path) as file:
        # Metadata last: where the end of the archive's directory is lost, they are missing.
        np.savez(file, **arrays, **{_METADATA: text})  # type: ignore[arg-type]


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint back.

    Raises:
        UserError: it is missing, or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # Members are stored as they are: none expands, none is read twice.
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise UserError(f"{path} is damaged: its parts are longer than itself")
            arrays = {
                # The whole member is read, and so its checksum compared, before it is believed.
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)))
                for name in archive.namelist()
            }
        if _METADATA not in arrays:
            raise UserError(f"{path} is not a checkpoint of this program")
        return arrays, json.loads(arrays.pop(_METADATA).tobytes())
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}") from error


def digest_arrays(path: Path) -> str:
    """Return a digest of the names, sizes and checksums in a checkpoint, which are few bytes of it.

    Raises:
        UserError: it is missing, or its directory is damaged.
    """
    state = hashlib.sha256()
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                state.update(f"{member.filename} {member.file_size} {member.CRC}\n".encode())
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}") from error
    return state.hexdigest()


class Checkpoints:
    """The checkpoints of a run: the last few, complete, and the best weights.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: set[int] = set()  # updates whose checkpoint could not be read

    @property
    def best(self) -> Path:
        """The weights with the best dev score; it may not exist yet."""
        return self.folder / "best.npz"

    @property
    def start(self) -> Path:
        """The weights that are not trained, kept once; there is none where all are."""
        return self.folder / "start.npz"

    def read_start(self) -> dict[str, np.ndarray]:
        """Read the weights that are not trained; none where all are.

        Raises:
            UserError: they are damaged.
        """
        return read_arrays(self.start)[0] if self.start.is_file() else {}

    def steps(self) -> list[int]:
        """Return the updates after which a complete checkpoint was kept, ascending."""
        found = (_STEP_FILE.fullmatch(path.name) for path in self.folder.glob("step_*"))
        return sorted(int(match[1]) for match in found if match)

    def path(self, step: int) -> Path:
        """Return where the checkpoint after ``step`` updates lies."""
        return self.folder / f"step_{step:08d}.npz"

    def save(
        self, step: int, arrays: dict[str, np.ndarray], metadata: dict[str, Any], *, keep: int
    ) -> None:
        """Write a complete checkpoint, then remove old, damaged and newer ones.

        Newer ones belong to a training that was given up: this one was resumed, or went back,
        before them. `load_latest` would return to them.

        Args:
            step: updates made so far.
            arrays: the state of training.
            metadata: the position of training.
            keep: how many checkpoints remain, this one included.

        Raises:
            UserError: a number is not finite; nothing is written.
        """
        write_arrays(self.path(step), arrays, metadata)
        self._damaged.discard(step)
        before = [other for other in self.steps() if other <= step and other not in self._damaged]
        for other in set(self.steps()).difference(before[-keep:]):
            self.path(other).unlink(missing_ok=True)

    def load_latest(
        self, say: Callable[[str], object] = lambda line: None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Read the newest complete checkpoint that is sound, or return None if there never was one.

        Args:
            say: is told of each damaged one, which is passed over.

        Raises:
            UserError: all are damaged.
        """
        damage: UserError | None = None
        for step in reversed(self.steps()):
            try:
                stored = read_arrays(self.path(step))
                self._damaged.discard(step)
                return stored
            except UserError as error:
                self._damaged.add(step)
                damage = damage or error
                say(f"{error}: it is passed over")
        if damage is not None:
            raise damage
        return None
