"""Chooses dev and test of a prepared corpus by hash, and keeps their sentences out of training.

A pair is chosen by a hash of its text, so the choice depends neither on the shards nor on the order
of lines. Pairs that share a source or a target with a chosen pair, compared without case, accents
and punctuation, are left out of training. (In memory they would follow it into its split: see
`nmt.data.splitting`.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.config import DataConfig
from nmt.config.preparation import PreparationConfig
from nmt.data.caching import save_array
from nmt.data.filtering import DUPLICATE, HELD_OUT
from nmt.data.mixture import to_model_view
from nmt.data.shuffling import mix
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, normalized, split_sizes
from nmt.files import read_json, write_json
from nmt.preparing.clean import (
    KEYS_FILE,
    NUMBERS_FILE,
    PAIRS_FILE,
    format_location,
    hash_texts,
)
from nmt.preparing.files import read_gzip, write_gzip
from nmt.preparing.pool import Task
from nmt.preparing.stages import (
    INFO_FILE,
    REJECTED_FILE,
    WORK,
    CleanShard,
    PairState,
    Preparation,
)
from nmt.text.source_words import SourceWords

STAGE = f"{WORK}/splits"
REASONS = {  # for rejection
    PairState.DUPLICATE: DUPLICATE,
    PairState.NEAR_DUPLICATE: "near duplicate",
    PairState.HELD_OUT: HELD_OUT,
}
STATES_FILE = "states.npy"  # uint8 [pairs]: `PairState`
SAMPLE_FILE = "sample.tsv.gz"  # pairs for the tokenizer, as the model sees them
MAX_SHARE = 10_000  # pairs of dev, and of test, where data.dev and data.test are shares
_SPARE = 1000  # pairs drawn in addition to twice the number needed, as some share sentences
_TOKENIZER_SEED = 0x746F6B65  # differs from the split's, so that the two draws are independent


@dataclass(frozen=True)
class HeldOut:
    """Which pairs are dev and test, and which sentences must not be trained on."""

    chosen: dict[PairState, np.ndarray]  # DEV, TEST -> int64, ascending: numbers of pairs
    sides: tuple[np.ndarray, np.ndarray]  # uint64, ascending: hashes of sources, of targets


def split_corpus(
    preparation: Preparation, shards: Sequence[CleanShard], states: np.ndarray
) -> None:
    """Choose dev and test, and write the final state of each pair.

    Raises:
        UserError: less than half of the pairs would be left for training.
    """
    start = time.monotonic()
    config = preparation.config
    tested = [pair for test in preparation.tests.values() for pair in test.source_view]
    held_out = hold_out(config.data, shards, states, tested, preparation.log)
    train = int((states == PairState.TRAIN).sum())
    sampled = config.prepare.tokenizer_lines / (2 * max(1, train))
    tasks = [
        Task(shard.name, (config, shard, states[shard.start : shard.end], held_out, sampled))
        for shard in shards
    ]
    preparation.pool.run(STAGE, split_shard, tasks, len(tasks))
    preparation.log_rate(f"split {len(states):,} pairs", len(states), start)


def hold_out(
    data: DataConfig,
    shards: Sequence[CleanShard],
    states: np.ndarray,
    tested: Iterable[Pair],
    log: Callable[[str], None],
) -> HeldOut:
    """Choose dev and test, and list the sentences of these, of files, and of ``data.tests``.

    Raises:
        UserError: less than half of the pairs would be left for training.
    """
    splits = {shard: data.sources[shard.source].split for shard in shards}
    shared = [shard for shard in shards if splits[shard] == "shares"]
    dev, test = (0 if name in splits.values() else getattr(data, name) for name in (DEV, TEST))
    available = sum(
        int((states[shard.start : shard.end] == PairState.TRAIN).sum()) for shard in shared
    )
    sizes = split_sizes(available, dev=dev, test=test) if shared else {TEST: 0, DEV: 0}
    for name, amount in ((DEV, dev), (TEST, test)):
        if amount < 1 and sizes[name] > MAX_SHARE:
            log(f"{name}: {MAX_SHARE:,} pairs and not {sizes[name]:,}, which are too many")
            sizes[name] = MAX_SHARE
    file_keys = [
        np.load(shard.folder / KEYS_FILE)[:, 1:] for shard in shards if splits[shard] in (DEV, TEST)
    ]
    file_sides = np.concatenate([np.zeros((0, 2), np.uint64), *file_keys])
    drawn = _draw(shared, states, 2 * sum(sizes.values()) + _SPARE, data.split_seed, file_sides)
    chosen, chosen_sides = _choose(drawn, sizes, log)
    tested = list(tested)
    sides = []
    for i in (0, 1):
        test_sides = hash_texts(normalized(pair[i]) for pair in tested)
        sides.append(np.unique(np.concatenate([chosen_sides[i], file_sides[:, i], test_sides])))
    return HeldOut(chosen, (sides[0], sides[1]))


def _draw(
    shards: Sequence[CleanShard],
    states: np.ndarray,
    count: int,
    seed: int,
    file_sides: np.ndarray,
) -> np.ndarray:
    """Return the training pairs with the smallest ranks, in their order: uint64 [at most count, 4].

    Columns: rank, number, hash of the source, hash of the target. Pairs with a side in
    ``file_sides`` [pairs, 2], the hashes of dev and test files, are passed over.
    """
    best = np.zeros((0, 4), np.uint64)
    for shard in shards:
        keys = np.load(shard.folder / KEYS_FILE)
        is_available = states[shard.start : shard.end] == PairState.TRAIN
        for i in (0, 1):
            is_available &= ~np.isin(keys[:, 1 + i], file_sides[:, i])
        indices = np.flatnonzero(is_available)
        ranks = mix(mix(keys[indices, 0], seed % 2**64))
        if len(ranks) > count:
            smallest = np.argpartition(ranks, count)[:count]
            indices, ranks = indices[smallest], ranks[smallest]
        numbers = (indices + shard.start).astype(np.uint64)
        drawn = np.column_stack([ranks, numbers, keys[indices, 1], keys[indices, 2]])
        best = np.concatenate([best, drawn])
        best = best[np.lexsort((best[:, 1], best[:, 0]))[:count]]
    return best


def _choose(
    drawn: np.ndarray, sizes: dict[str, int], log: Callable[[str], None]
) -> tuple[dict[PairState, np.ndarray], list[np.ndarray]]:
    """Fill test, then dev, with drawn pairs, such that the two share no sentence.

    Returns:
        Numbers of the pairs of each, and the hashes of their sources and targets.
    """
    chosen: dict[str, list[int]] = {TEST: [], DEV: []}
    split_of_side: dict[tuple[int, int], str] = {}  # (side, hash) -> split
    for _, number, *keys in drawn.tolist():
        splits = {split_of_side.get(side) for side in enumerate(keys)} - {None}
        name = (
            splits.pop()
            if splits
            else next((name for name in sizes if len(chosen[name]) < sizes[name]), None)
        )
        if name is None or splits or len(chosen[name]) == sizes[name]:
            continue
        chosen[name].append(number)
        split_of_side |= dict.fromkeys(enumerate(keys), name)
    for name, size in sizes.items():
        if len(chosen[name]) < size:
            log(f"{name}: {len(chosen[name]):,} of {size:,} pairs; the others share sentences")
    sides = [np.array([key for i, key in split_of_side if i == side], np.uint64) for side in (0, 1)]
    numbers = {
        state: np.array(sorted(chosen[name]), np.int64)
        for state, name in ((PairState.DEV, DEV), (PairState.TEST, TEST))
    }
    return numbers, sides


def split_shard(
    config: PreparationConfig,
    shard: CleanShard,
    states: np.ndarray,
    held_out: HeldOut,
    sampled: float,
    folder: Path,
) -> None:
    """Write the final states of a shard, the text of dev, test and a sample, and source words.

    Args:
        config: the configuration of the preparation.
        shard: the shard after cleaning.
        states: uint8 [pairs], of this shard.
        held_out: pairs and sentences that are not trained on.
        sampled: share of the training pairs in the sample, which trains the tokenizer.
        folder: of the shard in this stage.
    """
    keys = np.load(shard.folder / KEYS_FILE)
    states = _decide(config.data, shard, states, keys, held_out)
    is_sampled = mix(keys[:, 0], _TOKENIZER_SEED) < np.uint64(min(sampled, 1) * (2**64 - 2**12))
    is_train = states == PairState.TRAIN
    lines = read_gzip(shard.folder / PAIRS_FILE)

    def view(selected: np.ndarray) -> list[Pair]:
        pairs = [Pair(*lines[i].split("\t")) for i in np.flatnonzero(selected)]
        return to_model_view(config.data, shard.source, pairs)

    for name, selected in (
        (f"{DEV}.tsv.gz", states == PairState.DEV),
        (f"{TEST}.tsv.gz", states == PairState.TEST),
        (SAMPLE_FILE, is_train & is_sampled),
    ):
        with write_gzip(folder / name) as text:
            text.writelines(f"{source}\t{target}\n" for source, target in view(selected))
    SourceWords.count(pair.source for pair in view(is_train)).save(folder)
    save_array(folder / STATES_FILE, states)
    files = read_json(shard.folder / INFO_FILE)["files"]
    numbers = np.load(shard.folder / NUMBERS_FILE)
    rejected: Counter[str] = Counter()
    with write_gzip(folder / REJECTED_FILE) as text:
        for i in np.flatnonzero(np.isin(states, list(REASONS))):
            reason = REASONS[PairState(int(states[i]))]
            rejected[reason] += 1
            text.write(f"{reason}\t{format_location(files, int(numbers[i]))}\t{lines[i]}\n")
    counts = {
        name: int((states == state).sum())
        for name, state in ((TRAIN, PairState.TRAIN), (DEV, PairState.DEV), (TEST, PairState.TEST))
    }
    write_json(folder / INFO_FILE, counts | {"rejected": dict(sorted(rejected.items()))})


def _decide(
    data: DataConfig, shard: CleanShard, states: np.ndarray, keys: np.ndarray, held_out: HeldOut
) -> np.ndarray:
    """Return the final state of each pair of a shard: uint8 [pairs]."""
    states = states.copy()
    split = data.sources[shard.source].split
    if split in (DEV, TEST):
        states[:] = PairState.DEV if split == DEV else PairState.TEST
        return states
    is_held_out = np.zeros(len(states), bool)
    for i, sides in enumerate(held_out.sides):
        is_held_out |= np.isin(keys[:, 1 + i], sides)
    states[(states == PairState.TRAIN) & is_held_out] = PairState.HELD_OUT
    for state, numbers in held_out.chosen.items():
        begin, end = np.searchsorted(numbers, [shard.start, shard.end])
        states[numbers[begin:end] - shard.start] = state
    return states
