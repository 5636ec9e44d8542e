"""Texts with tags: which of them are elements, and how they are put into another text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.marked import Mark, MarkedText
from nmt.text.tags import NO_TAGS, Insertions, cut_end_tags, read_tags, remove_tags


@pytest.mark.parametrize(
    ("text", "bare", "marks"),
    [
        ("Lee <b>esto</b>.", "Lee esto.", [Mark(4, 8)]),
        ('<a href="x y">a <i>b</i></a>', "a b", [Mark(0, 3), Mark(2, 3, 0)]),
        ("Hola <0/>, <1>sí</1>", "Hola <0/>, sí", [Mark(11, 13)]),
        ("<b>a<i>b</b>c</i>", "a<i>bc</i>", [Mark(0, 5)]),
        ("<b></b>", "", [Mark(0, 0)]),
        ("Uno.<br>Dos.", "Uno.<br>Dos.", []),
        ("<ul><li>a</li></ul>", "<ul><li>a</li></ul>", []),
        ("perro<sup>2</sup>", "perro<sup>2</sup>", []),
        ("`<b>a</b>` <code>x</code>", "`<b>a</b>` <code>x</code>", []),
        ("<a>uno</a><a>dos</a>", "<a>uno</a><a>dos</a>", []),  # they alone separate words
        ("Hola:<b>tú</b>, <i>y</i>", "Hola:<b>tú</b>, y", [Mark(16, 17)]),
        ("en<b>www.a.com</b>", "en<b>www.a.com</b>", []),
        ("gran<b>de</b>s", "grandes", [Mark(4, 6)]),
        ("<b><i>a</i></b>s", "as", [Mark(0, 1), Mark(0, 1, 0)]),
        ("<b>1.</b> <i></i>Abre <b>«</b>", "<b>1.</b> Abre <b>«</b>", [Mark(10, 10)]),
        ("copy <file> a </b> 1 < 2 > 0", "copy <file> a </b> 1 < 2 > 0", []),
        ("\uf000 <b>a</b>", "\uf000 a", [Mark(2, 3)]),  # a kept element of a document
        ("", "", []),
    ],
)
def test_tags_that_match_are_elements(text: str, bare: str, marks: list[Mark]) -> None:
    tagged = read_tags(text)
    assert tagged.marked == MarkedText(bare, tuple(marks))
    assert tagged.insertions.insert(bare) == text


@given(
    st.lists(
        st.sampled_from("a,b ,<b>,</b>,<i x='1'>,</i>,<br>,<0/>,<,>,<p>,</p>,`".split(",")),
        max_size=12,
    ),
    st.data(),
)
def test_what_is_read_is_written(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    tagged = read_tags(text)
    assert tagged.insertions.insert(tagged.text) == text
    assert len(tagged.tags) == len(tagged.marked.marks)
    move = tagged.insertions.move
    signs = [move(at, at + 1) for at in range(len(tagged.text))]
    assert "".join(text[slice(*sign)] for sign in signs) == tagged.text
    if tagged.text:  # tags around characters are not among them
        end = data.draw(st.integers(1, len(tagged.text)))
        begin = data.draw(st.integers(0, end - 1))
        assert move(begin, end) == (signs[begin][0], signs[end - 1][1])


def test_tags_are_put_into_a_text_with_the_same_elements() -> None:
    tagged = read_tags("La casa <b>blanca</b>")
    places = tagged.place_tags(MarkedText("The white house", (Mark(4, 9),)))
    assert places == Insertions((4, 9), ("<b>", "</b>"))
    assert places.insert("The white house") == "The <b>white</b> house"
    assert [places.move(*span) for span in ((0, 3), (4, 9), (10, 15))] == [
        (0, 3),
        (7, 12),
        (17, 22),
    ]
    assert NO_TAGS.insertions.move(2, 5) == (2, 5)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("<b>Save.</b>", "<b>Save."),
        ("<p><b>Save.</b> </p>\n", "<p><b>Save."),
        ("Save. ", "Save."),
        ("1 > 0 >", "1 > 0 >"),
        ("Save <b>", "Save <b>"),
        ("See <https://a.b/c>", "See <https://a.b/c>"),
    ],
)
def test_end_tags_are_cut(text: str, bare: str) -> None:
    assert cut_end_tags(text) == bare


def test_many_tags_are_read_in_time() -> None:
    assert len(read_tags("<b>a</b> " * 1000).tags) == 1000
    text = "<b>a</b> " * 20_000 + "<b>" * 20_000 + "</i>" * 20_000
    assert read_tags(text).text == text, "too many to be carried"
    assert cut_end_tags(text) == text.removesuffix("</i>" * 20_000)


def test_tags_without_a_partner_are_removed_as_well() -> None:
    tags = read_tags("<b>a</b> <i>b</i>").tags
    assert remove_tags("<b>x</b> y<i> </u>", tags) == "x y </u>"
    assert remove_tags("<b>x</b> 2 > <i", tags) == "x 2 > "
    assert remove_tags("x <i", ()) == "x <i"
