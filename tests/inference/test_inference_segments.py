"""From outputs of a search to translations: kept spans, letter case and white space come back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from conftest import corpus_lines, small_tokenizer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from translator_inputs import DECODING

from nmt import Translator
from nmt.config import TokenizerConfig
from nmt.data.tokenizer import EOS, Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.errors import UserError
from nmt.inference.contract import BeamOptions, Hypothesis, SamplingOptions, SearchRequest
from nmt.inference.engines import Engines
from nmt.inference.results import Translation
from nmt.inference.segments import Segment, enter_remark, show_spans
from nmt.inference.term_constraints import TermConstraints
from nmt.text.cleaning import clean_text
from nmt.text.source_words import SourceWords
from nmt.text.spans import SLOTS
from nmt.text.terms import Glossary, Term

A, B, C = SLOTS[:3]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Lower-cases sources, and has three slots."""
    return small_tokenizer(lowercases=True, slots=3)


class Rewriting:
    """An engine whose outputs are its sources, rewritten; it aligns words in reverse order."""

    max_length = 64
    workers = 1
    keras_engine = None
    can_align = True

    def __init__(self, tokenizer: Tokenizer, rewrite: Callable[[str], str]) -> None:
        self.tokenizer, self.rewrite = tokenizer, rewrite
        self.sources: list[str] = []
        self.aligned: list[tuple[str, str]] = []

    def supports(self, options: BeamOptions | SamplingOptions) -> bool:
        return True

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions | SamplingOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        texts = self.tokenizer.decode(sources)
        self.sources += texts
        begin = self.tokenizer.decode([prefix])[0]
        outputs = self.tokenizer.target.encode(
            [f"{begin} {self.rewrite(text)}".strip() for text in texts]
        )
        return [
            [Hypothesis((*map(int, ids), EOS), -1.0 - n, -0.5 - n) for n in range(options.n_best)]
            for ids in outputs
        ]

    def align(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        self.aligned += zip(
            self.tokenizer.decode(sources), self.tokenizer.decode(targets), strict=True
        )
        weights = []
        for source, target in zip(sources, targets, strict=True):
            words, target_words = (
                np.cumsum([piece.startswith("▁") for piece in self.tokenizer.pieces([*ids, EOS])])
                for ids in (source, target)
            )
            count = target_words[-1]
            weights.append(target_words[:, None] + np.minimum(words, count) == count + 1)
        return [np.asarray(rows, np.float32) for rows in weights]


class Unaligned(Rewriting):
    """An engine without attention."""

    can_align = False

    def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
        raise UserError("no attention")


def translator_of(
    tokenizer: Tokenizer,
    rewrite: Callable[[str], str] = str,
    kind: type[Rewriting] = Rewriting,
    **options: Any,
) -> tuple[Translator, Any]:
    engine = kind(tokenizer, rewrite)
    options = {"languages": ("es", "en"), "unit": "sentence"} | options
    return Translator(Engines(engine), tokenizer, DECODING, **options), engine


@pytest.mark.parametrize(
    "text",
    [
        "hola.",
        "  hola. \n\n ¿qué tal?\r\nbien.  ¡gracias! \n",
        "tengo 3 gatos en https://Example.com/Ab_c?d=1. escribe a Ana.P@x.es antes del 3/4/2026.",
        "hola {name}, tienes %d mensajes. 😀 sí.\n\n12\n---\n",
        "",
        " \n\t",
    ],
)
def test_an_engine_that_copies_gives_the_text_back(tokenizer: Tokenizer, text: str) -> None:
    translator, engine = translator_of(tokenizer)
    assert translator.translate([text]) == [text]
    assert all("12" not in source and "http" not in source for source in engine.sources)
    assert [translations[0].lost_spans for translations in translator.hypotheses([text])] == [()]
    assert engine.aligned == []


def test_sentences_are_searched_one_by_one_and_lines_in_one_go(tokenizer: Tokenizer) -> None:
    text = "hoy hace frío. mañana va a llover.\n¿vamos?"
    by_sentence, engine = translator_of(tokenizer)
    assert by_sentence.translate([text]) == [text]
    assert sorted(engine.sources) == ["hoy hace frío.", "mañana va a llover.", "¿vamos?"]
    by_line, engine = translator_of(tokenizer, unit="line")
    assert by_line.translate([text]) == [text.replace("\n", " ")]
    assert engine.sources == [text.replace("\n", " ")]


def test_marks_of_lists_are_not_translated(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    text = (
        "- hoy hace frío. - y llueve.\n\t* ¿vamos?\n–no.\n12) sí.\n a) él.\nno b) y.\n[no]\n-5 no"
    )
    assert translator.translate([text]) == [text]
    expected = ["- y llueve.", "hoy hace frío.", "¿vamos?", "no.", "sí.", "él.", f"no {A} y."]
    expected += ["no", f"{A} no"]
    assert sorted(engine.sources) == sorted(expected)


def test_quotation_marks_around_a_sentence_are_not_translated(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    text = '«hoy hace frío.»\n“¿vamos?”\n"sí"'
    assert translator.translate([text]) == [text]
    expected = ["hoy hace frío.", "sí", "¿vamos?"]
    assert sorted(engine.sources) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("[música]", ["música"]),
        ("-¿Quién es?\n-Soy yo.", ["¿Quién es?", "Soy yo."]),
        ("—Hola. —Adiós.", ["Hola.", "Adiós."]),
        ("1.- Entre.", ["Entre."]),
        ("II. Los perros", ["Los perros"]),
        ("«¿Vienes mañana?».", ["¿Vienes mañana?"]),
        ("*|FNAME|*.", []),
        ("(a) El perro (b) y el gato", [f"El perro {A} y el gato"]),
        ("● El perro\n► El gato", ["El perro", "El gato"]),
        ("**Importante**", ["Importante"]),
        ("(No lo sé.)", ["No lo sé."]),
        ("Nombre\tApellido", ["Nombre", "Apellido"]),
    ],
)
def test_marks_around_a_line_are_not_translated(
    tokenizer: Tokenizer, text: str, sources: list[str]
) -> None:
    translator, engine = translator_of(tokenizer)
    assert translator.translate([text]) == [text]
    assert sorted(engine.sources) == sorted(map(str.lower, sources))


def test_a_mark_behind_a_quotation_is_translated_inside(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    assert translator.translate(["- «No lo sé»."]) == ["- «No lo sé.»"]
    assert engine.sources == ["no lo sé."]


def test_a_translation_ends_as_its_source(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer, words=SourceWords({"no": 9}))
    source = "no sé...\n¡¡ven!!!\nél dijo; "
    assert translator.translate([source]) == ["no sé...\n¡ven!!!\nél dijo; "]
    assert sorted(engine.sources) == ["no sé.", "¡ven!", "él dijo"]


def test_ellipses_that_are_read_as_commas_are_written_again(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer, words=SourceWords({"no": 9}))
    source = "...no, bueno... no… sé ... y {x}...¿tú?"
    assert translator.translate([source]) == ["...no, bueno... no… sé ... y {x}... ¿tú?"]
    assert engine.sources == [f"no, bueno, no, sé, y {A}, ¿tú?"]
    assert engine.aligned == []
    [completion] = translator.translate(["no... sé"], prefix="bueno...")
    assert completion == "bueno... no... sé"


def test_a_written_ellipsis_is_aligned_as_the_comma_of_the_model(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, words=SourceWords({"no": 9}))
    text = "no... bueno"
    [[translation]] = translator.run([text], SearchRequest(words=True))
    words = [translation.text[word.begin : word.end] for word in translation.words]
    assert words == ["no", "...", "bueno"]
    # In reverse order, comma and word together.
    assert [[text[slice(*span)] for span in word.sources] for word in translation.words] == [
        ["bueno"],
        ["bueno"],
        ["no", "..."],
    ]


@pytest.mark.parametrize(
    ("text", "expected", "unaligned"),
    [
        # The alignment is in reverse order.
        ("no... bueno sé y", "no bueno sé y", "no bueno sé y"),
        ("no bueno sé... y", "no bueno... sé y", "no bueno sé y"),
        ("no bueno {x}... y", "no bueno {x}... y", "no bueno {x} y"),
    ],
)
def test_without_commas_ellipses_follow_the_word_that_is_aligned(
    tokenizer: Tokenizer, text: str, expected: str, unaligned: str
) -> None:
    def rewrite(text: str) -> str:
        return text.replace(",", "")

    words = SourceWords({"no": 9})
    translator, engine = translator_of(tokenizer, rewrite, words=words)
    assert translator.translate([text]) == [expected]
    assert len(engine.aligned) == 1
    translator, _ = translator_of(tokenizer, rewrite, Unaligned, words=words)
    assert translator.translate([text]) == [unaligned]


def test_an_ellipsis_needs_no_comma_in_the_vocabulary() -> None:
    texts = [clean_text(line.replace(",", "")) for line in corpus_lines(200)]
    tokenizer = train_tokenizer(TokenizerConfig("unigram", 500, 0, 0.9998, True, 3), texts, str)
    translator, engine = translator_of(
        tokenizer, lambda text: text.replace(",", ""), words=SourceWords({"no": 9})
    )
    assert translator.translate(["no bueno... sé"]) == ["no bueno... sé"]
    assert engine.sources == ["no bueno, sé"]


def test_an_ellipsis_stays_in_its_quotation(tokenizer: Tokenizer) -> None:
    words = SourceWords({"no": 9, "bueno": 9, "sé": 9}, signs={})
    translator, engine = translator_of(tokenizer, words=words)
    text = 'no "bueno..." sé\nno..., no'
    assert translator.translate([text]) == [text]
    assert sorted(engine.sources) == ["no bueno sé", "no, no"]


def test_a_word_that_has_no_translation_stays(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: "")
    assert translator.translate(["de: 5\nno", "no sé"]) == ["de: 5\nno", ""]


def test_no_full_stop_is_added_in_brackets(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.rstrip(".") + ".")
    texts = ["(bueno)", "[no]", "(no.)", "«sí»"]
    assert translator.translate(texts) == [*texts[:3], "«sí.»"]


@pytest.mark.parametrize(
    ("languages", "text", "expected"),
    [
        (("es", "en"), "¿3? ¡😀!\n¿\n5 de mayo de 2026.", "3? 😀!\n¿\nMay 5, 2026."),
        (("es", "gl"), "¿3? ¡😀!", "¿3? ¡😀!"),
        (("zh", "en"), "3。\n4？", "3.\n4?"),
        (("ar", "fr"), "3؟", "3?"),
        (("en", "es"), "May 5 ¿3?", "5 de mayo ¿3?"),
    ],
)
def test_what_is_copied_has_the_marks_and_dates_of_the_target_language(
    tokenizer: Tokenizer, languages: tuple[str, str], text: str, expected: str
) -> None:
    translator, engine = translator_of(tokenizer, languages=languages)
    [[translation]] = translator.run([text], SearchRequest(words=True))
    assert translation.text == expected
    assert translator.translate([text]) == [expected]
    assert engine.sources == []
    assert all(expected[word.begin : word.end].strip() for word in translation.words)
    assert {text[slice(*word.sources[0])] for word in translation.words} >= {
        span for segment in translator.segmenter.segment(text).segments for span in segment.spans
    }


def test_more_dates_than_slots_are_all_written_in_the_target_language(
    tokenizer: Tokenizer,
) -> None:
    translator, engine = translator_of(tokenizer)
    days = range(2, 2 + 2 * tokenizer.slots)
    given = ", ".join(f"{day} de enero" for day in days)
    assert translator.translate([given]) == [", ".join(f"January {day}" for day in days)]
    assert engine.sources == []


def test_dates_are_written_in_the_target_language(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    source = "ven el 5 de mayo de 2026. el 1 de junio no.\n2 DE ENERO"
    assert translator.translate([source]) == ["ven el May 5, 2026. el June 1 no.\nJANUARY 2"]
    assert sorted(engine.sources) == [f"el {A} no.", f"ven el {A}."], "a date alone is copied"
    forgetful, _ = translator_of(tokenizer, lambda text: text.replace(A, ""))
    [[translation]] = forgetful.run([source.partition(". ")[0]], SearchRequest())
    assert translation.lost_spans == ("May 5, 2026",)
    assert "May 5, 2026" in translation.text


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("hasta el 5 de mayo.", f"until the {A}.", "until May 5."),
        ("está a 5 km. de aquí.", f"it is {A}.", "it is 5 km."),
        ("está a 5 km. de aquí", f"{A} away", "5 km. away"),
    ],
)
def test_dates_get_no_article_and_units_no_second_dot(
    tokenizer: Tokenizer, source: str, output: str, expected: str
) -> None:
    translator, _ = translator_of(tokenizer, lambda _: output)
    assert translator.translate([source]) == [expected]


def test_bytes_that_are_no_text_are_left_out(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: f"{text} \ufffd")
    assert translator.translate(["hoy"]) == ["hoy "]


def test_what_has_no_words_costs_no_search(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    texts = ["12", " 😀 ", "https://example.com", "---"]
    assert translator.translate(texts) == texts
    assert engine.sources == []
    [[copied]] = translator.hypotheses(["12"], beam_size=4, n_best=4)
    assert (copied.score, copied.log_prob, copied.tokens) == (0.0, 0.0, ())
    assert [sample.text for sample in translator.samples(["12"], 3)[0]] == ["12"] * 3


def test_a_lost_span_is_put_beside_the_word_aligned_to_its_neighbour(tokenizer: Tokenizer) -> None:
    def lose(text: str) -> str:
        return " ".join(text.replace(A, " ").replace(B, " ").split())

    translator, engine = translator_of(tokenizer, lose)
    text = "12 me gusta"
    [[translation]] = translator.hypotheses([text])
    [(source, target)] = engine.aligned
    assert (source, target) == (f"{A} me gusta", "me gusta")
    # By the weights, the words of both sides are aligned in reverse order. The span begins the
    # source, so it goes before the word that is aligned to "me".
    assert translation.text == "12 me gusta"
    assert translation.lost_spans == ("12",)
    [[translation]] = translator.hypotheses(["me gusta el 12"])
    assert translation.text == "me 12 gusta el"  # after the word that is aligned to "el"
    [[translation]] = translator.hypotheses(["me gusta <b>el"])
    assert translation.text == "<b>me gusta el"  # a tag before "el"
    [[translation]] = translator.hypotheses(["13 gusta mucho mucho gustaría y 12"])
    assert translation.text == "gusta 12 mucho mucho 13 gustaría y"
    assert translation.lost_spans == ("13", "12")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.sampled_from(["bueno", "no", "{a}", "https://x.es/uno-dos", r"C:\Users\Juan"]),
        max_size=6,
    ),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.lists(st.sampled_from([*SLOTS[:3], "sí", "gusta"]), max_size=6),
    st.sampled_from([Rewriting, Unaligned]),
)
@example(["bueno", "{a}", "{b}", "{c}"], (0, 1), [A, A, B, B], Rewriting)
@example(["bueno", "no", "no", r"C:\Users\Juan"], (2, 3), ["sí"], Unaligned)
@example(["{a}", "https://x.es/uno-dos", "no"], (2, 3), [f"{B}'s", "sí", A], Rewriting)
@example(["{a}", "https://x.es/uno-dos", "no"], (2, 3), ["sí", f"{B}'s", A], Unaligned)
def test_a_tag_never_splits_a_span_even_if_it_was_lost(
    tokenizer: Tokenizer,
    words: list[str],
    tagged: tuple[int, int],
    output: list[str],
    kind: type[Rewriting],
) -> None:
    first, last = sorted(tagged)
    bare = " ".join(words)
    text = " ".join([*words[:first], "<b>", *words[first:last], "</b>", *words[last:]])
    text = text.replace("<b> ", "<b>").replace(" </b>", "</b>")
    translator, _ = translator_of(tokenizer, lambda _: " ".join(output), kind)
    [translated] = translator.translate([text])
    for span in set(words) - {"bueno", "no"}:
        assert translated.count(span) == bare.count(span)


def test_words_of_spans_come_from_their_slots(tokenizer: Tokenizer) -> None:
    """Whether the output lacks a slot or has another one in its place."""
    for output in ("gusta", f"gusta {B} {A}"):
        translator, _ = translator_of(tokenizer, lambda _, output=output: output)
        text = "bueno %5.2f no %d"
        [[translation]] = translator.run([text], SearchRequest(words=True))
        assert translation.text == "gusta %5.2f %d" or output == "gusta"
        sources = {
            translation.text[word.begin : word.end]: [text[slice(*span)] for span in word.sources]
            for word in translation.words
        }
        assert (sources["%5.2f"], sources["%d"]) == (["%5.2f"], ["%d"])


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("no {uno}, {dos} y {tres}", f"no {A}", "no {uno} {dos} {tres}"),
        ("no %d y %s", f"{B} {A}", "%d %s"),
        ("no %s y %s", f"{B} {A}", "%s %s"),
        ("no {a} y {b}", f"{B} {A}", "{b} {a}"),
    ],
)
@pytest.mark.parametrize("kind", [Rewriting, Unaligned])
def test_spans_keep_their_order_at_one_place_or_if_it_has_a_meaning(
    tokenizer: Tokenizer, source: str, output: str, expected: str, kind: type[Rewriting]
) -> None:
    translator, _ = translator_of(tokenizer, lambda _: output, kind)
    assert translator.translate([source]) == [expected]


def test_placeholders_of_a_prefix_stay(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda _: f"y {C} {A}")
    assert translator.translate(["no %s, %d %f"], prefix="%d") == ["%d y %s %f"]


def test_without_alignments_a_lost_span_goes_to_the_end(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.replace(A, ""), Unaligned)
    [[translation]] = translator.hypotheses(["el 12 me gusta"])
    assert translation.text == "el me gusta 12"


def test_repeated_and_invented_slots_are_removed(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: f"{text} {A} y {C} o {B}")
    [[translation]] = translator.hypotheses(["tengo 12."])
    assert translation.text == "tengo 12. y o"
    assert translation.lost_spans == ()
    assert translator.translate(["sí."]) == ["sí. y o"]


def test_lost_spans_of_all_sentences_are_reported(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.replace(A, ""), Unaligned)
    [[translation]] = translator.hypotheses(["tengo 12 y 13.\nTengo 14."])
    assert translation.lost_spans == ("12", "14")
    assert translation.text.splitlines()[1].endswith("14")


@pytest.mark.parametrize(
    ("text", "output", "expected"),
    [
        ("HOLA A TODOS EN https://a.com/b.", str.lower, "HOLA A TODOS EN https://a.com/b."),
        ("Hoy Hace Mucho Frío", str.lower, "Hoy Hace Mucho Frío"),
        ("Mi iPhone es bueno.", str.lower, "Mi iPhone es bueno."),
        ("HOLA A TODOS. adiós.", lambda text: text, "HOLA A TODOS. adiós."),
    ],
)
def test_the_letter_case_of_a_sentence_comes_back(
    tokenizer: Tokenizer, text: str, output: Callable[[str], str], expected: str
) -> None:
    translator, engine = translator_of(tokenizer, output)
    assert translator.translate([text]) == [expected]
    assert all(source == source.lower() for source in engine.sources)


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("El 5 llega.", f"{A} arrives.", "5 arrives."),
        ("Llega {x} hoy.", f"{A} today.", "{x} today."),
        ("😀 Hoy llega.", f"{A} today.", "😀 Today."),
        ("Los <file>perros ladran.", f"{A}dogs bark.", "<file>Dogs bark."),
    ],
)
def test_a_number_that_begins_a_translation_needs_no_capital_behind_it(
    tokenizer: Tokenizer, source: str, output: str, expected: str
) -> None:
    translator, _ = translator_of(tokenizer, lambda text: output)
    assert translator.translate([source]) == [expected]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Hay 3, 4 y 5, y 6.", "en", "Hay 3, 4 y 5, y 6."),
        ("Hay 3, 4 y 5, Y 6.", "en", "Hay 3, 4 y 5, Y 6."),
        ("hay 3, 4 y 5. y 6.", "en", "Hay 3, 4 y 5. Y 6."),
        ("Hay 3, 4 y 5, y 6.", "de", "Hay 3, 4 y 5, Y 6."),  # may be a noun
        ("Hay 3, 4 y 5, y 6.", "und", "Hay 3, 4 y 5, Y 6."),
    ],
)
def test_parts_of_a_sentence_begin_with_small_letters(
    tokenizer: Tokenizer, text: str, language: str, expected: str
) -> None:
    translator, engine = translator_of(
        tokenizer, lambda text: text[:1].upper() + text[1:], languages=("es", language), unit="line"
    )
    assert translator.translate([text]) == [expected]
    assert len(engine.sources) == 2


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("3 y 4.", "en", "3 y 4."),
        ("3 Y 4.", "en", "3 Y 4."),
        ("{x} y 4.", "en", "{x} Y 4."),
        ("3 y 4.", "de", "3 Y 4."),
        ("3 y 4, 5 y 6.", "en", "3 y 4, 5 y 6."),  # in two parts
    ],
)
def test_a_number_that_begins_both_texts_is_the_first_word(
    tokenizer: Tokenizer, text: str, language: str, expected: str
) -> None:
    translator, _ = translator_of(
        tokenizer, lambda text: text.replace(f"{A} y", f"{A} Y"), languages=("es", language)
    )
    assert translator.translate([text]) == [expected]


def test_targets_of_terms_keep_a_capital_inside_of_a_sentence(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text[:1].upper() + text[1:])
    text = "Hay 3, 4 y 5, y 6."
    glossary = Glossary([Term("y", "Y")], ("es", "en"))
    request = SearchRequest(glossary=glossary, forces_terms=False)
    [[translation]] = translator.run([text], request)
    assert translation.text == "Hay 3, 4 y 5, Y 6."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("bueno 😀", "bueno 😀"),
        ("bueno :)", "bueno :)"),
        ("bueno 😀.", "bueno 😀."),
        ("bueno 12", "bueno 12."),
    ],
)
def test_no_full_stop_is_added_behind_an_emoji(
    tokenizer: Tokenizer, source: str, expected: str
) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.rstrip(".") + ".")
    assert translator.translate([source]) == [expected]


def test_a_prefix_begins_the_first_sentence_that_is_searched(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer)
    [text] = translator.translate(["12\nHOY HACE FRÍO.\nsí."], prefix="Es que")
    assert text == "12\nEs que HOY HACE FRÍO.\nsí."


def test_alternatives_and_samples_of_several_sentences_keep_the_white_space(
    tokenizer: Tokenizer,
) -> None:
    translator, _ = translator_of(tokenizer)
    text = "\nhola.  12\n\nadiós.\n"
    [hypotheses] = translator.hypotheses([text], beam_size=4, n_best=3)
    assert [translation.text for translation in hypotheses] == [text] * 3
    assert [translation.score for translation in hypotheses] == [-1.0, -2.0, -2.0]
    assert [translation.text for translation in translator.samples([text], 3)[0]] == [text] * 3


def test_thousands_of_sentences_take_time_in_proportion(tokenizer: Tokenizer) -> None:
    translator, engine = translator_of(tokenizer)
    text = "hola. " * 20_000
    [[translation]] = translator.run([text], SearchRequest(beam_size=1))
    assert translation.text == text
    assert len(engine.sources) == 20_000


def test_slots_are_shown_as_the_spans(tokenizer: Tokenizer) -> None:
    assert show_spans(f"▁{A}x{B}{C}", ["1", "2"]) == f"▁1x2{C}"


def test_a_span_may_be_the_character_of_a_slot() -> None:
    assert show_spans(f"{SLOTS[0]} {SLOTS[1]}", [SLOTS[1], "5"]) == f"{SLOTS[1]} 5"


def test_a_prefix_of_a_segment_keeps_its_spans_and_letter_case(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.partition(" ")[2])
    [segment] = translator.segmenter.segment("CUESTA 1200 EUROS HOY.").segments
    assert segment.spans == ("1200",)
    begun = translator.pipeline.begin_with(segment, "IT COSTS 1200 ")
    assert begun.prefix.full_text == "IT COSTS 1200"
    assert begun.prefix.text == f"It costs {SLOTS[0]}"
    [[translation]] = translator.pipeline.search_segments([begun], SearchRequest(1))
    assert translation.text.startswith("IT COSTS 1200 ")
    assert translation.text.count("1200") == 1
    assert translation.text == translation.text.upper()
    assert not translation.lost_spans


def test_prefixes_of_segments_are_limited_and_do_not_reach_other_segments(
    tokenizer: Tokenizer,
) -> None:
    translator, _ = translator_of(tokenizer)
    segments = translator.segmenter.segment("hola. adiós.").segments
    begun = translator.pipeline.begin_with(segments[1], "Es que")
    texts = translator.pipeline.search_segments([segments[0], begun], SearchRequest(1))
    assert [row[0].text for row in texts] == ["hola.", "Es que adiós."]
    with pytest.raises(UserError, match="prefix must have at most"):
        translator.pipeline.begin_with(segments[1], "Es que " * 60)


def test_a_complete_word_is_not_continued_if_another_hypothesis_leaves_it(
    tokenizer: Tokenizer,
) -> None:
    class Continuing(Rewriting):
        """Its best hypothesis continues the last word of the prefix, its second does not."""

        def search(self, sources: Any, limits: Any, options: Any, prefix: Any) -> Any:
            begin = self.tokenizer.decode([prefix])[0]
            ids = self.tokenizer.target.encode([f"{begin}er man.", f"{begin} man."])
            rows = [
                Hypothesis((*map(int, each), EOS), -1.0 - n, -1.0 - n) for n, each in enumerate(ids)
            ]
            return [rows[: options.n_best] for _ in sources]

    engine = Continuing(tokenizer, str)
    translator = Translator(Engines(engine), tokenizer, DECODING)
    [segment] = translator.segmenter.segment("El viejo.").segments
    for prefix, expected in (("The old", "The older man."), ("The old ", "The old man.")):
        begun = translator.pipeline.begin_with(segment, prefix)
        [[translation]] = translator.pipeline.search_segments([begun], SearchRequest(2))
        assert translation.text == expected


REMARK = "Ana (mi hermana) y yo."


ENGLISH = {"mi": "my", "hermana": "sister", "la": "The", "y": "and", "yo": "I"}


def translate_words(text: str) -> str:
    """Return a sentence of the tests below with English words."""
    return re.sub(r"\w+", lambda word: ENGLISH.get(word[0], word[0]), text)


@pytest.mark.parametrize(
    ("text", "expected", "sources"),
    [
        (REMARK, "Ana (my sister) and I.", ["mi hermana", f"ana {A} y yo."]),
        ("ANA (MI HERMANA) Y YO.", "ANA (MY SISTER) AND I.", ["mi hermana", f"ana {A} y yo."]),
        ("Ana (Mi hermana).", "Ana (My sister).", ["mi hermana", f"ana {A}."]),
        (
            "Ana (mi hermana (la ana)) [y yo].",
            "Ana (my sister (the ana)) [and I].",
            ["la ana", f"mi hermana {A}", "y yo", f"ana {A} {B}."],
        ),
        ("Ana (¿la ana?) y yo.", "Ana (¿the ana?) and I.", ["¿la ana?", f"ana {A} y yo."]),
        ("Ana (OMS) y yo.", "Ana (OMS) and I.", [f"ana {A} y yo."]),
        ("https://a.b (mi hermana)", "https://a.b (my sister)", ["mi hermana"]),
    ],
)
def test_remarks_in_brackets_are_translated_by_themselves(
    tokenizer: Tokenizer, text: str, expected: str, sources: list[str]
) -> None:
    translator, engine = translator_of(tokenizer, translate_words)
    assert translator.translate([text]) == [expected]
    assert sorted(engine.sources) == sorted(sources)
    assert translator.translate([text] * 2 + ["hoy"]) == [expected] * 2 + ["hoy"]


@pytest.mark.parametrize(
    "text", ["Ana (y) yo.", "Ana (https://a.b) y yo.", "(mi hermana) y yo.", "Ana (a) y yo."]
)
def test_other_brackets_are_no_remarks(tokenizer: Tokenizer, text: str) -> None:
    [segment] = translator_of(tokenizer)[0].segmenter.segment(text).segments
    assert segment.remarks == ()


def test_every_translation_of_a_sentence_has_the_best_one_of_its_remark(
    tokenizer: Tokenizer,
) -> None:
    translator, _ = translator_of(tokenizer, translate_words)
    expected = "Ana (my sister) and I."
    [row] = translator.hypotheses([REMARK], n_best=2)
    assert [each.text for each in row] == [expected] * 2
    assert {each.text for each in translator.samples([REMARK], 3)[0]} == {expected}
    [segment] = translator.segmenter.segment(REMARK).segments
    assert segment.full_text == REMARK
    assert segment.target_spans == ("(mi hermana)",)
    assert translator.pipeline.translate_remarks(segment).target_spans == ("(my sister)",)


def test_tokens_of_remarks_are_searched_as_well(tokenizer: Tokenizer) -> None:
    segmenter = translator_of(tokenizer)[0].segmenter

    def count(text: str) -> int:
        return segmenter.segment(text).segments[0].searched_tokens

    inner, nested = count("mi hermana"), count("mi hermana (la ana)")
    assert count("hola.") == len(tokenizer.encode(["hola."])[0])
    assert count("12 34") == 0, "it is copied"
    assert count("https://a.b (mi hermana)") == inner
    assert count("Ana (mi hermana (la ana))") - count("Ana (mi hermana)") == nested - inner > 0


def test_words_of_a_remark_come_from_its_words(tokenizer: Tokenizer) -> None:
    class Diagonal(Rewriting):
        def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
            return [np.eye(len(t) + 1, len(s) + 1) for s, t in zip(sources, targets, strict=True)]

    translator, _ = translator_of(tokenizer, kind=Diagonal)
    [[translation]] = translator.run([REMARK], SearchRequest(words=True))
    assert translation.text == REMARK
    words = [REMARK[word.begin : word.end] for word in translation.words]
    assert words == ["Ana", "mi", "hermana", "y", "yo", "."]
    assert [[REMARK[slice(*span)] for span in word.sources] for word in translation.words] == [
        [word] for word in words
    ]
    tagged = REMARK.replace("hermana", "<b>hermana</b>")
    assert translator.translate([tagged]) == [tagged]


def test_terms_and_lost_spans_of_remarks_are_reported(tokenizer: Tokenizer) -> None:
    glossary = Glossary([Term("hermana", "sister")], ("es", "en"))
    translator, _ = translator_of(tokenizer, lambda text: translate_words(text.replace(A, "")))
    text = "Ana (mi hermana 12) y yo."
    [[translation]] = translator.run([text], SearchRequest(glossary=glossary))
    assert [use.is_used for use in translation.terms] == [True]
    assert sorted(translation.lost_spans) == ["(my 12 sister)", "12"]
    assert translation.text.count("(my 12 sister)") == 1


NESTED = "Ana (mi hermana (la ana)) y yo."
BOTH_KINDS = "Ana (no) yo (mi hermana) y (OMS) hoy (la ana)."


def begin_translation(
    tokenizer: Tokenizer, text: str, prefix: str, written: str
) -> tuple[Segment, str]:
    """Return a segment whose prefix is written so, and its translation."""
    translator, _ = translator_of(tokenizer, lambda text: text.partition(" ")[2])
    [segment] = translator.segmenter.segment(text).segments
    begun = translator.pipeline.begin_with(segment, prefix)
    before, part = enter_remark(begun)
    assert before + show_spans(part.prefix.full_text, part.target_spans) == written
    [[translation]] = translator.pipeline.search_segments([begun], SearchRequest(1))
    return begun, translation.text


@pytest.mark.parametrize(
    ("text", "prefix", "written"),
    [
        (REMARK, "Ana (my sis) and", "Ana (my sis) and"),
        (REMARK, "Ana (my si", "Ana (my si"),
        (REMARK, "Ana (", "Ana ("),
        (REMARK, "Ana ", "Ana"),
        (NESTED, "Ana (my sis (th", "Ana (my sis (th"),
        (NESTED, "Ana (my sis (the a) an", "Ana (my sis (the a) an"),
        (NESTED, "Ana (my sis (the a)) an", "Ana (my sis (the a)) an"),
        ("Ana (la ana. mi hermana) y yo.", "Ana (the", "Ana"),
    ],
)
def test_a_prefix_may_have_a_part_of_a_remark(
    tokenizer: Tokenizer, text: str, prefix: str, written: str
) -> None:
    begun, translation = begin_translation(tokenizer, text, prefix, written)
    assert "(" not in begun.prefix.text
    assert translation.startswith(written)
    assert translation.count("(") == text.count("(")


@pytest.mark.parametrize(
    ("text", "prefix", "written"),
    [
        (BOTH_KINDS, "Ana (no", "Ana no"),
        (BOTH_KINDS, "Ana (not) I (my", "Ana not I (my"),
        (BOTH_KINDS, "Ana (not) I (my sis) (OMS) [th", "Ana not I (my sis) (OMS) (th"),
        (BOTH_KINDS, "Ana no I (my si", "Ana no I (my si"),
        (BOTH_KINDS, "Ana no I (my sis) (O", "Ana no I (my sis) (OMS)"),
        ("Ana [12] y (mi hermana) yo.", "Ana [1", "Ana [12]"),
        ("Ana [no] yo (mi hermana) y.", "Ana I (my sis) [no] an", "Ana I (my sis) no an"),
        ("Ana (un) y (mi hermana) yo.", "Ana (a) an (my", "Ana (a) an (my"),
        ("(no mi [mi hermana]) yo.", "(no my [my sis]) I", "no my [my sis] I"),
        ("Ana («mi hermana») y yo.", "Ana («my sis", "Ana («my sis"),
        ("Ana («mi hermana») y yo.", "Ana (my", "Ana («my"),
        ("(mi hermana) Ana (mi hermana) yo.", "(my sis) Ana (my", "my sis Ana (my"),
    ],
)
def test_a_prefix_may_have_brackets_that_are_no_remarks(
    tokenizer: Tokenizer, text: str, prefix: str, written: str
) -> None:
    begun, translation = begin_translation(tokenizer, text, prefix, written)
    without_brackets = str.maketrans("", "", "()[]")
    bare = translation.translate(without_brackets)
    assert bare.startswith(written.translate(without_brackets))
    for remark in begun.remarks:
        if remark.translation is not None:
            assert translation.count(remark.translation.text) == 1


def test_a_prefix_may_have_the_marks_before_its_sentence(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.partition(" ")[2])
    [segment] = translator.segmenter.segment("— Ana y yo.").segments
    for prefix in ("— Ana", "Ana"):
        assert translator.pipeline.begin_with(segment, prefix).prefix.full_text == "Ana"
    [[translation]] = translator.hypotheses(["— Ana y yo."], prefix="— Ana and")
    assert translation.text.startswith("— Ana and")
    assert translation.text.count("—") == 1


def test_a_prefix_may_replace_another_one(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, translate_words)
    [segment] = translator.segmenter.segment(REMARK).segments
    for known in (
        translator.pipeline.begin_with(segment, "Ana (my sis) and"),
        translator.pipeline.translate_remarks(segment),
    ):
        begun = translator.pipeline.begin_with(known, "Ana (th")
        assert enter_remark(begun)[1].prefix.full_text == "th"
        assert begun.target_spans == ("(mi hermana)",), "it is translated anew"


def test_a_prefix_inside_of_a_remark_is_limited(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer)
    [segment] = translator.segmenter.segment(REMARK).segments
    with pytest.raises(UserError, match="prefix must have at most"):
        translator.pipeline.begin_with(segment, "Ana (" + "y yo " * 60)


def test_terms_of_a_sentence_are_not_those_of_its_remark(tokenizer: Tokenizer) -> None:
    glossary = Glossary([Term("hermana", "sister")], ("es", "en"))
    translator, _ = translator_of(tokenizer, translate_words)
    text = "Ana (mi hermana) y la hermana."
    [segment] = translator.segmenter.segment(text).segments
    [segment] = [translator.pipeline.translate_remarks(segment)]
    constraints = TermConstraints(glossary, *[None] * 4)
    [reported] = constraints.report(segment, [Translation("Ana (my sister) and her.", 0, 0, ())])
    assert [use.is_used for use in reported.terms] == [False]
    assert segment.mask_remarks("Ana (my sister) and her.") == f"Ana {A * 11} and her."


def test_kept_terms_in_brackets_are_no_remarks(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, translate_words)
    text = "Ana [mi hermana] y yo (mi hermana)."
    glossary = Glossary([Term("[mi hermana]", "[mi hermana]")], ("es", "en"))
    segmenter = translator.segmenter.with_glossary(glossary)
    [segment] = segmenter.segment(text).segments
    assert [segment.spans[remark.slot] for remark in segment.remarks] == ["(mi hermana)"]


def test_terms_may_be_inside_of_remarks_beside_other_brackets(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, translate_words)
    glossary = Glossary([Term("hermana", "sister"), Term("ana", "anna")], ("es", "en"))
    segmenter = translator.segmenter.with_glossary(glossary)
    [segment] = segmenter.segment("Yo (mi hermana (no) y) y (no) ana.").segments
    assert segment.brackets.tags == (("(", ")"),)
    assert segment.text == f"Yo {A} y no ana."


def test_a_remark_without_a_slot_is_translated(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer, translate_words)
    addresses = " ".join(f"{letter}@a.es" for letter in "abcdefgh")
    [translation] = translator.translate([f"{addresses} (mi hermana)"])
    assert translation == f"{addresses} (my sister)"


def test_an_error_of_an_alignment_is_raised(tokenizer: Tokenizer) -> None:
    class Failing(Rewriting):
        def align(self, sources: Any, targets: Any) -> list[np.ndarray]:
            raise UserError("too many tokens")

    translator, _ = translator_of(tokenizer, lambda text: text.replace(A, ""), Failing)
    for request in (SearchRequest(), SearchRequest(words=True)):
        with pytest.raises(UserError, match="too many tokens"):
            translator.run(["tengo 12."], request)


def test_a_prefix_may_have_brackets_inside_of_a_remark(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer)
    [segment] = translator.segmenter.segment("Ana (mi hermana) y (la ana).").segments
    begun = translator.pipeline.begin_with(segment, "Ana (my sis (x)) an")
    assert show_spans(begun.prefix.full_text, begun.target_spans) == "Ana (my sis (x)) an"


def test_a_bracket_ends_the_word_before_it(tokenizer: Tokenizer) -> None:
    translator, _ = translator_of(tokenizer)
    [segment] = translator.segmenter.segment("Ana (no) y yo.").segments
    assert segment.brackets.tags
    assert translator.pipeline.begin_with(segment, "Ana (").prefix.ends_word
    [segment] = translator.segmenter.segment(REMARK).segments
    begun = translator.pipeline.begin_with(segment, "Ana (my ")
    assert enter_remark(begun)[1].prefix.ends_word


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "ANA (HERMANA) Y YO.", "ANA (SISTER) AND I."),
        ("de", "Ana (la ana) y yo.", "Ana (The ana) and I."),
    ],
)
def test_remarks_and_letter_case(
    tokenizer: Tokenizer, language: str, text: str, expected: str
) -> None:
    translator, _ = translator_of(tokenizer, translate_words, languages=("es", language))
    assert translator.translate([text]) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Ana (la ana. mi hermana) y yo.",  # the end of a remark
        "no 3 no 4 no 5 no 6 no.",  # a part of a sentence that is too long
        "Hoy Hace Mucho Frío",  # a title
    ],
)
def test_fragments_get_no_full_stop(tokenizer: Tokenizer, text: str) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text.rstrip(".") + ".")
    assert translator.translate([text]) == [text]


@pytest.mark.parametrize(
    ("source", "prefix", "output", "expected"),
    [
        ("no sé...", "no", "", "no"),
        ("hasta el 5 de mayo.", "until the May 5", "no.", "until the May 5 no."),
        ("no... sé", "bueno,", "no sé", "bueno, no sé"),
        ("12 me gusta", "gusta me", "no", "gusta me 12 no"),
    ],
)
@pytest.mark.parametrize("kind", [Rewriting, Unaligned])
def test_a_prefix_stays_as_it_is(
    tokenizer: Tokenizer,
    source: str,
    prefix: str,
    output: str,
    expected: str,
    kind: type[Rewriting],
) -> None:
    translator, _ = translator_of(tokenizer, lambda _: output, kind, words=SourceWords({"no": 9}))
    [translation] = translator.translate([source], prefix=prefix)
    assert translation.startswith(prefix)
    if kind is Rewriting:
        assert translation == expected


def test_words_that_are_not_common_keep_a_capital_inside_of_a_sentence(
    tokenizer: Tokenizer,
) -> None:
    translator, _ = translator_of(tokenizer, lambda text: text[:1].upper() + text[1:])
    glossary = Glossary([Term("libro", "N")], ("es", "en"))
    request = SearchRequest(glossary=glossary, forces_terms=False)
    for text, expected in (
        ("Hay 3, 4 y 5, xkqz 6.", "Hay 3, 4 y 5, Xkqz 6."),
        ("Hay 3, 4 y 5, no y 6.", "Hay 3, 4 y 5, no y 6."),
    ):
        [[translation]] = translator.run([text], request)
        assert translation.text == expected
