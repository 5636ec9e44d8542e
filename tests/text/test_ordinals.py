"""Ordinals in digits, in other languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_dates import translate

from nmt.text.ordinals import _LANGUAGES, OrdinalWriter


@pytest.mark.parametrize(
    ("source", "target", "text", "expected"),
    [
        ("es", "en", "La 3.ª vez, el 1er día y el 2.º", "La 3rd vez, el 1st día y el 2nd"),
        (
            "es-MX",
            "en-GB",
            "1ra, 11.º, 12ª, 13.ª, 22.º, 111.ª",
            "1st, 11th, 12th, 13th, 22nd, 111th",
        ),
        ("es", "en", "el 3.er piso, EL 3ER PISO", "el 3rd piso, EL 3RD PISO"),
        ("es", "en", "el 3er. piso, la 2.da vez, el 1ero", "el 3rd piso, la 2nd vez, el 1st"),
        ("es", "en", "Quedó 3ro. Fue el 2do.", "Quedó 3rd. Fue el 2nd."),
        ("es", "en", "el 1ro. de mayo, 1o de mayo y 1ero de junio", "el May 1, May 1 y June 1"),
        ("es", "en", "1.no fumar, 2.do, 3.va", "1.no fumar, 2nd, 3.va"),
        ("en", "es", "THE 3RD TIME", "THE 3.º TIME"),
        ("fr", "en", "la salle 3E, LA 2ÈME", "la salle 3E, LA 2ND"),
        ("en", "es", "the 3rd time, 21st Street", "the 3.º time, 21.º Street"),
        ("en", "de", "the 2nd one", "the 2nd one"),  # would double a full stop
        ("fr", "en", "la 2e fois, le 1er, 3ème", "la 2nd fois, le 1st, 3rd"),
        ("pt", "fr", "a 1.ª e a 2ª", "a 1er e a 2e"),
        ("es", "en", "el 1.º de mayo y el 2.º", "el May 1 y el 2nd"),  # a date is no ordinal
        # A temperature, ranges and codes, other languages.
        ("es", "en", "Hace 15º, n.º 5, 0.º, A1.º", "Hace 15º, n.º 5, 0.º, A1.º"),
        ("en", "es", "10th-century, 3rds, x3rd", "10.º-century, 3rds, x3rd"),
        ("de", "en", "am 3. und 4.", "am 3. und 4."),
        ("es", "ja", "la 3.ª vez", "la 3.ª vez"),
        ("es", "es-AR", "la 3.ª vez", "la 3.ª vez"),
        ("und", "en", "la 3.ª vez", "la 3.ª vez"),
    ],
)
def test_ordinals_are_written_in_the_other_language(
    source: str, target: str, text: str, expected: str
) -> None:
    assert translate(text, source, target) == expected


@pytest.mark.parametrize(
    ("source", "before", "text", "after", "written"),
    [
        ("es", "Vivo en el ", "2º", " A", "2nd"),
        ("es", "", "3°", " PISO", "3rd"),
        ("pt", "Moro no ", "5º", ".", "5th"),
        ("it", "Abito al ", "11º", " piano", "11th"),
        ("es", "Hoy hace ", "15º", " en Madrid", "15º"),
        ("es", "Con ", "15º", " pisos", "15º"),
        ("es", "Vivo en el ", "2", " A", "2"),
        ("en", "del ", "2º", " piso", "2º"),
    ],
)
def test_words_beside_a_number_tell_an_ordinal_from_a_temperature(
    source: str, before: str, text: str, after: str, written: str
) -> None:
    target = "es" if source == "en" else "en"
    assert OrdinalWriter(source, target).write(text, before, after) == written


@given(st.integers(1, 999), st.permutations(["en", "es", "fr"]))
def test_every_ordinal_comes_back(number: int, codes: list[str]) -> None:
    source, target = codes[:2]
    ordinal = _LANGUAGES[source].write(number)
    writer = OrdinalWriter(source, target)
    text = f"x {ordinal}."
    assert [text[begin:end] for begin, end in writer.find(text)] == [ordinal]
    assert OrdinalWriter(target, source).write(writer.write(ordinal)) == ordinal
