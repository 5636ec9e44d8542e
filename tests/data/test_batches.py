"""Every pair once, beside others but never mixed with them; any step without those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batches import Batch, InMemoryBatches
from nmt.data.encoded import EncodedCorpus
from nmt.data.ragged import RaggedIds

BOS, EOS = 1, 2
FIRST = 4  # smallest id of a real piece

KEYS = {
    "source",
    "source_segments",
    "source_positions",
    "target",
    "target_segments",
    "target_positions",
    "labels",
}

PairIds = tuple[tuple[int, ...], tuple[int, ...]]


def corpus_of(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> EncodedCorpus:
    return EncodedCorpus(
        RaggedIds.of([np.asarray(source, np.int32) for source, _ in pairs]),
        RaggedIds.of([np.asarray(target, np.int32) for _, target in pairs]),
    )


def pairs_of_lengths(lengths: Iterable[tuple[int, int]]) -> list[PairIds]:
    """Return pairs of these lengths; ids are unique, so that every mix-up is noticed."""
    pairs = []
    following = FIRST
    for source, target in lengths:
        middle, end = following + source, following + source + target
        pairs.append((tuple(range(following, middle)), tuple(range(middle, end))))
        following = end
    return pairs


def natural_lengths(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Return lengths like those of a corpus of sentences: lognormal, 10 tokens on average."""
    rng = np.random.default_rng(seed)
    spread = 0.5
    source = rng.lognormal(np.log(10) - spread**2 / 2, spread, count)
    target = source * rng.lognormal(0, 0.2, count)
    return [(max(1, round(s)), max(1, round(t))) for s, t in zip(source, target, strict=True)]


def unpack(batch: Batch) -> list[PairIds]:
    """Read the pairs back out of the rows, one by one, and check the layout on the way."""
    assert batch.keys() == KEYS
    shape = batch["source"].shape
    assert all(array.shape == shape and array.dtype == np.int32 for array in batch.values())
    pairs = []
    for row in range(shape[0]):
        sides: list[list[tuple[int, ...]]] = []
        for side, tokens in (("source", "source"), ("target", "labels")):
            segments = batch[f"{side}_segments"][row].tolist()
            positions = batch[f"{side}_positions"][row].tolist()
            ids = batch[tokens][row].tolist()
            used = sum(segment > 0 for segment in segments)
            # Padding only at the end, and nothing on it.
            assert segments[used:] == [0] * (shape[1] - used)
            assert ids[used:] == positions[used:] == segments[used:]
            if side == "target":
                assert not batch["target"][row, used:].any()
            sequences: list[list[int]] = []
            inputs: list[list[int]] = []
            for cell in range(used):
                if segments[cell] == len(sequences) + 1:  # the next pair begins
                    sequences.append([])
                    inputs.append([])
                assert segments[cell] == len(sequences)
                assert positions[cell] == len(sequences[-1])
                sequences[-1].append(ids[cell])
                inputs[-1].append(int(batch["target"][row, cell]))
            assert all(sequence[-1] == EOS for sequence in sequences)
            if side == "target":  # what the decoder reads is one step behind what it must say
                assert inputs == [[BOS, *sequence[:-1]] for sequence in sequences]
            sides.append([tuple(sequence[:-1]) for sequence in sequences])
        pairs += list(zip(*sides, strict=True))
    return pairs


def epoch_of(batches: InMemoryBatches, epoch: int, shuffle: int = 0) -> list[Batch]:
    steps = batches.steps_per_epoch
    return [batches.batch(step, shuffle) for step in range(epoch * steps, (epoch + 1) * steps)]


def contents(batches: Iterable[Batch]) -> Counter[PairIds]:
    return Counter(pair for batch in batches for pair in unpack(batch))


def assert_equal(first: Batch, second: Batch) -> None:
    assert first.keys() == second.keys()
    for key, array in first.items():
        np.testing.assert_array_equal(array, second[key], err_msg=key)


def same(first: Batch, second: Batch) -> bool:
    return all(np.array_equal(array, second[key]) for key, array in first.items())


def test_three_pairs_in_one_row() -> None:
    corpus = corpus_of([([10], [20]), ([11], [21, 22]), ([12, 13], [23])])
    batches = InMemoryBatches(corpus, row_lengths=[8], positions=16, seed=0)

    assert batches.shapes == [(2, 8)]
    assert batches.steps_per_epoch == 1
    expected = {
        "source": [10, 2, 11, 2, 12, 13, 2, 0],
        "source_segments": [1, 1, 2, 2, 3, 3, 3, 0],
        "source_positions": [0, 1, 0, 1, 0, 1, 2, 0],
        "target": [1, 20, 1, 21, 22, 1, 23, 0],
        "labels": [20, 2, 21, 22, 2, 23, 2, 0],
        "target_segments": [1, 1, 2, 2, 2, 3, 3, 0],
        "target_positions": [0, 1, 0, 1, 2, 0, 1, 0],
    }
    batch = batches.batch(0)
    assert batch.keys() == expected.keys()
    for key, row in expected.items():
        assert batch[key].dtype == np.int32
        assert batch[key].tolist() == [row, [0] * 8], key
    # 7 of 8 positions on either side, and a row with nothing: 14 of 32.
    assert batches.tokens_per_epoch == 14
    assert batches.padding == pytest.approx(18 / 32)


def test_every_pair_once_per_epoch_in_every_shape() -> None:
    pairs = pairs_of_lengths([*natural_lengths(300), (30, 2), (2, 30), (63, 63), (15, 15)])
    batches = InMemoryBatches(corpus_of(pairs), row_lengths=[64, 16, 32], positions=256, seed=5)

    assert [length for _, length in batches.shapes] == [16, 32, 64]
    assert batches.pairs == len(pairs)
    assert batches.skipped == 0
    for epoch in (0, 1, 7):
        epoch_batches = epoch_of(batches, epoch)
        assert {batch["source"].shape for batch in epoch_batches} == set(batches.shapes)
        assert contents(epoch_batches) == Counter(pairs)


def test_a_row_is_no_longer_than_its_longest_pair_needs() -> None:
    """Rows of a length hold a pair that fits none of the shorter rows."""
    pairs = pairs_of_lengths(natural_lengths(300))
    batches = InMemoryBatches(corpus_of(pairs), row_lengths=[16, 32, 64], positions=64, seed=0)
    shorter = {16: 0, 32: 16, 64: 32}
    for batch in batches.in_order():
        length = batch["source"].shape[1]
        for row in range(len(batch["source"])):
            packed = unpack({key: array[row : row + 1] for key, array in batch.items()})
            if packed:  # the last batch of a shape ends in empty rows
                assert max(len(side) + 1 for pair in packed for side in pair) > shorter[length]


def test_a_batch_depends_on_its_step_alone() -> None:
    pairs = pairs_of_lengths(natural_lengths(200))
    make = {"row_lengths": [32, 64], "positions": 192, "seed": 3}
    ascending = InMemoryBatches(corpus_of(pairs), **make)  # type: ignore[arg-type]
    steps = 3 * ascending.steps_per_epoch
    assert steps > 20
    expected = [ascending.batch(step) for step in range(steps)]

    jumping = InMemoryBatches(corpus_of(pairs), **make)  # type: ignore[arg-type]
    for step in np.random.default_rng(0).permutation(steps):
        assert_equal(jumping.batch(int(step)), expected[step])
    list(jumping.in_order())
    for step in reversed(range(steps)):
        assert_equal(jumping.batch(step), expected[step])
    # A fresh instance, asked for a late step first: what resuming does.
    assert_equal(
        InMemoryBatches(corpus_of(pairs), **make).batch(steps - 1),  # type: ignore[arg-type]
        expected[-1],
    )


def test_what_is_done_to_a_batch_stays_with_it() -> None:
    batches = InMemoryBatches(
        corpus_of(pairs_of_lengths([(3, 4)] * 9)), row_lengths=[8], positions=8, seed=0
    )
    first = batches.batch(0)
    copies = {key: array.copy() for key, array in first.items()}
    for array in first.values():
        array[:] = -1
    assert_equal(batches.batch(0), copies)


def test_the_step_may_be_a_numpy_integer() -> None:
    batches = InMemoryBatches(
        corpus_of(pairs_of_lengths([(3, 4)] * 9)), row_lengths=[8], positions=8, seed=0
    )
    assert_equal(batches.batch(np.int64(11)), batches.batch(11))  # type: ignore[arg-type]


def test_epochs_seeds_and_orders_differ() -> None:
    corpus = corpus_of(pairs_of_lengths(natural_lengths(400)))
    batches = InMemoryBatches(corpus, row_lengths=[64], positions=128, seed=1)
    other_seed = InMemoryBatches(corpus, row_lengths=[64], positions=128, seed=2)
    epochs = [epoch_of(batches, epoch) for epoch in (0, 1, 2)]
    orders = [*epochs, epoch_of(other_seed, 0), epoch_of(batches, 0, 1), epoch_of(batches, 0, 2)]
    for i, batches_of_order in enumerate(orders):
        for other in orders[:i]:
            equal = sum(same(a, b) for a, b in zip(batches_of_order, other, strict=True))
            assert equal <= 1  # of some 30 batches
    # Not the same batches in another order either: rows are dealt anew.
    sources = [{batch["source"].tobytes() for batch in epoch} for epoch in epochs]
    assert len(sources[0] & sources[1]) <= 1


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [
        (768, 12),  # 768 / 64
        (767, 11),
        (64, 1),
        (63, 1),  # at least one row
    ],
)
def test_rows_of_a_batch(tokens: int, rows: int) -> None:
    pairs = pairs_of_lengths([(20, 20)] * 100)
    batches = InMemoryBatches(corpus_of(pairs), row_lengths=[64], positions=tokens, seed=0)
    assert batches.shapes == [(rows, 64)]
    epoch = epoch_of(batches, 0)
    assert all(batch["source"].shape == (rows, 64) for batch in epoch)
    # Three pairs of 21 positions to a row: 34 rows.
    assert len(epoch) == -(-34 // rows)
    assert contents(epoch) == Counter(pairs)


def test_pairs_too_long_are_left_out_and_counted() -> None:
    pairs = pairs_of_lengths([(15, 15), (16, 3), (3, 16), (40, 40), (3, 15), (15, 3), (1, 1)])
    batches = InMemoryBatches(corpus_of(pairs), row_lengths=[8, 16], positions=32, seed=0)
    # With EOS a side of 15 tokens fills a row of 16, and one of 16 does not fit.
    assert batches.skipped == 3
    assert batches.pairs == 4
    packed = Counter([pairs[0], pairs[4], pairs[5], pairs[6]])
    assert contents(epoch_of(batches, 0)) == packed
    assert contents(batches.in_order()) == packed


def test_a_corpus_of_long_pairs_gives_no_batch() -> None:
    for lengths in ([(20, 20)], []):
        batches = InMemoryBatches(
            corpus_of(pairs_of_lengths(lengths)), row_lengths=[16], positions=16, seed=0
        )
        assert batches.pairs == 0
        assert batches.skipped == len(lengths)
        assert batches.steps_per_epoch == 0
        assert batches.shapes == []
        assert batches.padding == 0
        assert list(batches.in_order()) == []


@pytest.mark.parametrize("row_lengths", [[64], [16, 64], [16, 32, 64]])
def test_padding_is_the_share_that_is_counted(row_lengths: list[int]) -> None:
    batches = InMemoryBatches(
        corpus_of(pairs_of_lengths(natural_lengths(150))),
        row_lengths=row_lengths,
        positions=256,
        seed=0,
    )
    for number in (0, 1):
        epoch = epoch_of(batches, number)
        cells = [batch[f"{side}_segments"] for batch in epoch for side in ("source", "target")]
        used = sum(np.count_nonzero(array) for array in cells)
        assert batches.tokens_per_epoch == used
        assert batches.padding == pytest.approx(1 - used / sum(array.size for array in cells))


def test_in_order_gives_every_pair_once_whatever_the_seed() -> None:
    pairs = pairs_of_lengths(natural_lengths(200))
    corpus = corpus_of(pairs)
    first, second = (
        InMemoryBatches(corpus, row_lengths=[16, 64], positions=256, seed=seed) for seed in (1, 2)
    )
    batches = list(first.in_order())
    assert len(batches) == first.steps_per_epoch
    assert contents(batches) == Counter(pairs)
    for a, b in zip(batches, second.in_order(), strict=True):
        assert_equal(a, b)


def test_equal_rows_need_no_padding() -> None:
    """Four pairs of (7 + end, 7 + end) fill a row of 32, on both sides, to the last position."""
    batches = InMemoryBatches(
        corpus_of(pairs_of_lengths([(7, 7)] * 40)), row_lengths=[32], positions=64, seed=0
    )
    assert batches.padding == 0
    assert batches.steps_per_epoch == 5


def test_natural_lengths_leave_little_padding() -> None:
    batches = InMemoryBatches(
        corpus_of(pairs_of_lengths(natural_lengths(4000))), row_lengths=[64], positions=768, seed=0
    )
    assert batches.skipped == 0
    assert 0 < batches.padding < 0.08


@settings(deadline=None, max_examples=150)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 18), st.integers(0, 18)), max_size=60),
    row_lengths=st.lists(st.sampled_from([2, 5, 8, 16]), min_size=1, max_size=4),
    tokens=st.integers(1, 80),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 1000),
)
def test_nothing_is_lost_and_nothing_overlaps(
    lengths: list[tuple[int, int]],
    row_lengths: list[int],
    tokens: int,
    seed: int,
    epoch: int,
) -> None:
    pairs = pairs_of_lengths(lengths)
    batches = InMemoryBatches(
        corpus_of(pairs), row_lengths=row_lengths, positions=tokens, seed=seed
    )
    fitting = [pair for pair in pairs if max(map(len, pair)) + 1 <= max(row_lengths)]
    assert batches.pairs == len(fitting)
    assert batches.skipped == len(pairs) - len(fitting)
    epoch_batches = epoch_of(batches, epoch)
    assert contents(epoch_batches) == contents(batches.in_order()) == Counter(fitting)
    assert {batch["source"].shape for batch in epoch_batches} == set(batches.shapes)
    assert {length for _, length in batches.shapes} <= set(row_lengths)


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [1, 2], [2, 5], [4, 5], [0]])
def test_some_rows_are_those_of_the_whole_batch(chosen: list[int]) -> None:
    """Of the last batch of an epoch, too, which has fewer; what follows them is empty."""
    corpus = corpus_of(pairs_of_lengths(natural_lengths(20)))
    batches = InMemoryBatches(corpus, row_lengths=[16, 32], positions=128, seed=3)
    for step in range(batches.steps_per_epoch):
        complete = batches.batch(step, shuffle=1)
        rows = len(complete["labels"])
        counts: list[int] = []

        def places(count: int, counts: list[int] = counts) -> np.ndarray:
            counts.append(count)
            return np.array(chosen)

        selected = batches.batch(step, 1, places)
        assert counts == [rows]
        for name, array in selected.items():
            empty = np.zeros((max(chosen) + 1, array.shape[1]), array.dtype)
            np.testing.assert_array_equal(array, np.concatenate([complete[name], empty])[chosen])
