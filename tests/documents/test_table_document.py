"""Tables: the cells of chosen columns are translated, and all else stays byte for byte."""

from __future__ import annotations

import csv
import io
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_texts import try_examples

from nmt.documents.formats import DocumentOptions, extract
from nmt.documents.table import TableDocument
from nmt.errors import UserError
from nmt.text.marked import MarkedText

COMMAS = """id,Texto,"Nota, larga",fecha
1,Hola,"Dijo ""adiós"" y,
se fue",2024-01-31
"2" , "Buenos días" ,sin comillas,

3,"raro"texto,=SUMA(A1),x
4,,"",
5,100 %,"¿Qué?; ¿cuándo?",fin
6,corta
"""
SEMICOLONS = "clave;es\nuno;Hola, amigo\ndos;Adiós, amiga, y gracias\n"
TABS = "clave\tes\tn\nuno\tHola, amigo\t1\ndos\tAdiós; amiga\t2\n"


def read(text: str, *columns: str) -> TableDocument:
    document = extract(text.encode(), "table", DocumentOptions(columns=columns))
    assert isinstance(document, TableDocument)
    return document


def texts(text: str, *columns: str) -> list[str]:
    return [segment.text for segment in read(text, *columns).segments]


def fill(text: str, columns: tuple[str, ...], translations: dict[str, str]) -> str:
    document = read(text, *columns)
    originals = [segment.text for segment in document.segments]
    assert set(translations) <= set(originals)
    filled = [MarkedText(translations.get(each, each)) for each in originals]
    return document.fill(filled).decode()


def test_choices_of_the_message_format_are_no_texts() -> None:
    assert texts('a\n"{n, plural, one {Un libro} other {#}}"\nSí\n', "a") == ["Sí"]


def test_columns_by_name() -> None:
    assert texts(COMMAS, "Texto") == ["Hola", "Buenos días", "rarotexto", "corta"]
    assert texts(COMMAS, "Nota, larga", "Texto") == [
        "Hola",
        'Dijo "adiós" y,\nse fue',
        "Buenos días",
        "sin comillas",
        "rarotexto",
        "¿Qué?; ¿cuándo?",
        "corta",
    ]


def test_columns_by_number_have_no_header() -> None:
    assert texts(COMMAS, "2") == ["Texto", "Hola", "Buenos días", "rarotexto", "corta"]
    assert texts(COMMAS, "1", " 2") == texts(COMMAS, "1", "2")
    assert texts(COMMAS, "4", "Texto")[:2] == ["Hola", "Buenos días"]
    assert texts("2,1\nuno,dos\n", "2") == ["uno"]  # a name


def test_delimiters() -> None:
    assert texts("1\tRojo, verde, azul\n2\tUno, dos, tres\n", "2")[0] == "Rojo, verde, azul"
    assert texts(SEMICOLONS, "es") == ["Hola, amigo", "Adiós, amiga, y gracias"]
    assert texts(SEMICOLONS, "2") == ["es", "Hola, amigo", "Adiós, amiga, y gracias"]
    assert texts(TABS, "es") == ["Hola, amigo", "Adiós; amiga"]
    assert texts("texto\nUno, dos\nTres; cuatro\nCinco\n", "texto")[0] == "Uno, dos"
    assert texts("\ufeffsep=;\r\nes, en;n\r\nUno, dos;Tres\r\n", "n") == ["Tres"]
    by_name = "id, n;texto\nuno, 1;Hola\ndos, 2;Adiós; y más\n"
    assert texts(by_name, "texto") == ["Hola", "Adiós"]
    assert texts('"a;b";texto\n"c, d";Sí, ¿no?\n', "texto") == ["Sí, ¿no?"]


@pytest.mark.parametrize("columns", [("1",), ("2",), ("1", "2")])
@pytest.mark.parametrize(
    "text",
    [
        COMMAS,
        COMMAS.replace("\n", "\r\n"),
        COMMAS.replace("\n", "\r"),
        COMMAS.rstrip(),
        "\ufeff" + COMMAS,
        "sep=,\n" + COMMAS,
        SEMICOLONS,
        TABS,
        "\n\n  \na,b\n\n",
        "a,b\nc,",
    ],
)
def test_a_table_filled_with_itself_is_the_same_bytes(text: str, columns: tuple[str, ...]) -> None:
    document = read(text, *columns)
    assert document.segments
    assert document.fill(document.segments) == text.encode()


def test_a_table_without_rows() -> None:
    for text in ("", "\n\n", "\ufeff"):
        assert read(text).fill([]) == text.encode()


def test_utf_16_is_read_and_written() -> None:
    data = ("\ufeff" + TABS).encode("utf-16-le")
    document = extract(data, "table", DocumentOptions(columns=("clave", "es")))
    assert [segment.text for segment in document.segments][:2] == ["uno", "Hola, amigo"]
    assert document.fill(document.segments) == data


def test_only_translated_cells_change() -> None:
    changed = fill(
        COMMAS,
        ("Texto", "Nota, larga"),
        {
            "Hola": "Hello, you",
            'Dijo "adiós" y,\nse fue': 'Said "bye"\nand left',
            "Buenos días": 'Good "day"',
            "sin comillas": "no quotes",
            "rarotexto": "strange text",
            "corta": "a\nb",
        },
    )
    pairs = {
        ",Hola,": ',"Hello, you",',
        '"Dijo ""adiós"" y,\nse fue"': '"Said ""bye""\nand left"',
        ' "Buenos días" ': ' "Good ""day""" ',
        "sin comillas": "no quotes",
        '"raro"texto': "strange text",
        "6,corta": '6,"a\nb"',
    }
    expected = COMMAS
    for old, new in pairs.items():
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert changed == expected


def test_what_a_cell_has_without_quotes_needs_none() -> None:
    table = 'id\ttexto\n1\tSí, claro\n2\tDijo "sí" ayer\n3\tNo\n4\t"Uno, "dos\n'
    changes = {
        "Sí, claro": "Of course, yes",
        'Dijo "sí" ayer': '"Yes", he said',
        "No": "No, no; no",
        "Uno, dos": "One, two",
    }
    expected = 'id\ttexto\n1\tOf course, yes\n2\t"""Yes"", he said"\n3\tNo, no; no\n4\tOne, two\n'
    assert fill(table, ("texto",), changes) == expected
    changes['Dijo "sí" ayer'] = 'He said "yes"'
    assert '2\tHe said "yes"\n' in fill(table, ("texto",), changes)


def test_stray_quotes_between_tabs_join_no_cells() -> None:
    table = '1\t"Ven aquí.\n2\tAhora mismo."\n3\t"Sí\tno"\n4\t"Uno\ndos"\n'
    changes = {'"Ven aquí.': '"Come here.', 'Ahora mismo."': 'Right now."', "Uno\ndos": "One\ntwo"}
    expected = '1\t"Come here.\n2\tRight now."\n3\t"Sí\tno"\n4\t"One\ntwo"\n'
    assert fill(table, ("2",), changes) == expected


def test_an_empty_translation_leaves_a_row() -> None:
    assert fill("texto\nHola\nSí\n", ("texto",), {"Hola": ""}) == 'texto\n""\nSí\n'


def test_a_table_of_one_column_keeps_one() -> None:
    expected = 'texto\n"Hello, world; hi"\n'
    assert fill("texto\nHola mundo\n", ("texto",), {"Hola mundo": "Hello, world; hi"}) == expected


def test_a_column_that_is_named_twice_is_translated_twice() -> None:
    assert texts("a,t,t\n1,uno,dos\n", "t", "t") == ["uno", "dos"]


CELLS = st.text("aé1 ,;\t\"'\n=", max_size=8)


@try_examples(500)
@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1),
    st.sampled_from(",;\t"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_tables_are_read_again_with_their_translations(
    rows: list[list[str]],
    delimiter: str,
    quoting: Literal[0, 1, 2],
    newline: str,
    data: st.DataObject,
) -> None:
    if delimiter == "\t":  # which no cell has
        rows = [[cell.replace("\t", " ") for cell in row] for row in rows]
    rows = [["id", "texto", "nota"], *rows]
    output = io.StringIO()
    csv.writer(
        output,
        delimiter=delimiter,
        quoting=quoting,
        lineterminator=newline,
    ).writerows(rows)
    text = output.getvalue()
    document = read(text, "texto", "nota")
    assert document.fill(document.segments) == text.encode()
    expected = [list(row) for row in rows]
    filled: list[MarkedText] = []
    for row in expected[1:]:
        for column in (1, 2):
            if any(map(str.isalpha, row[column])) and not row[column].startswith("="):
                assert document.segments[len(filled)].text == row[column]
                row[column] = data.draw(st.text() | CELLS)
                filled.append(MarkedText(row[column]))
    changed = document.fill(filled).decode()
    read_again = csv.reader(io.StringIO(changed, newline=""), delimiter=delimiter)
    assert list(read_again) == expected


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (COMMAS, (), r"--columns NAME,\.\.\. .* its first row is id, Texto, Nota, larga, fecha"),
        (COMMAS, ("texto",), "--columns texto: .* choose from: id, Texto"),
        (COMMAS, ("0",), "--columns 0: .* numbers from 1 to 4"),
        (COMMAS, ("5",), "--columns 5: .* numbers from 1 to 4"),
        (COMMAS, ("9" * 5000,), "no such column"),
        (COMMAS, ("²",), "no such column"),
        (COMMAS, ("٢",), "no such column"),
        ('a,b\r\nc,"d', ("a",), "quote in row 2 is not closed"),
        (COMMAS, ("Texto", "nada"), "--columns nada"),
        ('a,b\nc,"d\n', ("a",), "quote in row 2 is not closed"),
        ('a,b\n"c""', ("a",), "quote in row 2 is not closed"),
        ('a,b\n1,"c\n2,"d" e\n', ("a",), "quote in row 2 is not closed"),  # another row's begins
        ("a,b\n" + 'c, "' * 100_001 + '\n"' + '""' * 100_000, ("a",), "is not closed"),
        ("a," * 1000, (), ", …$"),
        ('"a\nb",c', (), "is a b, c"),
    ],
    ids=lambda value: ascii(value[:20]),  # some are long
)
def test_wrong_columns_and_damaged_tables_are_refused(
    text: str, columns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(text, *columns)
    assert "\n" not in str(caught.value)
