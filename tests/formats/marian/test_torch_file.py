"""Weights are read out of PyTorch's files, and nothing in them is executed."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import load_file

from nmt.errors import UserError
from nmt.formats.marian.torch_file import read_torch_file

RECORDED = Path(__file__).parent / "recorded"


class Global:
    """Pickles as a class of another package, without that package."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Writer(pickle._Pickler):
    """Writes `Global` as its name."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if isinstance(obj, Global):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        else:
            super().save_global(obj, name)

    dispatch: ClassVar[dict[Any, Any]] = {**pickle._Pickler.dispatch, Global: save_global}


def tensor(
    kind: str, key: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> bytes:
    """Return the pickle of {"w": a tensor} as PyTorch writes it, protocol 2."""
    out = io.BytesIO()
    writer = Writer(out, protocol=2)
    out.write(b"\x80\x02}q\x00X\x01\x00\x00\x00w")  # {, "w"
    out.write(b"ctorch._utils\n_rebuild_tensor_v2\n(")
    out.write(b"(")
    for part in ("storage", Global("torch", kind), key, "cpu", 1):
        writer.save(part)
    out.write(b"tQ")  # a tuple: the name of a storage
    for part in (offset, shape, strides, False, None):
        writer.save(part)
    out.write(b"tRs.")  # a tuple, called with, and put into the table
    return out.getvalue()


def write(path: Path, content: bytes, storage: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/data/0", storage)
    return path


@pytest.mark.parametrize("form", ["bin", "legacy"])
def test_both_kinds_of_file_hold_what_safetensors_does(form: str) -> None:
    expected = load_file(RECORDED / "model.safetensors")
    tensors = read_torch_file(RECORDED / f"{form}.bin")
    assert expected.keys() <= tensors.keys()
    for name, array in expected.items():
        assert tensors[name].dtype == np.float32
        np.testing.assert_array_equal(tensors[name], array)


@pytest.mark.parametrize(
    ("kind", "dtype", "atol"),
    [("FloatStorage", "<f4", 0), ("HalfStorage", "<f2", 1e-3), ("DoubleStorage", "<f8", 1e-6)],
)
def test_tensors_are_read_by_their_strides(
    tmp_path: Path, kind: str, dtype: str, atol: float
) -> None:
    values = np.linspace(-1, 1, 10)
    path = write(
        tmp_path / "w.bin", tensor(kind, "0", 2, (2, 3), (1, 2)), values.astype(dtype).tobytes()
    )
    expected = [[values[2 + i + 2 * j] for j in range(3)] for i in range(2)]
    array = read_torch_file(path)["w"]
    assert array.dtype == np.float32
    np.testing.assert_allclose(array, expected, atol=max(atol, 1e-6))


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    exact = np.array([1.5, -0.25, 3.0, 0.0], np.float32)
    upper = (exact.view(np.uint32) >> 16).astype("<u2").tobytes()
    path = write(tmp_path / "w.bin", tensor("BFloat16Storage", "0", 0, (4,), (1,)), upper)
    np.testing.assert_array_equal(read_torch_file(path)["w"], exact)


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    class Attack:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(mark),)

    attack = pickle.dumps({"w": Attack()}, protocol=2)
    path = write(tmp_path / "zip.bin", attack)
    stream = tmp_path / "stream.bin"
    stream.write_bytes(attack)
    for file in (path, stream):
        with pytest.raises(UserError, match=r"it names \w+\.mkdir, which no tensor needs"):
            read_torch_file(file)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (5,), (1,)),  # larger than what is stored
        (3, (2,), (1,)),
        (0, (2, 2), (3, 1)),
        (0, (1 << 40,), (0,)),  # as large as one likes, of one number
        (-1, (2,), (1,)),
        (0, (2,), (-1,)),
        (0, (2,), (1, 1)),
    ],
)
def test_no_tensor_reaches_beyond_its_storage(
    tmp_path: Path, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    content = tensor("FloatStorage", "0", offset, shape, strides)
    path = write(tmp_path / "w.bin", content, np.zeros(4, "<f4").tobytes())
    with pytest.raises(UserError, match="damaged"):
        read_torch_file(path)


def test_what_unpacks_to_more_than_it_is_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", tensor("FloatStorage", "0", 0, (4,), (1,)))
        archive.writestr("archive/data/0", bytes(1 << 20))
    with pytest.raises(UserError, match="expands to more than its size"):
        read_torch_file(path)


def test_a_damaged_file_is_said_to_be(tmp_path: Path) -> None:
    for form in ("bin", "legacy"):
        content = (RECORDED / f"{form}.bin").read_bytes()
        for size in (0, 10, 100, len(content) // 2):
            path = tmp_path / "cut.bin"
            path.write_bytes(content[:size])
            with pytest.raises(UserError, match="not a file of tensors, or is damaged"):
                read_torch_file(path)
    with pytest.raises(UserError, match="not a file of tensors"):
        read_torch_file(tmp_path / "missing.bin")
