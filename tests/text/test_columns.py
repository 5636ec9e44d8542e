"""Columns made of spaces are told from justified text."""

from __future__ import annotations

import pytest

from nmt.text.columns import find_gaps


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
