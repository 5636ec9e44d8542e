"""Plain text: paragraphs are translated whole, the white space around them stays."""

from __future__ import annotations

import codecs
import textwrap

import pytest
from conftest import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.text import _find_paragraphs
from nmt.errors import UserError
from nmt.text.marked import MarkedText


def test_paragraphs_are_joined_and_replaced() -> None:
    text = "\n  Uno dos\ntres.  \n\n \n\tCuatro\r\n  cinco\n"
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == ["Uno dos tres.", "Cuatro cinco"]
    filled = document.fill([MarkedText("A\nB"), document.segments[1]])
    assert filled.decode() == text.replace("Uno dos\ntres.", "A\nB")


def test_line_ends_may_be_carriage_returns() -> None:
    document = extract(b"Uno\rdos.\r\rTres.\r", "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == ["Uno dos.", "Tres."]


def test_items_of_a_list_stay_apart() -> None:
    text = "Fin\n- uno\n  dos\n* tres\n 1. cuatro\n10) cinco\n-6 seis\n"
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [
        "Fin",
        "- uno dos",
        "* tres",
        "1. cuatro",
        "10) cinco",
        "-6 seis",
    ]


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("a. Subpunto uno\nb. Subpunto dos", ["a. Subpunto uno", "b. Subpunto dos"]),
        ("a. pan\nb. leche entera", ["a. pan", "b. leche entera"]),
        # An abbreviation that a line begins with.
        ("Salimos a las 10:30\na. m. de casa", ["Salimos a las 10:30 a. m. de casa"]),
        ("Nació en el año 20\nd. C. y murió", ["Nació en el año 20 d. C. y murió"]),
        ("Sale en la\np. 12", ["Sale en la p. 12"]),
        ("el siglo tercero\na. de C. y el siglo segundo\nd. de C.", None),
        ("Er hat einen Gutschein, d.\nh. eine Entschädigung", None),
        ("Vino la señora doña\nd. Inés", None),
    ],
)
def test_small_letters_mark_items_of_a_list(text: str, paragraphs: list[str] | None) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    expected = [text.replace("\n", " ")] if paragraphs is None else paragraphs
    assert [segment.text for segment in document.segments] == expected


@pytest.mark.parametrize(
    "messages",
    [
        ("[14/3/24, 10:46:01] Luis: Bien, ¿y tú?", "[14/3/24, 10:47:30] Ana: Sí"),
        ("14/3/24, 10:46 - Luis: Bien, ¿y tú?", "14/3/24, 10:47 - Ana: Sí"),
        ("00:01:15 — Bienvenidos a todos ustedes", "00:01:20 — hoy"),
    ],
)
def test_messages_of_a_chat_stay_apart(messages: tuple[str, str]) -> None:
    text = "\n".join(messages)
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [*messages]


def test_a_time_inside_of_a_sentence_begins_no_paragraph() -> None:
    for text in (
        "Ayer salimos de casa a las seis de la tarde\n(18:00) en punto y fuimos al cine",
        "El museo abre todos los días del año (de 9:00 a\n13:30) y cierra los lunes.",
    ):
        document = extract(text.encode(), "text", DocumentOptions())
        assert [segment.text for segment in document.segments] == [text.replace("\n", " ")]


@pytest.mark.parametrize(
    "lines",
    [
        (
            "Fecha: Tue, 5 Mar 2024 09:12:33 +0100",
            "De: Carlos Ruiz <carlos@ejemplo.es>",
            "Responder a: Ana <ana@ejemplo.es>",
            "Cc:",
        ),
        ("HORARIO", "lunes a viernes: 9 a 14 h y 17 a 20 h", "sábados: 10 a 13 h"),
        ("---------- Mensaje reenviado ----------", "Asunto: Re: Presupuesto"),
        ("Hasta mañana a todos y muchas gracias", "===Aviso===", "no hay clase"),
    ],
)
def test_lines_with_labels_and_titles_stay_apart(lines: tuple[str, ...]) -> None:
    document = extract("\n".join(lines).encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [*lines]


@pytest.mark.parametrize(
    "lines",
    [
        ("1/2 kg de harina", "una pizca de sal", "aceite de oliva"),
        ("HORARIO", "todos los días de nueve a dos"),
        ("Tel.: +34 912 345 678", "www.ejemplo.es"),
        ("Tel.: +34 912 345 678", "ana@ejemplo.es"),
        ("Estimado señor:", "le escribo porque tengo una pregunta sobre mi casa"),
    ],
)
def test_small_letters_begin_paragraphs(lines: tuple[str, ...]) -> None:
    document = extract("\n".join(lines).encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [*lines]


@pytest.mark.parametrize(
    "text",
    [
        # A sentence has marks; a line of more than half the width, or before a long word, is full.
        "Una línea corta,\nque sigue aquí,\ny acaba aquí",
        "Una línea\nque sigue aquí hasta el final",
        "El perro de la casa de mi abuela duerme mucho\nporque ya no es joven como antes\n"
        "y tiene frío",
        "Le escribo porque tengo\nuna pregunta sobre el precio de la casa nueva",
        "Nos vemos en\nhttps://ejemplo.es/una/dirección/muy/larga/de/verdad",
        "El perro de la OTAN\nduerme aquí",
        # Narrow, but a sentence; and what an e-mail program left of a line that was wrapped before.
        "“Este es un texto que fue cortado\nen columnas muy estrechas por un\nprograma antiguo.”",
        "Siento decirte que mañana no podré asistir a la\nreunión\nporque tengo que ir al médico",
        "我们 PC\nok",
    ],
)
def test_small_letters_continue_wrapped_text(text: str) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [text.replace("\n", " ")]


@pytest.mark.parametrize(
    "text",
    [
        # Colons that wrapped lines happen to have.
        "Para la cena de esta noche hay que comprar\nlas siguientes cosas: pan y leche.",
        "Para la cena de hoy me han pedido que traiga\nlas siguientes cosas: pan y leche, y mi\n"
        "madre dijo que no quería otra: agua, zumo\nde naranja: nada más, porque en mi casa no\n"
        "hay sitio.",
        "Toda persona tiene los derechos que da la\nConstitución: el de reunión y otros.",
        "Nota: el libro llegará mañana: no hay que pagar. Importante: hay que\n"
        "firmar el recibo: sin firma no se entrega",
    ],
)
def test_labels_in_wrapped_text_begin_no_paragraph(text: str) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [text.replace("\n", " ")]


def test_the_time_of_signs_does_not_grow_with_the_square_of_their_number() -> None:
    with cpu_seconds(5):
        extract(f"--- a{'-' * 100_000}b".encode(), "text", DocumentOptions())


def test_a_year_at_the_beginning_of_a_line_is_no_item_of_a_list() -> None:
    begin = "El perro que vivía en la casa de al lado nació en el"
    document = extract(f"{begin}\n1990. Se fue.\n12. Dos".encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [f"{begin} 1990. Se fue.", "12. Dos"]


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("Un saludo,\nAna López\nDirectora\n", ["Un saludo,", "Ana López", "Directora"]),
        ("200 g de harina\n2 huevos\n", ["200 g de harina", "2 huevos"]),
        ("a" * 60 + "\nTres temas:\nEl perro", ["a" * 60 + " Tres temas:", "El perro"]),
        ("Una línea corta\nque sigue aquí\n", ["Una línea corta que sigue aquí"]),
        ("| a | b |\n|---|---|\n| c | d |", ["| a | b |", "| c | d |"]),
        (
            "| El pan duro de la panadería | 12,50 € |\n" * 2,
            ["| El pan duro de la panadería | 12,50 € |"] * 2,
        ),
        ("a\t\tb", ["a\t\tb"]),
        ("● uno\n● dos", ["● uno", "● dos"]),
        ("Ana  López \t 12\n\tdos\n", ["Ana López\t12 dos"]),
    ],
)
def test_lines_that_end_early_end_a_paragraph(text: str, paragraphs: list[str]) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == paragraphs


TABLE = """Descripción                              Cantidad      Importe
---------------------------------------  --------  -----------
Servicios de traducción al inglés               1     250,00 €
Revisión del manual  de usuario                 2     180,00 €
Total                                                 430,00 €
"""


@pytest.mark.parametrize("indent", ["", "  ", "> "])
def test_rows_of_a_table_stay_apart_and_keep_their_columns(indent: str) -> None:
    text = textwrap.indent(TABLE, indent)
    document = extract(text.encode(), "text", DocumentOptions())
    header, _, first, second, total = TABLE.splitlines()
    assert [segment.text for segment in document.segments] == [
        *(header, first, second.replace("manual  de", "manual de"), total),
    ]
    filled = document.fill([MarkedText(segment.text.upper()) for segment in document.segments])
    assert filled.decode() == text.replace("manual  de", "manual de").upper()


INVOICE = """Concepto                 Cant.   Precio    Importe
Camisa  blanca             2     15,00 €   30,00 €
Una  de  lana              1     40,00 €   40,00 €
"""
PRICES = """| Producto de la panadería   | Precio   |
| Pan  duro                  |   1,20 € |
| Leche entera               |   0,90 € |
"""


def test_narrow_gaps_of_a_row_stay() -> None:
    document = extract(INVOICE.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [
        "Concepto                 Cant.   Precio    Importe",
        "Camisa blanca             2     15,00 €   30,00 €",
        "Una de lana              1     40,00 €   40,00 €",
    ]
    document = extract(PRICES.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == PRICES.splitlines()


def test_columns_of_a_translation_begin_where_those_of_the_source_do() -> None:
    text = "Pan      12   1,20 €  X\n| Pan    | 2 |\n"
    document = extract(text.encode(), "text", DocumentOptions())
    translations = ["Bread      12   €1.20  X", "| Breads and buns    | 2 |"]
    filled = document.fill([MarkedText(translation) for translation in translations])
    assert filled.decode() == "Bread    12   €1.20   X\n| Breads and buns  | 2 |\n"
    filled = document.fill([MarkedText("Bread 12"), document.segments[1]])
    assert filled.decode() == text.replace("Pan      12   1,20 €  X", "Bread 12")


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        # Wide spaces in one line only, and before small letters: justified text.
        (
            "Los precios son los siguientes:         Madrid\ny otras ciudades",
            ["Los precios son los siguientes: Madrid y otras ciudades"],
        ),
        ("Lee      este      libro   muy   bueno\n" * 2, ["Lee este libro muy bueno " * 2]),
        (
            "El      Consejo aprobó ayer la nueva ley\nque      Bruselas quería de España\nentera.",
            ["El Consejo aprobó ayer la nueva ley que Bruselas quería de España entera."],
        ),
        # A row alone, the lines around a table, and dots before the numbers of pages.
        ("Nombre      Edad", ["Nombre      Edad"]),
        ("Ana\tLópez\u2028\u2028\u2028\u2028Madrid", ["Ana\tLópez Madrid"]),
        (
            "La lista de los alumnos:\nAna López       10\nLuis Pérez      12\nSon dos alumnos.",
            [
                "La lista de los alumnos:",
                *("Ana López       10", "Luis Pérez      12", "Son dos alumnos."),
            ],
        ),
        (
            "Introducción ............................. 3\n"
            "El perro ................................ 12",
            [
                "Introducción ............................. 3",
                "El perro ................................ 12",
            ],
        ),
    ],
)
def test_spaces_that_are_columns(text: str, paragraphs: list[str]) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [each.strip() for each in paragraphs]


@pytest.mark.parametrize("width", [20, 24, 33])
@pytest.mark.parametrize(
    "sentence",
    [
        "我昨天和朋友们一起去了北京的一家很有名的饭馆，吃了“烤鸭”——味道很好，价格也不贵。",
        "昨日は友達と京都へ行って、「サーバー」の話をしました。とても楽しい時間を過ごしました。",
    ],
)
def test_wrapped_texts_without_spaces_stay_together(sentence: str, width: int) -> None:
    text = "\n".join(textwrap.wrap(sentence, width))
    document = extract(f"{text}\n\n{sentence[:4]}\n田中太郎\n".encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [sentence, sentence[:4], "田中太郎"]


def test_quotations_rules_and_dialogues_stay_apart() -> None:
    text = """Hola
> uno
> dos
>> tres
> cuatro
=====
cinco
-----
a) seis
II. siete
—ocho —nueve
—diez
--\u0020
Ana
"""
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [
        *("Hola", "uno dos", "tres", "cuatro", "cinco", "a) seis", "II. siete"),
        *("—ocho —nueve", "—diez", "Ana"),
    ]
    filled = document.fill([MarkedText(segment.text.upper()) for segment in document.segments])
    assert filled.decode() == text.replace("> uno\n> dos", "> uno dos").upper()


def test_a_paragraph_is_not_looked_for_from_the_beginning_of_the_text() -> None:
    class Text(str):
        def rfind(self, *_: object) -> int:
            raise AssertionError("the time would grow with the square of the length")

    assert list(_find_paragraphs(Text("  uno\n\n> dos\n"))) == [(2, 5), (9, 12)]


@given(st.text("a .>=-\n\r\t\u2028é"))
def test_a_text_filled_with_itself_is_the_same_bytes(text: str) -> None:
    document = extract(text.encode(), "text", DocumentOptions())
    assert document.fill(document.segments) == text.encode()
    assert all(segment.text.strip() for segment in document.segments)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_byte_order_marks_decide_the_encoding(encoding: str) -> None:
    marks = {
        "utf-8": codecs.BOM_UTF8,
        "utf-16-le": codecs.BOM_UTF16_LE,
        "utf-16-be": codecs.BOM_UTF16_BE,
    }
    data = marks[encoding] + "Sí, ¿qué?\n".encode(encoding)
    document = extract(data, "text", DocumentOptions())
    assert document.segments[0].text == "Sí, ¿qué?"
    assert document.fill(document.segments) == data


def test_other_encodings_are_refused() -> None:
    with pytest.raises(UserError, match="not UTF-8"):
        extract("Sí".encode("latin-1"), "text", DocumentOptions())


@given(
    st.lists(
        st.sampled_from(["el", "Ana", "perro", "Madrid", "https://example.com/" + "a" * 80, "12"]),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from(["", "    ", "> ", "        "]),
    st.booleans(),
)
def test_wrapped_text_stays_together(words: list[str], indent: str, only_first: bool) -> None:
    text = textwrap.fill(
        " ".join(["Hoy", *words]),
        72,
        initial_indent=indent,
        subsequent_indent="" if only_first and indent != "> " else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    document = extract(text.encode(), "text", DocumentOptions())
    assert [segment.text for segment in document.segments] == [" ".join(["Hoy", *words])]
