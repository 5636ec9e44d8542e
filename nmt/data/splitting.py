"""Split pairs into train, dev and test without leaks.

Pairs that share a source or a target, compared without case, accents and punctuation, belong
together: a test sentence is never seen in training through another of its translations.
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

_REMEDY = "set data.dev=0 data.test=0 (or smaller sizes than now), or add data"
_ASCII_WORD = re.compile("[a-z0-9]+")


class Pair(NamedTuple):
    """A sentence and its translation, both cleaned."""

    source: str
    target: str


class _Folding(dict[int, str]):
    """A table for `str.translate`, filled as code points are met."""

    def __missing__(self, code: int) -> str:
        kind = category(chr(code))
        self[code] = chr(code) if kind[0] in "LNM" else " "  # letters, numbers, vowel signs
        if kind in ("Mn", "Cf"):  # accents, joiners
            self[code] = ""
        return self[code]


_FOLDING = _Folding()


def normalized(text: str) -> str:
    """Return what two sentences share that differ in case, accents, punctuation and spacing.

    A text without any letter or digit ("...", an emoji) is compared as it stands, casefolded.
    """
    folded = text.casefold()
    if folded.isascii():
        words = _ASCII_WORD.findall(folded)
    else:
        words = normalize("NFD", folded).translate(_FOLDING).split()
    return " ".join(words) or folded


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Return ``count`` items spread over all: corpora are often sorted by length."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def _groups(pairs: list[Pair], seed: int) -> list[list[int]]:
    """Gather the indices of pairs linked by a source or a target, however long the chain.

    The order of the groups depends on their content and ``seed`` only.
    """
    parent = list(range(len(pairs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = index = parent[parent[index]]  # halves the way for the next search
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
        # No other group has this source, so that no two ranks are equal.
        content = f"{seed}\n{min(sources[index] for index in group)}"
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    return sorted(groups.values(), key=rank)


def split(
    pairs: list[Pair], *, dev: float, test: float, seed: int, log: Callable[[str], None]
) -> list[str]:
    """Return the split of every pair: whole groups, so that no sentence is in two of them.

    Args:
        pairs: all.
        dev: pairs for it, a count or a share below 1.
        test: the same.
        seed: another one chooses other groups.
        log: takes one-line messages.

    Raises:
        UserError: so many are wanted that less than half would be left to train on.
    """
    wanted = split_sizes(len(pairs), dev=dev, test=test)
    rest = _groups(pairs, seed) if any(wanted.values()) else []
    split_of = [TRAIN] * len(pairs)
    for name, size in wanted.items():
        taken, rest = _take(rest, size)
        found = sum(map(len, taken))
        if found < size:
            log(f"{name}: {found:,} of {size:,} pairs; every other group is too large")
        for group in taken:
            for index in group:
                split_of[index] = name
    if 2 * (len(pairs) - split_of.count(TRAIN)) > len(pairs):
        raise UserError(
            f"the {len(pairs):,} usable pairs share so many sentences that dev and test would "
            f"take more than half of them: {_REMEDY}"
        )
    return split_of


def split_sizes(pairs: int, *, dev: float, test: float) -> dict[str, int]:
    """Return how many pairs test and dev are to have, in the order in which they are chosen.

    Raises:
        UserError: less than half would be left to train on.
    """
    wanted = {TEST: _size(test, pairs), DEV: _size(dev, pairs)}
    if 2 * sum(wanted.values()) > pairs:
        raise UserError(
            f"data.dev={dev:g} and data.test={test:g} take "
            f"{wanted[DEV]:,} + {wanted[TEST]:,} of {pairs:,} usable pairs, and at least "
            f"half must stay for training: {_REMEDY}"
        )
    return wanted


def _take(groups: list[list[int]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Take groups of ``size`` pairs together; return them, and the others."""
    missing = size
    taken: list[list[int]] = []
    left: list[list[int]] = []
    for group in groups:
        if len(group) <= missing:
            taken.append(group)
            missing -= len(group)
        else:
            left.append(group)
    if size and not taken and left:  # no group is small enough: better a few pairs too many
        smallest = min(left, key=len)
        left.remove(smallest)
        taken.append(smallest)
    return taken, left


def _size(amount: float, pairs: int) -> int:
    """Return a number of pairs from ``data.dev`` or ``data.test``: a count, or a share below 1."""
    if amount >= 1:
        return int(amount)
    return max(1, round(amount * pairs)) if amount else 0
