"""Pairs from Python become a table that says the same."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt.data.spooling import spool_pairs
from nmt.errors import UserError

LANGUAGES = ("es", "en")
PAIRS = [("Sí.", "Yes."), ("No.", "No.")]


class Frame:
    """What a pandas frame has: columns, selection by a list of them, and rows."""

    def __init__(self, **columns: list[str]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame(**{name: self._columns[name] for name in names})

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[str, ...]]:
        assert not index
        assert name is None
        return zip(*self._columns.values(), strict=True)


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        [{"es": source, "en": target} for source, target in PAIRS],
        [{"id": 1, "translation": {"en": target, "es": source}} for source, target in PAIRS],
        Frame(id=["a", "b"], en=["Yes.", "No."], es=["Sí.", "No."]),
        Frame(source=["Sí.", "No."], target=["Yes.", "No."], score=["1", "2"]),
    ],
    ids=["tuples", "iterator", "lists", "columns", "translations", "frame", "other frame"],
)
def test_every_form_of_pairs_gives_the_same_table(pairs: Any, tmp_path: Path) -> None:
    path = spool_pairs(pairs, LANGUAGES, tmp_path / "pairs")
    content = path.read_bytes()
    assert content.decode() == "Sí.\tYes.\nNo.\tNo.\n"
    assert path.name == f"{hashlib.sha256(content).hexdigest()}.tsv"
    assert list((tmp_path / "pairs").iterdir()) == [path]


def test_separators_inside_a_text_become_spaces(tmp_path: Path) -> None:
    path = spool_pairs([("a\tb\nc", "d\r\ne"), ("\ud800", "f")], LANGUAGES, tmp_path)
    assert path.read_bytes() == b"a b c\td  e\n\xed\xa0\x80\tf\n"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "the pairs are empty"),
        ([("a", "b"), ("c", None)], r"item 2 of the pairs is \('c', None\)"),
        (["ab"], "item 1 of the pairs is 'ab'"),
        ([("a", "b", "c")], "item 1"),
        ([{"de": "x", "en": "y"}], "with the keys es and en"),
    ],
)
def test_what_is_no_pair_is_named_and_nothing_is_left(
    pairs: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        spool_pairs(pairs, LANGUAGES, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        spool_pairs(((f"fuente {i}", f"target {i}") for i in range(count)), LANGUAGES, tmp_path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(20_000) < peak(200) + 100_000  # bytes; the larger table has 500 kB
