"""Marks at the end of sentences: what a model reads, and how its translation ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.final_marks import (
    copy_final_marks,
    find_commas,
    list_unusual_marks,
    localize_marks,
    replace_commas,
    simplify_marks,
    split_final_marks,
)


@pytest.mark.parametrize(
    ("text", "body", "marks", "simple"),
    [
        ("No sé...", "No sé", "...", "."),
        ("No sé…", "No sé", "…", "."),
        ("¿Qué?!", "¿Qué", "?!", "?"),
        ("¡Ven!!!", "¡Ven", "!!!", "!"),
        ("Nombre:", "Nombre", ":", ""),
        ("Nombre :", "Nombre ", ":", ""),
        ("¿Listo?:", "¿Listo?", ":", ""),
        ("Sí.", "Sí", ".", "."),
        ("Sí", "Sí", "", ""),
        ("¿Y EE. UU.?", "¿Y EE. UU.", "?", "?"),
        ("¡Uds.!!", "¡Uds.", "!!", "!"),
        ("我不知道……", "我不知道……", "", ""),
        ("Τι κάνεις;", "Τι κάνεις;", "", ""),
        ("...", "...", "", ""),
        (":", ":", "", ""),
        ("", "", "", ""),
    ],
)
def test_marks_stand_for_one(text: str, body: str, marks: str, simple: str) -> None:
    assert split_final_marks(text) == (body, marks)
    assert simplify_marks(marks) == simple


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("No sé...", "I don't know.", "I don't know..."),
        ("No sé…", "I don't know", "I don't know…"),
        ("No sé...", "Do I know?", "Do I know?"),  # another kind of sentence
        ("¡Ven!!!", "Come!", "Come!!!"),
        ("¡Ven!!!", "Come.", "Come."),
        ("¿Qué?!", "What?", "What?!"),
        ("¿Qué?!", "Quoi ?", "Quoi ?!"),
        ("¿Qué?.", "What?", "What?"),
        ("¡Ven!...", "Come!", "Come!..."),
        ("Nombre:", "Name.", "Name:"),
        ("Nombre:", "Name", "Name:"),
        ("Nombre:", "Name:", "Name:"),
        ("pan;", "bread,", "bread;"),
        ("A las 5 de la tarde:", "At 5 p.m.", "At 5 p.m.:"),
        ("Pan, etc.:", "Bread, etc.", "Bread, etc.:"),
        ("Nombre:", "名前。", "名前。"),
        ("Nombre:", "名前：", "名前："),
        ("¿Qué?!", "什么?", "什么?"),
        ("¿Adónde vas???", "คุณจะไปไหน?", "คุณจะไปไหน?"),
        ("No sé...", "我不知道", "我不知道..."),
        ("buy milk;", "Αγοράστε γάλα.", "Αγοράστε γάλα·"),  # ; would ask
        ("Steps:", "Βήματα", "Βήματα:"),
        ("Dear Ahmed,", "عزيزي أحمد", "عزيزي أحمد،"),
        ("Dear Ahmed,", "عزيزي 5", "عزيزي 5،"),
        ("milk;", "حليب.", "حليب؛"),
        ("Steps:", "خطوات", "خطوات:"),
        ("Steps:", "步骤", "步骤："),
        ("milk;", "牛奶", "牛奶；"),
        ("Dear Li,", "亲爱的李", "亲爱的李，"),
        ("Dear all,", "みなさん", "みなさん、"),
        # The script of most letters.
        ("Halla el ángulo:", "Find the angle α", "Find the angle α:"),
        ("Se llama محمد,", "His name is محمد", "His name is محمد,"),
        ("Name:", "이름", "이름:"),
        ("¿Qué??", "Τι;", "Τι;"),
        ("Dijo que no...", 'He said: "No."', 'He said: "No."'),
        ("Sí.", "Yes", "Yes"),
        ("Sí", "Yes.", "Yes."),
        ("Sí:", "", ""),
        ("Sí:", "...", "..."),
    ],
)
def test_a_translation_ends_as_its_source(source: str, translation: str, expected: str) -> None:
    assert copy_final_marks(source, translation) == expected
    assert copy_final_marks(source, expected) == expected


def test_a_heading_without_a_mark_gets_no_dot() -> None:
    assert copy_final_marks("MI CASA", "MY HOUSE.", is_fragment=True) == "MY HOUSE"
    assert copy_final_marks("MI CASA.", "MY HOUSE.", is_fragment=True) == "MY HOUSE."
    assert copy_final_marks("A LAS 5", "AT 5 P.M.", is_fragment=True) == "AT 5 P.M."
    assert copy_final_marks("Mi casa", "My house.") == "My house."


@given(*[st.text(alphabet=st.sampled_from("ab .…!?:;,"), max_size=8)] * 2)
def test_words_stay(source: str, translation: str) -> None:
    copied = copy_final_marks(source, translation)
    body, _ = split_final_marks(translation)
    assert copied == translation or copied.startswith(body)
    assert split_final_marks(source)[0] + split_final_marks(source)[1] == source


def test_commas_of_numbers_and_before_quotations_do_not_count() -> None:
    assert find_commas('a, 1,000,b; c,"d", 「e」，f') == [1, 8, 17, 22]
    assert find_commas('He said, "No". 1,5 2, 3') == [20]


def test_commas_are_replaced() -> None:
    text = "I think, I. You."
    assert replace_commas(text, {8: "...", 10: "…"}) == "I think... I… You."
    assert replace_commas(text, {1: "…", 10: "..."}) == "I think… I... You."
    assert replace_commas("I saw 1,000. You", {5: "…", 11: "..."}) == "I saw… 1,000... You"
    assert replace_commas(text, {10: "...", 16: "..."}) == "I think, I... You."  # none at its end


def test_unusual_marks_are_listed() -> None:
    assert list_unusual_marks("Bueno... no sé:") == {"…", ":"}
    assert list_unusual_marks("Bueno… no.") == {"…"}
    assert list_unusual_marks("Hola, Ana: ven; ya.") == set()
    assert list_unusual_marks("Él/ella, 1/2.") == {"/"}
    assert list_unusual_marks("1/2, c/ Mayor / Sol") == set()


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("¡¿3?!", "en", "3?!"),
        ("¡¿3?!", "es-MX", "¡¿3?!"),
        ("¡3!", "gl", "¡3!"),
        ("¡3!", "und", "¡3!"),
        ("3。4！5？6｡", "en", "3.4!5?6."),
        ("3。4！5？", "ja", "3。4！5？"),
        ("3؟ 4۔", "en", "3? 4."),
        ("3؟ 4۔", "he", "3? 4."),
        ("3؟ 4۔", "fa", "3؟ 4۔"),
    ],
)
def test_marks_are_those_of_a_language(text: str, language: str, expected: str) -> None:
    assert localize_marks(text, language) == expected
