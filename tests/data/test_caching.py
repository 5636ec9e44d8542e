"""Cached folders are complete or absent, whoever writes them; keys tell different texts apart."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest

from nmt.data import caching
from nmt.data.caching import cached_folder, digest_texts, save_array
from nmt.errors import UserError


def test_a_half_written_folder_is_not_seen(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"

    def write(partial: Path) -> None:
        assert partial.is_dir()
        assert partial != folder
        (partial / "one").write_text("1")
        assert not folder.exists()

    assert cached_folder(folder, write) == folder
    assert {path.name for path in folder.iterdir()} == {"one", ".sizes.json"}
    assert [path.name for path in folder.parent.iterdir()] == ["b"]


def test_an_array_says_that_the_disk_is_full(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        save_array(Path("/dev/full"), np.arange(1 << 20))
    assert caught.value.errno == errno.ENOSPC


def test_the_quicker_of_two_writers_wins(tmp_path: Path) -> None:
    folder = tmp_path / "key"

    def write(partial: Path) -> None:
        (partial / "slow").write_text("slow")
        cached_folder(folder, lambda other: (other / "quick").touch())  # meanwhile

    assert cached_folder(folder, write) == folder
    assert {path.name for path in folder.iterdir()} == {"quick", ".sizes.json"}
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_another_process_loads_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, is_complete = tmp_path / "key", caching.is_complete
    results: list[bool] = []
    loaded: list[str] = []

    def interrupt(path: Path) -> bool:
        results.append(is_complete(path))
        if len(results) == 2:  # right after the files were written
            with monkeypatch.context() as other:
                other.setattr(caching, "is_complete", is_complete)
                cached_folder(folder, lambda partial: (partial / "quick").touch())
            loaded.extend(path.name for path in folder.iterdir())
        return results[-1]

    monkeypatch.setattr(caching, "is_complete", interrupt)
    cached_folder(folder, lambda partial: (partial / "slow").touch())
    assert sorted(loaded) == sorted(path.name for path in folder.iterdir())


def test_a_damaged_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "key"
    folder.mkdir()
    (folder / "damaged").touch()
    cached_folder(folder, lambda partial: (partial / "sound").touch())
    assert {path.name for path in folder.iterdir()} == {"sound", ".sizes.json"}


def test_folders_that_killed_writers_left_a_day_ago_are_removed(tmp_path: Path) -> None:
    for name, age in (("old", 2 * 24 * 3600), ("used", 60)):
        folder = tmp_path / f".partial-{name}"
        folder.mkdir()
        (folder / "array").touch()
        for path, seconds in ((folder / "array", age), (folder, 2 * 24 * 3600)):
            os.utime(path, (time.time() - seconds,) * 2)
    cached_folder(tmp_path / "key", lambda partial: (partial / "one").touch())
    assert {path.name for path in tmp_path.iterdir()} == {"key", ".partial-used"}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/key cannot be written: Not a directory"):
        cached_folder(tmp_path / "file" / "key", Path.touch)


def test_digest() -> None:
    assert digest_texts(["ab", "c"], "k") == digest_texts(("ab", "c"), "k")
    others = [
        digest_texts(["a", "bc"], "k"),
        digest_texts(["abc"], "k"),
        digest_texts(["c", "ab"], "k"),
        digest_texts(["ab", "c", ""], "k"),
        digest_texts(["", "ab", "c"], "k"),
        digest_texts(["ab", "c"], "l"),
        digest_texts(["ab", "c"]),
        digest_texts(["ab", "ç"], "k"),
        digest_texts([], "k"),
        digest_texts([]),
    ]
    assert len({digest_texts(["ab", "c"], "k"), *others}) == len(others) + 1
    assert all(key.isalnum() and len(key) == 32 for key in others)  # fit for a folder's name
