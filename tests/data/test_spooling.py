"""Pairs from Python become a table that says the same."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nmt.data.reading import read_file
from nmt.data.spooling import spool_pairs
from nmt.errors import UserError

LANGUAGES = ("es", "en")
PAIRS = [("Sí.", "Yes."), ("No.", "No.")]


class Frame:
    """What a pandas frame has: the names of its columns, and its rows as tuples."""

    def __init__(self, **columns: list[Any]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        assert not index
        assert name is None
        return zip(*self._columns.values(), strict=True)


class NAType:
    """What pandas has for a missing value: neither equal to itself nor unequal."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


SOURCES, TARGETS = (list(side) for side in zip(*PAIRS, strict=True))


def records(source: str, target: str) -> list[dict[str, str]]:
    return [{"id": "x", target: pair[1], source: pair[0]} for pair in PAIRS]


@pytest.mark.parametrize(
    "pairs",
    [
        PAIRS,
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        records("es", "en"),
        records("es-MX", "EN"),
        records("Español", "English"),
        records("source", "target"),
        [{"es-MX": "x", "en": target, "es": source} for source, target in PAIRS],
        [{"id": 1, "translation": {"en": target, "es": source}} for source, target in PAIRS],
        Frame(id=["a", "b"], en=TARGETS, es=SOURCES),
        Frame(target=TARGETS, source=SOURCES),
        Frame(a=SOURCES, b=TARGETS),
    ],
)
def test_every_form_of_pairs_gives_the_same_table(pairs: Any, tmp_path: Path) -> None:
    path = spool_pairs(pairs, LANGUAGES, tmp_path / "pairs")
    content = path.read_bytes()
    assert content.decode() == "Sí.\tYes.\nNo.\tNo.\n"
    assert path.name == f"{hashlib.sha256(content).hexdigest()}.pairs"
    assert list((tmp_path / "pairs").iterdir()) == [path]


@pytest.mark.parametrize("missing", [None, float("nan"), NAType()])
def test_a_missing_text_is_an_empty_one(missing: Any, tmp_path: Path) -> None:
    forms: list[Any] = [
        [("a", "b"), ("c", missing)],
        [{"es": "a", "en": "b"}, {"es": "c", "en": missing}],
        Frame(es=["a", "c"], en=["b", missing]),
    ]
    for pairs in forms:
        assert spool_pairs(pairs, LANGUAGES, tmp_path).read_bytes() == b"a\tb\nc\t\n"


def test_separators_inside_a_text_become_spaces(tmp_path: Path) -> None:
    path = spool_pairs([("a\tb\nc", "d\r\ne"), ("\ud800", "f")], LANGUAGES, tmp_path)
    assert path.read_bytes() == b"a b c\td  e\n\xed\xa0\x80\tf\n"


def test_pairs_that_are_all_in_quotes_are_no_csv(tmp_path: Path) -> None:
    pairs = [(f'"Sí, {number}."', f'"Yes, {number}."') for number in range(9)]
    path = spool_pairs(pairs, LANGUAGES, tmp_path)
    lines = read_file(path, "data.train", LANGUAGES)
    assert [line.sides for line in lines] == pairs


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "dev is empty: pass"),
        ("pairs.tsv", r"dev is of type str: .* a file is data.train=FILE"),
        ({"train": PAIRS}, "dev is of type dict"),
        (7, "dev is of type int"),
        ([("a", "b"), ("c", 1.5)], r"item 2 of dev is \('c', 1.5\): pass"),
        (["ab"], "item 1 of dev is 'ab'"),
        ([("a", "b", "c")], "item 1"),
        ([{"es": "a", "en": "b"}, {"es": "c"}], r"item 2 of dev is {'es': 'c'}"),
        ([{"de": "x", "en": "y"}], "dev has the columns de, en: call those of .* es and en"),
        ([{"translation": None}], "dev has the columns translation"),
        (Frame(id=["1"], a=["x"], b=["y"]), "dev has the columns id, a, b"),
        (Frame(es=["x"]), "dev has the columns es"),
    ],
)
def test_what_is_no_pair_is_named_and_nothing_is_left(
    pairs: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        spool_pairs(pairs, LANGUAGES, tmp_path, "dev")
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_number_of_pairs(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        spool_pairs(((f"fuente {i}", f"target {i}") for i in range(count)), LANGUAGES, tmp_path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(20_000) < peak(200) + 250_000  # bytes; the larger table has 500 kB
