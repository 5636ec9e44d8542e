"""The table of text that is not clean: its changes, its spans, and what it counts."""

from __future__ import annotations

import argparse
import random
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import text as text_bench
from text import CLEAN, Row, Sources
from text_changes import (
    CHANGES,
    MARKED,
    change_all,
    enclose_word,
    insert_one,
    list_neighbors,
    loops,
    mistype,
    strip_marks,
)
from text_spans import FOLDER, KINDS, NAME, TAG_PAIR, Carrier, contains_once, draw_carriers
from text_spans import read_table as read_lines

PAIRS = [
    ("¿Dónde está el baño?", "Where is the bathroom?"),
    ("Tom le dio tres libros a Mary.", "Tom gave three books to Mary."),
    ("¡Qué frío hace hoy, señor Pérez!", "How cold it is today, Mr. Pérez!"),
    ("Ana-María no viene; está enferma.", "Ana-María isn't coming; she's ill."),
    ("Le dije a Tom que no.", "I told Tom no."),
    ("Ya voy.", "I'm coming."),
]
SOURCES = [source for source, _ in PAIRS]
ARGUMENTS = argparse.Namespace(seed=1, spans=6)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_a_function_of_seed_and_index_and_changes_texts(name: str) -> None:
    changed = change_all(SOURCES, name, 1)
    assert changed == change_all(SOURCES, name, 1)
    assert changed[:3] == change_all(SOURCES[:3], name, 1)
    assert changed != SOURCES


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ALL CAPS", "¡QUÉ FRÍO HACE HOY, SEÑOR PÉREZ!"),
        ("Title Case", "¡Qué Frío Hace Hoy, Señor Pérez!"),
        ("lower case", "¡qué frío hace hoy, señor pérez!"),
        ("no accents", "¡Que frio hace hoy, senor Perez!"),
        ("no ¿, ¡ and final mark", "Qué frío hace hoy, señor Pérez"),
        ("lower case, no accents, no punctuation", "que frio hace hoy senor perez"),
    ],
)
def test_changes_by_hand(name: str, expected: str) -> None:
    assert change_all([SOURCES[2]], name, 1) == [expected]


def test_hyphens_and_apostrophes_in_words_are_no_punctuation() -> None:
    name = "lower case, no accents, no punctuation"
    assert change_all(["«Ana-María» – dijo: d'Artagnan..."], name, 1) == [
        "ana-maria dijo d'artagnan"
    ]


def edits(text: str, changed: str) -> int:
    """Return the optimal string alignment distance, in which a swap is one edit."""
    rows = [list(range(len(changed) + 1))]
    for i, letter in enumerate(text, 1):
        row = [i]
        for j, other in enumerate(changed, 1):
            costs = [rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != other)]
            if i > 1 and j > 1 and letter == changed[j - 2] and text[i - 2] == other:
                costs.append(rows[-2][j - 2] + 1)
            row.append(min(costs))
        rows.append(row)
    return rows[-1][-1]


def test_a_typing_error_is_one_edit_in_a_word_of_three_letters() -> None:
    lengths = Counter()
    for seed in range(300):
        source = [*SOURCES[:5], "Allí corre el perro."][seed % 6]
        changed = mistype(source, random.Random(seed))
        assert edits(source, changed) == 1
        lengths[len(changed) - len(source)] += 1
    assert set(lengths) == {-1, 0, 1}
    assert mistype("Ya no 123", random.Random(1)) == "Ya no 123"


def test_neighbors_are_those_of_a_spanish_keyboard() -> None:
    assert set(list_neighbors("g")) == set("fhtybv")
    assert set(list_neighbors("ñ")) == set("lp.-")
    assert set(list_neighbors("q")) == set("wa")
    assert list_neighbors("á") == list_neighbors("a")
    assert list_neighbors("я") == ""


@pytest.mark.parametrize(
    ("text", "is_loop"),
    [
        ("A salad salad salad.", True),
        ("Salad, salad and salad.", False),
        ("I do not know, I do not know, I do not know.", True),
        ("BSSSSSSA", True),
        ("compcompcomp", True),
        ("No, no.", False),
        ("1000000 or 2222", False),
        ("", False),
    ],
)
def test_loops_are_words_or_letters_three_times_in_a_row(text: str, is_loop: bool) -> None:
    assert loops(text) is is_loop


@pytest.mark.parametrize("kind", KINDS)
def test_carriers_contain_their_spans_once_and_are_functions_of_the_seed(kind: str) -> None:
    carriers = draw_carriers(kind, 60, PAIRS, "es", 3)
    assert 55 <= len(carriers) <= 60
    assert all(contains_once(carrier.text, carrier.spans) for carrier in carriers)
    assert all(len(carrier.spans) == 1 + (kind == TAG_PAIR) for carrier in carriers)
    assert carriers == draw_carriers(kind, 60, PAIRS, "es", 3)
    assert carriers != draw_carriers(kind, 60, PAIRS, "es", 4)
    assert len({carrier.text for carrier in carriers}) > 30
    spans = {carrier.spans for carrier in carriers}
    assert len(spans) >= (5 if kind == TAG_PAIR else 15)


@pytest.mark.parametrize("kind", KINDS)
def test_carriers_place_spans_at_the_begin_in_the_middle_and_at_the_end(kind: str) -> None:
    templates = [text for name, text in read_lines(FOLDER / "carriers.tsv") if name == kind]
    assert len(set(templates)) >= 10
    slot = r"\[.+\]" if kind == TAG_PAIR else r"\{\}"
    assert all(len(re.findall(slot, template)) == 1 for template in templates)
    assert any(re.match(rf"[¡¿]?{slot}", template) for template in templates)
    assert any(re.search(rf"\w .*{slot}.* \w", template) for template in templates)
    assert any(re.search(rf"{slot}\W?$", template) for template in templates)


def test_other_source_languages_have_spans_in_test_sentences_only() -> None:
    pairs = [("Wo ist Tom?", "Where is Tom?")]
    carriers = draw_carriers("e-mail", 20, pairs, "de-DE", 1)
    assert carriers
    assert all("Wo ist" in carrier.text for carrier in carriers)


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("I have 12 books.", ("12",), True),
        ("I have 12, or 12.", ("12",), False),
        ("I have 12,5 books.", ("12",), False),
        ("I have 1.12 books.", ("12",), False),
        ("I have 123 books.", ("12",), False),
        ("(12)", ("12",), True),
        ("Zubiri's car", ("Zubiri",), True),
        ("Zubirik", ("Zubiri",), False),
        ("Hi {name}!", ("{name}",), True),
        ("Hi {{name}}!", ("{name}",), False),
        ("😂😂 yes", ("😂",), False),
        ("ana@mapa.com.", ("ana@mapa.com",), True),
        ("Ana@mapa.com", ("ana@mapa.com",), False),
        ("<b>here</b>", ("<b>", "</b>"), True),
        ("</b>here<b>", ("<b>", "</b>"), False),
        ("<b>here", ("<b>", "</b>"), False),
    ],
)
def test_a_span_counts_if_it_occurs_once_and_whole(
    text: str, spans: tuple[str, ...], expected: bool
) -> None:
    assert contains_once(text, spans) is expected


def test_names_are_replaced_only_where_the_reference_has_them_too() -> None:
    sources = [carrier.text for carrier in draw_carriers(NAME, 200, PAIRS, "es", 1)]
    replaced = [text for text in sources if text.startswith("Le dije a")]
    assert replaced
    assert all(re.fullmatch(r"Le dije a \S+ que no\.", text) for text in replaced)
    assert not any(text.startswith("¿Dónde está el baño?") for text in sources)


def test_names_are_unique_and_in_composed_characters() -> None:
    names = [name for (name,) in read_lines(FOLDER / "rare_names.txt")]
    assert len(names) == len(set(names)) >= 150
    assert names == [unicodedata.normalize("NFC", name) for name in names]


def test_hard_texts_have_references_with_the_same_lines() -> None:
    texts = text_bench.read_hard_texts(("es", "en"))
    assert len({text.source for text in texts}) == 100 + 60 + 30 + 20 + 20 + 30 + 90
    for _, source, references in texts:
        assert len(references) in (1, 2)
        assert all(line.count("\n") == source.count("\n") for line in references)
    assert text_bench.read_hard_texts(("es", "fr")) == []


def test_short_texts_are_right_if_they_are_a_reference() -> None:
    texts = text_bench.read_short_texts(("es", "en"))
    kinds = Counter(text.kind for text in texts)
    assert kinds == {"word": 220, "phrase": 160, "heading": 160, "label": 80}
    assert len({text.source for text in texts}) == 620
    assert text_bench.read_short_texts(("en", "es")) == []
    outputs = {text.source: text.references[-1] for text in texts}
    outputs[texts[0].source] = texts[0].references[0].title()
    outputs[texts[1].source] += "."
    rows = text_bench.measure_short_texts(texts, outputs)
    assert [(row.name, row.value) for row in rows] == [
        ("words", pytest.approx(100 * 219 / 220)),
        *((f"{kind}s", 100) for kind in list(kinds)[1:]),
    ]


def measured(outputs: dict[str, str]) -> dict[tuple[str, str], Row]:
    rows = text_bench.list_rows(PAIRS, ARGUMENTS, ("es", "en"))
    # A perfect translator of everything that `outputs` lacks.
    perfect = {}
    for row in rows:
        perfect |= dict(zip(row.texts, row.references or row.texts, strict=True))
    table = text_bench.measure(rows, perfect | outputs, "en")
    return {(row.name, row.measure): row for row in table}


def test_perfect_translations_have_perfect_scores() -> None:
    table = measured({})
    assert len(table) == 2 + len(CHANGES) + len(MARKED) + 3 + len(KINDS)
    for row in table.values():
        assert row.value == pytest.approx(100)
        assert row.baseline is None or row.baseline == pytest.approx(100)
        assert row.looping == row.empty == 0


def test_paragraphs_are_compared_with_their_sentences_one_by_one() -> None:
    paragraph = " ".join(SOURCES[:2])
    table = measured({paragraph: ""})
    row = table["paragraphs of 2 sentences", "BLEU"]
    assert row.texts == 3
    assert row.value < 70
    assert row.baseline == pytest.approx(100)
    assert row.empty == pytest.approx(100 / 3)
    assert table["paragraphs of 3 sentences", "BLEU"].value == pytest.approx(100)
    table = measured(dict.fromkeys(SOURCES[:5], "wrong"))
    row = table["paragraphs of 5 sentences", "BLEU"]
    assert row.value == pytest.approx(100)
    assert row.baseline is not None
    assert row.baseline < 10


def test_bleu_ignores_case_and_quotes_around_the_output() -> None:
    pairs = {source: reference.upper() for source, reference in PAIRS}
    table = measured(pairs)
    assert table[CLEAN, "BLEU"].value == pytest.approx(100)
    assert table[CLEAN, "BLEU with case"].value < 50
    table = measured({f"«{source}»": f"“{reference}”" for source, reference in PAIRS})
    assert table["in « »", "BLEU"].value == pytest.approx(100)
    assert strip_marks("«¿Qué?»") == "¿Qué?"
    assert strip_marks("● [<b>Qué</b> (“casa”)]") == "Qué casa"


def test_one_word_is_enclosed() -> None:
    assert enclose_word("Es la casa.", random.Random(1), "<b>{}</b>") == "Es la <b>casa</b>."
    assert enclose_word("Es la.", random.Random(1), "({})") == "Es la."


def test_a_sign_is_between_words() -> None:
    assert insert_one("Es la.", random.Random(1), ["&"]) == "Es & la."
    assert insert_one("Es.", random.Random(1), ["&"]) == "Es."
    assert strip_marks("Es & la 東京 casa.") == "Es la casa."


def test_lost_spans_and_loops_are_counted() -> None:
    carriers = [Carrier("Son 12.", ("12",)), Carrier("Ja ja ja 13", ("13",))]
    row = Sources("number", [carrier.text for carrier in carriers], carriers=carriers)
    outputs = {"Son 12.": "It is is is.", "Ja ja ja 13": "Ha ha ha 13"}
    [result] = text_bench.measure([row], outputs, "en")
    assert (result.value, result.looping, result.empty) == (50, 50, 0)
    assert result.cells() == ("number", "2", "copied", "50.0%", "", "", "50.0%", "0.0%")


def test_the_table_is_markdown_with_differences() -> None:
    row = Row("in « »", 1200, "BLEU", 40.24, 51.0, 0.0, 0.0)
    lines = text_bench.format_table([row]).splitlines()
    assert lines[2] == "| in « » | 1,200 | BLEU | 40.2 | 51.0 | -10.8 | 0.0% | 0.0% |"
    assert len({line.count("|") for line in lines}) == 1


def test_the_command_writes_the_table_it_prints(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nmt.errors import UserError

    table = tmp_path / "table.md"
    arguments = argparse.Namespace(
        run=tiny_run, sentences=5, spans=2, seed=1, unit=None, output=table, show=False
    )
    text_bench.run(arguments)
    assert table.read_text("utf-8") == capsys.readouterr().out
    arguments.sentences = 4
    with pytest.raises(UserError, match="5 or more test sentences, got 4"):
        text_bench.run(arguments)
