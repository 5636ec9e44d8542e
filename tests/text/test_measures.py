"""Numbers with their units."""

from __future__ import annotations

import pytest

from nmt.text.measures import add_units, cut_words
from nmt.text.spans import find_spans


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Pon 200 g de sal, 5cl y 3 m.", ["200 g", "5cl", "3"]),
        ("a 5 km. de aquí, a 5 km.", ["5 km.", "5 km"]),
        ("a 5 km. Ven", ["5 km"]),
        ("200 g. de sal", ["200 g."]),
        ("3 l'eau, 2 g/l, 5 gatos, 7 g2", ["3", "2 g/l", "5", "7", "g2"]),
        ("www.a.es g, 3D. y 5 m. más", ["www.a.es", "3D", "5"]),
        ("8:30 pm, 200-300 g, ½ l, 1/2 l", ["8:30 pm", "200-300 g", "½ l", "1/2 l"]),
        ("Visita 3 m.facebook.com o 2 g@x.com", ["3", "m.facebook.com", "2", "g@x.com"]),
    ],
)
def test_units_belong_to_their_numbers(text: str, kept: list[str]) -> None:
    spans = add_units(text, find_spans(text), lambda begin, end: text[begin:end] == "m")
    assert [text[begin:end] for begin, end in spans] == kept


def test_words_that_touch_a_number_are_cut_off() -> None:
    text = "3hijos, 20años; 2nda, 9gag, 1990s, 5km, a3años, 7abcde y 1Password"
    read = {"hijos", "años", "nda", "Password"}
    spans = cut_words(text, find_spans(text), lambda begin, end: text[begin:end] in read)
    kept = ["3", "20", "2nda", "9gag", "1990s", "5km", "a3años", "7abcde", "1Password"]
    assert [text[begin:end] for begin, end in spans] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("type-2, mid-1990s, covid-19 y GPT-4", ["2", "1990s", "covid-19", "GPT-4"]),
        ("15 mg/kg/día, 10 €/mes/usuario, $10/user/month", ["15 mg/kg", "10 €", "$10"]),
        ("Paso 2:abra, den 3:e, 3 :e", ["2", "3", "3", ":e"]),
        ("Abre 3 /usr/bin", ["3", "/usr/bin"]),
        ("type-2024.jpg, type-8@gmail.com", ["type-2024.jpg", "type-8@gmail.com"]),
        ("$HOME/docs/cosas %APPS%/Foo/bar", ["$HOME", "/docs/cosas", "%APPS%", "/Foo/bar"]),
    ],
)
def test_words_beside_a_number_are_read(text: str, kept: list[str]) -> None:
    read = {"type", "mid"}
    spans = cut_words(text, find_spans(text), lambda begin, end: text[begin:end] in read)
    assert [text[begin:end] for begin, end in spans] == kept
