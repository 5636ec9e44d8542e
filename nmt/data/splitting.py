"""Split pairs into train, dev and test without leaks.

Pairs that share a source or a target, compared without case, accents and punctuation, go into the
same split: a test sentence is never seen in training through another of its translations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

from nmt.errors import UserError

T = TypeVar("T")

TRAIN, DEV, TEST = "train", "dev", "test"

_REMEDY = "lower data.dev and data.test, or set both to 0, or add data"
_ASCII_WORD = re.compile("[a-z0-9]+")


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


def normalized(text: str) -> str:
    """Return a text without case, accents, punctuation and extra spaces, for comparison.

    A text without letters and digits ("...", an emoji) is only casefolded.
    """
    folded = text.casefold()
    if folded.isascii():
        words = _ASCII_WORD.findall(folded)
    else:
        words = normalize("NFD", folded).translate(_FOLDING).split()
    return " ".join(words) or folded


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Return ``count`` items at equal distances, as corpora are often sorted by length."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _groups(pairs: list[Pair], seed: int) -> list[list[int]]:
    """Return groups of indices of pairs that are linked, directly or not, by sources or targets.

    Their order depends only on their content and ``seed``.
    """
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]  # halves the path for later calls
        return index

    sources = [normalized(pair.source) for pair in pairs]
    targets = [normalized(pair.target) for pair in pairs]
    for sides in (sources, targets):
        first: dict[str, int] = {}
        for index, side in enumerate(sides):
            parent[root(index)] = root(first.setdefault(side, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(root(index), []).append(index)

    def rank(group: list[int]) -> bytes:
        # No other group has this source, so ranks are unique.
        content = f"{seed}\n{min(sources[index] for index in group)}"
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    return sorted(groups.values(), key=rank)


def split(
    pairs: list[Pair], *, dev: float, test: float, seed: int, log: Callable[[str], None]
) -> list[str]:
    """Return the split of every pair, such that no two splits share a sentence.

    Args:
        pairs: all pairs.
        dev: size of dev, a count or a share below 1.
        test: size of test, likewise.
        seed: selects the pairs.
        log: called with messages.

    Raises:
        UserError: less than half of the pairs would be left for training.
    """
    sizes = split_sizes(len(pairs), dev=dev, test=test)
    groups = _groups(pairs, seed) if any(sizes.values()) else []
    splits = [TRAIN] * len(pairs)
    for name, size in sizes.items():
        chosen, groups = _choose_groups(groups, size)
        count = sum(map(len, chosen))
        if count < size:
            log(f"{name}: {count:,} of {size:,} pairs; every other group is too large")
        for group in chosen:
            for index in group:
                splits[index] = name
    if 2 * (len(pairs) - splits.count(TRAIN)) > len(pairs):
        raise UserError(
            f"the {len(pairs):,} usable pairs share so many sentences that dev and test would "
            f"take more than half of them: {_REMEDY}"
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


def _choose_groups(groups: list[list[int]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return groups that together have at most ``size`` pairs, and the other groups.

    If every group is larger than that, the smallest one is chosen.
    """
    missing = size
    chosen: list[list[int]] = []
    others: list[list[int]] = []
    for group in groups:
        if len(group) <= missing:
            chosen.append(group)
            missing -= len(group)
        else:
            others.append(group)
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
