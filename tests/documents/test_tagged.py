"""Strings with tags: which of them are elements, and how they are written again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.carrying import carry_marks
from nmt.documents.marked import Mark, MarkedText
from nmt.documents.tagged import read_tags
from nmt.inference.results import Word


@pytest.mark.parametrize(
    ("text", "bare", "marks"),
    [
        ("Lee <b>esto</b>.", "Lee esto.", [Mark(4, 8)]),
        ('<a href="x y">a <i>b</i></a>', "a b", [Mark(0, 3), Mark(2, 3, 0)]),
        ("Uno.<br>Dos.<BR/>", "Uno.\nDos.\n", [Mark(4, 5, None, True), Mark(9, 10, None, True)]),
        ("Hola <0/>, <1>sí</1>", "Hola \uf000, sí", [Mark(5, 6, None, True), Mark(8, 10)]),
        ("copy <file> a </b> 1 < 2 > 0", "copy <file> a </b> 1 < 2 > 0", []),
        ("<b>a<i>b</b>c</i>", "a<i>bc</i>", [Mark(0, 5)]),
        (
            "<ul><li>a</li><li>b</li></ul>",
            "\n\na\n\nb\n\n",
            [Mark(at, at + 1, None, True) for at in (0, 1, 3, 4, 6, 7)],
        ),
        ("", "", []),
    ],
)
def test_tags_that_match_are_elements(text: str, bare: str, marks: list[Mark]) -> None:
    tagged = read_tags(text)
    assert tagged.marked == MarkedText(bare, tuple(marks))
    assert tagged.write(tagged.marked.without_kept()) == text


@given(
    st.lists(
        st.sampled_from("a,b ,<b>,</b>,<i x='1'>,</i>,<br>,<0/>,<,>,<p>,</p>".split(",")),
        max_size=12,
    )
)
def test_what_is_read_is_written(parts: list[str]) -> None:
    text = "".join(parts)
    tagged = read_tags(text)
    assert tagged.write(tagged.marked.without_kept()) == text
    assert len(tagged.tags) == len(tagged.marked.marks)


def test_tags_follow_the_words() -> None:
    tagged = read_tags("La casa <b>blanca</b>")
    words = [
        Word(0, 3, None, ((0, 2),)),
        Word(4, 9, None, ((8, 14),)),
        Word(10, 15, None, ((3, 7),)),
    ]
    translation = carry_marks(tagged.marked, "The white house", words)
    assert tagged.write(translation) == "The <b>white</b> house"
