"""An export is whole or not there, and overwrites nothing but an export."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from nmt.errors import UserError
from nmt.files import replace_folder
from nmt.formats.folder import check_output
from nmt.formats.manifest import MANIFEST_FILE, check_files, find_damage


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_no_export_is_not_overwritten(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    check_output(tmp_path)  # empty
    (tmp_path / "thesis.txt").write_text("years of work")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(UserError, match="is not an export"):
            check_output(place)
    # Other programs write such files, too.
    for content in ("", "{}", '{"name": "app", "icons": []}', '{"nmt": "0.2", "files": 3}'):
        (tmp_path / MANIFEST_FILE).write_text(content)
        with pytest.raises(UserError, match="is not an export"):
            check_output(tmp_path)
    (tmp_path / MANIFEST_FILE).write_text('{"nmt": "0.2", "files": {"a/model": ""}}')
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model").touch()
    with pytest.raises(UserError, match=r"with other files, such as thesis\.txt, which would be"):
        check_output(tmp_path)
    (tmp_path / "thesis.txt").unlink()
    check_output(tmp_path)


def test_a_mount_point_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(UserError, match="is a mount point: choose a folder inside of it"):
        check_output(tmp_path)
    check_output(tmp_path / "new")


def test_a_link_stays_and_its_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "latest").symlink_to("first")
    with replace_folder(tmp_path / "latest") as partial:
        (partial / "new").touch()
    assert names(tmp_path) == ["first", "latest"]
    assert (tmp_path / "latest").is_symlink()
    assert names(tmp_path / "first") == ["new"]


@pytest.mark.parametrize("before", [None, "old"])
def test_a_finished_export_takes_its_place(tmp_path: Path, before: str | None) -> None:
    place = tmp_path / "parent" / "export"
    if before:
        place.mkdir(parents=True)
        (place / before).touch()
    with replace_folder(place) as partial:
        assert partial.parent == place.parent
        (partial / "new").touch()
        assert names(place) == [before] if before else not place.exists()
    assert names(place) == ["new"]
    assert names(tmp_path / "parent") == ["export"]


@pytest.mark.parametrize("before", [None, "old"])
def test_an_interrupted_export_leaves_nothing(tmp_path: Path, before: str | None) -> None:
    place = tmp_path / "export"
    if before:
        place.mkdir()
        (place / before).touch()

    def interrupted() -> None:
        with replace_folder(place) as partial:
            (partial / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == (["export"] if before else [])
    assert not before or names(place) == [before]


def test_what_a_killed_export_left_is_removed_a_day_later(tmp_path: Path) -> None:
    yesterday = time.time() - 25 * 3600
    for name in (".new-1-export", ".new-2-export", ".new-1-other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
        os.utime(tmp_path / name, (yesterday, yesterday))
    for name in (".new-1-export", ".new-1-other"):  # the other one is still written
        os.utime(tmp_path / name / "half", (yesterday, yesterday))
    with replace_folder(tmp_path / "export") as partial:
        (partial / "new").touch()
    assert names(tmp_path) == [".new-1-other", ".new-2-export", "export"]


def test_what_was_there_comes_back_if_the_last_move_fails(tmp_path: Path) -> None:
    place = tmp_path / "export"
    place.mkdir()
    (place / "old").touch()
    with pytest.raises(FileNotFoundError), replace_folder(place) as partial:
        partial.rmdir()
    assert names(tmp_path) == ["export"]
    assert names(place) == ["old"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"export cannot be written"),
        replace_folder(tmp_path / "file" / "export"),
    ):
        pass


def make_export(folder: Path) -> None:
    """Write an export of two files, with its manifest."""
    (folder / "deep").mkdir()
    contents = {"model": b"weights", "deep/model": b"more"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (folder / MANIFEST_FILE).write_text(json.dumps({"files": digests}), encoding="utf-8")


def test_an_export_is_compared_with_its_manifest(tmp_path: Path) -> None:
    make_export(tmp_path)
    assert find_damage(tmp_path) == {"model": None, "deep/model": None}
    check_files(tmp_path)
    (tmp_path / "deep" / "model").write_bytes(b"mode")
    assert find_damage(tmp_path) == {
        "model": None,
        "deep/model": "its SHA-256 is not the one in manifest.json",
    }
    with pytest.raises(UserError, match=r"deep/model is damaged: its SHA-256"):
        check_files(tmp_path)
    (tmp_path / "deep" / "model").unlink()
    with pytest.raises(UserError, match=r"deep/model is damaged: No such file"):
        check_files(tmp_path)
    (tmp_path / MANIFEST_FILE).unlink()
    check_files(tmp_path)  # while it is made, it has none
    with pytest.raises(UserError, match="is not an export"):
        find_damage(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": 3}', '{"files": "ab"}', "\udcff"])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / MANIFEST_FILE
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"manifest\.json is damaged"):
        check_files(tmp_path)


@pytest.mark.parametrize("digests", [{"a\0": "1"}, {"a": None}, {".": "1"}])
def test_a_manifest_of_nonsense_names_nothing_sound(
    tmp_path: Path, digests: dict[str, Any]
) -> None:
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({"files": digests}), encoding="utf-8")
    assert all(find_damage(tmp_path).values())
