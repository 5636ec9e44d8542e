"""An export is whole or not there, and overwrites nothing but an export."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.exporting.folder import MANIFEST_FILE, check_place, replacing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_no_export_is_not_overwritten(tmp_path: Path) -> None:
    check_place(tmp_path / "new")
    check_place(tmp_path)  # empty
    (tmp_path / "thesis.txt").write_text("years of work")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(UserError, match="is not an export"):
            check_place(place)
    (tmp_path / MANIFEST_FILE).touch()
    check_place(tmp_path)


@pytest.mark.parametrize("before", [None, "old"])
def test_a_finished_export_takes_its_place(tmp_path: Path, before: str | None) -> None:
    place = tmp_path / "parent" / "export"
    if before:
        place.mkdir(parents=True)
        (place / before).touch()
    with replacing(place) as partial:
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
        with replacing(place) as partial:
            (partial / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == (["export"] if before else [])
    assert not before or names(place) == [before]


def test_what_was_there_comes_back_if_the_last_move_fails(tmp_path: Path) -> None:
    place = tmp_path / "export"
    place.mkdir()
    (place / "old").touch()
    with pytest.raises(FileNotFoundError), replacing(place) as partial:
        partial.rmdir()
    assert names(tmp_path) == ["export"]
    assert names(place) == ["old"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"export cannot be written"),
        replacing(tmp_path / "file" / "export"),
    ):
        pass
