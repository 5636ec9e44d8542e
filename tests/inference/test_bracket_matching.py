"""Brackets of the beginning of a translation come from those of the source in order."""

from __future__ import annotations

import time

import pytest

from nmt.inference.bracket_matching import SourceBrackets, match_brackets

ONE_WORD = SourceBrackets("(casi)")
FIRST = SourceBrackets("(mi hermana)", 0, True)
COPIED = SourceBrackets("(OMS)", 1)
SECOND = SourceBrackets("[la de Lima]", 2, True)


@pytest.mark.parametrize(
    ("texts", "slots"),
    [
        ([], []),
        (["(almost)", "(my sister)", "(OMS)", "[the one of Lima]"], [None, 0, 1, 2]),
        (["(my sister)", "(OMS)", "[the one of"], [0, 1, 2]),
        (["(my sister)", "[the one of Lima]"], [0, 2]),
        (["(almost)", "(m"], [None, 0]),
        (["(almost)", "(my sister)", "(O"], [None, 0, 1]),
    ],
)
def test_brackets_match_in_order(texts: list[str], slots: list[int | None]) -> None:
    assert match_brackets([ONE_WORD, FIRST, COPIED, SECOND], texts) == slots


def test_a_remark_may_be_one_word() -> None:
    assert match_brackets([FIRST], ["(sister)"]) == [0]
    assert match_brackets([], ["(sister)"]) == [None]


def test_a_remark_may_have_more_words_in_the_translation() -> None:
    sources = [SourceBrackets("(Holanda)", 0, True), SourceBrackets("(mi hermana)", 1, True)]
    assert match_brackets(sources, ["(the Netherlands)", "(my"]) == [0, 1]
    assert match_brackets(sources[:1], ["(the Netherlands)"]) == [0]


def test_no_remark_is_left_out() -> None:
    """A text in brackets that differs much is none of the source, rather than the next remark."""
    peru = SourceBrackets("[Perú]", 3, True)
    assert match_brackets([peru, FIRST], ["(in Peru)"]) == [None]


def test_of_many_brackets_the_first_ones_match() -> None:
    begin = time.monotonic()
    slots = match_brackets([FIRST] * 10_000, ["(my sister)"] * 10_000)
    assert len(slots) == 50
    assert time.monotonic() - begin < 10
