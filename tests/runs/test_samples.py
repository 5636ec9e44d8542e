"""Tables of dev translations: what is written is read, and damage is named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.runs.samples import (
    Sample,
    list_sample_files,
    read_newest_samples,
    read_samples,
    write_samples,
)

SAMPLES = [Sample("a\u2028b\x0c", "c", ""), Sample("", "d", "e f")]


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    assert list_sample_files(folder) == read_newest_samples(folder) == []
    write_samples(folder, 12, SAMPLES)
    write_samples(folder, 5, [])
    assert [path.name for path in list_sample_files(folder)] == [
        "step_00000005.tsv",
        "step_00000012.tsv",
    ]
    assert read_newest_samples(folder) == SAMPLES
    assert list(map(read_samples, list_sample_files(folder))) == [[], SAMPLES]


def test_a_table_is_complete_or_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    write_samples(tmp_path, 5, SAMPLES)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        UserError, match=r"step_00000005\.tsv cannot be written: Input/output error"
    ):
        write_samples(tmp_path, 5, [])
    assert read_newest_samples(tmp_path) == SAMPLES
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"source\treference\toutput\na\tb\tc\na\tb\n", "line 3 has 2 columns"),
        (b"source\treference\toutput\na\tb\tc\td\n", "line 2 has 4 columns"),
        (b"source\treference\toutput\n\n", "line 2 has 1 columns"),
        (b"sour", "line 1 has 1 columns"),
        (b"source\treference\toutput\n\xff\tb\tc\n", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "step_00000001.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"step_00000001.tsv is damaged: {expected}"):
        read_samples(path)
