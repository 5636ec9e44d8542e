"""Finds pairs that equal or resemble an earlier one, in whatever shards the two are.

Each shard stores its keys sorted, so a slice of all keys is found by bisection in every shard, and
equal keys fall into the same slice. The first pair in the order of the corpus is kept, however the
corpus is cut into shards. Pairs are identified by their number in that order.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from nmt.data.caching import save_array
from nmt.preparing.clean import SIGNATURES_FILE
from nmt.preparing.files import replace_array
from nmt.preparing.minhash import BANDS, similarities
from nmt.preparing.pool import Task, WriteShard
from nmt.preparing.stages import WORK, CleanShard, PairState, Preparation

SLICE = 2_000_000  # keys in a slice, about: 80 MB while they are sorted
DROPPED_FILE = "dropped.npy"  # int64, ascending: numbers of pairs
PROBED = 1_000_000  # candidates of a shard compared at a time, about: 100 MB
_FIRSTS_FILE, _OTHERS_FILE = "firsts.npy", "others.npy"  # int64, same length: pairs to compare


def find_duplicates(preparation: Preparation, shards: Sequence[CleanShard]) -> np.ndarray:
    """Return the state of each pair, TRAIN, DUPLICATE or NEAR_DUPLICATE: uint8 [pairs]."""
    start = time.monotonic()
    states = np.full(shards[-1].end, PairState.TRAIN, np.uint8)
    slices = range(count_slices(shards, 1))
    tasks = [Task(f"{i:05}", (shards, "pairs", i, None)) for i in slices]
    _mark(preparation, "duplicates", write_repeats, tasks, states, PairState.DUPLICATE)
    preparation.log_rate(f"compared {len(states):,} pairs", len(states), start)
    if preparation.config.prepare.near_duplicates is not None:
        _find_near_duplicates(preparation, shards, states)
    return states


def _find_near_duplicates(
    preparation: Preparation, shards: Sequence[CleanShard], states: np.ndarray
) -> None:
    """Mark pairs that differ from an earlier one only in numbers, or are similar to one."""
    start = time.monotonic()
    earlier = _states_file(preparation, "duplicates")
    slices = range(count_slices(shards, 1))
    tasks = [Task(f"{i:05}", (shards, "masked", i, earlier)) for i in slices]
    _mark(preparation, "masked", write_repeats, tasks, states, PairState.NEAR_DUPLICATE)
    if not _restore_states(preparation, "near", states):
        _find_similar(preparation, shards, states)
    for stage in ("candidates", "probes"):  # half of the disk space of all stages
        shutil.rmtree(preparation.work / stage, ignore_errors=True)
    preparation.log_rate(f"looked at {len(states):,} pairs for similar ones", len(states), start)


def _find_similar(
    preparation: Preparation, shards: Sequence[CleanShard], states: np.ndarray
) -> None:
    """Mark pairs that are similar to an earlier one."""
    work, pool = preparation.work, preparation.pool
    earlier = _states_file(preparation, "masked")
    slices = range(count_slices(shards, BANDS))
    tasks = [Task(f"{i:05}", (shards, i, earlier)) for i in slices]
    pool.run(f"{WORK}/candidates", write_candidates, tasks, len(tasks))
    candidates = [work / "candidates" / task.shard for task in tasks]
    tasks = [Task(shard.name, (shard, candidates)) for shard in shards]
    pool.run(f"{WORK}/probes", write_probes, tasks, len(tasks))
    probes = [work / "probes" / task.shard for task in tasks]
    similarity = preparation.config.prepare.near_duplicates
    tasks = [
        Task(shard.name, (shard, probes[: i + 1], similarity))  # probes of later shards are later
        for i, shard in enumerate(shards)
    ]
    _mark(preparation, "near", write_similar, tasks, states, PairState.NEAR_DUPLICATE)


def _mark(
    preparation: Preparation,
    stage: str,
    write: WriteShard,
    tasks: Sequence[Task],
    states: np.ndarray,
    state: PairState,
) -> None:
    """Run a stage that writes `DROPPED_FILE`, set the state of those pairs, and save all states."""
    if _restore_states(preparation, stage, states):
        return
    preparation.pool.run(f"{WORK}/{stage}", write, tasks, len(tasks))
    for task in tasks:
        states[np.load(preparation.work / stage / task.shard / DROPPED_FILE)] = state
    replace_array(_states_file(preparation, stage), states)


def _restore_states(preparation: Preparation, stage: str, states: np.ndarray) -> bool:
    """Load the states after a stage that is complete; return whether it is."""
    path = _states_file(preparation, stage)
    is_complete = path.is_file()
    if is_complete:
        states[:] = np.load(path)
    return is_complete


def _states_file(preparation: Preparation, stage: str) -> Path:
    """Return the file of the state of each pair after a stage."""
    return preparation.work / f"{stage}.npy"


def count_slices(shards: Sequence[CleanShard], rows: int) -> int:
    """Return the number of slices into which ``rows`` keys of each pair are cut."""
    return rows * -(-shards[-1].end // SLICE)


def find_repeats(
    shards: Sequence[CleanShard], key: str, rows: int, number: int, states_file: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs whose key equals that of an earlier pair, and the earlier ones: int64 each.

    Args:
        shards: all shards.
        key: name of the keys, see `write_sorted`.
        rows: keys of each pair; each row has slices of its own.
        number: of the slice.
        states_file: the state of each pair; only those to train on are compared. None: all are.
    """
    states = None if states_file is None else np.load(states_file, mmap_mode="r")
    parts = count_slices(shards, rows) // rows
    row, part = divmod(number, parts)
    slice_keys, slice_numbers = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    for shard in shards:
        keys_file = shard.folder / f"{key}.keys.npy"
        if not keys_file.is_file():
            continue  # a shard of dev or test
        keys = np.load(keys_file, mmap_mode="r")[row]
        bits = 8 * keys.itemsize
        low, high = (part << bits) // parts, ((part + 1) << bits) // parts
        begin = int(np.searchsorted(keys, keys.dtype.type(low)))
        is_last = high >> bits
        end = len(keys) if is_last else int(np.searchsorted(keys, keys.dtype.type(high)))
        order = np.load(shard.folder / f"{key}.order.npy", mmap_mode="r")[row, begin:end]
        numbers = order.astype(np.int64) + shard.start
        keys = np.array(keys[begin:end])
        if states is not None:
            is_train = states[numbers] == PairState.TRAIN
            numbers, keys = numbers[is_train], keys[is_train]
        slice_keys.append(keys)
        slice_numbers.append(numbers)
    keys, numbers = np.concatenate(slice_keys), np.concatenate(slice_numbers)
    order = np.argsort(keys, kind="stable")  # of equal keys, the first pair first
    keys, numbers = keys[order], numbers[order]
    is_repeat = np.zeros(len(keys), bool)
    is_repeat[1:] = keys[1:] == keys[:-1]
    first = np.maximum.accumulate(np.where(is_repeat, 0, np.arange(len(keys))))
    return numbers[is_repeat], numbers[first[is_repeat]]


def write_repeats(
    shards: Sequence[CleanShard], key: str, number: int, states_file: Path | None, folder: Path
) -> None:
    """Write the pairs of a slice that repeat an earlier one: see `find_repeats`."""
    repeats, _ = find_repeats(shards, key, 1, number, states_file)
    save_array(folder / DROPPED_FILE, np.sort(repeats))


def write_candidates(
    shards: Sequence[CleanShard], number: int, states_file: Path, folder: Path
) -> None:
    """Write the pairs of a slice that share a band with an earlier pair, and that pair.

    It is the first pair with that band and no other, so the comparisons are as many as the pairs.
    """
    others, firsts = find_repeats(shards, "bands", BANDS, number, states_file)
    order = np.argsort(firsts, kind="stable")
    save_array(folder / _FIRSTS_FILE, firsts[order])
    save_array(folder / _OTHERS_FILE, others[order])


def write_probes(shard: CleanShard, candidates: Sequence[Path], folder: Path) -> None:
    """Write the signatures of the pairs of a shard that later pairs are compared with.

    They are written in parts: the first shards have the more of them, the larger the corpus is.
    """
    begin = shard.start
    slices = []
    counts = np.zeros(shard.pairs, np.int64)
    for path in candidates:
        firsts = np.load(path / _FIRSTS_FILE, mmap_mode="r")
        cut = slice(*np.searchsorted(firsts, [begin, shard.end]))
        slices.append((firsts[cut], np.load(path / _OTHERS_FILE, mmap_mode="r")[cut]))
        counts += np.bincount(firsts[cut] - begin, minlength=shard.pairs)
    if not counts.any():
        return
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // PROBED)) + 1
    signatures = np.load(shard.folder / SIGNATURES_FILE)
    bits = shard.pairs.bit_length()
    for part, bounds in enumerate(pairwise([0, *cuts.tolist(), shard.pairs])):
        codes = []  # the later pair, and in the low bits the index of the first one
        for firsts, others in slices:
            cut = slice(*np.searchsorted(firsts, np.add(begin, bounds)))
            codes.append(others[cut] << bits | firsts[cut] - begin)
        unique = np.unique(np.concatenate(codes))  # similar pairs share several bands
        save_array(folder / f"{part:05}.{_OTHERS_FILE}", unique >> bits)
        probed = signatures[unique & ((1 << bits) - 1)]
        save_array(folder / f"{part:05}.{SIGNATURES_FILE}", probed)


def write_similar(
    shard: CleanShard, probes: Sequence[Path], similarity: float, folder: Path
) -> None:
    """Write the pairs of a shard that are at least that similar to an earlier pair.

    The folders of probes are those of this shard and all earlier ones, from `write_probes`.
    """
    dropped = [np.zeros(0, np.int64)]
    signatures = None
    for path in chain.from_iterable(sorted(probe.glob(f"*.{_OTHERS_FILE}")) for probe in probes):
        others = np.load(path, mmap_mode="r")
        cut = slice(*np.searchsorted(others, [shard.start, shard.end]))
        if cut.start == cut.stop:
            continue
        if signatures is None:
            signatures = np.load(shard.folder / SIGNATURES_FILE)
        numbers = np.array(others[cut])
        probed_file = path.with_name(path.name.replace(_OTHERS_FILE, SIGNATURES_FILE))
        probed = np.load(probed_file, mmap_mode="r")[cut]
        is_similar = similarities(signatures[numbers - shard.start], probed) >= similarity
        dropped.append(numbers[is_similar])
    save_array(folder / DROPPED_FILE, np.unique(np.concatenate(dropped)))
