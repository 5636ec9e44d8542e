"""A checkpoint is whole or not there, and a damaged one is named."""

from __future__ import annotations

import io
import itertools
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import UserError
from nmt.runs import checkpoint
from nmt.runs.checkpoint import Checkpoints, read_arrays, read_metadata, write_arrays

ARRAYS = {
    "model/a/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "optimizer/0": np.int64(7),
}


def latest_step(checkpoints: Checkpoints) -> int:
    latest = checkpoints.load_latest()
    assert latest is not None
    return int(latest[1]["step"])


def test_arrays_and_metadata_come_back(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", ARRAYS, {"step": 3, "best_score": None})
    arrays, metadata = read_arrays(tmp_path / "x.npz")
    assert metadata == {"step": 3, "best_score": None}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == np.asarray(array).dtype


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npz"
    write_arrays(path, ARRAYS, {"step": 1})

    def full(*arguments: object, **arrays: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.np, "savez", full)
    with pytest.raises(OSError, match="disk full"):
        write_arrays(path, ARRAYS, {"step": 2})
    assert read_arrays(path)[1] == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load_latest() is None
    for step in (5, 10, 15):
        checkpoints.save(step, {"a": np.array(step)}, {"step": step}, keep=2)
    assert checkpoints.steps() == [10, 15]
    latest = checkpoints.load_latest()
    assert latest is not None
    assert latest[1] == {"step": 15}


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_a_save_removes_newer_checkpoints_and_never_its_own(tmp_path: Path, keep: int) -> None:
    """Training resumed from update 2000, since the checkpoint of update 3000 is damaged."""
    checkpoints = Checkpoints(tmp_path)
    for step in (1000, 2000, 3000):
        checkpoints.save(step, ARRAYS, {"step": step}, keep=3)
    checkpoints.path(3000).write_bytes(b"")
    assert latest_step(Checkpoints(tmp_path)) == 2000
    checkpoints = Checkpoints(tmp_path)  # of another session, which has not seen the damage
    checkpoints.save(2300, ARRAYS, {"step": 2300}, keep=keep)
    assert checkpoints.steps() == [1000, 2000, 2300][-keep:]
    assert latest_step(checkpoints) == 2300


def test_a_damaged_checkpoint_takes_no_place_of_a_sound_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1000, 2000):
        checkpoints.save(step, ARRAYS, {"step": step}, keep=2)
    checkpoints.path(2000).write_bytes(b"")
    assert latest_step(checkpoints) == 1000
    assert checkpoints.steps() == [1000, 2000]  # reading removes nothing
    checkpoints.save(2300, ARRAYS, {"step": 2300}, keep=2)
    assert checkpoints.steps() == [1000, 2300]
    checkpoints.path(1000).write_bytes(b"")
    checkpoints.path(2300).write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        checkpoints.load_latest()
    checkpoints.save(2300, ARRAYS, {"step": 2300}, keep=2)  # sound again
    checkpoints.save(2400, ARRAYS, {"step": 2400}, keep=2)
    assert checkpoints.steps() == [2300, 2400]


def test_other_files_beside_the_checkpoints_are_left_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    others = [tmp_path / name for name in ("step_copy.npz", "step_00000009.npz.old", "step_1.txt")]
    for path in others:
        path.touch()
    for step in (1, 2):
        checkpoints.save(step, {"a": np.array(step)}, {"step": step}, keep=1)
    assert checkpoints.steps() == [2]
    assert sorted(tmp_path.iterdir()) == sorted([*others, checkpoints.path(2)])


def test_others_may_read_a_checkpoint(tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.npz", ARRAYS, {})
    (tmp_path / "plain").touch()
    assert (tmp_path / "x.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"checkpoint .*x\.npz does not exist"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.npz is damaged"):
        read_arrays(tmp_path / "x.npz")


def test_a_truncated_checkpoint_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write_arrays(path, ARRAYS, {})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="damaged"):
        read_arrays(path)


def test_a_single_array_is_no_checkpoint(tmp_path: Path) -> None:
    with (tmp_path / "x.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(UserError, match=r"x\.npz is damaged"):
        read_arrays(tmp_path / "x.npz")


def test_what_expands_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with path.open("wb") as file:
        np.savez_compressed(file, model=np.zeros(1 << 24, np.uint8))
    with pytest.raises(
        UserError, match=r"bomb\.npz is damaged: its members are larger than the file"
    ):
        read_arrays(path)


def test_a_header_that_asks_for_too_much_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "asks.npz"
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        array, {"descr": "<f4", "fortran_order": False, "shape": (1 << 60,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/weight.npy", array.getvalue())
    with pytest.raises(UserError, match=r"asks\.npz is damaged"):
        read_arrays(path)


def test_a_header_that_ends_too_soon_is_damage(tmp_path: Path) -> None:
    header = b"{'descr': ("
    array = np.lib.format.magic(1, 0) + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("model/weight.npy", array)
    with pytest.raises(UserError, match=r"x\.npz is damaged"):
        read_arrays(tmp_path / "x.npz")


def test_damaged_metadata_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{"metadata.json": np.frombuffer(b"{", np.uint8)})
    with pytest.raises(UserError, match=r"x\.npz is damaged"):
        read_arrays(tmp_path / "x.npz")


def test_another_archive_is_no_checkpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(UserError, match=r"x\.npz"):
        read_arrays(tmp_path / "x.npz")


def test_what_is_not_finite_is_not_written(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, ARRAYS, {"step": 1}, keep=1)
    for number in (np.nan, np.inf):
        with pytest.raises(UserError, match=r"b/bias holds NaN or infinity"):
            checkpoints.save(2, ARRAYS | {"b/bias": np.array([0, number], np.float32)}, {}, keep=1)
    assert list(tmp_path.iterdir()) == [checkpoints.path(1)]


def test_the_newest_sound_one_is_read(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(step, ARRAYS, {"step": step}, keep=3)
    checkpoints.path(3).write_bytes(checkpoints.path(3).read_bytes()[:-30])
    checkpoints.path(2).write_bytes(b"")
    messages: list[str] = []
    latest = checkpoints.load_latest(messages.append)
    assert latest is not None
    assert latest[1] == {"step": 1}
    steps_and_messages = zip((3, 2), messages, strict=True)
    assert [str(checkpoints.path(step)) in line for step, line in steps_and_messages] == [True] * 2
    checkpoints.path(1).write_bytes(b"PK")
    with pytest.raises(UserError, match=r"step_00000003\.npz is damaged"):
        checkpoints.load_latest()


def test_any_damage_is_found_or_harmless(tmp_path: Path) -> None:
    """Every byte of a checkpoint, its archive's directory included, and cuts."""
    path = tmp_path / "x.npz"
    arrays = {"model/a": np.arange(3, dtype=np.float32)}
    write_arrays(path, arrays, {"step": 1})
    content = path.read_bytes()
    # 6 makes f2 of f4: fewer bytes are read, and the sum over all of them is not compared.
    # 1 encrypts, 14 names a way of compression, and 64 asks for a version to come.
    masks = (1, 6, 14, 64)
    damaged = [content[:size] for size in range(0, len(content), 3)]
    for offset, mask in itertools.product(range(len(content)), masks):
        damaged.append(content[:offset] + bytes([content[offset] ^ mask]) + content[offset + 1 :])
    harmless = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            stored, metadata = read_arrays(path)
        except UserError:
            continue
        harmless += 1
        assert metadata == {"step": 1}
        assert stored.keys() == arrays.keys()
        for name, array in arrays.items():
            assert (stored[name].dtype, stored[name].shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(stored[name], array)
    assert 0 < harmless < len(damaged)  # times, versions of programs, and names in two places


def test_metadata_are_read_without_the_arrays(tmp_path: Path) -> None:
    path = tmp_path / "best.npz"
    write_arrays(path, {"a": np.zeros(3)}, {"best_step": 7})
    assert read_metadata(path) == {"best_step": 7}
    np.savez(path, a=np.zeros(3))
    with pytest.raises(UserError, match="is not a checkpoint of this program"):
        read_metadata(path)
    write_arrays(path, {}, ["best_step"])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="its metadata is not an object"):
        read_metadata(path)
    with pytest.raises(UserError, match="its metadata is not an object"):
        read_arrays(path)
    with pytest.raises(UserError, match="does not exist"):
        read_metadata(tmp_path / "none.npz")
