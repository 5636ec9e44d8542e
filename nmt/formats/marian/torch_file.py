"""The weights in a ``pytorch_model.bin``, read as data: no code in the file is executed.

Such a file holds a pickle that describes tensors (storage, offset, shape, strides) and, separately,
the storages as bytes. A pickle may name any function of any package; this reader knows the few that
describe tensors, and rejects all others.
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

_MAGIC = 0x1950A86A20F9469CFC6C  # at the start of files written before PyTorch 1.6
_DTYPES: dict[str, np.dtype[Any]] = {
    "FloatStorage": np.dtype("<f4"),
    "HalfStorage": np.dtype("<f2"),
    "DoubleStorage": np.dtype("<f8"),
    "LongStorage": np.dtype("<i8"),
    "BFloat16Storage": np.dtype("<u2"),  # the upper half of a float32's bits
}
_BFLOAT16 = "BFloat16Storage"
_DAMAGE = (
    *(pickle.UnpicklingError, EOFError, KeyError, IndexError, ValueError, TypeError),
    *(AttributeError, OSError, zipfile.BadZipFile, RecursionError, MemoryError, OverflowError),
)


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
    """Return the tensors of a state dictionary by name, floating-point ones in float32.

    Args:
        path: a file of any version of ``torch.save``.

    Raises:
        UserError: it is not such a file, is damaged, or holds more than tensors.
    """
    try:
        with path.open("rb") as file:
            read = _read_archive if zipfile.is_zipfile(file) else _read_stream
            file.seek(0)
            tensors, load_storage = read(file)
            if not isinstance(tensors, dict):
                raise UserError(f"{path} is not a dictionary of tensors")
            return {
                str(name): _make_array(tensor, load_storage)
                for name, tensor in tensors.items()
                if isinstance(tensor, _Tensor)
            }
    except _DAMAGE as error:
        raise UserError(f"{path} is not a file of tensors, or is damaged: {error}") from error


LoadStorage = Callable[[_Storage], bytes]


def _read_archive(file: BinaryIO) -> tuple[Any, LoadStorage]:
    """Read a file of PyTorch 1.6 or later, which is a zip archive."""
    archive = zipfile.ZipFile(file)
    if sum(member.file_size for member in archive.infolist()) > file.seek(0, io.SEEK_END):
        # PyTorch stores members uncompressed.
        raise ValueError("it expands to more than its size")
    [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
    folder = name.removesuffix("data.pkl")

    def load_storage(storage: _Storage) -> bytes:
        return archive.read(f"{folder}data/{storage.key}")

    return _TensorUnpickler(io.BytesIO(archive.read(name))).load(), load_storage


def _read_stream(file: BinaryIO) -> tuple[Any, LoadStorage]:
    """Read an older file: several pickles, then the length and bytes of each storage."""
    if _TensorUnpickler(file).load() != _MAGIC:
        raise pickle.UnpicklingError("it does not begin with PyTorch's magic number")
    for _ in ("format version", "system information"):
        _TensorUnpickler(file).load()
    unpickler = _TensorUnpickler(file)
    tensors = unpickler.load()
    storages = {}
    for key in _TensorUnpickler(file).load():
        dtype = _DTYPES[unpickler.storage_types[key]]
        count = int(np.frombuffer(file.read(8), "<i8")[0])
        storages[key] = file.read(count * dtype.itemsize)
    return tensors, lambda storage: storages[storage.key]


class _TensorUnpickler(pickle.Unpickler):
    """Unpickles descriptions of tensors, and nothing else."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storage_types: dict[str, str] = {}  # by key

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return name  # which stands for the class
        supported: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
        }
        if (module, name) not in supported:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no tensor needs")
        return supported[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        _, name, key, *_ = pid
        self.storage_types[key] = name
        return _Storage(name, key)


def _rebuild(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _make_array(tensor: _Tensor, load_storage: LoadStorage) -> np.ndarray:
    """Return a copy of a tensor's part of its storage."""
    dtype = _DTYPES[tensor.storage.type]
    values: np.ndarray[Any, Any] = np.frombuffer(load_storage(tensor.storage), dtype)
    if tensor.storage.type == _BFLOAT16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    shape, strides = tensor.shape, tensor.strides
    if len(shape) != len(strides) or min((*shape, *strides, tensor.offset), default=0) < 0:
        raise ValueError("a tensor's shape and strides do not fit")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 not in shape and (last >= len(values) or math.prod(shape) > len(values)):
        raise ValueError("a tensor is larger than its storage")
    steps = [step * values.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(values[tensor.offset :], shape, steps)
    return np.array(view, np.float32 if values.dtype.kind == "f" else values.dtype)
