"""The weights in a ``pytorch_model.bin``, read as data: nothing written there is executed.

Such a file holds a pickle that names what makes a tensor (storage, offset, shape, strides) and,
apart from it, the storages as bytes. A pickle may name any function of any package; this reader
knows the few that tensors are made of, and refuses all others.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.errors import UserError

_MAGIC = 0x1950A86A20F9469CFC6C  # begins a file of before PyTorch 1.6
_DTYPES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "DoubleStorage": np.dtype("<f8"),
    "LongStorage": np.dtype("<i8"),
    "BFloat16Storage": np.dtype("<u2"),  # whose bits are the upper half of a float32's
}
_BFLOAT16 = "BFloat16Storage"
_DAMAGE = (
    *(pickle.UnpicklingError, EOFError, KeyError, IndexError, ValueError, TypeError),
    *(AttributeError, OSError, zipfile.BadZipFile, RecursionError, MemoryError, OverflowError),
)


@dataclass(frozen=True)
class _StorageType:
    name: str


@dataclass(frozen=True)
class _Storage:
    type: str
    key: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_file(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a state dictionary, by name, in float32 where they are of less.

    Args:
        path: as ``torch.save`` writes it, of any version.

    Raises:
        UserError: it is no such file, is damaged, or holds more than tensors.
    """
    try:
        with path.open("rb") as file:
            read = _read_archive if zipfile.is_zipfile(file) else _read_stream
            file.seek(0)
            tensors, take = read(file)
            if not isinstance(tensors, dict):
                raise UserError(f"{path} holds no table of tensors")
            return {
                str(name): _make(tensor, take)
                for name, tensor in tensors.items()
                if isinstance(tensor, _Tensor)
            }
    except _DAMAGE as error:
        raise UserError(f"{path} is no file of tensors, or damaged: {error}") from error


Take = Callable[[_Storage], bytes]


def _read_archive(file: BinaryIO) -> tuple[Any, Take]:
    """Read a file of PyTorch 1.6 or later: a zip archive."""
    archive = zipfile.ZipFile(file)
    if sum(member.file_size for member in archive.infolist()) > file.seek(0, io.SEEK_END):
        raise ValueError("it unpacks to more than it is")  # PyTorch compresses nothing
    [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
    folder = name.removesuffix("data.pkl")

    def take(storage: _Storage) -> bytes:
        return archive.read(f"{folder}data/{storage.key}")

    return _Reader(io.BytesIO(archive.read(name))).load(), take


def _read_stream(file: BinaryIO) -> tuple[Any, Take]:
    """Read a file of before: pickles one after the other, then each storage with its length."""
    if _Reader(file).load() != _MAGIC:
        raise pickle.UnpicklingError("it does not begin as such a file")
    for _ in ("version of the format", "what wrote it"):
        _Reader(file).load()
    reader = _Reader(file)
    tensors = reader.load()
    stored = {}
    for key in _Reader(file).load():
        dtype = _DTYPES[reader.types[key]]
        count = int(np.frombuffer(file.read(8), "<i8")[0])
        stored[key] = file.read(count * dtype.itemsize)
    return tensors, lambda storage: stored[storage.key]


class _Reader(pickle.Unpickler):
    """Knows what tensors are made of, and nothing else."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.types: dict[str, str] = {}  # of storages, by key

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return _StorageType(name)
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no part of a tensor")
        return known[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        _, kind, key, *_ = pid
        self.types[key] = kind.name
        return _Storage(kind.name, key)


def _rebuild(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _make(tensor: _Tensor, take: Take) -> np.ndarray:
    """Return what a tensor is of its storage."""
    dtype = _DTYPES[tensor.storage.type]
    values: np.ndarray[Any, Any] = np.frombuffer(take(tensor.storage), dtype)
    if tensor.storage.type == _BFLOAT16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    shape, strides = tensor.shape, tensor.strides
    if len(shape) != len(strides) or min((*shape, *strides, tensor.offset), default=0) < 0:
        raise ValueError("a tensor's shape and strides do not fit")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 not in shape and (last >= len(values) or math.prod(shape) > len(values)):
        raise ValueError("a tensor is larger than what is stored of it")
    steps = [step * values.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(values[tensor.offset :], shape, steps)
    return np.array(view, np.float32 if values.dtype.kind == "f" else values.dtype)
