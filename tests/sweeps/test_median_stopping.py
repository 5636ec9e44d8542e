"""A trial ends that the others have left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nmt.runs.folder import RunFolder
from nmt.sweeps.median_stopping import TAG, is_behind


def make(
    folder: Path, name: str, *scores: float, torn: bool = False, dev: str = "one"
) -> RunFolder:
    path = folder / name
    path.mkdir()
    (path / "corpus.json").write_text(json.dumps({"digests": {"dev": dev}}))
    rows = [{"step": step, "train/loss": 1.0} for step in range(3)]
    rows += [{"step": step, TAG: score} for step, score in enumerate(scores)]
    text = "".join(json.dumps(row) + "\n" for row in rows) + ('{"step": 9, "dev/B' if torn else "")
    (path / "metrics.jsonl").write_text(text)
    return RunFolder(path)


@pytest.mark.parametrize(
    ("scores", "share", "behind"),
    [
        ((5, 11), 0.5, True),  # two of three are ahead
        ((5, 11), 0.7, False),
        ((14, 11), 0.5, False),  # its best counts
        ((5, 25), 0.5, False),
        ((5,), 0.5, False),  # too early
        ((1, 1, 1), 0.5, False),  # only one has come as far
    ],
)
def test_who_is_behind(
    tmp_path: Path, scores: tuple[float, ...], share: float, behind: bool
) -> None:
    make(tmp_path, "one", 8, 12)
    make(tmp_path, "two", 6, 13, 40, torn=True)
    make(tmp_path, "three", 9, 3)
    make(tmp_path, "just begun")
    (make(tmp_path, "damaged", 50, 60).path / "metrics.jsonl").write_text("null\n")
    own = make(tmp_path, "own", *scores)
    (tmp_path / "latest").symlink_to("own")
    assert is_behind(own, share) == behind


def test_runs_with_another_dev_split_are_no_siblings(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(tmp_path, name, 50, 60, dev="another")
    own = make(tmp_path, "own", 1, 2)
    assert not is_behind(own, 0.5)
    for name in ("three", "four"):
        make(tmp_path, name, 50, 60)
    assert is_behind(own, 0.5)


def test_a_run_alone_is_never_behind(tmp_path: Path) -> None:
    make(tmp_path, "other", 50, 60)
    assert not is_behind(make(tmp_path, "own", 1, 1), 0.1)
