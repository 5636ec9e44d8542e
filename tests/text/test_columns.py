"""Columns made of spaces are told from justified text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from conftest import cpu_seconds

from nmt.text.columns import find_fields, find_gaps


@pytest.mark.parametrize(
    ("line", "gaps"),
    [
        ("Nombre      Edad", [(6, 12)]),
        ("Nombre    Edad", []),
        ("Pan    1    2,50", [(3, 7), (8, 12)]),
        ("Pan\u00a0\u00a0\u00a0\u00a0\u00a0\u00a0Leche", [(3, 9)]),
        ("Pan      1   2,50  de  5", [(3, 9), (10, 13), (21, 23)]),
        ("Concepto      Cant.   Precio", [(8, 14), (19, 22)]),
        ("Lee      este      libro", []),
        ("Nombre      Edad.", []),
        ("Hola.      Adiós", []),
        ("El perro ..... 12", [(8, 15)]),
        ("Pero.... 12 no", []),
        ("", []),
    ],
)
def test_gaps_between_columns(line: str, gaps: list[tuple[int, int]]) -> None:
    assert find_gaps(line) == gaps


@pytest.mark.parametrize(
    "line",  # "|" marks where a field begins
    [
        "Nombre: Ana  |Apellidos: Ruiz López  |Edad: 30",
        "Fecha: 12/05/2024 |Hora: 10:30 |Lugar: Madrid",
        "Nombre:__________ |Apellidos:__________ |Fecha: __/__/____",
        "Total: 3,50 |Fecha de entrega : 5 6\u00a0|Nota:",
        "Nombre: Ana  apellidos: Ruiz  Hora:10",
        "Nombre: Ana Hora: 10",
        "Salió a las 10:30 Madrid: no  hay",
        "dijo  Ana: no",
        "",
    ],
)
def test_fields_of_a_form(line: str) -> None:
    text = line.replace("|", "")
    ends = [end for _, end in find_fields(text)]
    pieces = [text[begin:end] for begin, end in pairwise([0, *ends, len(text)])]
    assert pieces == line.split("|")


@pytest.mark.parametrize("unit", ["1:", "_:", ": 1 ", " A", "a: ", "A: 1 ", " ", ": A:  A:", "A "])
def test_a_long_line_of_fields_takes_time_in_proportion_to_its_length(unit: str) -> None:
    with cpu_seconds(10):
        find_fields(": " + unit * 500_000)
