"""Labels are told from sentences that have a colon, a bracket or a time."""

from __future__ import annotations

import pytest

from nmt.text.labels import split_label


@pytest.mark.parametrize(
    ("sentence", "label"),
    [
        ("Nota: este no.", "Nota: "),
        ("- Paso 3: abre.", "- Paso 3: "),
        ("Fecha de entrega: hoy", "Fecha de entrega: "),
        ("E-mail: a@b.es", "E-mail: "),
        ("P.D.:\u00a0hola", "P.D.:\u00a0"),
        ("Nom : Dupont", "Nom : "),
        ("(Risas) ¡Ven!", "(Risas) "),
        ("- [MÚSICA SUAVE] Ana: no", "- [MÚSICA SUAVE] Ana: "),
        ("(A Luis) Calla.", "(A Luis) "),
        ("(Se ríe) No lo sé.", "(Se ríe) "),
        ("[Se ríe] No lo sé.", "[Se ríe] "),
        ("(Смех) Привет.", "(Смех) "),
        ("(Gülüşmeler) Şimdi gel.", "(Gülüşmeler) "),
        ("(Смех) привет.", None),
        ("(Risas) (Aplausos) Gracias", "(Risas) (Aplausos) "),
        ("[3/5/24, 10:45:12] Ana: no", "[3/5/24, 10:45:12] Ana: "),
        ("03/05/24, 10:45 - no", "03/05/24, 10:45 - "),
        ("3/5/24 10:45 no", None),
        ("00:01:20 — Ana: no", "00:01:20 — Ana: "),
        ("(10:45) Ana: no", "(10:45) Ana: "),
        ("10:30 - 11:30 misa", None),
        ("(Casi) todo", None),
        ("(risas) No puedo.", "(risas) "),
        ("(El) Ana", None),
        ("(una) Ana", None),
        ("(casi) todo", None),
        ("(a) Todo", None),
        ("[Ver](a.b) Todo", None),
        ("Nota: Ana: no", "Nota: "),
        ("Nota:", None),
        ("Nota: \n", None),
        ("Nota:este", None),
        ("A las 12: 30 salimos", None),
        ("Edad:____", "Edad:"),
        ("Edad:_a", None),
        ("Dijo: «No».", None),
        ("Tengo que comprar tres cosas: pan.", None),
        ("x " * 50_000 + ": y", None),
        ("", None),
    ],
)
def test_a_label_is_cut_off(sentence: str, label: str | None) -> None:
    pieces = split_label(sentence, "es")
    assert "".join(pieces) == sentence
    assert "".join(pieces[:-1]) == (label or "")


def test_a_german_bracket_before_a_noun_is_no_label() -> None:
    assert split_label("(Alte) Männer schlafen.", "de") == ["(Alte) Männer schlafen."]
