"""Damage is drawn, applied and undone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from damage import Damage, damage, draw, judge, kind_of, worst

from nmt.errors import UserError


@pytest.mark.parametrize(
    ("how", "damaged"), [("byte", b"abCd"), ("cut", b"ab"), ("deletion", None)]
)
def test_damage_is_mended(tmp_path: Path, how: str, damaged: bytes | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    mend = damage(path, Damage("file", how, 2, 32))
    assert (path.read_bytes() if path.exists() else None) == damaged
    mend()
    assert path.read_bytes() == b"abcd"


def test_every_draw_is_inside_its_file_and_changes_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"1234567")
    rng = random.Random(1)
    kinds = {"one": ["a"], "other": ["b"]}
    drawn = [draw(kinds, tmp_path, rng) for _ in range(300)]
    assert {(kind, one.name, one.how) for kind, one in drawn} == {
        (kind, name, how)
        for kind, name in (("one", "a"), ("other", "b"))
        for how in ("byte", "cut", "deletion")
    }
    assert {one.offset for _, one in drawn} == set(range(7))
    assert all(0 < one.mask < 256 for _, one in drawn)


def test_outcomes_are_told_apart() -> None:
    def fail(error: Exception) -> str:
        raise error

    assert judge(lambda: "other") == ("other", "")
    assert judge(lambda: fail(UserError("one line"))) == ("error", "one line")
    assert judge(lambda: fail(UserError("two\nlines")))[0] == "traceback"
    assert judge(lambda: fail(KeyError("x"))) == ("traceback", "KeyError('x')")
    assert worst([("same", ""), ("error", "x"), ("older", "")]) == ("error", "x")
    assert worst([("error", "x"), ("other", "y")]) == ("other", "y")


def test_files_count_by_their_kind() -> None:
    names = ["samples/step_1.tsv", "checkpoints/step_00000012.npz", "evaluation_test.json"]
    assert [kind_of(name) for name in names] == [
        "samples/", "checkpoints/step_*.npz", "evaluation_*.json",
    ]  # fmt: skip
