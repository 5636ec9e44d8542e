"""Terms are found in any number, longest first, and never inside of other words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.text.terms import Glossary, Term

TERMS = [
    Term("canción", "song"),
    Term("puerta", "gate"),
    Term("perro", "hound"),
    Term("perro guía", "guide dog"),
    Term("luz", "lamp"),
    Term("IT", "IT"),
    Term("SAP", "SAP", "a product"),
]


def find(glossary: Glossary, text: str) -> list[tuple[str, str]]:
    return [(text[match.begin : match.end], match.term.target) for match in glossary.find(text)]


@pytest.fixture(scope="module")
def glossary() -> Glossary:
    return Glossary(TERMS, ("es", "en"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Las canciones y la CANCIÓN.", [("canciones", "song"), ("CANCIÓN", "song")]),
        ("Dos puertas, no el puerto.", [("puertas", "gate")]),
        ("Los perros guía y mi perro", [("perros guía", "guide dog"), ("perro", "hound")]),
        ("Las luces de la luz", [("luces", "lamp"), ("luz", "lamp")]),
        ("it IT sap SAP", [("IT", "IT"), ("SAP", "SAP")]),
        ("emperro perrote", []),
        ("", []),
    ],
)
def test_terms_are_found_as_they_are_inflected(
    glossary: Glossary, text: str, expected: list[tuple[str, str]]
) -> None:
    assert find(glossary, text) == expected


@pytest.mark.parametrize(
    ("target", "translation", "is_used"),
    [
        ("hound", "Two Hounds.", True),
        ("guide dog", "the guide-dog", False),
        ("guide dog", "Guide dogs bark.", True),
        ("knife", "Knives!", True),
        ("gate", "The gatekeeper", False),
    ],
)
def test_a_target_may_be_inflected(
    glossary: Glossary, target: str, translation: str, is_used: bool
) -> None:
    assert glossary.mark_used([Term("x", target)], translation) == [is_used]


def test_a_place_in_a_translation_counts_for_one_term(glossary: Glossary) -> None:
    hound, guide = Term("perro", "dog"), Term("perro guía", "guide dog")
    assert glossary.mark_used([hound, hound], "One dog barks.") == [True, False]
    assert glossary.mark_used([hound, hound], "Dogs and a dog") == [True, True]
    assert glossary.mark_used([hound, guide], "A guide dog barks.") == [False, True]
    assert glossary.mark_used([], "A dog") == []
    assert glossary.find_targets([hound, guide], "Dogs, a guide dog") == [(0, 4), (8, 17)]
    assert glossary.find_targets([guide, hound], "A dog") == [None, (2, 5)]
    assert glossary.mark_used([Term("a", "us"), Term("b", "US")], "US and us") == [True, True]


@pytest.mark.parametrize(
    ("language", "term", "text", "expected"),
    [
        ("de", "Hund", "Die Hunde bellen.", ["Hunde"]),
        ("ru", "собака", "Вижу собаку.", ["собаку"]),
        ("ja", "犬", "私の犬です", ["犬"]),
        ("fr", "cheval", "Des chevaux", ["chevaux"]),
        ("it", "libro", "I libri", ["libri"]),
        ("pt-BR", "coração", "Os corações", ["corações"]),
        ("xx", "foo", "foo foos", ["foo"]),
    ],
)
def test_each_language_inflects_in_its_own_way(
    language: str, term: str, text: str, expected: list[str]
) -> None:
    glossary = Glossary([Term(term, "target")], (language, "en"))
    assert [found for found, _ in find(glossary, text)] == expected


def test_of_two_forms_the_written_one_is_found() -> None:
    glossary = Glossary([Term("casa", "house"), Term("casas", "homes")], ("es", "en"))
    assert find(glossary, "casa, casas") == [("casa", "house"), ("casas", "homes")]


def test_of_two_terms_with_one_form_the_first_is_found() -> None:
    leaf, leave = Term("leaf", "hoja"), Term("leave", "permiso")
    for terms in ([leaf, leave], [leave, leaf]):
        glossary = Glossary(terms, ("en", "es"))
        assert find(glossary, "leaves") == [("leaves", terms[0].target)]


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        ("hound", "perro", ["hound"]),
        ("hound", "perros", ["hounds", "hound"]),
        ("city", "perros", ["citys", "cities", "city"]),
        ("guide dog", "Perros", ["guide dogs", "guide dog"]),
        ("knives", "perros", ["knive", "knif", "knife", "kniveses", "knives"]),
    ],
)
def test_in_the_other_number_the_target_is_tried_in_it_too(
    target: str, text: str, expected: list[str]
) -> None:
    glossary = Glossary([Term("perro", target)], ("es", "en"))
    [match] = glossary.find(text)
    assert glossary.list_targets(match, text) == expected


def test_a_term_that_is_not_translated_stays_as_it_is_written() -> None:
    glossary = Glossary([Term("tortilla", "tortilla")], ("es", "en"))
    assert find(glossary, "Dos Tortillas") == [("Tortillas", "Tortillas")]


@settings(deadline=None)
@given(text=st.text("perogcasIT ,\n-é", max_size=60))
def test_matches_are_in_order_and_do_not_overlap(glossary: Glossary, text: str) -> None:
    end = 0
    for match in glossary.find(text):
        assert end <= match.begin < match.end <= len(text)
        end = match.end


@pytest.mark.parametrize(
    ("term", "text", "is_found"),
    [
        ("पर", "परी पर", True),
        ("पर", "परी", False),  # a vowel sign makes it another word
        ("کتاب", "کتاب\u200cخانه", False),
        ("کتاب\u200cخانه", "کتاب\u200cخانه", True),
        ("แมว", "แมวดำ", True),  # without spaces between words
    ],
)
def test_vowel_signs_and_joiners_belong_to_words(term: str, text: str, is_found: bool) -> None:
    glossary = Glossary([Term(term, term)], ("mr", "mr"))  # without stems
    assert bool(glossary.find(text)) == is_found
    assert glossary.mark_used([Term(term, term)], text) == [is_found]


def test_a_match_names_its_entry() -> None:
    entry = Term("Ayuntamiento", "Ayuntamiento", "a note")
    [match] = Glossary([entry], ("es", "en")).find("el ayuntamiento")
    assert match.entry == entry
    assert match.term == entry._replace(source="ayuntamiento", target="ayuntamiento")


def test_the_sources_that_stay_are_listed_in_any_letter_case() -> None:
    terms = [Term("5 de Mayo", "5 de Mayo"), Term("enero", "Jan."), Term("STRASSE", "STRASSE")]
    assert Glossary(terms, ("es", "en")).kept == {"5 de mayo", "strasse"}
