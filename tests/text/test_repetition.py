"""Outputs that loop, and outputs that repeat what their source repeats."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.repetition import count_copies, is_looping

TOKENS = st.lists(st.integers(0, 3), max_size=24)


def split(text: str) -> list[int]:
    """Ids of words and marks: the same word has the same id everywhere."""
    return [sum(ord(c) << 8 * i for i, c in enumerate(word)) for word in text.split()]


@pytest.mark.parametrize(
    ("output", "source", "expected"),
    [
        ("", "", False),
        ("", "una ensalada", False),
        ("a salad", "una ensalada", False),
        ("a salad salad salad", "una ensalada", True),
        ("salad salad", "una ensalada", False),
        ("a sal ad sal ad sal ad", "una ensalada", True),
        ("the first of the first of the first of", "el primero", True),
        ("the first of the first of the", "el primero", False),  # less than three copies
        ("no , no , no", "no , no , no", False),
        ("no no no no no no no no", "no no", True),
        ("ha ha ha", "ja ja ja", False),
        ("ha ha ha ha", "ja ja ja", False),
        ("ha ha ha ha ha", "ja ja ja", True),
        ("1 1 1 1", "1 1 1 1", False),
        ("one 1 , 1 and 1 ; 1 . 1", "1", False),  # repeated, but not consecutively
        ("a b c d e a b c d e", "f g h i j", False),
        ("a b c d e a b c d e a b c d e", "f g h i j", True),
    ],
)
def test_what_loops(output: str, source: str, expected: bool) -> None:
    assert is_looping(split(output), split(source)) is expected


@given(TOKENS)
def test_copies_are_those_of_plain_counting(tokens: list[int]) -> None:
    most = 1.0
    for n in range(1, min(16, len(tokens)) + 1):
        for begin in range(len(tokens)):
            end = begin + n
            while end < len(tokens) and tokens[end] == tokens[begin + (end - begin) % n]:
                end += 1
            most = max(most, (end - begin) / n)
    assert count_copies(tokens) == pytest.approx(most)


@given(TOKENS)
def test_nothing_loops_that_its_source_says_too(tokens: list[int]) -> None:
    assert not is_looping(tokens, tokens)


@given(TOKENS, TOKENS, st.integers(1, 16))
def test_every_loop_is_found_wherever_it_is(before: list[int], after: list[int], n: int) -> None:
    loop = list(range(10, 10 + n)) * 3
    assert is_looping([*before, *loop, *after], range(30))


@given(TOKENS, TOKENS)
def test_no_output_without_a_repeated_bigram_loops(tokens: list[int], source: list[int]) -> None:
    kept: list[int] = []
    for token in tokens:
        if (*kept[-1:], token) not in list(pairwise(kept)):
            kept.append(token)
    assert not is_looping(kept, source)
