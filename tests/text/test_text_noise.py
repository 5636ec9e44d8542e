"""Changed pairs still belong together, and only what a kind of change is for is different."""

from __future__ import annotations

import random
import re
from collections import Counter
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.noise import (
    TextNoise,
    change_case,
    change_punctuation,
    make_typo,
    remove_accents,
)
from nmt.text.spans import ANY_SLOT, SLOTS

SENTENCE = "¿Dónde está el niño, pues? ¡Ven, Ana!"
seeds = st.integers(0, 2**32)


def make_rngs(count: int = 200) -> list[random.Random]:
    return [random.Random(seed) for seed in range(count)]


@given(st.text(), seeds)
def test_no_accent_is_left_and_nothing_else_changes(text: str, seed: int) -> None:
    bare = remove_accents(text, random.Random(seed))
    kept = re.sub("(?<![иИ])[\u0300-\u036f]", "", normalize("NFD", text))
    assert bare == (text if text.isascii() else normalize("NFC", kept))


def test_accents_of_spanish() -> None:
    assert remove_accents(SENTENCE, random.Random(1)) == "¿Donde esta el nino, pues? ¡Ven, Ana!"


def test_other_scripts_keep_their_vowel_signs() -> None:
    hindi = "हिन्दी में"
    assert remove_accents(hindi, random.Random(1)) == hindi
    assert any(combining(sign) for sign in hindi)
    for text in ("أحبّ آلةً", "がぎぐ パピ", "한국어", "мой Йод", "你饿吗？"):
        assert remove_accents(text, random.Random(1)) == text
    assert remove_accents("её", random.Random(1)) == "ее"


@pytest.mark.parametrize("text", ["今天天气很好。", "彼はテレビを見ています。", "สวัสดีครับ"])
def test_scripts_without_spaces_have_no_typing_errors_of_a_keyboard(text: str) -> None:
    assert {make_typo(text, rng) for rng in make_rngs(50)} == {text}


def test_final_marks_of_other_scripts_are_changed() -> None:
    for text in ("هل أنت جائع؟", "你饿吗？"):
        results = {change_punctuation(text, rng) for rng in make_rngs()}
        assert {text[:-1], text, f"{text}{text[-1]}"} <= results


def test_slots_beside_a_sentence_are_spaced_as_its_script_is() -> None:
    noise = TextNoise(SLOTS, ("en", "zh"))
    pairs = [noise.change("It rains.", "下雨了。", ["spans"], rng) for rng in make_rngs()]
    targets = {re.sub(f"[{SLOTS[0]}-{SLOTS[-1]}]", "#", target) for _, target in pairs}
    assert {"下雨了#。", "下雨了：#。", "#下雨了。"} <= targets
    assert not any(re.search("[^#:] | [^#]", target) for target in targets)  # only between slots
    assert any(" " in source.removeprefix("It rains") for source, _ in pairs)


def test_every_way_of_changing_punctuation_occurs_and_words_stay() -> None:
    results = {change_punctuation("¿Sí, o no?", rng) for rng in make_rngs()}
    assert {"Sí, o no", "Sí, o no?", "Sí o no", "¿Sí, o no??"} <= results
    words = {"".join(sign for sign in result if sign.isalpha()) for result in results}
    assert words == {"Síono"}


@given(seeds)
def test_a_typing_error_is_one_edit_inside_a_word(seed: int) -> None:
    text = "Hoy no tenemos dinero."
    changed = make_typo(text, random.Random(seed))
    before, after = Counter(text), Counter(changed)
    assert (before - after).total() <= 1
    assert (after - before).total() <= 1
    assert changed.startswith("Hoy no ")  # words of fewer than four letters stay
    assert changed.endswith(".")


def test_each_kind_of_typing_error_occurs() -> None:
    results = {make_typo("casa", rng) for rng in make_rngs(500)}
    assert {"acsa", "csa", "ccasa", "xasa"} <= results
    assert make_typo("a el y 12", random.Random(1)) == "a el y 12"


def test_case_changes_letters_only() -> None:
    assert {change_case("Hola, Ana", rng) for rng in make_rngs()} == {
        "HOLA, ANA",
        "Hola, Ana",
        "hola, ana",
    }


def test_titles_are_written_as_people_write_them() -> None:
    text = "it's the 2nd DAY, aujourd’hui «ana»"
    titles = {change_case(text, rng) for rng in make_rngs(20)} - {text.upper(), text.lower()}
    assert titles == {"It's The 2nd Day, Aujourd’hui «Ana»"}


def test_quotes_are_around_both_sides() -> None:
    for rng in make_rngs(50):
        pair = TextNoise((), ("es", "en")).change("Hace frío.", "It's cold.", ["quotes"], rng)
        for text, bare in zip(pair, ("Hace frío.", "It's cold."), strict=True):
            assert text[1:-1] == bare
            assert text[0] + text[-1] in ("«»", '""', "“”")


@given(st.sampled_from(SLOTS), seeds)
def test_slots_are_the_same_on_both_sides_and_occur_once(first: str, seed: int) -> None:
    pairs = [
        ("tengo tres gatos y dos perros.", "I have three cats and two dogs."),
        ("¿dónde está ana?", "Where is Ana?"),
        (f"llueve {first}.", f"It's raining {first}."),
    ]
    noise = TextNoise(SLOTS, ("es", "en"))
    for pair in pairs:
        source, target = noise.change(*pair, ["spans"], random.Random(seed))
        counts = [Counter(sign for sign in text if sign in SLOTS) for text in (source, target)]
        assert counts[0] == counts[1]
        assert counts[0].total() > 0
        assert set(counts[0].values()) == {1}


def test_numbers_in_words_become_slots_where_both_languages_are_known() -> None:
    source, target = "tengo tres gatos", "I have three cats"
    known = [
        TextNoise(SLOTS, ("es", "en")).change(source, target, ["spans"], rng)
        for rng in make_rngs(99)
    ]
    replaced = [text for text, _ in known if "tres" not in text]
    assert 50 < len(replaced) < 99
    for text, other in known:
        assert ("tres" in text) == ("three" in other)
        if "tres" in text:  # between two slots, as between tags
            before, after = text.partition("tres")[::2]
            assert f"{before[-1]}three{after[0]}" in other
            assert {before[-1], after[0]} <= set(SLOTS)
    for rng in make_rngs(20):
        text, other = TextNoise(SLOTS, ("es", "xx")).change(source, target, ["spans"], rng)
        assert "tres" in text
        assert "three" in other


def test_words_between_tags_keep_their_letter_case() -> None:
    noise = TextNoise(SLOTS, ("es", "en"))
    tagged = set()
    for pair in ("Dos.", "Two."), ("ven, mary", "Come, Mary"):
        for rng in make_rngs(50):
            for text in noise.change(*pair, ["spans"], rng):
                tagged.update(re.findall(rf"{ANY_SLOT}(\w+){ANY_SLOT}", text))
    assert tagged == {"Dos", "Two", "mary", "Mary"}


def test_slots_are_numbered_in_the_order_of_the_source() -> None:
    noise = TextNoise(SLOTS, ("es", "en"))
    pair = ("Ana vive con Luis y Marta.", "Ana lives with Luis and Marta.")
    firsts = []
    for rng in make_rngs(300):
        source, _ = noise.change(*pair, ["spans"], rng)
        numbers = [SLOTS.index(sign) for sign in source if sign in SLOTS]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        firsts.append(numbers[0])
    assert 0.7 < firsts.count(0) / len(firsts) < 0.95
    assert set(range(4)) <= set(firsts)


def test_without_slots_spans_are_left_alone() -> None:
    pair = ("Ana tiene tres gatos.", "Ana has three cats.")
    assert TextNoise((), ("es", "en")).change(*pair, ["spans"], random.Random(1)) == pair


@pytest.mark.parametrize("kind", ["accents", "punctuation", "typos", "case"])
def test_the_target_stays(kind: str) -> None:
    for rng in make_rngs(30):
        _, target = TextNoise(SLOTS, ("es", "en")).change(SENTENCE, "Where?", [kind], rng)
        assert target == "Where?"


def test_a_text_of_marks_alone_keeps_them() -> None:
    assert "" not in {change_punctuation("¿?", rng) for rng in make_rngs()}
