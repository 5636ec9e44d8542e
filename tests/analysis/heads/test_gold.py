"""Alignment error rates counted by hand, and the file they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.analysis.heads.alignment import Links, Method, SentencePair
from nmt.analysis.heads.gold import Comparison, Counts, Gold, add, compare, read_gold
from nmt.errors import UserError

LINES = """# source TAB target TAB links
¿ Dónde vive Ana ?\tWhere does Ana live ?\t0?4 1-0 2-3 2?1 3-2 4-4

Llueve .\tIt rains .\t0?0 0-1 1-2
"""


def gold(sure: Links, possible: Links) -> Gold:
    return Gold(SentencePair("a b c", "x y z", [], []), sure, sure | possible)


def test_counts_by_hand() -> None:
    # Three links: one sure, one possible, one wrong. Two sure links by hand.
    counts = compare(
        frozenset({(0, 0), (1, 1), (2, 1)}), gold(frozenset({(0, 0), (2, 2)}), frozenset({(1, 1)}))
    )
    assert counts == Counts(links=3, sure=2, in_sure=1, in_possible=2)
    assert counts.precision == pytest.approx(2 / 3)
    assert counts.recall == pytest.approx(1 / 2)
    assert counts.error_rate == pytest.approx(1 - 3 / 5)
    both = add([counts, Counts(links=1, sure=2, in_sure=1, in_possible=1)])
    assert both.error_rate == pytest.approx(1 - (2 + 3) / (4 + 4))
    assert Counts(0, 0, 0, 0).error_rate == 0


LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


@given(LINKS, LINKS, LINKS)
def test_bounds(links: Links, sure: Links, possible: Links) -> None:
    pair = gold(sure, possible)
    counts = compare(links, pair)
    assert 0 <= counts.error_rate <= 1
    assert compare(sure, pair).error_rate == 0
    assert compare(pair.possible, pair).error_rate == 0  # possible links cost nothing
    if sure:
        assert compare(frozenset(), pair).error_rate == 1
    wrong = frozenset({(9, 9)})
    assert compare(links | wrong, pair).error_rate >= counts.error_rate


def test_a_file_of_alignments(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text(LINES, encoding="utf-8")
    first, second = read_gold(path)
    assert (first.sentences.source, first.sentences.target) == (
        "¿Dónde vive Ana?",
        "Where does Ana live?",
    )
    assert first.sentences.words() == (
        ["¿", "Dónde", "vive", "Ana", "?"],
        ["Where", "does", "Ana", "live", "?"],
    )
    assert first.sure == {(1, 0), (2, 3), (3, 2), (4, 4)}
    assert first.possible == first.sure | {(0, 4), (2, 1)}
    assert second.sentences.source == "Llueve."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no sentence pair"),
        ("# nothing but this\n", "contains no sentence pair"),
        ("a\tb\n", ":1: 2 columns"),
        ("# x\na b\tc\t0-0 2-0\n", ":2: 2-0 points beyond the 2 and 1 words"),
        ("a\tb\t0:0\n", ":1: 0:0 is not a link"),
        ("a\t \t0-0\n", ":1: the source or the target has no words"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_gold(path)


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text("\ufeff# sí\nsí\u2028no\tyes no\t0-0 1-1\n", encoding="utf-8")
    [pair] = read_gold(path)
    assert [len(side) for side in (pair.sentences.source_words, pair.sentences.target_words)] == [
        2,
        2,
    ]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_gold(tmp_path / "none.tsv")
    (tmp_path / "latin").write_bytes(b"\xe1\tb\t0-0\n")
    with pytest.raises(UserError, match="not UTF-8"):
        read_gold(tmp_path / "latin")


def test_a_comparison_finds_the_head_that_aligns() -> None:
    """Head 2 of layer 1 is right where it reads a word; all else looks at the first word."""
    words = ["a", "b", "c"], ["x", "y", "z"]
    spans = [(0, 1), (2, 3), (4, 5)]
    pair = Gold(
        SentencePair("a b c", "x y z", spans, spans),
        frozenset({(2, 0), (1, 1), (0, 2)}),
        frozenset({(2, 0), (1, 1), (0, 2)}),
    )
    assert pair.sentences.words() == words
    first = np.tile([1.0, 0, 0, 0], (3, 1))
    weights = np.stack([[[first, first]], [[first, np.eye(4)[2::-1]]]])  # [2, 1, 2, 3, 4]
    comparison = Comparison([pair] * 4, [weights] * 4, [np.eye(4)[2::-1]] * 4)
    assert comparison.counts(Method(1, 2, True)).error_rate == 0
    assert comparison.counts(Method(1, 1, True)).error_rate == pytest.approx(1 - 2 / 6)
    assert comparison.diagonal.error_rate == pytest.approx(1 - 2 / 6)
    rows = dict(comparison.rows())
    assert rows["default"] == Counts(12, 12, 12, 12)
    assert rows["most informative head: layer 1, head 2, shifted"].error_rate == 0
    assert rows["best head of the other half, shifted"] == Counts(12, 12, 12, 12)
    assert rows["best head of the other half, plain"].error_rate == pytest.approx(1 - 2 / 6)
    content = comparison.as_json()
    assert content["methods"]["layer 1, head 2, shifted"]["error_rate"] == 0
    assert [row[0] for row in comparison.tabulate()[0].rows] == list(content["compared"])
    assert comparison.tabulate()[1].rows == [
        ["1, plain", "0.667", "0.667"],
        ["1, shifted", "0.667", "0.000"],
    ]


def test_what_is_chosen_on_one_half_is_measured_on_the_other() -> None:
    """Head 1 is right on even pairs and head 2 on odd ones: each half chooses wrongly."""
    spans = [(0, 1), (2, 3)]
    links = frozenset({(0, 0), (1, 1)})
    pair = Gold(SentencePair("a b", "x y", spans, spans), links, links)
    right, wrong = np.eye(3)[:2], np.eye(3)[[1, 0]]
    even, odd = (
        np.array([[[first, second]]] * 2) for first, second in ((right, wrong), (wrong, right))
    )
    comparison = Comparison([pair] * 4, [even, odd, even, odd], [right] * 4)
    assert comparison.counts(Method(1, 1, False)).error_rate == 0.5
    assert dict(comparison.rows())["best head of the other half, plain"].error_rate == 1
