"""Which pairs are there already: the same, or nearly, whatever shards they stand in.

Shards keep their keys sorted, so that a slice of all keys is found by bisection in each of them:
what is the same has the same key, and stands in the same slice. The first in the order of the
corpus stays, however it was cut into shards. A pair is known by its number in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from nmt.data.caching import save_array
from nmt.preparing.clean import SIGNATURES_FILE
from nmt.preparing.minhash import similarities

SLICE = 2_000_000  # keys in a slice, about: 80 MB while they are sorted
DROPPED_FILE = "dropped.npy"  # int64, ascending: numbers of pairs
PROBED = 1_000_000  # candidates of a shard looked at together, about: 100 MB
_FIRSTS_FILE, _OTHERS_FILE = "firsts.npy", "others.npy"  # int64, alike: pairs to be compared


@dataclass(frozen=True)
class Shards:
    """Cleaned shards, and which numbers their pairs have."""

    folders: Sequence[Path]
    starts: np.ndarray  # int64 [shards + 1]: numbers of their first pairs

    def slices(self, kinds: int) -> int:
        """Return into how many slices keys are cut so that none is large."""
        return kinds * -(-int(self.starts[-1]) // SLICE)


def find_repeated(
    shards: Shards, name: str, kinds: int, number: int, fates: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs that have the key of an earlier one, and those: int64 [found] each.

    Args:
        shards: that have such keys.
        name: of the keys.
        kinds: of them, each with slices of its own.
        number: of the slice.
        fates: a file with what is known of each pair; others than 0 are passed over.
    """
    known = None if fates is None else np.load(fates, mmap_mode="r")
    kind, part = divmod(number, parts := shards.slices(kinds) // kinds)
    found_keys, found_numbers = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    for folder, start in zip(shards.folders, shards.starts, strict=False):
        if not (folder / f"{name}.keys.npy").is_file():
            continue  # of dev or test
        keys = np.load(folder / f"{name}.keys.npy", mmap_mode="r")[kind]
        bits = 8 * keys.itemsize
        low, high = (part << bits) // parts, ((part + 1) << bits) // parts
        begin = int(np.searchsorted(keys, keys.dtype.type(low)))
        last = high >> bits
        end = len(keys) if last else int(np.searchsorted(keys, keys.dtype.type(high)))
        order = np.load(folder / f"{name}.order.npy", mmap_mode="r")[kind, begin:end]
        numbers = order.astype(np.int64) + start
        of_slice = np.array(keys[begin:end])
        if known is not None:
            fresh = known[numbers] == 0
            numbers, of_slice = numbers[fresh], of_slice[fresh]
        found_keys.append(of_slice)
        found_numbers.append(numbers)
    joined, numbers = np.concatenate(found_keys), np.concatenate(found_numbers)
    order = np.argsort(joined, kind="stable")  # of equal keys, the first pair first
    joined, numbers = joined[order], numbers[order]
    same = np.zeros(len(joined), bool)
    same[1:] = joined[1:] == joined[:-1]
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(joined))))
    return numbers[same], numbers[first[same]]


def write_repeated(
    shards: Shards, name: str, number: int, fates: Path | None, folder: Path
) -> None:
    """Write which pairs of a slice have the key of an earlier one."""
    found, _ = find_repeated(shards, name, 1, number, fates)
    save_array(folder / DROPPED_FILE, np.sort(found))


def write_candidates(shards: Shards, bands: int, number: int, fates: Path, folder: Path) -> None:
    """Write which pairs of a slice share a band with an earlier one, and with which one.

    That is the first that has the band, and no other: as many are compared as there are pairs.
    """
    others, firsts = find_repeated(shards, "bands", bands, number, fates)
    order = np.argsort(firsts, kind="stable")
    save_array(folder / _FIRSTS_FILE, firsts[order])
    save_array(folder / _OTHERS_FILE, others[order])


def write_probes(shards: Shards, candidates: Sequence[Path], shard: int, folder: Path) -> None:
    """Write the signatures of the pairs of a shard that later ones are to be compared with.

    The first shards have the more of them, the larger the corpus is: they are written in parts.
    """
    begin, end = int(shards.starts[shard]), int(shards.starts[shard + 1])
    of_slices = []
    counts = np.zeros(end - begin, np.int64)
    for one in candidates:
        firsts = np.load(one / _FIRSTS_FILE, mmap_mode="r")
        cut = slice(*np.searchsorted(firsts, [begin, end]))
        of_slices.append((firsts[cut], np.load(one / _OTHERS_FILE, mmap_mode="r")[cut]))
        counts += np.bincount(firsts[cut] - begin, minlength=end - begin)
    if not counts.any():
        return
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // PROBED)) + 1
    signatures = np.load(shards.folders[shard] / SIGNATURES_FILE)
    bits = (end - begin).bit_length()
    for number, bounds in enumerate(pairwise([0, *cuts.tolist(), end - begin])):
        found = []
        for firsts, others in of_slices:
            cut = slice(*np.searchsorted(firsts, np.add(begin, bounds)))
            found.append(others[cut] << bits | firsts[cut] - begin)
        pairs = np.unique(np.concatenate(found))  # bands agree on many
        save_array(folder / f"{number:05}.{_OTHERS_FILE}", pairs >> bits)
        probed = signatures[pairs & ((1 << bits) - 1)]
        save_array(folder / f"{number:05}.{SIGNATURES_FILE}", probed)


def write_near(
    shards: Shards, probes: Sequence[Path], shard: int, similarity: float, folder: Path
) -> None:
    """Write which pairs of a shard are as similar to an earlier one as that."""
    begin, end = int(shards.starts[shard]), int(shards.starts[shard + 1])
    dropped = [np.zeros(0, np.int64)]
    signatures = None
    of_shards = [sorted(probe.glob(f"*.{_OTHERS_FILE}")) for probe in probes[: shard + 1]]
    for path in chain.from_iterable(of_shards):  # none is of a later shard
        others = np.load(path, mmap_mode="r")
        cut = slice(*np.searchsorted(others, [begin, end]))
        if cut.start == cut.stop:
            continue
        if signatures is None:
            signatures = np.load(shards.folders[shard] / SIGNATURES_FILE)
        numbers = np.array(others[cut])
        beside = path.with_name(path.name.replace(_OTHERS_FILE, SIGNATURES_FILE))
        probed = np.load(beside, mmap_mode="r")[cut]
        near = similarities(signatures[numbers - begin], probed) >= similarity
        dropped.append(numbers[near])
    save_array(folder / DROPPED_FILE, np.unique(np.concatenate(dropped)))
