"""Long texts are cut after sentences, clauses or words, and no character is lost."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from unittest.mock import ANY

import numpy as np
import pytest
from conftest import corpus_lines, small_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.errors import UserError
from nmt.inference.joining import place_texts
from nmt.inference.normalization import Normalizer
from nmt.inference.segmenting import Segmenter
from nmt.inference.segments import Segment, copy_segment
from nmt.text.case import LetterCase
from nmt.text.cleaning import clean_input, clean_text
from nmt.text.context import CONTEXT_MARK, PreviousSentences, add_context
from nmt.text.source_words import SourceWords
from nmt.text.spans import SLOTS, is_intact
from nmt.text.terms import Glossary, Term

pytest_plugins = ("random_translator",)


def cut(
    tokenizer: Tokenizer, room: int, text: str, tags: Sequence[str] = (), unit: str = "line"
) -> list[np.ndarray]:
    """Return the ids of the segments of a text."""
    segmenter = Segmenter(tokenizer, room, tags, unit=unit, language="es")
    return [segment.ids for segment in segmenter.segment(text).segments]


def test_a_long_text_is_cut_into_few_parts_with_one_warning(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63, unit="line")
    line = " ".join(["Hoy hace buen tiempo. ¿Vamos a la playa?"] * 625)  # 5,000 words
    gc.collect()  # what earlier tests left open warns when it is found
    with pytest.warns(UserWarning, match="translated in segments") as caught:
        segments, again = (
            [segment.ids for segment in text.segments] for text in segmenter.segment_all([line] * 2)
        )
    assert len(caught) == 1
    assert [list(segment) for segment in again] == [list(segment) for segment in segments]
    assert all(0 < len(segment) <= segmenter.max_tokens for segment in segments)
    assert len(segments) < 1.5 * sum(map(len, segments)) / segmenter.max_tokens
    assert " ".join(tokenizer.decode(segments)) == line


def test_long_texts_are_cut_after_sentences_then_clauses_then_words(tokenizer: Tokenizer) -> None:
    room = len(tokenizer.encode(["No sé si hoy va a llover,"])[0])
    with pytest.warns(UserWarning, match="in segments"):
        segments = cut(
            tokenizer,
            room,
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol; "
            "mañana mañana mañana mañana mañana mañana mañana mañana mañana mañana",
        )
    texts = tokenizer.decode(segments)
    assert all(0 < len(segment) <= room for segment in segments)
    assert (
        " ".join(texts).split()
        == (
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol " + "mañana " * 10
        ).split()
    )
    assert texts[0].startswith("Hoy hace frío.")
    assert any(text.endswith("llover,") for text in texts)
    assert any(text.endswith("sol") for text in texts)  # the tokenizer has no semicolon


@pytest.mark.filterwarnings("ignore:a text of")
def test_where_a_text_is_cut_is_found_in_the_words_that_fit(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = tokenizer.encode, []

    def record(texts: Sequence[str]) -> list[np.ndarray]:
        encoded.extend(texts)
        return encode(texts)

    monkeypatch.setattr(tokenizer, "encode", record)
    parts = cut(tokenizer, 10, "xkqz " * 200)
    assert len(parts) == 100  # of two words each
    assert len(encoded) < 7 * len(parts)


def test_a_word_longer_than_the_room_is_cut_too(tokenizer: Tokenizer) -> None:
    segments = cut(tokenizer, 7, "z" * 50)
    assert max(map(len, segments)) == 7
    assert "".join(tokenizer.decode(segments)) == "z" * 50


@pytest.mark.filterwarnings("ignore:a text of")
def test_what_is_empty_has_no_parts_and_what_fits_has_one(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63)
    assert segmenter.segment(" \u200b\n")[:2] == ((), " \n")
    text = segmenter.segment("  Hoy\u00a0hace frío. ")
    [ids] = [segment.ids for segment in text.segments]
    assert text.spaces == ["  ", " "]
    assert ids.tolist() == tokenizer.encode(["Hoy hace frío."])[0].tolist()
    assert segmenter.segment_whole("Hoy hace frío.").ids.tolist() == ids.tolist()
    with pytest.raises(UserError, match="the sentence is empty"):
        segmenter.segment_whole(" ")
    with pytest.raises(UserError, match="one sentence of at most 63 tokens"):
        segmenter.segment_whole("Hoy hace frío. " * 2)
    with pytest.raises(UserError, match="'12' has no words"):
        segmenter.segment_whole(" 12")


CHARACTER_TOKENS = 3  # of a Chinese character, which the tokenizer spells in bytes


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("mark", [*"。！？｡．؟۔।॥།።፧။។៕։", "。」", "！？", ". ", '." ', "؟ "])
def test_marks_of_many_scripts_end_a_sentence(tokenizer: Tokenizer, mark: str) -> None:
    sentence = f"今天很冷{mark}"
    text = (sentence * 12).strip()
    segments = tokenizer.decode(cut(tokenizer, 40, text))
    assert len(segments) > 1
    assert all(len(segment) % len(sentence) in (0, len(sentence.strip())) for segment in segments)
    assert all(segment.endswith(mark.strip()) for segment in segments)
    assert "".join(segments).replace(" ", "") == text.replace(" ", "")


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("mark", "、，；：､،؛፣፤፥၊")
def test_marks_of_many_scripts_end_a_clause(tokenizer: Tokenizer, mark: str) -> None:
    text = f"今天很冷{mark}" * 12
    segments = tokenizer.decode(cut(tokenizer, 40, text))
    assert len(segments) > 1
    assert all(segment.endswith(mark) for segment in segments)
    assert "".join(segments) == text


@pytest.mark.filterwarnings("ignore:a text of")
def test_numbers_and_names_are_not_cut(tokenizer: Tokenizer) -> None:
    text = "Son las 12:30 y cuesta 3.14, según ejemplo.com y otros. " * 6
    words = {word for segment in cut(tokenizer, 16, text) for word in word_list(tokenizer, segment)}
    assert words == set(text.split())


def word_list(tokenizer: Tokenizer, ids: np.ndarray) -> list[str]:
    return tokenizer.decode([ids])[0].split()


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("room", [4, 5, 6, 7, 16, 17, 18])
def test_no_character_is_cut(tokenizer: Tokenizer, room: int) -> None:
    """Chinese has no spaces, and this tokenizer spells its characters in three bytes each."""
    text = "今天天气很好我们去公园散步" * 4
    segments = cut(tokenizer, room, text)
    assert all(0 < len(segment) <= room for segment in segments)
    decoded = tokenizer.decode(segments)
    assert "".join(decoded) == text
    fitting = (room - 1) // CHARACTER_TOKENS  # and the space before the first one
    assert {len(segment) for segment in decoded[:-1]} == {fitting}


@pytest.mark.filterwarnings("ignore:a text of")
def test_what_belongs_to_a_character_stays_with_it(tokenizer: Tokenizer) -> None:
    letter, joined = "कि", "क\u200dष"  # a letter with its vowel sign; joined letters
    for character in (letter, joined):
        for segment in tokenizer.decode(cut(tokenizer, 40, character * 20)):
            assert segment == character * (len(segment) // len(character))


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_character_of_more_tokens_than_fit_is_cut_all_the_same(tokenizer: Tokenizer) -> None:
    segments = cut(tokenizer, 2, "今天")
    assert [len(segment) for segment in segments] == [2, 2, 2, 2]
    assert tokenizer.decode([np.concatenate(segments[:2])]) == ["今"]


@pytest.mark.parametrize(
    ("segments", "language", "joined"),
    [
        (["Hello.", "World."], "en", "Hello. World."),
        (["你好。", "世界。"], "zh-Hans", "你好。世界。"),
        (["你好", "世界"], "zh_CN", "你好世界"),
        (["これは", "本です。"], "ja", "これは本です。"),
        (["สวัสดี", "ครับ"], "th", "สวัสดี ครับ"),  # it separates clauses
        (["나는", "학생이다."], "ko", "나는 학생이다."),
        (["Zhang: 张", "Wei"], "en", "Zhang: 张 Wei"),
        (["Python", "3.12"], "zh", "Python 3.12"),
        (["你好。", "世界。"], "und", "你好。世界。"),
        (["ສະບາຍດີ", "ຄຣັບ"], "und", "ສະບາຍດີຄຣັບ"),
        (["Hello.", "World."], "und", "Hello. World."),
        (["", "Hello.", "", "World.", ""], "en", "Hello. World."),
        ([], "en", ""),
    ],
)
def test_translations_are_joined_as_the_target_is_written(
    segments: list[str], language: str, joined: str
) -> None:
    assert place_texts(segments, language, [""] * (len(segments) + 1))[0] == joined


@pytest.mark.parametrize(
    ("texts", "spaces", "language", "joined"),
    [
        (["Hello.", "World."], ["\n ", "\n\n", " "], "en", "\n Hello.\n\nWorld. "),
        (["Hello.", "World."], ["", "  ", ""], "en", "Hello.  World."),
        (["Hello.", "World."], ["", "", ""], "en", "Hello. World."),
        (["你好。", "世界。"], ["", " ", ""], "zh", "你好。世界。"),
        (["你好。", "世界。"], ["", "\n", ""], "zh", "你好。\n世界。"),
        (["Hello.", "", "World."], ["", "\n", "\n", ""], "en", "Hello.\n\nWorld."),
        (["Hello.", "", "World."], ["", " ", " ", ""], "en", "Hello. World."),
        ([], [" \n"], "en", " \n"),
        (["你好。", "世界。"], ["“", "” “", "”"], "zh", "“你好。”“世界。”"),  # marks stay
        (["姓名", "年龄"], ["", "      ", ""], "zh", "姓名      年龄"),  # columns
        (["", "Hello."], ["«", "» ", ""], "en", "«» Hello."),
        (["Hello.", "World."], ["“", "”“", "”"], "en", "“Hello.” “World.”"),
        (["Hello.", "World.", "Yes."], ["", "“", "”", ""], "en", "Hello. “World.” Yes."),
    ],
)
def test_white_space_of_the_source_is_kept(
    texts: list[str], spaces: list[str], language: str, joined: str
) -> None:
    text, begins = place_texts(texts, language, spaces)
    assert text == joined
    assert [text[begin:][: len(each)] for each, begin in zip(texts, begins, strict=True)] == texts


def test_a_text_begins_after_the_mark_before_it() -> None:
    assert place_texts(["1", "a"], "en", ["1) ", "\na. ", ""]) == ("1) 1\na. a", [3, 8])


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("unit", ["line", "sentence"])
def test_a_tag_is_repeated_in_every_part(tokenizer: Tokenizer, unit: str) -> None:
    tags = ["<2en>", "<2fr>"]
    text = "Hoy hace frío. ¿Vamos a la playa? " * 6
    segments = cut(tokenizer, 24, f"<2fr> {text}", tags, unit)
    tag = tokenizer.encode(["<2fr>"])[0].tolist()
    assert len(segments) > 1
    assert all(segment[: len(tag)].tolist() == tag for segment in segments)
    assert all(len(segment) <= 24 for segment in segments)
    assert [segment[len(tag) :].tolist() for segment in segments] == [
        segment.tolist() for segment in cut(tokenizer, 24 - len(tag), text, unit=unit)
    ]
    # A short text stays unchanged, and other words are not tags.
    [short] = cut(tokenizer, 24, "\ufeff <2fr>\tSí.", tags, unit)
    assert short.tolist() == tokenizer.encode(["<2fr> Sí."])[0].tolist()
    others = tokenizer.decode(cut(tokenizer, 24, f"<2es> {text}", tags, unit))
    assert sum("<2es>" in segment for segment in others) == 1
    glued = tokenizer.decode(cut(tokenizer, 24, f"<2fr>{text}", tags, unit))
    assert sum("<2fr>" in segment for segment in glued) == 1
    assert Segmenter(tokenizer, 24, tags, unit=unit).segment(" <2fr> \n")[:2] == ((), " ")


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_tag_that_leaves_no_room_is_text(tokenizer: Tokenizer) -> None:
    tag = "<2en>"
    room = len(tokenizer.encode([tag])[0])
    segments = cut(tokenizer, room, f"{tag} Hoy hace frío.", [tag])
    assert all(0 < len(segment) <= room for segment in segments)
    assert "".join(tokenizer.decode(segments)).replace(" ", "") == "<2en>Hoyhacefrío."


@pytest.fixture(scope="module")
def slotted() -> Tokenizer:
    """A tokenizer with three slots, which lower-cases sources."""
    return small_tokenizer(lowercases=True, slots=3)


def test_a_text_is_cut_into_sentences_with_the_white_space_between_them(
    tokenizer: Tokenizer,
) -> None:
    segmenter = Segmenter(tokenizer, 63, language="es")
    text = segmenter.segment("\n Hoy hace   frío.  ¿Vamos?\u00a0Sí.\n\n\u200b\n12\n")
    assert [segment.text for segment in text.segments] == ["Hoy hace frío.", "¿Vamos?", "Sí.", "12"]
    assert text.spaces == ["\n ", "  ", "\u00a0", "\n\n\n", "\n"]
    assert [segment.is_copied for segment in text.segments] == [False, False, False, True]
    line = Segmenter(tokenizer, 63, unit="line").segment("\n Hoy hace frío.\n\n¿Vamos? ")
    assert [segment.text for segment in line.segments] == ["Hoy hace frío. ¿Vamos?"]
    assert line.spaces == ["\n ", " "]


@pytest.mark.parametrize("text", ["12", "😀", "https://a.com/b", "---", "3, 4 y@x.es", "`a b`"])
def test_what_has_no_words_is_copied(tokenizer: Tokenizer, slotted: Tokenizer, text: str) -> None:
    for each in (tokenizer, slotted):
        long = " ".join([text] * 40)
        [segment] = Segmenter(each, 5).segment(long).segments
        assert segment.is_copied
        assert segment.full_text == long
        [longer] = Segmenter(each, 63).segment(f"{text} o más").segments
        assert not longer.is_copied


def test_a_sentence_with_more_kept_spans_than_slots_is_cut(
    tokenizer: Tokenizer, slotted: Tokenizer
) -> None:
    text = "Tengo 3 libros, 4 gatos, 5 perros y 6 más."
    segmented = Segmenter(slotted, 63).segment(text)
    first, second = segmented.segments
    assert first.text == f"Tengo {SLOTS[0]} libros, {SLOTS[1]} gatos,"
    assert second.text == f"{SLOTS[0]} perros y {SLOTS[1]} más."
    assert segmented.spaces == ["", " ", ""]
    assert (first.continues, second.continues) == (True, False)
    assert first.ids.tolist() == slotted.encode([first.text])[0].tolist()
    [plain] = Segmenter(tokenizer, 63).segment(text).segments
    assert plain.spans == ()
    assert plain.text == text


def test_a_tag_is_no_kept_span(slotted: Tokenizer) -> None:
    [segment] = Segmenter(slotted, 63, ["<2en>"]).segment("<2en> Tengo 3 libros.").segments
    assert segment.spans == ("3",)
    assert segment.ids.tolist() == slotted.encode([f"<2en> {segment.text}"])[0].tolist()
    [copied] = Segmenter(slotted, 63, ["<2en>"]).segment("<2en> 12").segments
    assert copied.is_copied
    assert copied.full_text == "12"


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize("room", [4, 9, 20])
def test_a_long_sentence_is_not_cut_inside_of_kept_spans(slotted: Tokenizer, room: int) -> None:
    url = "https://example.com/" + "a/" * 200
    text = f"Mira {url} hoy o `a; b, c d` y ven el 3/4/2026, 12:30 o 15:00 a {url} sin falta"
    segments = Segmenter(slotted, room).segment(text).segments
    assert len(segments) > 1
    assert all(len(segment.ids) <= room for segment in segments)
    spans = [span for segment in segments for span in segment.spans]
    assert spans == [url, "`a; b, c d`", "3/4/2026", "12:30", "15:00", url]
    assert "".join(segment.full_text for segment in segments).replace(" ", "") == text.replace(
        " ", ""
    )
    for segment in segments:
        assert is_intact(segment.text, len(segment.spans))


@pytest.mark.parametrize(
    ("text", "case", "read"),
    [
        (
            "HOY HACE FRÍO EN https://A.com/B.",
            LetterCase.UPPER,
            "Hoy hace frío en https://A.com/B.",
        ),
        (
            "CÓDIGOS A1, B2, C3, D4, E5, F6, G7, H8, I9, J10.",
            LetterCase.UPPER,
            "Códigos A1, B2, C3, D4, E5, F6, G7, H8, I9, J10.",
        ),
        ("Hoy Hace Mucho Frío", LetterCase.TITLE, "Hoy hace mucho frío"),
        ("Hoy hace frío en Osaka.", LetterCase.ORDINARY, "Hoy hace frío en Osaka."),
    ],
)
def test_letter_case_is_recognised_and_rewritten_where_the_model_does_not_lower_it(
    tokenizer: Tokenizer, slotted: Tokenizer, text: str, case: LetterCase, read: str
) -> None:
    [plain] = Segmenter(tokenizer, 63).segment(text).segments
    assert plain.case is case
    assert plain.text == read
    lowered = Segmenter(slotted, 63).segment(text).segments
    assert {part.case for part in lowered} == {case}
    assert " ".join(part.full_text for part in lowered) == text


@pytest.mark.filterwarnings("ignore:a text of")
@pytest.mark.parametrize(
    "text",
    [
        "LA FAMILIA VIVE EN BOGOTÁ, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 PERROS NEGROS.",
        "La Familia Vive En Bogotá Con Mascotas A1, B2, C3, D4 Y 5 Perros",
    ],
)
def test_parts_of_a_sentence_in_capitals_keep_names_and_terms_as_they_are(
    slotted: Tokenizer, text: str
) -> None:
    known = "la familia vive en con mascotas perros negros y"
    words = SourceWords(dict.fromkeys(known.split(), 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    terms = Glossary([Term(each, each) for each in ("negros", "mascotas")], ("es", "en"))
    for each in (segmenter, segmenter.with_glossary(terms)):
        parts = each.segment(text).segments
        assert len(parts) > 1
        spans = [span for part in parts for span in part.spans]
        assert not {"BOGOTÁ", "Bogotá"}.isdisjoint(spans)
        assert all(span in text for span in spans)
    assert not {"NEGROS", "Mascotas"}.isdisjoint(spans)


def test_ligatures_are_read_as_letters(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["el", "fin", "de", "semana"], 50))
    [segment] = Segmenter(slotted, 63, words=words).segment("El ﬁn de semana.").segments
    assert (segment.text, segment.spans) == ("El fin de semana.", ())


def test_unknown_acronyms_by_themselves_are_copied(slotted: Tokenizer) -> None:
    words = SourceWords({"no": 50, "hola": 3, "tv": 2})
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    acronyms = ("PDF", "L-V:", "TV :", "JPG, PNG.", "EUR/USD:")
    for text, is_copied in [
        *((each, True) for each in acronyms),
        *((each, False) for each in ("NO", "HOLA", "PDF, NO")),
    ]:
        [segment] = segmenter.segment(text).segments
        assert (segment.is_copied, segment.full_text) == (is_copied, text if is_copied else ANY)
        assert segment.spans == ((text.rstrip(" :."),) if is_copied else ())
    assert not Segmenter(slotted, 63, language="es").segment("PDF").segments[0].is_copied
    terms = Glossary([Term("PDF", "file")], ("es", "en"))
    assert not segmenter.with_glossary(terms).segment("PDF").segments[0].is_copied


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("S, M, L, XL", ["S, M, L, XL"]),
        ("Elija A, B, C o D.", ["A, B, C", "D"]),
        ("TALLAS: S, M, L", ["S, M, L"]),
        ("Grupos A, B y C ganan", ["A, B", "C"]),
        ("Talla S/M", ["S/M"]),
        ("(vitaminas A, C)", ["A, C"]),
        ("BIEN Y, A VECES, MAL", []),
        ("A, B-C, D.E, F's", []),
    ],
)
def test_letters_of_a_list_are_copied(slotted: Tokenizer, text: str, kept: list[str]) -> None:
    segments = Segmenter(slotted, 63, language="es").segment(text).segments
    assert [span for segment in segments for span in segment.spans] == kept


def test_doubled_initials_that_training_hardly_has_are_kept(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es", words=SourceWords({"de": 50, "uu": 2}))
    for text, spans in (
        ("EE. UU. Y CANADÁ", ("EE. UU.",)),
        ("EE.UU.", ("EE.UU",)),
        ("de EE. UU.", ("EE. UU",)),
        ("de EE. UA.", ("EE", "UA")),
    ):
        assert segmenter.segment(text).segments[0].spans == spans
    for words in ({"ee": 50, "uu": 50}, {"estados": 50, "unidos": 50}):
        known = Segmenter(slotted, 63, language="es", words=SourceWords(words))
        assert known.segment("de EE. UU. y").segments[0].spans == ()
    terms = Glossary([Term("EE. UU.", "US")], ("es", "en"))
    [segment] = segmenter.with_glossary(terms).segment("de EE. UU. y").segments
    assert segment.spans == ()


def test_a_letter_that_is_a_term_is_translated(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es")
    terms = Glossary([Term("B", "bee")], ("es", "en"))
    assert segmenter.segment("Los A, B y C").segments[0].spans == ("A, B", "C")
    assert segmenter.with_glossary(terms).segment("Los A, B y C").segments[0].spans == ("C",)


def test_numbers_of_a_term_are_kept_if_its_target_has_them(slotted: Tokenizer) -> None:
    pairs = [("punto 5", "section 5"), ("no 10", "W"), ("hace 3", "3 or 4"), ("frío 2", "F 2")]
    terms = Glossary([Term(*pair) for pair in pairs], ("es", "en"))
    segmenter = Segmenter(slotted, 63, language="es").with_glossary(terms)
    for text, spans in (
        ("Hoy punto 5 y no 10.", ("5",)),
        ("Hoy hace 3.", ("3",)),
        ("Hoy frío 2 km.", ("2 km",)),  # no term
    ):
        assert segmenter.segment(text).segments[0].spans == spans


def test_the_numbers_of_footnotes_are_kept(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys("hoy hace frío".split(), 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    [segment] = segmenter.segment("Hoy¹ hace frío.²").segments
    assert segment.spans == ("¹", "²")
    assert segmenter.segment("Hoy hace CO₂.").segments[0].spans == ("CO₂",)


def test_names_with_a_bracket_between_them_are_two(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys("vino ayer de aquí".split(), 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words, carries_tags=True)
    [segment] = segmenter.segment("Ayer vino Ana (Marta, 12) de aquí.").segments
    assert segment.brackets.tags
    assert segment.spans == ("Ana", "Marta", "12")
    segmenter = Segmenter(slotted, 63, language="es", target_language="en", carries_tags=True)
    [date] = segmenter.segment('Vino el 5 de "mayo" de 2020.').segments
    assert date.target_spans == ("May 5, 2020",)


def test_a_sentence_after_an_ellipsis_may_begin_with_a_small_letter(tokenizer: Tokenizer) -> None:
    for language, begins_lower in (("en", True), ("de", False), ("und", False)):
        segmenter = Segmenter(tokenizer, 63, language="es", target_language=language)
        [segment] = segmenter.segment("...y no.").segments
        assert segment.begins_lower == begins_lower
        assert not segmenter.segment("Y no.").segments[0].begins_lower


def test_abbreviations_before_names_are_read_as_words(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys("don vive en".split(), 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    [segment] = segmenter.segment("En Xallas vive D. Ramón Xende.").segments
    assert segment.spans == ("Xallas", "Ramón Xende")
    assert " vive don " in segment.normalized_text


def test_names_are_kept_where_their_capitals_are_lost(slotted: Tokenizer) -> None:
    """Without a name's ending in Turkish."""
    words = SourceWords(dict.fromkeys(["hoy", "no"], 50))
    cased = small_tokenizer(lowercases=False, slots=3)
    for tokenizer, language, spans in (
        (slotted, "es", ("Ankara'daki",)),
        (slotted, "tr", ("Ankara",)),
        (cased, "es", ()),
    ):
        segmenter = Segmenter(tokenizer, 63, language=language, words=words)
        assert segmenter.segment("Hoy no Ankara'daki no.").segments[0].spans == spans


def test_terms_and_words_in_capitals_are_not_corrected(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["hoy", "hace", "mucho", "frío"], 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    terms = Glossary([Term("muchp", "X"), Term("hace", "hace")], ("es", "en"))
    for each, text, read in (
        (segmenter, "Hoy hace muchp frio.", "Hoy hace mucho frío."),
        (segmenter, "HOY HACE MUCHP FRIO.", "Hoy hace muchp frío."),
        (segmenter.with_glossary(terms), "Hoy hace muchp frio.", "Hoy hace muchp frío."),
        (segmenter.with_glossary(terms), "HOY HACE FRÍO.", f"Hoy {SLOTS[0]} frío."),
    ):
        assert each.segment(text).segments[0].text == read
    [corrected] = segmenter.segment("Hoy hacee frío 12.").segments
    assert corrected.full_text == "Hoy hace frío 12."


def test_terms_that_stay_are_kept_if_the_model_cannot_read_them(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["hoy", "hace", "frío"], 50))
    terms = Glossary([Term(each, each) for each in ("frío", "hace xkqz")], ("es", "en"))
    segmenter = Segmenter(slotted, 63, language="es", words=words).with_glossary(terms)
    for text, spans in (("Hoy hace frío.", ()), ("Hoy hace xkqz.", ("hace xkqz",))):
        assert segmenter.segment(text).segments[0].spans == spans


def test_german_nouns_do_not_make_a_title(tokenizer: Tokenizer) -> None:
    text = "Alles Gute zum Geburtstag, Mutter!"
    for language, case in (("de", LetterCase.ORDINARY), ("es", LetterCase.TITLE)):
        [segment] = Segmenter(tokenizer, 63, language=language).segment(text).segments
        assert segment.case is case


def test_units_that_are_no_words_are_kept_with_their_numbers(slotted: Tokenizer) -> None:
    words = SourceWords({"metros": 50, "gatos": 50, "pm": 50, "am": 9})
    segmenter = Segmenter(slotted, 63, words=words, language="es", target_language="en")
    for text, spans in (
        ("Pon 200 g de sal y 5cl.", ("200 g", "5cl")),
        ("Está a 5 m de aquí.", ("5",)),  # meters
        ("Sale a las 8 am o 9 pm.", ("8 am", "9")),
        ("Está a 5 km. de aquí.", ("5 km.",)),
        ("Está a 5 km. Ven.", ("5 km",)),
        ("Abre de 8 am – 11 am.", ("8 am – 11 am",)),
        ("Faltan 9 - 12 km. de aquí.", ("9 - 12 km.",)),
        ("Vi 5 gatos y 3 l'eau.", ("5", "3")),
        ("Vi 5gatos y 3qwerty.", ("5", "3qwerty")),
    ):
        [segment, *_] = segmenter.segment(text).segments
        assert segment.spans == spans, text
    terms = Glossary([Term("cc", "cubic centimeters")], ("es", "en"))
    [term] = segmenter.with_glossary(terms).segment("Un motor de 500 cc.").segments
    assert term.spans == ("500",)
    [unknown] = Segmenter(slotted, 63).segment("En 2020 am sur y 5gatos").segments
    assert unknown.spans == ("2020", "5gatos")


def test_options_that_are_no_words_are_kept(slotted: Tokenizer) -> None:
    words = SourceWords({"dijo": 50})
    segmenter = Segmenter(slotted, 63, words=words, language="es", target_language="en")
    [segment] = segmenter.segment("Usa -v o --help, --dijo Ana.").segments
    assert segment.spans[:2] == ("-v", "--help")
    terms = Glossary([Term("help", "ayuda")], ("es", "en"))
    [segment] = segmenter.with_glossary(terms).segment("Usa --help.").segments
    assert "--help" not in segment.spans
    assert segmenter.segment("Usa --help.").segments[0].spans == ("--help",)  # without the terms
    [unknown] = Segmenter(slotted, 63).segment("Usa -v o --help.").segments
    assert unknown.spans == ()


def test_terms_are_no_variables_of_formulas(slotted: Tokenizer) -> None:
    words = SourceWords({"pasa": 50, "hoy": 50})
    segmenter = Segmenter(slotted, 63, words=words, language="es", target_language="en")
    terms = Glossary([Term("TI", "IT")], ("es", "en"))
    for text in ("Pasa TI = QA hoy.", "Pasa TI = QA hoy, 5."):
        assert "TI = QA" in segmenter.segment(text).segments[0].spans
        [segment] = segmenter.with_glossary(terms).segment(text).segments
        assert not any("TI" in span for span in segment.spans), text


def test_numbers_with_a_dash_or_x_between_them_are_one_span(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es", target_language="en")
    for text, spans in (
        ("Abre de 9:00 – 14:00 hoy.", ("9:00 – 14:00",)),
        ("Cuesta 5 - 10 € o 7.", ("5 - 10 €", "7")),
        ("Mide 120 x 60 x 75 cm.", ("120 x 60 x 75 cm",)),
        ("Va de 5 a 10 – no 7.", ("5", "10", "7")),
    ):
        assert segmenter.segment(text).segments[0].spans == spans


def test_dates_with_a_dash_between_them_are_one_span_that_is_translated(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es", target_language="en")
    [segment] = segmenter.segment("Del 5 de mayo de 1990 - 7 de junio de 2000.").segments
    assert segment.spans == ("5 de mayo de 1990 - 7 de junio de 2000",)
    assert segment.target_spans == ("May 5, 1990 - June 7, 2000",)


def test_an_initial_is_no_mark_of_an_item(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es")
    assert segmenter.segment("V. Hugo escribió mucho.").spaces == ["", ""]
    assert segmenter.segment("II. Hugo escribió mucho.").spaces == ["II. ", ""]
    assert segmenter.segment("iv) Hugo escribió mucho.").spaces == ["iv) ", ""]
    assert segmenter.segment("b. Hugo escribió mucho.").spaces == ["b. ", ""]
    assert segmenter.segment("a. m. no.").spaces == ["", ""]
    words = SourceWords({"introducción": 3, "machado": 2, "hugo": 3})
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    assert segmenter.segment("V. Introducción").spaces == ["V. ", ""]
    assert segmenter.segment("V. Machado").spaces == ["", ""]
    assert segmenter.segment("V. Hugo").spaces == ["", ""]


def test_what_follows_a_label_is_a_segment_whose_context_is_the_sentence_before(
    tokenizer: Tokenizer,
) -> None:
    text = "Hoy hace frío. Nota: el sol sale. Ayer no."
    segments = Segmenter(tokenizer, 63, language="es").segment(text).segments
    assert [segment.text for segment in segments] == [
        *("Hoy hace frío.", "Nota:", "el sol sale.", "Ayer no.")
    ]
    [line] = Segmenter(tokenizer, 63, language="es", unit="line").segment(text).segments
    assert line.text == text
    segments = Segmenter(tokenizer, 63, language="es", context=1).segment(text).segments
    read = tokenizer.decode([segment.ids for segment in segments])
    for sentence, before in zip(read[1:], ["Hoy hace frío.", "Hoy hace frío."], strict=False):
        assert sentence.startswith(before)
    assert read[3].startswith("Nota: el sol sale.")


def test_a_letter_that_is_no_word_is_copied(slotted: Tokenizer) -> None:
    segments = Segmenter(slotted, 63, language="es").segment("A\nb\nY\no\nZ\na").segments
    assert [segment.is_copied for segment in segments] == [True, True, False, False, True, True]


def test_a_letter_before_a_colon_is_not_translated(slotted: Tokenizer) -> None:
    segmented = Segmenter(slotted, 63, language="es").segment("A: Hoy no.\nB : sí. C: D")
    assert [segment.text for segment in segmented.segments] == [
        *("A:", "Hoy no.", "B :", "sí.", "C:", "D")
    ]
    assert [segment.is_copied for segment in segmented.segments] == [*[True, False] * 2, True, True]
    [label, _] = Segmenter(slotted, 63, language="es").segment("Y: no.").segments
    assert not label.is_copied


def test_dates_are_kept_spans_that_translations_write_otherwise(
    tokenizer: Tokenizer, slotted: Tokenizer
) -> None:
    text = "Ana vino el 5 de mayo de 2026 con 3-5, 2 de enero."
    segmenter = Segmenter(slotted, 63, language="es", target_language="en")
    [segment] = segmenter.segment(text).segments
    assert segment.spans == ("5 de mayo de 2026", "3-5", "2 de enero")
    assert segment.target_spans == ("May 5, 2026", "3-5", "January 2")
    assert segment.full_text == text
    [alone] = segmenter.segment("5 DE MAYO").segments
    assert alone.is_copied
    assert copy_segment(alone).text == "MAY 5"
    assert segment.begin_with("On May 5, 2026 Ana").prefix.text == f"On {SLOTS[0]} Ana"
    assert segment.begin_with("On May 5").prefix.full_text == "On May 5, 2026"
    for other in (tokenizer, slotted):
        plain, *_ = Segmenter(other, 63, language="es").segment(text).segments
        assert "de mayo de" in plain.text
    segmenter = Segmenter(tokenizer, 63, language="es", target_language="en")
    [plain] = segmenter.segment(text).segments
    assert plain.text == text
    assert not segmenter.segment("5 de mayo").segments[0].is_copied


def test_a_date_with_a_term_is_none(slotted: Tokenizer) -> None:
    text = "La estación 2 de Mayo abre el 3 de enero."
    terms = [Term("2 de Mayo", "2 de Mayo"), Term("enero", "Jan.")]
    segmenter = Segmenter(slotted, 63, language="es", target_language="en")
    [segment] = segmenter.with_glossary(Glossary(terms, ("es", "en"))).segment(text).segments
    assert "3" in segment.spans
    assert all(
        span == written for span, written in zip(segment.spans, segment.target_spans, strict=True)
    )
    [alone] = segmenter.with_glossary(Glossary(terms, ("es", "en"))).segment("2 de mayo").segments
    assert alone.full_text == "2 de mayo"
    assert alone.target_spans == alone.spans


def test_an_abbreviation_in_capitals_does_not_make_a_text_in_capitals(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["estados", "unidos", "departamento"], 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    for text in ("EE. UU.", "EEUU", "EE.UU.: 5", "«EE. UU.»", "5 EEUU"):
        segment, *_ = segmenter.segment(text).segments
        assert segment.case is LetterCase.ORDINARY
        assert "Estados Unidos" in segment.normalized_text
    for text in ("SOY DE EE. UU.", "EE. UU. ES GRANDE", "DEPTO.", "EEUU: DEPARTAMENTO"):
        *_, segment = segmenter.segment(text).segments
        assert segment.case is LetterCase.UPPER


def test_in_capitals_abbreviations_of_messages_are_none(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["también", "pacientes", "con"], 90))
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    for text, is_read in (("con tb", True), ("PACIENTES CON TB", False)):
        [segment] = segmenter.segment(text).segments
        assert ("también" in segment.normalized_text) is is_read


def test_a_number_that_is_a_term_is_translated(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es", target_language="en")
    terms = Glossary([Term("24/7", "around the clock"), Term("9/11", "9/11")], ("es", "en"))
    copied = [segmenter.with_glossary(terms).segment(text).segments[0].is_copied
              for text in ("¡24/7!", "¡9/11!", "¡5/5!")]  # fmt: skip
    assert copied == [False, True, True]


def test_names_without_a_slot_keep_their_capitals(slotted: Tokenizer) -> None:
    names = "XAVIER, YOLANDA, ZOE, WENDY, VICTOR, URSULA, TERESA, SONIA, RAUL, RAMONA"
    words = SourceWords(dict.fromkeys(["la", "casa"], 50))
    segments = Segmenter(slotted, 63, language="es", words=words).segment(names).segments
    assert all(segment.is_copied for segment in segments)
    assert "".join(segment.space + segment.full_text for segment in segments) == names


def test_a_name_that_is_a_word_of_the_language_is_kept_with_a_capital(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["hon", "är", "ute"], 50))
    for language, text, names in (
        ("sv-SE", "hon är ute", ()),
        ("sv-SE", "hon är Ute", ("Ute",)),
        ("es", "hon är ute", ("ute",)),
    ):
        [segment] = Segmenter(slotted, 63, language=language, words=words).segment(text).segments
        assert segment.spans == names


def test_a_list_of_unknown_names_is_not_a_title(slotted: Tokenizer) -> None:
    words = SourceWords(dict.fromkeys(["juan", "carlos", "hoy", "hace", "mucho", "frío"], 500))
    segmenter = Segmenter(slotted, 63, words=words)
    [names] = segmenter.segment("Juan Carlos Tena Ruiz").segments
    assert (names.case, names.spans) == (LetterCase.ORDINARY, ("Tena Ruiz",))
    [unknown] = segmenter.segment("Zubirin Xalkoa Tenaz Ruizek").segments
    assert (unknown.case, unknown.spans) == (LetterCase.ORDINARY, ("Xalkoa Tenaz Ruizek",))
    [title] = segmenter.segment("Hoy Hace Mucho Frío En Kagoshima").segments
    assert (title.case, title.spans) == (LetterCase.TITLE, ())


@settings(max_examples=200, deadline=None)
@given(st.text(), st.sampled_from(["sentence", "line"]))
def test_the_segments_of_any_text_are_the_text(
    tokenizer: Tokenizer, slotted: Tokenizer, text: str, unit: str
) -> None:
    for each in (tokenizer, slotted):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cut_text = Segmenter(each, 12, unit=unit, language="es").segment(text)
        segments = cut_text.segments
        if all(segment.case is LetterCase.ORDINARY for segment in segments):
            parts = [part for segment in segments for part in (segment.space, segment.full_text)]
            shown = clean_text("".join([*parts, cut_text.end]))
            # Cleaned again: marks that meet without the space are put in their normal order.
            first, second = (
                clean_text(each.replace(" ", "")) for each in (shown, clean_input(text))
            )
            assert first == second


@pytest.fixture(scope="module")
def marked() -> Tokenizer:
    """Reserves the mark of contexts and a tag."""
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    config = TokenizerConfig("unigram", 500, 0, 0.9998, True, 3)
    return train_tokenizer(config, texts, str, ["<2en>", CONTEXT_MARK])


def read_by(segmenter: Segmenter, tokenizer: Tokenizer, text: str) -> list[str]:
    """Return what the model reads of a text, segment by segment."""
    return tokenizer.decode([segment.ids for segment in segmenter.segment(text).segments])


@pytest.mark.parametrize("tag", ["", "<2en> "])
def test_a_sentence_is_read_behind_the_sentences_before_it(marked: Tokenizer, tag: str) -> None:
    segmenter = Segmenter(marked, 63, ["<2en>"], language="es", context=1)
    text = tag + add_context("Ella ríe. Luis no.", ["Ana vino.", "Era tarde."])
    assert read_by(segmenter, marked, text) == [
        f"{tag}era tarde. {CONTEXT_MARK} ella ríe.",
        f"{tag}ella ríe. {CONTEXT_MARK} luis no.",
    ]
    for segment, full_text in zip(
        segmenter.segment(text).segments, ["Ella ríe.", "Luis no."], strict=True
    ):
        assert segment.full_text == full_text
        [before] = marked.decode([segment.ids[: segment.context_size]])
        assert before.endswith(CONTEXT_MARK)
        assert marked.decode([segment.sentence_ids]) == [full_text.lower()]


def test_each_line_of_a_document_may_begin_with_the_tag(marked: Tokenizer) -> None:
    segmenter = Segmenter(marked, 63, ["<2en>"], language="es", context=2)
    previous = PreviousSentences(2, "es")
    lines = [previous.add_to(f"<2en> {line}") for line in ("Ana vino.", "Ella ríe.", "Luis no.")]
    assert read_by(segmenter, marked, lines[-1]) == [
        f"<2en> ana vino. {CONTEXT_MARK} ella ríe. {CONTEXT_MARK} luis no."
    ]


def test_contexts_are_cleaned(marked: Tokenizer) -> None:
    segmenter = Segmenter(marked, 63, language="es", context=2)
    text = add_context("Hace  fri\u0301o. Luis no.", ["Ana\u200b  vi\u0301."])
    *_, last = read_by(segmenter, marked, text)
    assert last == f"ana ví. {CONTEXT_MARK} hace frío. {CONTEXT_MARK} luis no."


def test_without_a_context_the_ids_are_those_of_the_sentence(marked: Tokenizer) -> None:
    plain, reading = (Segmenter(marked, 63, language="es", context=count) for count in (0, 1))
    first = reading.segment("Ella ríe. Luis no.").segments[0]
    assert first.ids.tolist() == plain.segment("Ella ríe.").segments[0].ids.tolist()
    assert first.context_size == 0
    # A run without contexts takes the mark for a kept span, as it takes every private character.
    [segment] = plain.segment(f"Ella {CONTEXT_MARK} ríe.").segments
    assert segment.spans == (CONTEXT_MARK,)


def test_a_context_without_room_is_left_out_and_the_sentence_stays_whole(
    marked: Tokenizer,
) -> None:
    sentence = "mañana vamos a la playa con mi hermana"
    room = len(marked.encode([sentence])[0])
    text = add_context(sentence, ["Hoy hace buen tiempo."])
    [whole] = Segmenter(marked, room, language="es", context=1).segment(text).segments
    assert marked.decode([whole.ids]) == [sentence]
    assert whole.context_size == 0
    [extended] = Segmenter(marked, 3 * room, language="es", context=1).segment(text).segments
    assert len(extended.ids) > room


def test_kept_spans_are_those_of_the_sentence(marked: Tokenizer) -> None:
    text = add_context("Son 12.", ["Vino a las 12:30."])
    [segment] = Segmenter(marked, 63, language="es", context=1).segment(text).segments
    assert segment.spans == ("12",)
    assert marked.decode([segment.ids]) == [f"vino a las 12:30. {CONTEXT_MARK} son {SLOTS[0]}."]


def test_texts_of_a_document_are_read_as_one_text_is(marked: Tokenizer) -> None:
    segmenter = Segmenter(marked, 63, language="es", context=2)
    sentences = ["Ana vino.", "Ella ríe.", "¿Qué hora es?", "Tengo 3 libros."]
    previous = PreviousSentences(2, "es")
    by_text = [read_by(segmenter, marked, previous.add_to(each))[0] for each in sentences]
    assert by_text == read_by(segmenter, marked, " ".join(sentences))


def test_elements_are_taken_out_of_a_text(marked: Tokenizer) -> None:
    segmenter = Segmenter(marked, 63, ["<2en>"], language="es", context=1, carries_tags=True)
    text = "<b>Hace</b> frío. ¿Vamos al <i class='x'>mar</i>?"
    segmented = segmenter.segment(text)
    assert [segment.text for segment in segmented.segments] == ["Hace frío.", "¿Vamos al mar?"]
    tags = (("<b>", "</b>"), ("<i class='x'>", "</i>"))
    assert [segment.tags for segment in segmented.segments] == [tags, tags]
    assert segmented.source.text == "Hace frío. ¿Vamos al mar?"
    assert segmented.source.insertions.insert(segmented.source.text) == text
    # Those of the context are left out.
    bare, behind = (
        read_by(segmenter, marked, add_context(text, [before])) for before in ("a", "<b>a</b>")
    )
    assert behind == bare
    # A tag of a language is not one, and its text is the whole one.
    assert segmenter.segment("<2en> <b>Hola</b>").source.text == "<2en> Hola"
    assert segmenter.segment("Hola").source.tags == segmenter.segment("Hola").segments[0].tags == ()


def test_elements_are_spans_of_a_caller_that_does_not_carry_them(slotted: Tokenizer) -> None:
    [segment] = Segmenter(slotted, 63, language="es").segment("<b>Hola</b>").segments
    assert (segment.spans, segment.tags) == (("<b>", "</b>"), ())


def test_without_slots_tags_are_text(tokenizer: Tokenizer) -> None:
    [segment] = Segmenter(tokenizer, 63, carries_tags=True).segment("<b>Hola</b>").segments
    assert (segment.text, segment.tags) == ("<b>Hola</b>", ())


def test_brackets_that_the_model_has_not_learned_are_taken_out() -> None:
    lines = [line.split("\t")[0] for line in corpus_lines(200)] + ['"Hola"'] * 20
    tokenizer = train_tokenizer(TokenizerConfig("unigram", 500, 0, 0.9998, True, 3), lines, str)
    assert Normalizer(tokenizer).has_pieces('"')
    assert not Normalizer(tokenizer).has_pieces("(")

    def read(words: SourceWords | None) -> Segment:
        segmenter = Segmenter(tokenizer, 63, language="es", words=words, carries_tags=True)
        [segment] = segmenter.segment('Hoy (fin) hace "mucho" frío.').segments
        return segment

    counts = dict.fromkeys(("hoy", "fin", "hace", "mucho", "frío"), 50)
    few, many = (read(SourceWords(counts, {'"': count})) for count in (1999, 2000))
    assert few.text == "Hoy fin hace mucho frío."
    assert few.brackets.tags == (("(", ")"), ('"', '"'))
    assert few.needs_words
    assert many.text == 'Hoy fin hace "mucho" frío.'
    assert read(None).brackets.tags == many.brackets.tags == (("(", ")"),)


def test_remarks_are_kept_spans_unless_the_model_has_learned_brackets() -> None:
    lines = [line.split("\t")[0] for line in corpus_lines(200)] + ["(Hola)"] * 20
    tokenizer = train_tokenizer(TokenizerConfig("unigram", 500, 0, 0.9998, True, 3), lines, str)
    text = "Hoy (por fin) hace frío (mucho frío)."

    def read(count: int, *, carries_tags: bool = True) -> Segment:
        words = SourceWords(dict.fromkeys(("hoy", "hace", "frío"), 50), {"(": count})
        options = {"language": "es", "target_language": "en", "carries_tags": carries_tags}
        [segment] = Segmenter(tokenizer, 63, words=words, **options).segment(text).segments
        return segment

    few, many = read(1999), read(2000)
    assert few.text == f"Hoy {SLOTS[0]} hace frío {SLOTS[1]}."
    assert (few.full_text, few.brackets.tags) == (text, ())
    assert [remark.slot for remark in few.remarks] == [0, 1]
    [first] = few.remarks[0].text.segments
    assert (first.text, first.space) == ("por fin", "(")
    assert (first.begins_lower, first.is_fragment) == (True, True)
    assert few.remarks[0].text.end == ")"
    for segment in (many, read(1999, carries_tags=False)):
        assert (segment.remarks, segment.text) == ((), text)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Hoy (Xarmendia) hace frío.", ("Xarmendia",)),
        ("Hoy (Xarmendia y yo) hace frío.", ("Xarmendia",)),
        ("Hoy (yo y Xarmendia) hace frío.", ("(yo y Xarmendia)",)),
        ("Hoy (XRM) hace frío.", ("(XRM)",)),
        ("Hoy (x, y) hace frío.", ("(x, y)",)),
        ("Hoy (Frío) hace.", ("(Frío)",)),
    ],
)
def test_remarks_do_not_begin_with_unknown_names(
    slotted: Tokenizer, text: str, spans: tuple[str, ...]
) -> None:
    words = SourceWords(dict.fromkeys(("hoy", "hace", "frío", "yo", "y"), 50))
    segmenter = Segmenter(slotted, 63, language="es", words=words, carries_tags=True)
    [segment] = segmenter.segment(text).segments
    assert segment.spans == spans
    assert bool(segment.remarks) == (spans[0] in ("(yo y Xarmendia)", "(Frío)"))


def test_apostrophes_are_no_quotation_marks(slotted: Tokenizer) -> None:
    def read(counts: dict[str, int], text: str) -> Segment:
        words = SourceWords(counts)
        segmenter = Segmenter(slotted, 63, language="es", words=words, carries_tags=True)
        return segmenter.segment(text).segments[0]

    counts = {"hoy": 999, "hace": 999, "frío": 999}
    for marks in ("''", "‘’"):
        text = f"Hoy {marks[0]}hace{marks[1]} frío."
        assert read(counts, text).brackets.tags == (tuple(marks),)
        for word in ("don't", "don’t"):
            assert read(counts | {word: 9}, text).brackets.tags == ()


def test_what_is_copied_and_what_is_cut_keep_their_brackets(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 12, unit="line", carries_tags=True)
    [copied] = segmenter.segment("12 (13) 14").segments
    assert (copied.is_copied, copied.full_text, copied.needs_words) == (True, "12 (13) 14", False)
    with pytest.warns(UserWarning, match="in segments"):
        parts = segmenter.segment("Hoy hace (mucho) frío. " * 3).segments
    assert " ".join(part.full_text for part in parts) == " ".join(["Hoy hace (mucho) frío."] * 3)
    assert not any(part.needs_words for part in parts)


def test_signs_that_no_piece_spells_are_kept_spans(slotted: Tokenizer) -> None:
    """Its vocabulary has a full stop, and none of the other signs."""
    segmenter = Segmenter(slotted, 63, language="es")
    [segment] = segmenter.segment("Él/ella hace 3 + §§ frío.").segments
    assert segment.spans == ("/", "3", "+ §§")
    assert segment.full_text == "Él/ella hace 3 + §§ frío."
    [segment] = segmenter.segment("Hoy; mañana no.").segments
    assert segment.spans == (), "a semicolon is read as a comma"
    with_terms = segmenter.with_glossary(Glossary([Term("c++", "C++")], ("es", "en")))
    [segment] = with_terms.segment("Hoy c++ & no.").segments
    assert segment.spans == ("&",)


def test_words_of_other_scripts_are_kept_spans(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es")
    for text, spans in (
        ("Hoy москва no.", ("москва",)),
        ("Hoy 東京 no दिल्ली.", ("東京", "दिल्ली")),
        ("Hoy 東 москва.", ("東 москва",)),
        ("Hoy ЖЖab Жab no.", ("ЖЖab",)),
        ("Hoy x́ w͓ no.", ()),
        ("Hoy hace frío.", ()),
    ):
        [segment] = segmenter.segment(text).segments
        assert (segment.spans, segment.full_text) == (spans, text)
    [segment] = segmenter.segment("我喜欢看东京塔。").segments
    assert segment.is_copied
    [segment] = Segmenter(slotted, 63, language="zh").segment("我喜欢看东京塔。").segments
    assert segment.spans == ()


def test_known_words_and_those_with_few_rare_letters_stay(slotted: Tokenizer) -> None:
    """No piece has ü."""
    words = SourceWords({"ü": 3, "hoy": 90})
    segmenter = Segmenter(slotted, 63, language="es", words=words)
    assert not Normalizer(slotted).can_encode("ü")
    for text, spans in (
        ("Hoy vergüenza.", ()),
        ("Hoy ü.", ()),
        ("Hoy Ü.", ()),
        ("Hoy üü.", ("üü",)),
    ):
        assert segmenter.segment(text).segments[0].spans == spans


def test_symbols_leave_slots_to_other_spans(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, language="es")
    [segment] = segmenter.segment("Hoy & no + 5 = https://a.com/b").segments
    assert segment.spans == ("&", "5", "https://a.com/b")
    [segment] = segmenter.segment("En AT&T, C++ e I+D.").segments
    assert segment.spans == ("AT&T", "C++", "I+D")
    [segment] = segmenter.segment("Hoy EMPRESA&T o T&EMPRESA no.").segments
    assert segment.spans == ("&T", "T&")
    [segment] = segmenter.segment("La vida [...] por a) b) y (…).").segments
    assert segment.spans == ("[...]", "a) b)", "(…)")
    [segment] = segmenter.segment("Hoy 0×A< no.").segments  # A is a part of another span
    assert (segment.spans, segment.full_text) == (("0×A", "<"), "Hoy 0×A< no.")


def test_without_slots_signs_are_text(tokenizer: Tokenizer) -> None:
    assert Segmenter(tokenizer, 63).segment("Hoy § no.").segments[0].spans == ()


def test_brackets_of_sentences_before_are_left_out(marked: Tokenizer) -> None:
    segmenter = Segmenter(marked, 63, language="es", context=1, carries_tags=True)
    expected = read_by(segmenter, marked, "Hace mucho frío. No.")[1]
    for text in ("Hace (mucho) frío. No.", "<b>Hace</b> “mucho” frío. No."):
        assert read_by(segmenter, marked, text)[1] == expected
    whole = read_by(segmenter, marked, add_context("No.", ["Hace (mucho) frío."]))
    assert whole == [expected]


def test_only_elements_inside_of_a_text_need_an_alignment(slotted: Tokenizer) -> None:
    segmenter = Segmenter(slotted, 63, carries_tags=True)
    around, inside = (
        segmenter.segment(text).segments[0] for text in ("<b>Hoy no.</b>", "Hoy <b>no</b>.")
    )
    assert (around.tags, around.needs_words) == ((("<b>", "</b>"),), False)
    assert inside.needs_words


def test_lone_surrogates_of_tags_are_replaced(slotted: Tokenizer) -> None:
    source = Segmenter(slotted, 63, carries_tags=True).segment("<a x='\udcff'>Hoy</a> no.").source
    assert source.tags == (("<a x='?'>", "</a>"),)
