"""Files are whole or not there; links of the user's are followed, those of a run folder are not."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.files import replace_atomically, write_inside, write_json, write_text


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("uno\r\ndos\n", "ñ", ""):
        write_text(path, text)
        assert path.read_bytes() == text.encode()
        write_inside(tmp_path, "a.txt", text * 2)
        assert path.read_bytes() == text.encode() * 2
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_for_people(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"año": [1]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"año": [1]}
    assert '"año"' in text
    assert text.endswith("\n")


def test_a_file_that_fails_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with replace_atomically(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replace_atomically(path) as one, replace_atomically(path) as other:
        one.write(b"one")
        other.write(b"other")
    assert path.read_text() == "one"  # closed last
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a" * 255, "文" * 85, "𝄞" * 63])  # at most 255 bytes
def test_a_name_as_long_as_names_can_be_is_written(tmp_path: Path, name: str) -> None:
    write_text(tmp_path / name, "long")
    assert (tmp_path / name).read_text() == "long"


def test_json_holds_names_of_files_that_are_not_utf_8(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xf1o.tsv")
    write_json(tmp_path / "a.json", {"file": name})
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"file": name}


def test_a_file_in_a_folder_that_takes_no_others_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_text(path, "old")
    identity = path.stat().st_ino
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)
    write_text(path, "new")
    assert (path.read_text(), path.stat().st_ino) == ("new", identity)


def test_a_link_in_a_run_folder_is_replaced(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "precious"
    run.mkdir()
    outside.write_text("mine")
    for target in (outside, tmp_path / "not there yet"):
        (run / "a.json").symlink_to(target)
        write_inside(run, "a.json", "{}")
        assert not (run / "a.json").is_symlink()
        assert (run / "a.json").read_text() == "{}"
        (run / "a.json").unlink()
    assert outside.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "run"]


def test_a_link_of_the_users_is_followed(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    for text in ("one", "two"):
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text


@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_regular_file_is_written_to(tmp_path: Path, linked: bool) -> None:
    """As /dev/stdout, which is a link to a terminal or to a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = pipe
    if linked:
        path = tmp_path / "stdout"
        path.symlink_to(pipe)
    read: list[str] = []
    reader = threading.Thread(
        target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True
    )
    reader.start()
    write_text(path, "¡hola!\n")
    reader.join(timeout=5)
    assert read == ["¡hola!\n"]
    assert pipe.is_fifo()
    assert path.is_symlink() == linked


@pytest.mark.parametrize(
    "write", [write_text, lambda path, text: write_inside(path.parent, path.name, text)]
)
def test_what_cannot_be_written_is_named(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    for path, why in [
        (tmp_path, "Is a directory"),
        (tmp_path / "no" / "folder", "No such file or directory"),
    ]:
        with pytest.raises(UserError) as caught:
            write(path, "text")
        assert str(caught.value) == f"{path} cannot be written: {why}"
