"""Commas that greetings lack."""

from __future__ import annotations

import pytest

from nmt.text.greetings import find_greetings
from nmt.text.marked import splice
from nmt.text.spans import SLOTS

A = SLOTS[0]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Hola Marta:", "Hola, Marta:"),
        ("hola chicos", "hola, chicos"),
        (f"¡Hola {A}!", f"¡Hola, {A}!"),
        ("Hola a todos.", "Hola, a todos."),
        ("Buenos días equipo:", "Buenos días, equipo:"),
        ("Buenas tardes Sra. Pérez, le escribo yo.", "Buenas tardes, Sra. Pérez, le escribo yo."),
        ("Buen día mi querido amigo", "Buen día, mi querido amigo"),
        # Several words more, none, other greetings and words.
        ("Hola soy tu nueva vecina.", "Hola soy tu nueva vecina."),
        ("Hola, Marta: hola Ana", "Hola, Marta: hola Ana"),
        ("Hola y adiós", "Hola y adiós"),
        ("Hola – Marta", "Hola – Marta"),
        ("¡Hola!", "¡Hola!"),
        ("Buenos amigos:", "Buenos amigos:"),
        ("Holanda gana", "Holanda gana"),
        ("Le dije hola Marta", "Le dije hola Marta"),
    ],
)
def test_a_comma_stands_before_an_address(text: str, read: str) -> None:
    assert splice(text, find_greetings(text, "es-MX")) == read
    assert splice(text, find_greetings(text, "en")) == text
