"""How sentences are normalized for a tokenizer, and where its tokens are in them."""

from __future__ import annotations

import pytest
from conftest import corpus_lines
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.inference.normalization import Normalizer
from nmt.inference.segmenting import Segmenter
from nmt.text.abbreviations import Replacement
from nmt.text.cleaning import clean_text
from nmt.text.source_words import SourceWords
from nmt.text.spans import SLOTS

A, B = SLOTS[:2]
SIGNS = "“”«»—–…;’‘"


def train(*more: str) -> Tokenizer:
    """Return a tokenizer with slots, whose corpus has some other texts, too."""
    lines = corpus_lines(300)
    texts = [clean_text(side) for line in lines for side in line.split("\t")[:2]]
    texts = ["".join(sign for sign in text if sign not in SIGNS) for text in texts]
    return train_tokenizer(
        TokenizerConfig("unigram", 500, 0, 0.9998, True, 3),
        [*texts, *["a-b...\"'," * 3], *more],
        str,
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Without the typographic signs."""
    return train()


@pytest.fixture(scope="module")
def typographic() -> Tokenizer:
    """With all of them."""
    return train(*[f"a{sign}b {sign} c" for sign in SIGNS] * 20)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("Tom – mi hermano – vive aquí.", "Tom, mi hermano, vive aquí."),
        ("Dijo: “No lo sé”.", 'Dijo: "No lo sé".'),
        ("l’eau; «ella»…", 'l\'eau, "ella".'),
        ("Bueno… no sé", "Bueno, no sé"),
        ("Bueno… Ana", "Bueno... Ana"),
        ("Bueno… Łukasz", "Bueno... Łukasz"),
        ("2015–2020", "2015-2020"),
        ("Hoy hace frío.", "Hoy hace frío."),
        (f"La {A}casa{B} es {A}.", f"La {A} casa {B} es {A}."),
        (f"我{A}是{B}", f"我{A}是{B}"),
        ("La cas\u0338a म\u0338.", "La casa म\u0338."),  # marks that no piece has
        ("", ""),
    ],
)
def test_a_tokenizer_reads_signs_that_it_knows(
    tokenizer: Tokenizer, text: str, normalized: str
) -> None:
    assert Normalizer(tokenizer).normalize(text).text == normalized


def test_known_signs_stay(typographic: Tokenizer) -> None:
    text = "Tom – mi “hermano” – vive… en l’«eau»; sí"
    assert Normalizer(typographic).normalize(text).text == text


@given(st.lists(st.sampled_from([*"aB 1.…–“’;é我", " – ", A, B, "… "]), max_size=20).map("".join))
def test_every_character_has_its_origin(tokenizer: Tokenizer, text: str) -> None:
    normalized, origins = Normalizer(tokenizer).normalize(text)
    assert len(normalized) == len(origins)
    assert list(origins) == sorted(origins)
    for sign, origin in zip(normalized, origins, strict=True):
        assert sign == text[origin] or sign in "\"'-., "
    kept = {
        origin for sign, origin in zip(normalized, origins, strict=True) if sign == text[origin]
    }
    changed = {at for at in range(len(text)) if at not in kept}
    assert all(text[at] in f"{SIGNS}. " for at in changed)


def test_tokens_are_characters_of_the_text_itself(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63, language="es")
    text = "Hola… la <b>casa</b> – sí – es “grande”."
    [segment] = segmenter.segment(text).segments
    assert segment.full_text == text
    normalized = f'Hola, la {A} casa {B}, sí, es "grande".'
    assert segment.ids.tolist() == tokenizer.encode([normalized])[0].tolist()
    spans = segment.find_tokens(tokenizer)
    assert len(spans) == len(segment.ids)
    covered = {at for begin, end in spans for at in range(begin, end)}
    letters = {at for at, sign in enumerate(segment.text) if sign.isalnum() or sign in SLOTS}
    assert letters <= covered
    for (begin, end), piece in zip(spans, tokenizer.pieces(segment.ids), strict=True):
        word = piece.strip("▁")
        assert not word.isalnum() or segment.text[begin:end].strip(f"{SIGNS} ").lower() == word


COMMON = dict.fromkeys(["bueno", "no", "sé", "señor", "número"], 100)
FEW = {"—": 1}
LEARNED = {"…": 2000, ":": 2000, "—": 2000}


@pytest.mark.parametrize(
    ("text", "normalized", "if_learned"),
    [
        ("Bueno... no sé", "Bueno, no sé", "Bueno... no sé"),
        ("Bueno... Ana", "Bueno... Ana", "Bueno... Ana"),
        ("Bueno...¿no? .... no", "Bueno, ¿no?.... no", "Bueno...¿no?.... no"),
        ("No sé...", "No sé.", "No sé..."),
        ("No sé:", "No sé", "No sé:"),
        ("No sé :", "No sé", "No sé:"),
        ("¿ No , sé ? ¡ No !", "¿No, sé? ¡No!", "¿No, sé? ¡No!"),
        ("No !!! Sé .", "No!!! Sé.", "No!!! Sé."),
        ("No sé !!!", "No sé!", "No sé!"),
        ("Bueno ... no sé", "Bueno, no sé", "Bueno... no sé"),
        ("El .NET, no :) sé", "El .NET, no :) sé", "El .NET, no :) sé"),
        ("Señor/a, bueno/no", "Señor, bueno o no", "Señor, bueno o no"),
        ("No sé;", "No sé", "No sé"),
        ("¡Hola Sr. Bueno... no!", "¡Hola, señor Bueno, no!", "¡Hola, señor Bueno... no!"),
        ("¡¡No sé!!!", "¡No sé!", "¡No sé!"),
        ("¡¿No sé?!", "¿No sé?", "¿No sé?"),
        ("Sr. Bueno, n.º 1:", "Señor Bueno, número 1", "Señor Bueno, número 1:"),
        (f"Sr. {A}, n.º{B}", f"Señor {A}, número {B}", f"Señor {A}, número {B}"),
        ("Sr. Bueno...", "Señor Bueno.", "Señor Bueno..."),
        ("No, Sr...", "No, señor.", "No, señor..."),
        ("...", "...", "..."),
        (f"Bueno... {A}…{B}", f"Bueno, {A}, {B}", f"Bueno... {A}...{B}"),
        ("Bueno... —no —sé", "Bueno, no, sé", "Bueno... -no -sé"),
        ("No sé..., no…; bueno", "No sé, no, bueno", "No sé..., no..., bueno"),
        ("No – dijo – bueno.", "No, dijo, bueno.", "No - dijo - bueno."),
        ("No —dijo ella—. Sé.", "No, dijo ella. Sé.", "No -dijo ella-. Sé."),
        ("Tom —el bueno— no sé", "Tom, el bueno, no sé", "Tom -el bueno- no sé"),
        ("¡No! —dijo— ¿bueno?", "¡No! dijo, ¿bueno?", "¡No! -dijo- ¿bueno?"),
        ("bueno - no, 1 - 2, a-b -b", "bueno, no, 1 - 2, a-b -b", "bueno - no, 1 - 2, a-b -b"),
        ("no - a, a - b", "no, a, a - b", "no - a, a - b"),
        (f"{A} - no - {B}", f"{A}, no, {B}", f"{A} - no - {B}"),
        ("No -dijo Ana-. Sé.", "No, dijo Ana. Sé.", "No -dijo Ana-. Sé."),
        ("¿No?... —dijo ella.", "¿No? dijo ella.", "¿No?... -dijo ella."),
        ("No es O-. No", "No es O-. No", "No es O-. No"),
        ("No ,bueno  !sé ;y no", "No, bueno! sé, y no", "No, bueno! sé, y no"),
        (f"No ,{A} ,5", f"No, {A} ,5", f"No, {A} ,5"),
        ("No,bueno!sé;no", "No, bueno! sé, no", "No, bueno! sé, no"),
        ("a,b 3,4", "a,b 3,4", "a,b 3,4"),
        ("Bueno... ...no sé", "Bueno, no sé", "Bueno... ...no sé"),
        (f"No —dijo {A}—. {B}... y no", f"No, dijo {A}. {B}, y no", f"No -dijo {A}-. {B}... y no"),
    ],
)
def test_marks_and_abbreviations_that_training_hardly_has(
    tokenizer: Tokenizer, text: str, normalized: str, if_learned: str
) -> None:
    assert Normalizer(tokenizer, "es", SourceWords(COMMON, FEW)).normalize(text).text == normalized
    assert (
        Normalizer(tokenizer, "es", SourceWords(COMMON, LEARNED)).normalize(text).text == if_learned
    )


@pytest.mark.parametrize(
    ("text", "ellipses"),
    [
        ("No, bueno... no… sé", {1: "...", 2: "…"}),
        ("Bueno ... ...no —dijo—, 1... no", {0: " ... ...", 3: "..."}),
        ("No sé... Ana...", {}),
        ("Bueno..., no… —no sé", {0: "...,", 1: "…"}),
    ],
)
def test_ellipses_that_become_commas_are_found(
    tokenizer: Tokenizer, text: str, ellipses: dict[int, str]
) -> None:
    assert (
        Normalizer(tokenizer, "es", SourceWords(COMMON)).normalize(text).find_ellipses(text)
        == ellipses
    )


def test_greetings_stay_where_words_are_not_known(tokenizer: Tokenizer) -> None:
    assert Normalizer(tokenizer, "es").normalize("Hola Ana").text == "Hola Ana"


def test_french_has_spaces_before_marks(tokenizer: Tokenizer) -> None:
    text = "Bueno ! No : no sé ?"
    assert Normalizer(tokenizer, "fr-CA", SourceWords(COMMON)).normalize(text).text == text
    assert Normalizer(tokenizer, "fr").normalize("Bueno !no").text == "Bueno ! no"
    assert Normalizer(tokenizer, "und").normalize(text).text == "Bueno! No: no sé?"


@given(
    st.lists(
        st.sampled_from(["Sr. ", "n.º", "...", "a", " ", ":", A, "! ", "…", "¿", "no/sé"]),
        max_size=9,
    )
)
def test_replaced_words_and_marks_have_origins_in_order(
    tokenizer: Tokenizer, parts: list[str]
) -> None:
    text = "".join(parts)
    normalized, origins = Normalizer(tokenizer, "es", SourceWords(COMMON)).normalize(text)
    assert len(normalized) == len(origins)
    assert list(origins) == sorted(origins)
    assert all(0 <= origin < len(text) for origin in origins)
    assert [sign for sign in normalized if sign in SLOTS] == [
        sign for sign in text if sign in SLOTS
    ]


def test_tokens_of_words_are_characters_of_their_abbreviation(tokenizer: Tokenizer) -> None:
    segmenter = Segmenter(tokenizer, 63, language="es", words=SourceWords(COMMON))
    [segment] = segmenter.segment("El sr. Bueno:").segments
    assert segment.ids.tolist() == tokenizer.encode(["El señor Bueno"])[0].tolist()
    pieces = "".join(tokenizer.pieces(segment.ids))
    begins = [begin for begin, _ in segment.find_tokens(tokenizer)]
    assert pieces == "▁El▁señor▁Bueno" or pieces == "▁el▁señor▁bueno"
    assert {begin for begin in begins if 3 <= begin < 6} != set()
    assert max(end for _, end in segment.find_tokens(tokenizer)) == len("El sr. Bueno")


def test_the_short_forms_of_a_text_are_searched_once(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    normalizer = Normalizer(tokenizer, "es", SourceWords({"hora": 50, "horas": 50, "min": 50}))
    text = "5 h, 7 l, 3 min, 2 g"
    searched: list[str] = []
    find_short_forms = normalizer.find_short_forms

    def record(text: str) -> list[Replacement]:
        searched.append(text)
        return find_short_forms(text)

    monkeypatch.setattr(normalizer, "find_short_forms", record)
    is_word = normalizer.make_word_test(text)
    assert searched == []
    found = [
        word
        for word in text.replace(",", "").split()
        if is_word(text.index(word), text.index(word) + len(word))
    ]
    assert found == ["h", "min"]
    assert searched == [text]
