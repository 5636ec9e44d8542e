"""Split pairs into train, dev and test without leaks.

Pairs that share a source or a target, compared without case, accents and punctuation, go into the
same split: a test sentence is never seen in training through another of its translations. Pairs of
one document or speaker do so, too. Such groups are not joined by the sentences that they share: a
few short ones would join nearly all documents. `nmt.data.corpus` rejects those sentences instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

from nmt.errors import UserError, suggest
from nmt.text.scripts import UNSPACED_LETTERS

T = TypeVar("T")

TRAIN, DEV, TEST = "train", "dev", "test"

_REMEDY = "lower data.dev and data.test, or set both to 0, or add data"
_ASCII_WORD = re.compile("[a-z0-9]+")


def check_split(name: str, tests: Iterable[str]) -> None:
    """Check that pairs of a split are scored on: of dev, test or one of ``data.tests``.

    Raises:
        UserError: no such split has that name.
    """
    splits = {DEV, TEST, *tests}
    if name not in splits:
        raise UserError(f"there is no split '{name}'{suggest(name, splits)}")


class Pair(NamedTuple):
    """A sentence and its translation, both cleaned."""

    source: str
    target: str


class _Folding(dict[int, str]):
    """A table for `str.translate`, filled as code points occur."""

    def __missing__(self, code: int) -> str:
        kind = category(chr(code))
        self[code] = chr(code) if kind[0] in "LNM" else " "  # letters, numbers, vowel signs
        if kind in ("Mn", "Cf"):  # accents, joiners
            self[code] = ""
        return self[code]


_FOLDING = _Folding()
_UNSPACED_GAP = re.compile(rf"(?<=[{UNSPACED_LETTERS}]) (?=[{UNSPACED_LETTERS}])")


def normalized(text: str) -> str:
    """Return a text without case, accents, punctuation and extra spaces, for comparison.

    A text without letters and digits ("...", an emoji) is only casefolded. Letters of scripts
    without spaces between words have none between them.
    """
    folded = text.casefold()
    if folded.isascii():
        return " ".join(_ASCII_WORD.findall(folded)) or folded
    words = normalize("NFD", folded).translate(_FOLDING).split()
    return _UNSPACED_GAP.sub("", " ".join(words)) or folded


def sample_evenly(items: Sequence[T], count: int) -> list[T]:
    """Return ``count`` items at equal distances, as corpora are often sorted by length."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _cluster(pairs: list[Pair], groups: Sequence[str], seed: int) -> list[list[int]]:
    """Return clusters of indices of pairs that go into one split.

    Pairs with a group are clustered by it, and others by the sides that they share, directly or
    not. The order of clusters depends only on their content and ``seed``.
    """
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]  # halves the path for later calls
        return index

    # The key of a group has a tab, and so differs from every normalized side.
    keys = [f"\t{group}" if group else "" for group in groups] or [""] * len(pairs)
    sources = [key or normalized(pair.source) for key, pair in zip(keys, pairs, strict=True)]
    targets = [key or normalized(pair.target) for key, pair in zip(keys, pairs, strict=True)]
    for sides in (sources, targets):
        first: dict[str, int] = {}
        for index, side in enumerate(sides):
            parent[root(index)] = root(first.setdefault(side, index))
    clusters: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        clusters.setdefault(root(index), []).append(index)

    def rank(cluster: list[int]) -> bytes:
        # No other cluster has this source, nor this group, so ranks are unique.
        content = f"{seed}\n{min(sources[index] for index in cluster)}"
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    return sorted(clusters.values(), key=rank)


def split(
    pairs: list[Pair],
    *,
    dev: float,
    test: float,
    seed: int,
    log: Callable[[str], None],
    groups: Sequence[str] = (),
) -> list[str]:
    """Return the split of every pair.

    Splits share no group, and no sentence except those of pairs that have a group.

    Args:
        pairs: all pairs.
        dev: size of dev, a count or a share below 1.
        test: size of test, likewise.
        seed: selects the pairs.
        log: called with messages.
        groups: the document or speaker of each pair, "" for none; empty: no pair has one.

    Raises:
        UserError: less than half of the pairs would be left for training.
    """
    sizes = split_sizes(len(pairs), dev=dev, test=test)
    clusters = _cluster(pairs, groups, seed) if any(sizes.values()) else []
    splits = [TRAIN] * len(pairs)
    for name, size in sizes.items():
        chosen, clusters = _choose_clusters(clusters, size)
        count = sum(map(len, chosen))
        if count < size:
            log(f"{name}: {count:,} of {size:,} pairs; every other cluster of pairs is too large")
        for cluster in chosen:
            for index in cluster:
                splits[index] = name
    if 2 * (len(pairs) - splits.count(TRAIN)) > len(pairs):
        shared = "share so many sentences" + (" or have so few groups" if any(groups) else "")
        raise UserError(
            f"the {len(pairs):,} usable pairs {shared} that dev and test would take more than half "
            f"of them: {_REMEDY}"
        )
    return splits


def split_sizes(pairs: int, *, dev: float, test: float) -> dict[str, int]:
    """Return the sizes of test and dev, in the order in which they are chosen.

    Raises:
        UserError: less than half of the pairs would be left for training.
    """
    sizes = {TEST: _size(test, pairs), DEV: _size(dev, pairs)}
    if 2 * sum(sizes.values()) > pairs:
        raise UserError(
            f"data.dev={dev:g} and data.test={test:g} take "
            f"{sizes[DEV]:,} + {sizes[TEST]:,} of {pairs:,} usable pairs, and at least "
            f"half must stay for training: {_REMEDY}"
        )
    return sizes


def _choose_clusters(
    clusters: list[list[int]], size: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Return clusters that together have at most ``size`` pairs, and the other clusters.

    If every cluster is larger than that, the smallest one is chosen.
    """
    missing = size
    chosen: list[list[int]] = []
    others: list[list[int]] = []
    for cluster in clusters:
        if len(cluster) <= missing:
            chosen.append(cluster)
            missing -= len(cluster)
        else:
            others.append(cluster)
    if size and not chosen and others:
        smallest = min(others, key=len)
        others.remove(smallest)
        chosen.append(smallest)
    return chosen, others


def _size(amount: float, pairs: int) -> int:
    """Return a number of pairs from ``data.dev`` or ``data.test``: a count, or a share below 1."""
    if amount >= 1:
        return int(amount)
    return max(1, round(amount * pairs)) if amount else 0
