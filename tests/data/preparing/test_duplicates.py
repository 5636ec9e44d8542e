"""The same key is found in whatever shard and slice, and the first stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_prepared import plan, prepared, rejected_in

from nmt.data.preparing import duplicates
from nmt.data.preparing.clean import write_sorted
from nmt.data.preparing.duplicates import Shards, find_repeated


@pytest.mark.parametrize("size", [5, 40, 10**6])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_slices_find_what_one_pass_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, dtype: type[np.unsignedinteger]
) -> None:
    monkeypatch.setattr(duplicates, "SLICE", size)
    rng = np.random.default_rng(2)
    most = np.iinfo(dtype).max
    values = np.concatenate([rng.integers(0, most, 30, dtype), np.array([0, most], dtype)])
    keys = [rng.choice(values, (2, count)) for count in (50, 0, 1, 80)]
    for i, of_shard in enumerate(keys):
        (tmp_path / str(i)).mkdir()
        write_sorted(tmp_path / str(i), "any", of_shard)
    (tmp_path / "none").mkdir()  # a shard without such keys
    folders = [tmp_path / name for name in ("0", "1", "2", "none", "3")]
    shards = Shards(folders, np.array([0, 50, 50, 51, 60, 140]))
    joined = np.concatenate([*keys[:3], np.zeros((2, 9), dtype), keys[3]], axis=1)
    numbers = [*range(51), *range(60, 140)]
    for kind in (0, 1):
        first: dict[int, int] = {}
        expected = {}
        for number in numbers:
            earlier = first.setdefault(int(joined[kind, number]), number)
            if earlier != number:
                expected[number] = earlier
        slices = shards.slices(2) // 2
        found: dict[int, int] = {}
        for part in range(slices):
            others, firsts = find_repeated(shards, "any", 2, kind * slices + part, None)
            found |= dict(zip(others.tolist(), firsts.tolist(), strict=True))
        assert found == expected


def test_near_duplicates_are_found_and_others_are_not(tmp_path: Path) -> None:
    pairs = [
        ("El tren de Madrid llega a las 8 de la tarde.", "The train from Madrid arrives at 8."),
        ("Una frase que no se parece a nada de aquí.", "A sentence like no other one here."),
        ("el tren de Madrid llega a las 10 de la tarde", "The train from Madrid arrives at 10!"),
        ("Una frase que no se parece a nada de allí.", "A sentence like no other one here."),
        ("Quisiera una habitación con vistas al mar.", "I would like a room with a sea view."),
        ("Quisiera una mesa con vistas al río.", "I'd want a table near the river."),
    ]
    strict = prepared(plan(tmp_path / "strict", pairs, near_duplicates=1, shard_lines=2))
    assert [cells[2:] for cells in rejected_in(strict)] == [list(pairs[2])]  # numbers do not count
    loose = prepared(plan(tmp_path / "loose", pairs, near_duplicates=0.6, shard_lines=2))
    assert [cells[2:] for cells in rejected_in(loose)] == [list(pairs[2]), list(pairs[3])]
    assert loose.rejected == {"near duplicate": 2}
    off = prepared(plan(tmp_path / "off", pairs, shard_lines=2))
    assert off.rejected == {}
