"""Abbreviations that a model reads as words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from nmt.text.abbreviations import _CONDITIONS, Abbreviations, _read_table, mark_slots
from nmt.text.source_words import SourceWords
from nmt.text.spans import SLOTS

WORDS = dict.fromkeys(
    "señor señora estados unidos por ejemplo página don siglo número calle y otras cosas que usted "
    "ustedes también horas minutos teléfono".split(),
    50,
)


def read(
    text: str,
    language: str = "es",
    counts: Mapping[str, int] = WORDS,
    spans: Sequence[str] = (),
) -> str:
    """Return a text with the words of its abbreviations."""
    text = mark_slots(text, spans)
    found = list(Abbreviations(language, SourceWords(counts)).find(text))
    for begin, end, words in reversed(found):
        text = text[:begin] + words + text[end:]
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("La Sra. Ruiz y el sr. Gil", "La señora Ruiz y el señor Gil"),
        ("Sra. Ruiz:", "Señora Ruiz:"),
        ("Sra.", "Señora"),
        ("Vive en EE. UU.", "Vive en Estados Unidos."),
        ("Vive en EE.UU. hoy", "Vive en Estados Unidos hoy"),
        ("Pan, leche, etc.", "Pan, leche, y otras cosas."),
        ("fruta (p. ej. peras)", "fruta (por ejemplo peras)"),
        ("p. 12, p.12", "página 12, página 12"),
        ("El sr.Gil", "El señor Gil"),
        ("En EE UU", "En Estados Unidos"),
        ("p. de pan", "p. de pan"),  # no number follows
        ("D. Juan, el d. siguiente", "Don Juan, el d. siguiente"),
        ("La No. 5, no. 5, el No. Ana. No. 5", "La número 5, no. 5, el No. Ana. No. 5"),
        ("Tel: 5, tel:, Tel 5, Tel Aviv", "Teléfono: 5, teléfono:, teléfono 5, Tel Aviv"),
        ("el s. XX y el s. pasado", "el siglo XX y el s. pasado"),
        ("c/ Mayor, n.º 3; C/Real", "calle Mayor, número 3; calle Real"),
        ("a.sra. x.p. 3 msr. sra", "a.sra. x.p. 3 msr. sra"),
        ("¿Vive en EE. UU.?", "¿Vive en Estados Unidos?"),
        ("Pan, leche, etc... y agua, etc...", "Pan, leche, etc... y agua, y otras cosas..."),
        ("D.C., D.N.I., P. D. Ana", "D.C., D.N.I., P. D. Ana"),
        ("q tal, tb Q&A, Q.E.P.D., TB, tb.", "que tal, también Q&A, Q.E.P.D., TB, también."),
        ("8 h y 5 min. de pan, 5 min.", "8 horas y 5 minutos de pan, 5 minutos."),
        ("5 h/min, 5 h'a, 5 h) 5 min-a, 5 s. de", "5 h/min, 5 h'a, 5 h) 5 min-a, 5 s. de"),
        (f"{SLOTS[0]} h, a las 8 h, 8h, h", f"{SLOTS[0]} horas, a las 8, 8h, h"),
        (f"A las 10 h. Y a las {SLOTS[0]} h.", f"A las 10 Y a las {SLOTS[0]}."),
        ("A las 20 hs, a las 9 hrs", "A las 20, a las 9"),
        ("", ""),
    ],
)
def test_abbreviations_become_words(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        (f"D. {SLOTS[0]} vive", "Ramón Pérez", "Don "),
        (f"D. {SLOTS[0]}", "3 de mayo", "D. "),
        (f"c/{SLOTS[0]}", "Goya", "calle "),
        (f"s. {SLOTS[0]}", "XX", "siglo "),
        (f"s. {SLOTS[0]}", "XX-XXI", "siglo "),
        (f"s. {SLOTS[0]}", "12", "s. "),
    ],
)
def test_conditions_depend_on_what_slots_stand_for(text: str, span: str, expected: str) -> None:
    words = read(text, spans=[span])
    assert words.startswith(expected)
    assert not words[len(expected)].isalnum()


def test_what_training_has_stays() -> None:
    assert read("Sra. Ruiz", counts={**WORDS, "sra": 11}) == "Sra. Ruiz"
    assert read("Sra. Ruiz", counts={**WORDS, "sra": 10}) == "Señora Ruiz"
    assert read("Sra. Ruiz", counts={**WORDS, "señora": 9}) == "Sra. Ruiz"


def test_the_next_best_words_are_read_if_training_lacks_the_best_ones() -> None:
    counts = {**WORDS, "doctora": 9, "doctor": 50}
    assert read("La Dra. Ruiz", counts=counts) == "La doctor Ruiz"
    assert read("La Dra. Ruiz", counts=counts | {"doctora": 10}) == "La doctora Ruiz"


def test_languages_without_a_table_and_unknown_words() -> None:
    assert read("Sra. Ruiz", "en") == read("Sra. Ruiz", "und") == "Sra. Ruiz"
    assert read("La Sra. Ruiz", "es-MX") == "La señora Ruiz"
    assert not list(Abbreviations("es", None).find("Sra. Ruiz"))


def test_the_table_is_complete_and_has_no_line_twice() -> None:
    table = _read_table()
    assert {entry.language for entry in table} == {"es", "en", "de", "fr", "it", "pt"}
    for entry in table:
        assert entry.short
        assert entry.condition in _CONDITIONS
        assert bool(entry.words) == (entry.condition != "after a clock time")
    keys = [(entry.language, entry.short.lower(), entry.condition) for entry in table]
    assert len(keys) == len(set(keys))
    every = SourceWords.count([f"{'.' * n} {e.words}" for e in table for n in range(10)])
    examples = {"before a name": " Ana", "before a number": " 3", "before a Roman numeral": " IV"}
    examples |= {"before a colon": ":", "after a word and before a number": " 3"}
    for entry in table:
        before = {
            "after a number": "3",
            "after a clock time": "a las 3",
            "after a word and before a number": "El",
        }.get(entry.condition, "-")
        text = f"{before} {entry.short}{examples.get(entry.condition, '')} -"
        [found] = Abbreviations(entry.language, every).find(text)
        assert text[found.begin : found.end].strip() == entry.short
        assert found.text.lower() == entry.words.lower().split("|")[0]


def test_acronyms_have_capitals_in_any_text() -> None:
    acronyms = Abbreviations("es", SourceWords(WORDS)).find_acronyms("LA SRA. RUIZ, EE. UU. Y EEUU")
    assert list(acronyms) == [(14, 21), (24, 28)]
