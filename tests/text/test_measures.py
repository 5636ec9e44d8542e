"""Numbers with their units."""

from __future__ import annotations

import pytest
from conftest import cpu_seconds

from nmt.text.measures import add_units, cut_words, join_formulas, join_ranges
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
        ("-5 g, 2 cc, 3 hl, 4 L y 5 AM", ["-5 g", "2 cc", "3 hl", "4 L", "5 AM"]),
        ("5 cm. de, 5 km/h. de, 5 cc. él", ["5 cm.", "5 km/h.", "5 cc."]),
        ("3 l’eau, 5 g-x, 2 g.es, 5 l/día", ["3", "5", "2", "5"]),
        ("8:30 pm, 200-300 g, ½ l, 1/2 l", ["8:30 pm", "200-300 g", "½ l", "1/2 l"]),
        ("Visita 3 m.facebook.com o 2 g@x.com", ["3", "m.facebook.com", "2", "g@x.com"]),
    ],
)
def test_units_belong_to_their_numbers(text: str, kept: list[str]) -> None:
    spans = add_units(text, find_spans(text), lambda begin, end: text[begin:end] == "m")
    assert [text[begin:end] for begin, end in spans] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Si x > 0, f(x) = x² + 3x – 5.", ["x > 0", "f(x) = x² + 3x – 5"]),
        ("c = 3·10^8 m/s y a = b, a - b", ["c = 3·10^8 m/s", "a = b"]),
        ("P(A ∪ B) = P(A) − P(A ∩ B), AB = 3", ["P(A ∪ B) = P(A) − P(A ∩ B)", "AB = 3"]),
        ("$E = mc^2$ y $x$, de $5 a $10", ["$E = mc^2$", "$x$", "$5", "$10"]),
        ("yo = tú, de = a $8, a <b> c </b>", ["$8", "<b>", "</b>"]),
        ("1 = a veces, 2 = d'os, 3 = (muy mal), A = I do, x = a", ["1", "2", "3", "x = a"]),
        ("x = 5 km, $y = \\sin x$, $(a) b=$(c)", ["x = 5 km", "$y = \\sin x$", "(a)", "(c)"]),
    ],
)
def test_formulas_are_kept(text: str, kept: list[str]) -> None:
    read = {"de", "yo", "muy", "sin", "km"}
    spans = join_formulas(text, list(find_spans(text)), lambda begin, end: text[begin:end] in read)
    assert [text[begin:end] for begin, end in spans] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("72 lpm, 98 pts y 4 ml", ["72 lpm", "98 pts", "4 ml"]),
        ("40°24′59″N y 3°42′09″ O", ["40°24′59″N", "3°42′09″ O"]),
        ("40º 24’ 59”W", ["40º 24’ 59”W"]),
        ("5 mEq/L, 5 IU/mL, 2 ng/l", ["5 mEq/L", "5 IU/mL", "2 ng/l"]),
        ("5 mmol/L/día, 5 mmol/L.es", ["5", "5"]),
        ("aula 101-B, de 8-M a A3-C", ["101-B", "8-M", "A3-C"]),
        ("K 4,1 mmol/L, 2,5 µUI/mL y 3 mg/dLa", ["4,1 mmol/L", "2,5 µUI/mL", "3 mg"]),
        ("durante 40', 67'.", ["40'", "67'"]),
        ("durante 67′, rock'n 25' y 25's", ["67′", "25'", "25"]),
        ("'son 25', dijo", ["25"]),
        ("5-Türer, 3 g/Löffel", ["5", "3"]),
        ("3 m/s², 12 mm/h, 2 KG de pan", ["3 m/s²", "12 mm/h", "2 KG"]),
        ("@ana.lopez. Y (ii) no", ["@ana.lopez", "(ii)"]),
    ],
)
def test_units_of_other_kinds(text: str, kept: list[str]) -> None:
    spans = add_units(text, find_spans(text), lambda begin, end: text[begin:end] == "g")
    assert [text[begin:end] for begin, end in spans] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("3 + 4 = 7, 10 - 2", ["3 + 4 = 7", "10 - 2"]),
        ("9 – 12, 2 x 3", ["9 – 12", "2 x 3"]),
        ("5 y 6, 7 +8", ["5", "6", "7", "+8"]),
        ("5 ± 2, 6 ÷ 3", ["5 ± 2", "6 ÷ 3"]),
        ("a@a.es – 5, x@y.es - b@c.es", ["a@a.es", "5", "x@y.es", "b@c.es"]),
    ],
)
def test_numbers_of_a_range_or_a_formula_are_one(text: str, kept: list[str]) -> None:
    assert [text[begin:end] for begin, end in join_ranges(text, find_spans(text))] == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("{{from}}–{{to}} de {{total}}", ["{{from}}–{{to}}", "{{total}}"]),
        ("%1$d-%2$d de %3$d", ["%1$d-%2$d", "%3$d"]),
        ("{a} – {b}, {width}x{height}", ["{a} – {b}", "{width}x{height}"]),
        ("1-{n}, :min-:max, $A/$B", ["1-{n}", ":min-:max", "$A/$B"]),
        ("{{hour}}:{{minute}} - {{end}}", ["{{hour}}:{{minute}} - {{end}}"]),
        ("{{#if x}}-{{y}}, {% a %}-{b}", ["{{#if x}}", "{{y}}", "{% a %}", "{b}"]),
        ("{a}, {b} y {c}: {d}. {e}", ["{a}", "{b}", "{c}", "{d}", "{e}"]),
        ("<b>-{a}, a_b-{c}", ["<b>", "{a}", "a_b", "{c}"]),
    ],
)
def test_placeholders_of_a_range_are_one(text: str, kept: list[str]) -> None:
    assert [text[begin:end] for begin, end in join_ranges(text, find_spans(text))] == kept


@pytest.mark.parametrize("part", ["5' ", "5 + ", "1.- ", "8-M ", "tengo 5 casas "])
def test_the_time_is_linear(part: str) -> None:
    """Twice the text takes twice the time; were it four times, this would take long."""
    text = part * (60_000 // len(part))
    with cpu_seconds(5):
        assert list(add_units(text, find_spans(text), lambda begin, end: False))


def test_the_time_of_formulas_in_one_span_is_linear() -> None:
    text = f"`{'a=b ' * 15_000}`"
    with cpu_seconds(5):
        assert join_formulas(text, [(0, len(text))], lambda begin, end: False) == [(0, len(text))]


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
        ("el-5, type-2.5", ["5", "2.5"]),
        ("5 %/mes/uno, +5 €/mes/uno, 7 €/2/x", ["5 %", "+5 €", "7 €", "/2/x"]),
        ("Paso 2:abra, den 3:e, 3 :e", ["2", "3", "3", ":e"]),
        ("Abre 3 /usr/bin", ["3", "/usr/bin"]),
        ("type-2024.jpg, type-8@gmail.com", ["type-2024.jpg", "type-8@gmail.com"]),
        ("$HOME/docs/cosas %APPS%/Foo/bar", ["$HOME", "/docs/cosas", "%APPS%", "/Foo/bar"]),
    ],
)
def test_words_beside_a_number_are_read(text: str, kept: list[str]) -> None:
    read = {"type", "mid", "el"}
    spans = cut_words(text, find_spans(text), lambda begin, end: text[begin:end] in read)
    assert [text[begin:end] for begin, end in spans] == kept
