"""Prefixes become what a model writes: with slots, in ordinary letter case."""

from __future__ import annotations

import pytest

from nmt.inference.prefixes import make_prefix
from nmt.text.case import LetterCase
from nmt.text.spans import SLOTS


@pytest.mark.parametrize(
    ("full_text", "spans", "case", "text"),
    [
        ("The car costs 1200", ("1200",), LetterCase.ORDINARY, f"The car costs {SLOTS[0]}"),
        ("Of 120 and 12", ("12",), LetterCase.ORDINARY, f"Of 120 and {SLOTS[0]}"),
        ("12 and 7", ("7", "12"), LetterCase.ORDINARY, f"{SLOTS[1]} and {SLOTS[0]}"),
        ("12 and 12", ("12",), LetterCase.ORDINARY, f"{SLOTS[0]} and 12"),
        ("See https://a.org/?b=1", ("https://a.org/?b=1",), LetterCase.ORDINARY, f"See {SLOTS[0]}"),
        ("On May 5, 5 men", ("5", "May 5"), LetterCase.ORDINARY, f"On {SLOTS[1]}, {SLOTS[0]} men"),
        ("HELLO, HOW", (), LetterCase.UPPER, "Hello, how"),
        ("The Old Man and", (), LetterCase.TITLE, "The old man and"),
        ("", ("12",), LetterCase.UPPER, ""),
    ],
)
def test_a_prefix_is_what_the_model_writes(
    full_text: str, spans: tuple[str, ...], case: LetterCase, text: str
) -> None:
    prefix = make_prefix(full_text, spans, case)
    assert (prefix.full_text, prefix.text) == (full_text, text)


@pytest.mark.parametrize(
    ("full_text", "completed"),
    [
        ("On May", "On May 5, 2026"),
        ("On May 5", "On May 5, 2026"),
        ("On May 5, 2026", "On May 5, 2026"),
        ("On May 5, 2026 in May", "On May 5, 2026 in May"),
        ("On M", "On M"),
        ("On May 6", "On May 6"),
        ("BigMay", "BigMay"),
        ("May 5 men", "May 5 men"),
        ("with Ana", "with Ana Ruiz"),
        ("", ""),
    ],
)
def test_a_date_or_name_at_the_end_is_completed(full_text: str, completed: str) -> None:
    spans = ("May 5, 2026", "Ana Ruiz", "https://a.org/May")
    prefix = make_prefix(full_text, spans, LetterCase.ORDINARY)
    assert prefix.full_text == completed


def test_a_complete_word_is_not_continued() -> None:
    prefix = make_prefix("The old", (), LetterCase.ORDINARY, ends_word=True)
    assert prefix.is_intact("The old man")
    assert prefix.is_intact("The old, grey man")
    assert prefix.is_intact("The old")
    assert not prefix.is_intact("The older man")
    assert not prefix.is_intact("The old-fashioned man")
    begun = make_prefix("The old", (), LetterCase.ORDINARY)
    assert begun.is_intact("The older man")
