"""Marked texts are built, walked through, and always well nested."""

from __future__ import annotations

import pytest
from hypothesis import given
from marked_texts import assert_is_sound, marked_texts, write

from nmt.text.marked import Mark, MarkedText, MarkedTextBuilder, delete_characters, walk


def test_a_text_is_built_and_walked_through() -> None:
    builder = MarkedTextBuilder()
    builder.add_text("Lee ")
    builder.open()
    builder.add_text("este ")
    builder.open()
    builder.add_text("libro")
    builder.close()
    builder.close()
    builder.add_empty()
    builder.add_text(" con ")
    builder.add_kept()
    marked = builder.build()
    assert marked.text == "Lee este libro con \uf000"
    assert marked.marks == (
        Mark(4, 14),
        Mark(9, 14, 0),
        Mark(14, 14),
        Mark(19, 20, is_kept=True),
    )
    assert write(marked) == "Lee <0>este <1>libro</1></0><2></2> con <3>\uf000</3>"
    assert write(marked.without_kept()) == "Lee <0>este <1>libro</1></0><2></2> con <3></3>"


def test_private_characters_of_a_document_are_not_taken_for_elements() -> None:
    builder = MarkedTextBuilder()
    builder.add_text("a\uf000b")
    assert builder.build().text == "a b"


def test_open_elements_end_with_the_text() -> None:
    builder = MarkedTextBuilder()
    builder.open()
    builder.add_text("a")
    assert builder.build().marks == (Mark(0, 1),)


def test_elements_at_one_place_stay_in_order() -> None:
    marked = MarkedText("ab", (Mark(1, 1), Mark(1, 1), Mark(1, 2), Mark(1, 1, 2)))
    assert write(marked) == "a<0></0><1></1><2><3></3>b</2>"


@pytest.mark.parametrize("depth", [10_000])
def test_any_depth_is_walked_through(depth: int) -> None:
    marks = tuple(Mark(0, 1, i - 1 if i else None) for i in range(depth))
    assert sum(1 for _ in walk(MarkedText("a", marks))) == 2 * depth + 1


@given(marked_texts())
def test_built_texts_are_sound(marked: MarkedText) -> None:
    assert_is_sound(marked)
    bare = marked.without_kept()
    assert_is_sound(bare)
    kept = {mark.begin for mark in marked.marks if mark.is_kept}
    assert bare.text == "".join(sign for i, sign in enumerate(marked.text) if i not in kept)


def test_deleted_characters_move_marks() -> None:
    marked = MarkedText("abcde", (Mark(0, 2), Mark(2, 5), Mark(3, 4, 1)))
    assert delete_characters(marked, [1, 3]) == MarkedText(
        "ace", (Mark(0, 1), Mark(1, 3), Mark(2, 2, 1))
    )
