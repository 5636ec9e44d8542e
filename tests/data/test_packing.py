"""Rows are those of the plain search over all kinds of pairs, which is slow and stands here."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.packing import pack

Planned = list[tuple[int, list[list[int]]]]  # row length, and the pairs of each row


def pack_plainly(source: np.ndarray, target: np.ndarray, row_lengths: Sequence[int]) -> Planned:
    """Best fit, longest first: every choice looks at every kind of pair that is left."""
    lengths = sorted(set(row_lengths))
    kinds: dict[tuple[int, int], list[int]] = {}
    for pair, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if max(s, t) <= lengths[-1]:
            kinds.setdefault((s, t), []).append(pair)
    packed: Planned = []
    for shorter, length in reversed(list(zip([0, *lengths], lengths, strict=False))):
        rows: list[list[int]] = []
        while True:
            long = [kind for kind in kinds if kinds[kind] and max(kind) > shorter]
            if not long:
                break
            first = min(long, key=lambda kind: (-sum(kind) * 1000 - max(kind), kind))
            pattern = fill_plainly({kind: len(of) for kind, of in kinds.items()}, first, length)
            repeats = min(len(kinds[kind]) // pattern.count(kind) for kind in pattern)
            for _ in range(repeats):
                rows.append([])
                for kind in sorted(set(pattern)):
                    times = pattern.count(kind)
                    rows[-1] += kinds[kind][:times]
                    del kinds[kind][:times]
        if rows:
            packed.append((length, rows))
    return packed[::-1]


def fill_plainly(
    left: dict[tuple[int, int], int], first: tuple[int, int], length: int
) -> list[tuple[int, int]]:
    room = (length, length)
    chosen: list[tuple[int, int]] = []
    kind = first
    while True:
        chosen.append(kind)
        left[kind] -= 1
        room = (room[0] - kind[0], room[1] - kind[1])
        fitting = [
            kind
            for kind, count in left.items()
            if count and kind[0] <= room[0] and kind[1] <= room[1]
        ]
        if not fitting:
            return chosen
        kind = min(
            fitting,
            key=lambda kind: (
                2 * abs((room[0] - kind[0]) - (room[1] - kind[1])) - sum(kind),
                kind,
            ),
        )


def planned(
    source: np.ndarray, target: np.ndarray, row_lengths: Sequence[int], *, leaves_room: bool = False
) -> Planned:
    return [
        (
            rows.length,
            [of.tolist() for of in np.split(rows.pairs, rows.offsets[1:-1])],
        )
        for rows in pack(source, target, row_lengths, leaves_room=leaves_room)
    ]


lengths = st.integers(1, 14)


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.lists(st.tuples(lengths, lengths), max_size=60),
    row_lengths=st.lists(st.integers(2, 12), min_size=1, max_size=3),
)
@example(pairs=[(1, 1)], row_lengths=[2])  # EOS alone
def test_rows_are_those_of_the_plain_search(
    pairs: list[tuple[int, int]], row_lengths: list[int]
) -> None:
    source, target = np.array(pairs, np.int64).reshape(-1, 2).T
    assert planned(source, target, row_lengths) == pack_plainly(source, target, row_lengths)


@pytest.mark.parametrize("spread", [0.05, 0.5])
def test_rows_of_many_pairs_are_those_of_the_plain_search(spread: float) -> None:
    rng = np.random.default_rng(3)
    source = np.maximum(1, rng.lognormal(2, 0.5, 400)).astype(int)
    target = np.maximum(1, source * rng.lognormal(0, spread, 400)).astype(int)
    for row_lengths in ([32], [8, 16, 40]):
        assert planned(source, target, row_lengths) == pack_plainly(source, target, row_lengths)


def test_lengths_over_a_thousand_tokens_count_as_before() -> None:
    """The longer side counts 1 to 1,000 against both: above, it may outweigh a token."""
    source, target = np.array([1100, 1, 1050, 30]), np.array([100, 1200, 151, 1171])
    assert planned(source, target, [1300]) == pack_plainly(source, target, [1300])


def test_memory_goes_with_the_pairs_and_not_with_the_length_of_a_row() -> None:
    rng = np.random.default_rng(5)
    source = rng.integers(1, 4000, 150)
    target = np.clip(source + rng.integers(-300, 300, 150), 1, 4096)
    tracemalloc.start()
    try:
        packed = planned(source, target, [1024, 4096])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20  # bytes; a table of 4096 x 4096 has 16 times as many entries
    assert packed == pack_plainly(source, target, [1024, 4096])
    assert sorted(pair for _, rows in packed for row in rows for pair in row) == list(range(150))
    for length, rows in packed:
        for row in rows:
            assert max(source[row].sum(), target[row].sum()) <= length


def test_room_is_left_in_every_other_pair_and_none_is_left_out() -> None:
    for length, expected in ((8, [1, 1, 1, 1]), (4, [1, 1, 2])):
        side = np.full(4, length)
        [rows] = pack(side, side, [8], leaves_room=True)
        assert np.diff(rows.offsets).tolist() == expected
        assert sorted(rows.pairs.tolist()) == [0, 1, 2, 3]


def test_pairs_that_leave_room_are_packed_like_longer_ones() -> None:
    side = np.array([4, 4, 8, 8, 3, 3, 7, 7, 1, 1, 4, 4, 4, 4])
    longer = np.array([4, 5, 8, 8, 3, 4, 7, 8, 1, 2, 4, 5, 4, 5])
    expected = planned(longer, longer, [6, 8])
    assert planned(side, side, [6, 8], leaves_room=True) == expected
    assert planned(side, side, [6, 8]) != expected
