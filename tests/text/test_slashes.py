"""Slashes that are read as "or", and endings that are not read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.slashes import Slashes
from nmt.text.source_words import SourceWords

COUNTS = dict.fromkeys(
    "niño él ella sí no pan leche casa el la pays ici kunde schüler to from cat c a "
    "con sin de hoy día dos veces día either settings privacy schule an in días".split(),
    10,
)
WORDS = SourceWords(COUNTS)


def read(text: str, language: str = "es", words: SourceWords | None = WORDS) -> str:
    """Return a text as it is read."""
    for begin, end, new in reversed([*Slashes(language, words).find(text)]):
        text = text[:begin] + new + text[end:]
    return text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("es", "Él/ella: sí/no", "Él o ella: sí o no"),
        ("es", "Estimado/a amigo/a", "Estimado amigo"),  # unknown words
        ("es", "sí / no, UNICEF/a, zas/a", "sí / no, UNICEF/a, zas/a"),
        ("es", "El/La niño/a, niño/as.", "El niño, niño."),
        ("es", "los/as niños/as, un/a, Las/los, hermano/s", "los niños, un, Las, hermano"),
        ("es", "Niñ@ y niñ@s@casa, gat@, niñ@.", "Niño y niñ@s@casa, gato, niño."),
        ("es", "Amig@s de Juan@s", "Amigos de Juan@s"),
        ("fr", "niñ@", "niñ@"),
        ("es", "entrenador/a", "entrenador"),
        ("es", "profesor/ra, jefes/as, español/a", "profesor, jefes, español"),
        ("es", "dos veces/día, dos/veces", "dos veces por día, dos o veces"),
        ("en", "pan/day pan/leche", "pan/day pan or leche"),
        ("de", "Lehrer/innen an/in der Schule", "Lehrer an oder in der Schule"),
        ("es-MX", "pan y/o leche", "pan o leche"),
        ("en", "to/from cat/s and/or pan/leche", "to or from cat or pan or leche"),
        ("fr", "pays/ici et/ou pan", "pays ou ici ou pan"),
        ("de", "Kunde/in, Schüler/-innen", "Kunde, Schüler"),
        ("pt", "casa/pan", "casa ou pan"),
        ("it", "casa/pan e/o pan", "casa o pan o pan"),
        ("es", "con/o sin, de/a casa, hoy/a", "con/o sin, de/a casa, hoy/a"),
        ("en", "either/or, Settings/Privacy, km/s", "either/or, Settings/Privacy, km/s"),
        # Unknown words, paths, lists of three, other languages.
        ("es", "TCP/IP casa/xyz xyz/a c/ Pan a/o", "TCP/IP casa/xyz xyz/a c/ Pan a/o"),
        ("es", "casa/pan/leche /casa/pan 1/2", "casa/pan/leche /casa/pan 1/2"),
        ("ru", "casa/pan", "casa/pan"),
        ("und", "casa/pan", "casa/pan"),
        ("es", "", ""),
    ],
)
def test_slashes_between_known_words(language: str, text: str, expected: str) -> None:
    assert read(text, language) == expected


def test_what_training_has_stays() -> None:
    text = "Él/ella niño/a"
    assert read(text, words=SourceWords(COUNTS, {"/": 2000})) == text
    assert read(text, words=SourceWords(COUNTS, {"/": 1999})) == "Él o ella niño"
    assert read(text, words=SourceWords(dict.fromkeys(COUNTS, 9))) == "Él/ella niño"
    assert read(text, words=None) == text


@given(st.lists(st.sampled_from(["niño", "/", "a", " ", "él", "-", "y", "o", "x"])).map("".join))
def test_replacements_are_in_order_and_apart(text: str) -> None:
    done = 0
    for begin, end, new in Slashes("es", WORDS).find(text):
        assert done <= begin < end <= len(text)
        assert "/" in text[begin:end]
        assert new in ("", " o ", " por ")
        done = end
