"""Spans that both sides have become slots, and everything else stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nmt.text.shared_spans import keep_shared_spans
from nmt.text.spans import SLOTS

A, B, *_ = SLOTS


def test_shared_spans_are_numbered_in_the_order_of_the_source() -> None:
    source, target = keep_shared_spans("De 3 a 45 €.", "45 € down from 3.", SLOTS)
    assert source == f"De {A} a {B}."
    assert target == f"{B} down from {A}."


def test_a_span_that_one_side_writes_otherwise_stays() -> None:
    pair = ("A las 8 en la calle 12.", "At eight in 12th Street, not 12.")
    assert keep_shared_spans(*pair, SLOTS) == (
        f"A las 8 en la calle {A}.",
        f"At eight in 12th Street, not {A}.",
    )


def test_a_span_that_occurs_twice_stays() -> None:
    pair = ("3 y 3", "3 and 3")
    assert keep_shared_spans(*pair, SLOTS) == pair


def test_spans_beyond_the_slots_stay() -> None:
    assert keep_shared_spans("1 o 2", "1 or 2", SLOTS[:1]) == (f"{A} o 2", f"{A} or 2")
    assert keep_shared_spans("1 o 2", "1 or 2", ()) == ("1 o 2", "1 or 2")


@given(st.text(alphabet="ab 12.,"), st.text(alphabet="ab 12.,"))
def test_slots_in_place_of_what_they_replace_give_the_pair_back(source: str, target: str) -> None:
    kept_source, kept_target = keep_shared_spans(source, target, SLOTS)
    assert [slot in kept_source for slot in SLOTS] == [slot in kept_target for slot in SLOTS]
    assert all(kept_source.count(slot) <= 1 for slot in SLOTS)
