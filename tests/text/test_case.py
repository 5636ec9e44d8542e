"""Letter case of sentences: recognised, removed, given to translations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.case import (
    LetterCase,
    apply_case,
    copy_first_capital,
    copy_quoted_capitals,
    copy_unusual_case,
    lower_first_capital,
    recognize_case,
    to_sentence_case,
)
from nmt.text.spans import SLOTS

SLOT = SLOTS[0]
# Some change their length with case; some have a case but are not letters.
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(f"aB çÑ ßẞİıǅﬁΣςⅧⓐ’'-. {SLOT}")))


@pytest.mark.parametrize(
    "text",
    [
        *("¡HOLA MUNDO!", "¿DÓNDE ESTÁ?", "HOLA 5", f"TENGO {SLOT}", "NASA", "ÑU ÁÉ", "STOP!"),
        *("İSTANBUL", "DIE STRAßE IST GESPERRT"),
    ],
)
def test_capitals(text: str) -> None:
    assert recognize_case(text) is LetterCase.UPPER


@pytest.mark.parametrize(
    "text",
    [
        *("How to Train Your Dragon", "Cien Años De Soledad", "Breaking News: Five Cats Escape"),
        *("El Señor De Los Anillos", "Alice Visits Many Famous Museums"),
    ],
)
def test_titles(text: str) -> None:
    assert recognize_case(text) is LetterCase.TITLE


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "I", "I'M", "NO", "OK.", "USA", "U.S.A.", SLOT, f"OK {SLOT}", "Ⓐ", "Ⅷ", "ß"),
        *("iPhone", "El iPhone", "La NASA lo sabe.", "Soy de EE. UU.", "McDonald", "Carlos IV"),
        *("¿Conoce Tom a Mary?", "Juan Pérez", "hola"),
        *("La Dra. Ana López y el Dr. Luis Pérez.", "Visité Nueva York con Ana."),
        *(
            "我喜欢看NBA比赛。",
            "أحب مشاهدة NBA.",
            "나는 NBA를 좋아한다.",
            "DVDを見る。",
            "अ NATO है।",
        ),
        *("Tallas: S, M, L, XL", "S.A. de C.V."),
        *("Der Mann kauft Brot und Wein.", "Die Katze sieht den Hund.", "Das Haus"),
    ],
)
def test_ordinary_sentences(text: str) -> None:
    assert recognize_case(text) is LetterCase.ORDINARY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¡HOLA MUNDO!", "¡Hola mundo!"),
        (f"{SLOT} HOLA", f"{SLOT} Hola"),
        ("ΟΔΟΣ ΣΟΦΟΣ", "Οδος σοφος"),
        ("İSTANBUL", "İstanbul".replace("İ", "I\u0307")),
        ("Cien Años De Soledad", "Cien años de soledad"),
        ("La NASA", "La NASA"),
        ("FELIPE VI Y EL SIGLO XXI", "Felipe VI y el siglo XXI"),
        ("NUNCA VI EL ACTO I, CREO", "Nunca vi el acto I, creo"),
        ("TUTTI I BAMBINI", "Tutti i bambini"),
        ("XL ES MIX", "Xl es mix"),
        ("New VAT Rules Announced In Spain", "New VAT rules announced in spain"),
    ],
)
def test_sentence_case(text: str, expected: str) -> None:
    converted = to_sentence_case(text, recognize_case(text))
    assert converted in (expected, expected.replace("I\u0307", "İ"))


def test_a_translation_gets_the_case_of_its_source() -> None:
    text = f"the straße and {SLOT} of an iPhone"
    assert apply_case(text, LetterCase.ORDINARY) == text
    assert apply_case(text, LetterCase.UPPER) == f"THE STRASSE AND {SLOT} OF AN IPHONE"
    assert apply_case(text, LetterCase.TITLE) == f"The Straße and {SLOT} of an iPhone"
    assert apply_case("ძაღლი", LetterCase.TITLE) == "ძაღლი"


def test_words_of_unusual_case_are_copied() -> None:
    assert copy_unusual_case("Mi iPhone", "my iphone, iphones") == "my iPhone, iphones"
    assert copy_unusual_case("La NASA y McDonald", "Nasa and mcdonald") == "NASA and McDonald"
    assert copy_unusual_case("Ana vive", "ana lives") == "ana lives"
    assert copy_unusual_case("Llama a IT", "call IT if it rings") == "call IT if it rings"
    assert copy_unusual_case("iPhone o IPHONE", "an iphone") == "an iPhone"


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Perro", "dog", "Dog"),
        ("«Perro»", "«dog»", "«Dog»"),
        ("perro", "dog", "dog"),
        ("hola", "Hello", "Hello"),
        ("Mi iPhone", "iPhone of mine", "iPhone of mine"),
        (f"{SLOT} Perro", f"{SLOT} dog", f"{SLOT} Dog"),
        ("¿3?", "dog", "dog"),
        ("Perro", "", ""),
        ("Perro", "ŉ", "ŉ"),  # whose capital is two letters
        ("Perro", "ძაღლი", "ძაღლი"),  # Georgian
    ],
)
def test_a_first_capital_is_copied(source: str, translation: str, expected: str) -> None:
    assert copy_first_capital(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("y luego", "And then", "and then"),
        ("«y luego»", "“And then”", "“and then”"),
        ("no es", "It's not", "it's not"),
        ("然后", "And then", "and then"),
        ("Y luego", "And then", "And then"),
        ("yo creo", "I think", "I think"),
        ("que voy", "I’m going", "I’m going"),
        ("mayo y", "May and", "May and"),  # a month
        ("que rosa", "Rosa and", "Rosa and"),  # a name
        ("el señor", "Don and", "Don and"),  # an honorific
        ("que And viene", "And comes", "And comes"),  # a name of the source
        ("que llueve", "Zorbax and", "Zorbax and"),  # no common word
        ("la nasa", "NASA and", "NASA and"),
        ("que camisa", "It-shirt", "It-shirt"),
        (f"{SLOT} y", f"{SLOT} And", f"{SLOT} and"),
        ("3 y", "3 And", "3 And"),
        ("", "And", "And"),
        ("y", "", ""),
    ],
)
def test_inside_of_a_sentence_a_common_word_has_no_capital(
    source: str, translation: str, expected: str
) -> None:
    common = {"and", "it", "i", "don", "may", "rosa", "nasa"}
    assert lower_first_capital(source, translation, common.__contains__) == expected


@given(TEXTS, TEXTS)
def test_no_text_is_refused_and_slots_stay(text: str, translation: str) -> None:
    for case in (recognize_case(text), *LetterCase):
        for before, after in (
            (text, to_sentence_case(text, case)),
            (translation, apply_case(translation, case)),
        ):
            assert [*map(after.count, SLOTS)] == [*map(before.count, SLOTS)]
    assert len(copy_unusual_case(text, translation)) == len(translation)
    capital = copy_first_capital(text, translation)
    assert len(capital) == len(translation)
    assert sum(map(str.__ne__, capital, translation)) <= 1
    lower = lower_first_capital(text, translation, lambda word: True)
    assert lower.casefold() == translation.casefold()


@given(TEXTS)
def test_capitals_stay_capitals(text: str) -> None:
    if recognize_case(text) is LetterCase.UPPER:
        converted = to_sentence_case(text, LetterCase.UPPER)
        assert apply_case(converted, LetterCase.UPPER).casefold() == text.lower().casefold()


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ('Pulsa "Guardar todo".', 'Press "save".', 'Press "Save".'),
        ("Dijo: «¿Él no?»", "He said: «not he?»", "He said: «Not he?»"),
        ("Er mag das „alte“ Haus.", "He likes the „old“ house.", "He likes the „old“ house."),
        ("He speaks “English”.", "Habla «inglés».", "Habla «inglés»."),
        ('Dijo "no".', 'He said "no".', 'He said "no".'),
        ('Ve "El Puerto" y "no".', 'See "the port".', 'See "the port".'),
    ],
)
def test_quotations_keep_their_capital(source: str, translation: str, expected: str) -> None:
    assert copy_quoted_capitals(source, translation) == expected
