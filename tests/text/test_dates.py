"""Dates with the name of a month, in other languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_dates import translate

from nmt.text.dates import _LANGUAGES, NO_DATES, DateWriter
from nmt.text.spans import SLOTS

FIVES = "5 de junio, 5 de mayo, 5 de mayo, 5 de mayo de 1990"


@pytest.mark.parametrize(
    ("source", "target", "text", "expected"),
    [
        ("es", "en", "el 5 de mayo de 1990 y el 1.º de junio", "el May 5, 1990 y el June 1"),
        ("es-MX", "en-GB", "Lunes, 03 de Marzo del 2026.", "Lunes, March 3, 2026."),
        ("es", "de", "EL 31 DE DICIEMBRE DE 1999", "EL 31. DEZEMBER 1999"),
        ("en", "es", "May 5, 1990; June 1st", "5 de mayo de 1990; 1 de junio"),
        ("en", "fr", "on 5 May 1990, the 2nd of March", "on 5 mai 1990, the 2 mars"),
        ("es", "fr", "el 1 de mayo; del 1 al 3 de mayo", "el 1er mai; del 1er au 3 mai"),
        ("en", "es", "May 5 May 6, 2026", "5 de mayo 6 de mayo de 2026"),
        ("en", "es", "5 June 6", "5 de junio 6"),
        ("de", "it", "am 5. Mai 1990, 1.März", "am 5 maggio 1990, 1 marzo"),
        ("fr", "pt", "le 1er août 2026", "le 1 de agosto de 2026"),
        ("it", "en", "il 1º maggio", "il May 1"),
        ("pt", "es", "5 de março de 2026", "5 de marzo de 2026"),
        ("es", "en", "5 de agoſto", "August 5"),  # a letter that IGNORECASE takes for another
        # Other words and numbers, no day, another language.
        ("en", "es", "you may 5, march 3, May 55", "you may 5, march 3, May 55"),
        ("en", "es", "15/5 May", "15/5 May"),
        ("en", "es", "UNDER 12 MAY NOT, Top 10 May", "UNDER 12 MAY NOT, Top 10 May"),
        ("en", "es", "5 June, 5th of May, 5th May, 5 May 1990", FIVES),
        ("es", "en", "mayo de 2026, 32 de mayo", "May 2026, 32 de mayo"),
        ("es", "en", "mayo 1990 – junio 1995, Enero 2025", "May 1990 – June 1995, January 2025"),
        ("pt", "es", "Maio 1990, 5 de maio 1990", "mayo de 1990, 5 de mayo 1990"),
        ("es", "en", "Del 3 al 5 de mayo del 2026", "Del May 3 to 5, 2026"),
        ("es", "en", "3 Y 5 DE MAYO, 3 y 3 de mayo", "MAY 3 AND 5, 3 y May 3"),
        ("es", "en", "3 de mayo – el 7 de junio", "May 3 – el June 7"),
        ("de", "en", "3. und am 5. Mai", "May 3 and 5"),
        ("en", "es", "UNDER 12 MARCH ON, Top 10 March", "UNDER 12 MARCH ON, Top 10 March"),
        ("en", "es", "3 MAR 2024", "3 DE MARZO DE 2024"),
        ("es", "en", "3 y 5 DE MAYO, 3 – 5 de mayo", "MAY 3 AND 5, May 3–5"),
        ("es", "en", "el 3 y el 5 de mayo; 3, 4 y 5 de mayo", "el May 3 and 5; May 3, 4 and 5"),
        (
            "es",
            "en",
            "Son 20, 3 y 5 de mayo; 1, 9, 2 y 3 de mayo",
            "Son 20, 3 y May 5; 1, 9, 2 y May 3",
        ),
        ("es", "en", "1, 2, 3, 4, 5 y 6 de mayo", "May 1, 2, 3, 4, 5 and 6"),
        ("de", "en", "am 3., 4. und 5. Mai", "am May 3, 4 and 5"),
        ("en", "es", "on May 3, 4, and 5, 2020", "on 3, 4 y 5 de mayo de 2020"),
        ("it", "en", "il 3 e il 7 maggio", "il May 3 and 7"),
        ("es", "en", "del 3 de mayo al 5 de junio", "del May 3 al June 5"),
        ("en", "es", "3rd to 5th of May, May 3-5, 1990", "3 al 5 de mayo, 3–5 de mayo de 1990"),
        (
            "en",
            "es",
            "May 3 and 4 people, May 3 - 7 pm",
            "3 de mayo and 4 people, 3 de mayo - 7 pm",
        ),
        (
            "en",
            "es",
            "from June 3 to 7. May 5-7 in Rome",
            "from 3 al 7 de junio. 5–7 de mayo in Rome",
        ),
        ("es", "en", "3 de mayo–7 de junio - 1 de julio", "May 3–June 7 - July 1"),
        ("en", "es", "May 3-5 – June 7, 2026", "3–5 de mayo – 7 de junio de 2026"),
        ("de", "en", "3. Mai — 7. Juni 2026", "May 3 — June 7, 2026"),
        ("es", "en", "Son 20 y 3 de mayo", "Son 20 y May 3"),
        ("en", "pt", "in May 1990, may 1990", "in maio de 1990, may 1990"),
        ("de", "fr", "3. bis 5. Mai, 3.–5. Mai", "3 au 5 mai, 3–5 mai"),
        ("fr", "de", "du 1er au 3 mai 1990", "du 1. bis 3. Mai 1990"),
        ("es", "en", "5 de mayor", "5 de mayor"),
        ("es", "en", "Vista al mar, julio de 2019.", "Vista al mar, July 2019."),
        ("en", "es", "JUNE 3RD, 2024", "3 DE JUNIO DE 2024"),
        ("es", "en", "3 mar 2024, 3 de ene. de 2024.", "March 3, 2024, January 3, 2024."),
        ("es", "en", "03-mar-2024, 03/SEPT/2024", "March 3, 2024, SEPTEMBER 3, 2024"),
        ("es", "en", "3 mar, 3 mar 24", "3 mar, 3 mar 24"),
        ("es", "en", "El mar, 4 mar 2025", "El Tuesday, March 4, 2025"),
        ("es", "fr", "SAB., 1 DE MAYO", "SAMEDI 1ER MAI"),
        ("es", "en", "el mar 4 de marzo", "el mar March 4"),
        ("en", "es", "On Thurs, Mar 4, 2025", "On jueves, 4 de marzo de 2025"),
        ("de", "en", "Am Mo., 3. März 2025", "Am Monday, March 3, 2025"),
        ("en", "es", "Mar 3, 2024; 3 Sep. 2024", "3 de marzo de 2024; 3 de septiembre de 2024"),
        ("en", "es", "3 mar 2024", "3 mar 2024"),
        ("de", "fr", "3. Okt. 2024", "3 octobre 2024"),
        ("es", "en", "2-3-5 de mayo, 1.5 de mayo", "2-3-5 de mayo, 1.5 de mayo"),
        ("es", "en", "Del 31 de mayo-3 de junio", "Del May 31-June 3"),
        ("es", "en", "31 DE MAYO-3 DE JUNIO DE 2025", "MAY 31-JUNE 3, 2025"),
        ("es", "en", "2 de mayo de 2024-3 de mayo de 2025", "May 2, 2024-May 3, 2025"),
        ("en", "es", "May 31-June 3, 2025", "31 de mayo-3 de junio de 2025"),
        ("de", "en", "31. Mai-3. Juni", "May 31-June 3"),
        ("es", "en", "COVID-19 de marzo", "COVID-19 de marzo"),
        ("es", "es-AR", "5 de mayo", "5 de mayo"),
        ("es", "ja", "5 de mayo", "5 de mayo"),
        ("und", "en", "5 de mayo", "5 de mayo"),
    ],
)
def test_dates_are_written_in_the_other_language(
    source: str, target: str, text: str, expected: str
) -> None:
    assert translate(text, source, target) == expected


def test_every_language_has_twelve_months() -> None:
    for each in _LANGUAGES.values():
        assert len(set(each.months.split())) == len(set(each.short_months.split())) == 12


@given(
    st.none() | st.integers(2, 31),
    st.integers(0, 11),
    st.none() | st.integers(1000, 2999),
    st.permutations([*_LANGUAGES]),
    st.sampled_from(["", "to", "both", "–"]),
)
def test_every_date_comes_back(
    day: int | None, month: int, year: int | None, codes: list[str], joint: str
) -> None:
    source, target = codes[:2]
    language = _LANGUAGES[source]
    form = language.written if year is None else language.with_year
    if day is None:
        form, year = language.without_day, year or 1990
    first = ""
    if joint:
        word = {"to": f" {language.to} ", "both": f" {language.both} "}.get(joint, joint)
        first = f"{language.first}{'.' if '{day}.' in form else ''}{word}"
    month_name = language.months.split()[month]
    date = form.format(day=f"{first}{day}", month=month_name, year=year)
    writer = DateWriter(source, target)
    text = f"x {date}."
    assert [text[begin:end] for begin, end in writer.find(text)] == [date]
    assert DateWriter(target, source).write(writer.write(date)) == date


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("Hasta el D.", "Until the D.", "Until D."),
        ("El D es", "The D is", "D is"),
        ("la cita del D", "the D meeting", "the D meeting"),
        ("antes del D", "before the D", "before D"),
        ("del R", "from the R", "from R"),
        ("el O", "the O", "the O"),  # ordinal
        ("el M", "the M", "the M"),  # month
        ("el K", "the K", "the K"),  # kept by a glossary
    ],
)
def test_dates_have_no_article_in_english(source: str, text: str, expected: str) -> None:
    spans = {"D": "5 de mayo", "O": "5.º", "M": "mayo de 1990", "K": "1 de mayo"}
    spans["R"] = "3 de mayo – 7 de junio"
    slots = str.maketrans(dict(zip(spans, SLOTS, strict=False)))
    source, text, expected = (each.translate(slots) for each in (source, text, expected))
    writer = DateWriter("es", "en").without(frozenset(["1 de mayo"]))
    assert writer.remove_articles(source, text, [*spans.values()]) == expected
    for other in (DateWriter("es", "fr"), NO_DATES):
        assert other.remove_articles(source, text, [*spans.values()]) == text


def test_dates_with_a_dash_between_them_are_one() -> None:
    text = "Del 3 de mayo – 7 de junio, 8 de junio-9 de junio, 9 de junio y 1 de julio"
    found = DateWriter("es", "en").find(text)
    assert [text[begin:end] for begin, end in found] == [
        "3 de mayo – 7 de junio",
        "8 de junio-9 de junio",
        "9 de junio",
        "1 de julio",
    ]


def test_all_spans_of_a_sentence_are_written() -> None:
    source, spans = f"El {SLOTS[0]} de {SLOTS[1]} grados, {SLOTS[2]}", ["2º", "2º", "3 de mayo"]
    assert DateWriter("es", "en").write_all(source, spans) == ("2nd", "2º", "May 3")
    assert DateWriter("es", "en").without(frozenset(["2º"])).write_all(source, spans)[0] == "2º"
    assert NO_DATES.write_all(source, spans) == tuple(spans)


def test_other_texts_stay() -> None:
    writer = DateWriter("es", "en")
    assert writer.write("5") == "5"
    assert writer.write("el 5 de mayo") == "el 5 de mayo"
    assert NO_DATES.write("5 de mayo") == "5 de mayo"
    assert writer.without(frozenset(["5 de mayo"])).write("5 DE MAYO") == "5 DE MAYO"
    assert writer.without(frozenset(["6 de mayo"])).write("5 DE MAYO") == "MAY 5"
