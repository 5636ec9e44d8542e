"""The split of a corpus that does not fit into memory: chosen by hash, and kept out of training.

A pair to score on is chosen by a hash of its text, so that neither shards nor the order of lines
matter. Whatever shares its source or its target, compared without case, accents and punctuation, is
left out of training. (In memory, such pairs would follow it into its split: see `splitting`.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt.config import DataConfig
from nmt.config.preparation import PreparationConfig
from nmt.data.caching import save_array
from nmt.data.filtering import DUPLICATE, HELD_OUT
from nmt.data.mixture import to_model_view
from nmt.data.shuffling import mix
from nmt.data.splitting import DEV, TEST, TRAIN, Pair, normalized, wanted_sizes
from nmt.preparing.clean import (
    INFO_FILE,
    KEYS_FILE,
    NUMBERS_FILE,
    PAIRS_FILE,
    REJECTED_FILE,
    hash_texts,
    place_of,
)
from nmt.preparing.work import packed_text, read_json, read_packed, write_json

# What becomes of a pair.
TO_TRAIN, TO_DEV, TO_TEST, IS_DUPLICATE, IS_NEAR, IS_HELD_OUT = range(6)
NEAR_DUPLICATE = "near duplicate"
REASONS = {IS_DUPLICATE: DUPLICATE, IS_NEAR: NEAR_DUPLICATE, IS_HELD_OUT: HELD_OUT}

FATES_FILE = "fates.npy"  # uint8 [pairs]
SAMPLE_FILE = "sample.tsv.gz"  # for the tokenizer, as the model sees it
MOST_BY_SHARE = 10_000  # pairs of dev, and of test, where data.dev and data.test are shares
_SPARE = 1000  # seeds looked at beyond those wanted and as many again
_FOR_TOKENIZER = 0x746F6B65  # any number, so that its draw is not that of the split


class Cleaned(NamedTuple):
    """A shard after cleaning, and what is known of its pairs."""

    folder: Path
    source: str
    fates: np.ndarray  # uint8 [pairs]
    start: int  # number of its first pair


@dataclass(frozen=True)
class HeldOut:
    """What is not trained on."""

    chosen: dict[int, np.ndarray]  # `TO_DEV`, `TO_TEST` -> int64, ascending: numbers of pairs
    sides: tuple[np.ndarray, np.ndarray]  # uint64, ascending: hashes of sources, of targets


def hold_out(
    data: DataConfig,
    shards: Sequence[Cleaned],
    tested: Iterable[Pair],
    log: Callable[[str], None],
) -> HeldOut:
    """Choose dev and test, and list the sides of all that is scored on.

    Args:
        data: of the configuration.
        shards: all; of sources that are dev or test, every pair is.
        tested: pairs of ``data.tests``, as their sources have them.
        log: takes one-line messages.

    Raises:
        UserError: less than half would be left to train on.
    """
    shared = [one for one in shards if data.sources[one.source].split == "shares"]
    files = {data.sources[one.source].split for one in shards}
    alive = sum(int((one.fates == TO_TRAIN).sum()) for one in shared)
    dev, test = 0 if DEV in files else data.dev, 0 if TEST in files else data.test
    wanted = wanted_sizes(alive, dev=dev, test=test) if shared else {TEST: 0, DEV: 0}
    for name, amount in ((DEV, dev), (TEST, test)):
        if amount < 1 and wanted[name] > MOST_BY_SHARE:
            log(f"{name}: {MOST_BY_SHARE:,} pairs and not {wanted[name]:,}, which are too many")
            wanted[name] = MOST_BY_SHARE
    in_files = [
        np.load(one.folder / KEYS_FILE)[:, 1:]
        for one in shards
        if data.sources[one.source].split in (DEV, TEST)
    ]
    file_sides = np.concatenate([np.zeros((0, 2), np.uint64), *in_files])
    seeds = _draw(shared, 2 * sum(wanted.values()) + _SPARE, data.split_seed, file_sides)
    chosen, drawn = _choose(seeds, wanted, log)
    tested = list(tested)
    sides = []
    for i in (0, 1):
        of_tests = hash_texts(normalized(pair[i]) for pair in tested)
        sides.append(np.unique(np.concatenate([drawn[i], file_sides[:, i], of_tests])))
    return HeldOut(chosen, (sides[0], sides[1]))


def _draw(shards: Sequence[Cleaned], count: int, seed: int, file_sides: np.ndarray) -> np.ndarray:
    """Return the pairs of the smallest ranks, in their order: uint64 [at most count, 4].

    Columns: rank, number, hash of the source, hash of the target. None has a side of ``file_sides``
    [pairs, 2], the hashes of what files of dev or test hold.
    """
    best = np.zeros((0, 4), np.uint64)
    for one in shards:
        keys = np.load(one.folder / KEYS_FILE)
        free = one.fates == TO_TRAIN
        for i in (0, 1):
            free &= ~np.isin(keys[:, 1 + i], file_sides[:, i])
        alive = np.flatnonzero(free)
        ranks = mix(mix(keys[alive, 0], seed % 2**64))
        if len(ranks) > count:
            least = np.argpartition(ranks, count)[:count]
            alive, ranks = alive[least], ranks[least]
        numbers = (alive + one.start).astype(np.uint64)
        found = np.column_stack([ranks, numbers, keys[alive, 1], keys[alive, 2]])
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0]))[:count]]
    return best


def _choose(
    seeds: np.ndarray, wanted: dict[str, int], log: Callable[[str], None]
) -> tuple[dict[int, np.ndarray], list[np.ndarray]]:
    """Fill test, then dev, with pairs of which none shares a side with one of the other."""
    chosen: dict[str, list[int]] = {TEST: [], DEV: []}
    split_of: dict[tuple[int, int], str] = {}  # side and hash -> split
    for _, number, *keys in seeds.tolist():
        of_sides = {split_of.get(side) for side in enumerate(keys)} - {None}
        name = (
            of_sides.pop()
            if of_sides
            else next((name for name in wanted if len(chosen[name]) < wanted[name]), None)
        )
        if name is None or of_sides or len(chosen[name]) == wanted[name]:
            continue
        chosen[name].append(number)
        split_of |= dict.fromkeys(enumerate(keys), name)
    for name, size in wanted.items():
        if len(chosen[name]) < size:
            log(f"{name}: {len(chosen[name]):,} of {size:,} pairs; the others share sentences")
    sides = [np.array([key for i, key in split_of if i == side], np.uint64) for side in (0, 1)]
    numbers = {
        fate: np.array(sorted(chosen[name]), np.int64)
        for fate, name in ((TO_DEV, DEV), (TO_TEST, TEST))
    }
    return numbers, sides


def split_shard(
    config: PreparationConfig,
    cleaned: Cleaned,
    held_out: HeldOut,
    sampled: float,
    folder: Path,
) -> None:
    """Write what becomes of every pair of a shard, and the text that others need of it.

    Args:
        config: of the preparation.
        cleaned: the shard.
        held_out: what is not trained on.
        sampled: share of the pairs that the tokenizer is trained on.
        folder: where to.
    """
    info = read_json(cleaned.folder / INFO_FILE)
    keys = np.load(cleaned.folder / KEYS_FILE)
    fates = decide(config.data, cleaned, keys, held_out)
    drawn = mix(keys[:, 0], _FOR_TOKENIZER) < np.uint64(min(sampled, 1) * (2**64 - 2**12))
    lines = read_packed(cleaned.folder / PAIRS_FILE)
    for name, fate in ((DEV, TO_DEV), (TEST, TO_TEST), (SAMPLE_FILE, TO_TRAIN)):
        which = (fates == fate) & (drawn | (fate != TO_TRAIN))
        pairs = [Pair(*lines[i].split("\t")) for i in np.flatnonzero(which)]
        turned = to_model_view(config.data, cleaned.source, pairs)
        with packed_text(folder / (name if fate == TO_TRAIN else f"{name}.tsv.gz")) as text:
            text.writelines(f"{source}\t{target}\n" for source, target in turned)
    save_array(folder / FATES_FILE, fates)
    numbers = np.load(cleaned.folder / NUMBERS_FILE)
    rejected: Counter[str] = Counter()
    with packed_text(folder / REJECTED_FILE) as sink:
        for i in np.flatnonzero(fates >= IS_DUPLICATE):
            reason = REASONS[int(fates[i])]
            rejected[reason] += 1
            sink.write(f"{reason}\t{place_of(info['files'], int(numbers[i]))}\t{lines[i]}\n")
    counts = {
        name: int((fates == fate).sum())
        for name, fate in ((TRAIN, TO_TRAIN), (DEV, TO_DEV), (TEST, TO_TEST))
    }
    write_json(folder / INFO_FILE, counts | {"rejected": dict(sorted(rejected.items()))})


def decide(data: DataConfig, cleaned: Cleaned, keys: np.ndarray, held_out: HeldOut) -> np.ndarray:
    """Return what becomes of each pair of a shard: uint8 [pairs]."""
    fates = cleaned.fates.copy()
    split = data.sources[cleaned.source].split
    if split in (DEV, TEST):
        fates[:] = TO_DEV if split == DEV else TO_TEST
        return fates
    shares = np.zeros(len(fates), bool)
    for i, sides in enumerate(held_out.sides):
        shares |= np.isin(keys[:, 1 + i], sides)
    fates[(fates == TO_TRAIN) & shares] = IS_HELD_OUT
    for fate, numbers in held_out.chosen.items():
        begin, end = np.searchsorted(numbers, [cleaned.start, cleaned.start + len(fates)])
        fates[numbers[begin:end] - cleaned.start] = fate
    return fates
