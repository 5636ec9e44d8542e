"""The same key is found in whatever shard and slice, and the first stays."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from sample_prepared import plan, prepared, rejected_in

from nmt.preparing import duplicates
from nmt.preparing.clean import SIGNATURES_FILE, write_sorted
from nmt.preparing.duplicates import (
    DROPPED_FILE,
    count_slices,
    find_repeats,
    write_candidates,
    write_probes,
    write_similar,
)
from nmt.preparing.stages import CleanShard


def number_shards(folders: list[Path], sizes: list[int]) -> list[CleanShard]:
    """Return shards of so many pairs each, numbered through."""
    starts = accumulate(sizes, initial=0)
    return [
        CleanShard(folder, "pairs", start, size)
        for folder, start, size in zip(folders, starts, sizes, strict=False)
    ]


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
    for i, shard_keys in enumerate(keys):
        (tmp_path / str(i)).mkdir()
        write_sorted(tmp_path / str(i), "any", shard_keys)
    (tmp_path / "none").mkdir()  # a shard without such keys
    sizes = {"0": 50, "1": 0, "2": 1, "none": 9, "3": 80}
    shards = number_shards([tmp_path / name for name in sizes], list(sizes.values()))
    joined = np.concatenate([*keys[:3], np.zeros((2, 9), dtype), keys[3]], axis=1)
    numbers = [*range(51), *range(60, 140)]
    for kind in (0, 1):
        first: dict[int, int] = {}
        expected = {}
        for number in numbers:
            earlier = first.setdefault(int(joined[kind, number]), number)
            if earlier != number:
                expected[number] = earlier
        slices = count_slices(shards, 2) // 2
        repeats: dict[int, int] = {}
        for part in range(slices):
            others, firsts = find_repeats(shards, "any", 2, kind * slices + part, None)
            repeats |= dict(zip(others.tolist(), firsts.tolist(), strict=True))
        assert repeats == expected


@pytest.mark.parametrize("probed", [1, 10**6])
def test_near_duplicates_are_found_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probed: int
) -> None:
    monkeypatch.setattr(duplicates, "PROBED", probed)
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


@pytest.mark.parametrize("probed", [1, 7, 10**6])
def test_every_pair_is_compared_with_the_first_of_each_of_its_bands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probed: int
) -> None:
    monkeypatch.setattr(duplicates, "PROBED", probed)
    rng = np.random.default_rng(5)
    counts, bands = [30, 0, 25, 45], 3
    monkeypatch.setattr(duplicates, "BANDS", bands)
    total = sum(counts)
    keys = rng.integers(0, 60, (bands, total)).astype(np.uint32) << np.uint32(26)
    signatures = rng.integers(0, 2, (total, 8)).astype(np.uint8)
    shards = number_shards([tmp_path / f"shard-{i}" for i in range(len(counts))], counts)
    for shard in shards:
        shard.folder.mkdir()
        write_sorted(shard.folder, "bands", keys[:, shard.start : shard.end])
        np.save(shard.folder / SIGNATURES_FILE, signatures[shard.start : shard.end])
    np.save(states := tmp_path / "states.npy", np.zeros(total, np.uint8))
    expected = {
        number
        for number in range(total)
        for band_keys in keys
        if (first := int(np.flatnonzero(band_keys == band_keys[number])[0])) < number
        and duplicates.similarities(signatures[[first]], signatures[[number]])[0] >= 0.7
    }

    def folder_of(stage: str, number: int) -> Path:
        (folder := tmp_path / stage / str(number)).mkdir(parents=True)
        return folder

    candidates = [folder_of("candidates", i) for i in range(count_slices(shards, bands))]
    for i, folder in enumerate(candidates):
        write_candidates(shards, i, states, folder)
    probes = [folder_of("probes", i) for i in range(len(counts))]
    for shard, folder in zip(shards, probes, strict=True):
        write_probes(shard, candidates, folder)
    dropped: set[int] = set()
    for i, shard in enumerate(shards):
        write_similar(shard, probes[: i + 1], 0.7, folder := folder_of("near", i))
        dropped |= set(np.load(folder / DROPPED_FILE).tolist())
    assert 0 < len(expected) < total // 2
    assert dropped == expected
