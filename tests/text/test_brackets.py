"""Marks around sentences, and brackets and quotation marks inside of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.brackets import (
    PAIRS,
    find_bracketed,
    find_remarks,
    read_brackets,
    remove_brackets,
    split_marks,
)
from nmt.text.cleaning import clean_text

ALL = frozenset(PAIRS)


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("Hola.", ("", "Hola.", "")),
        ("«Hola».", ("«", "Hola.", "»")),
        ("- (No lo sé.)", ("- (", "No lo sé.", ")")),
        ("(hora de México).", ("(", "hora de México", ").")),
        ("(ii) la edad", ("(ii) ", "la edad", "")),
        ("I. Newton", ("", "I. Newton", "")),
        ("- 3 años", ("- ", "3 años", "")),
        ("- No, gracias.", ("- ", "No, gracias.", "")),
        ("- Да, спасибо.", ("- ", "Да, спасибо.", "")),
        ("¿Vienes «mañana»?", ("", "¿Vienes «mañana»?", "")),
        ("*|NAME|*.", ("", "*|NAME|*.", "")),
        ("<Multimedia omitido>", ("<", "Multimedia omitido", ">")),
        ("<casa>", ("", "<casa>", "")),
        ('<a href="x">', ("", '<a href="x">', "")),
        ("-v muestra más", ("", "-v muestra más", "")),
        ("1) Entre.", ("1) ", "Entre.", "")),
        ("...y no.", ("...", "y no.", "")),
        ("… ¿y tú?", ("… ", "¿y tú?", "")),
        ("... 5, ...", ("", "... 5, ...", "")),
        ("<b>1)</b> Entre.", ("<b>1)</b> ", "Entre.", "")),
        ("“Hola. ”.", ("“", "Hola. ", "”.")),
        ("( )", ("", "( )", "")),
    ],
)
def test_marks_around_a_sentence(sentence: str, parts: tuple[str, str, str]) -> None:
    assert split_marks(sentence, begins_line=True) == parts
    assert split_marks(sentence, begins_line=False)[0] == parts[0].replace("- (", "")


def test_roman_items_and_headings_begin_a_line() -> None:
    for mark, text in (("iv. ", "Los demás"), ("I. ", "INTRODUCCIÓN"), ("P. ", "¿Sí?")):
        assert split_marks(mark + text, begins_line=True) == (mark, text, "")
        assert split_marks(mark + text, begins_line=False) == ("", mark + text, "")


@pytest.mark.parametrize("mark", ["I. ", "V. ", "<b>B.</b> "])
def test_the_word_after_a_capital_tells_a_heading_from_an_initial(mark: str) -> None:
    def is_word(word: str) -> bool:
        return word in ("Introducción", "El", "también", "Mayor")

    for text in ("Introducción", "El comprador paga.", "«Introducción» y más"):
        assert split_marks(mark + text, begins_line=True, is_word=is_word)[0] == mark
        assert split_marks(mark + text, begins_line=False, is_word=is_word)[0] == ""
        assert split_marks(mark + text, begins_line=True)[0] == ""
    # A family name may be a word.
    others = mark + "Newton", mark + "también", "C. mayor", "P. Mayor", mark + "Mayor vive aquí."
    for sentence in others:
        assert split_marks(sentence, begins_line=True, is_word=is_word)[0] == ""


@pytest.mark.parametrize("mark", ["ii. ", "1.a) ", "a.1. ", "B.2. ", "<b>12.c.</b> "])
def test_marks_of_items_in_small_letters_or_with_numbers(mark: str) -> None:
    assert split_marks(f"{mark}dos", begins_line=True) == (mark, "dos", "")
    assert split_marks(f"{mark}dos", begins_line=False)[0] == ""


def test_a_bullet_may_touch_the_text_that_it_begins() -> None:
    assert split_marks("•Leche", begins_line=True) == ("•", "Leche", "")
    for sentence, begins_line in (("•Leche", False), ("•••", True)):
        assert split_marks(sentence, begins_line=begins_line) == ("", sentence, "")


@pytest.mark.parametrize(
    ("sentence", "bare", "brackets"),
    [
        ("Mi hijo (el mayor) vive.", "Mi hijo el mayor vive.", [("(", ")")]),
        ('El "Quijote" es "bueno".', "El Quijote es bueno.", [('"', '"')] * 2),
        ("Dijo: « ¡Ven! » hoy", "Dijo: ¡Ven! hoy", [("« ", " »")]),
        ("(a «b» c) d", "a b c d", [("(", ")"), ("«", "»")]),
        ('Dijo "ven..." y (no… ) ya', "Dijo ven y no ya", [('"', '..."'), ("(", "… )")]),
        ("„Ja“, sagt sie", "Ja, sagt sie", [("„", "“")]),
        ("el niño(s) (y más)", "el niño(s) y más", [("(", ")")]),
        ("(pre)historia", "(pre)historia", []),
        ("f(x) [!] () :)", "f(x) [!] () :)", []),
        ("lee `(a b)` y [[a]]", "lee `(a b)` y [[a]]", []),
        ("a (b] c", "a (b] c", []),
        ("東京(日本)に (住む)", "東京(日本)に 住む", [("(", ")")]),
        ("(a b [c d) e", "a b [c d e", [("(", ")")]),
        ("pan,(leche) (y) agua", "pan,(leche) (y) agua", []),
        ("“el libro”(nuevo) «a»", "“el libro”(nuevo) a", [("«", "»")]),
        ("[a b](http://c.d/e) f", "a b f", [("[", "](http://c.d/e)")]),
        ("[a](b) [c](#d)!", "a c!", [("[", "](b)"), ("[", "](#d)")]),
        ("**Casa**(roja)", "**Casa**(roja)", []),
        ("(«a»), *(b c)*.", "a, b c.", [("(", ")"), ("«", "»"), ("*", "*"), ("(", ")")]),
        ('5" y 6" más', '5" y 6" más', []),
        ("es **muy** _raro_", "es muy raro", [("**", "**"), ("_", "_")]),
        ("~~no~~ sí", "no sí", [("~~", "~~")]),
        ("2 * 3 * 4 y a*b*c", "2 * 3 * 4 y a*b*c", []),
        ("lee a_b y __init__ y _x", "lee a_b y __init__ y _x", []),
        ("I don't say 'hello', it's 'a b'", "I don't say hello, it's a b", [("'", "'")] * 2),
        ("‘I don’t’ and dogs’ food", "I don’t and dogs’ food", [("‘", "’")]),
        ("**a *b* c** d", "a b c d", [("**", "**"), ("*", "*")]),
        ("(a «b) c» d", "a «b c» d", [("(", ")")]),
        ('a " b" c', 'a " b" c', []),
        ("", "", []),
    ],
)
def test_brackets_are_taken_out(sentence: str, bare: str, brackets: list[tuple[str, str]]) -> None:
    read = read_brackets(sentence, ALL)
    assert (read.text, list(read.tags)) == (bare, brackets)
    assert read.insertions.insert(bare) == sentence


def test_only_the_given_brackets_are_taken_out() -> None:
    assert read_brackets("(a «b c»)", frozenset("«")).text == "(a b c)"
    assert read_brackets("(a «b c»)", frozenset()).text == "(a «b c»)"


@given(st.text('ab (["«“„”»)].´', max_size=16))
def test_any_brackets_come_back(text: str) -> None:
    sentence = clean_text(text)
    read = read_brackets(sentence, ALL)
    assert read.insertions.insert(read.text) == sentence
    assert all(last.strip().startswith(PAIRS[first.strip()]) for first, last in read.tags)


def test_brackets_without_a_partner_are_removed_as_well() -> None:
    brackets = read_brackets("el 'x' (yo) « z »", ALL).tags
    assert len(brackets) == 3
    assert remove_brackets("I don't say ('x\" «z", brackets) == "I don't say x\" z"
    assert remove_brackets("(x)", ()) == "(x)"
    assert remove_brackets('say "x" y', [('"', '..."')]) == "say x y"
    assert remove_brackets("el niño(s) (yo) (tú)", [("(", ")")]) == "el niño(s) yo (tú)"


def test_many_brackets_are_read_in_time() -> None:
    assert read_brackets("(" * 100_000 + "]" * 100_000 + '"' * 100_000, ALL).tags == ()
    nested = read_brackets("(" * 100_000 + "a" + ")" * 100_000, ALL)
    assert len(nested.tags) < 10


def test_brackets_of_terms_stay() -> None:
    assert read_brackets("la UE (Unión) y (no)", ALL, [(3, 13)]).text == "la UE (Unión) y no"
    assert read_brackets("la UE (Unión) y (no)", ALL, [(7, 13)]).text == "la UE (Unión) y no"


@pytest.mark.parametrize(
    ("sentence", "remarks"),
    [
        ("Ana (mi prima) y yo", ["(mi prima)"]),
        ("Ana (mi (muy otra) prima) y [la mía]", ["(mi (muy otra) prima)", "[la mía]"]),
        ("Ana (mi (la otra) y (la mía) prima)", ["(mi (la otra) y (la mía) prima)"]),
        ("en Lima (Perú), la OMS (WHO) y (casi) todos.", ["(Perú)", "(WHO)"]),
        ("Ana (y no…).", ["(y no…)"]),
        ("Ana (nació en 1950) y (sí)", ["(nació en 1950)"]),
        ("(mi prima) y yo", []),
        ("3 (tres veces)", []),
        ("la ley(nueva) y el niño(s) (a) (1999) (12 %)", []),
        ("es (https://a.b/c) o [quote] o (la nueva] o (la nueva", []),
        ("«Ana» 'y yo' [a b](c.d)", []),
    ],
)
def test_remarks_are_found(sentence: str, remarks: list[str]) -> None:
    found = [sentence[begin:end] for begin, end in find_remarks(sentence)]
    assert found == remarks
    round_only = find_remarks(sentence, frozenset('("'))
    assert [sentence[slice(*span)] for span in round_only] == [
        each for each in remarks if each[0] == "("
    ]


@pytest.mark.parametrize(
    ("text", "brackets"),
    [
        (
            "Ana (mi (muy otra) prima) y [la mía]",
            ["(mi (muy otra) prima)", "(muy otra)", "[la mía]"],
        ),
        ("(pre)historia (sí)", ["(sí)"]),
        ("es f(x) (a) y [12] (b] c)", ["(a)", "[12]", "(b] c)"]),
        ("Ana (mi [muy", ["(mi [muy", "[muy"]),
        ("Ana (mi [muy] (", ["(mi [muy] (", "[muy]", "("]),
        ("Ana ) (", ["("]),
        ("Ana y yo", []),
    ],
)
def test_texts_in_brackets_are_found(text: str, brackets: list[str]) -> None:
    found = find_bracketed(text)
    assert [text[slice(*span)] for span in found] == brackets
    assert [end > len(text) for _, end in found] == [each[-1] not in ")]" for each in brackets]


def test_brackets_of_terms_make_no_remark() -> None:
    sentence = "la ley (la nueva) y (la vieja)"
    assert find_remarks(sentence, terms=[(3, 7)]) == [(7, 17), (20, 30)]
    assert find_remarks(sentence, terms=[(3, 17)]) == [(20, 30)]
    assert find_remarks(sentence, terms=[(11, 17)]) == [(20, 30)]
