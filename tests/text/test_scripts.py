"""Scripts without spaces are told from others, and their texts joined without any."""

from __future__ import annotations

import re

import pytest

from nmt.text.scripts import (
    PLAIN_WORD,
    find_direction,
    has_apostrophe_before_endings,
    has_capital_nouns,
    is_agglutinative,
    is_right_to_left,
    is_spaced_alnum,
    is_unspaced_letter,
    join_lines,
    join_sentences,
    may_change_accents,
    primary_subtag,
    split_accents,
    strip_accents,
)


@pytest.mark.parametrize("tag", ["zh", "zh-Hant-TW", "zh_CN", "ZH"])
def test_the_first_subtag_is_in_lower_case(tag: str) -> None:
    assert primary_subtag(tag) == "zh"


def test_letters_with_marks_of_their_own_are_not_accents() -> None:
    assert strip_accents("ñandú её Йод їжак Ўсё") == "nandu ее Йод їжак Ўсе"
    assert strip_accents(split_accents("и\u0306")) == "й"


@pytest.mark.parametrize(
    ("languages", "bare", "accented"),
    [
        ("es pt-BR fr it ca gl en und spa", True, True),
        ("el ru nl", True, False),
        ("de fi sv hu vi tr pl zh", False, False),
    ],
)
def test_what_accents_tell_apart(languages: str, bare: bool, accented: bool) -> None:
    for language in languages.split():
        assert may_change_accents("νομος", language) is bare
        assert may_change_accents("νομός", language) is accented


def test_languages_with_endings() -> None:
    assert all(map(is_agglutinative, ("tr", "fi", "hu-HU", "eu")))
    assert not any(map(is_agglutinative, ("es", "en", "de", "und")))
    assert has_apostrophe_before_endings("tr-TR")
    assert not any(map(has_apostrophe_before_endings, ("en", "uz", "und")))


@pytest.mark.parametrize("tag", ["ar", "AR-EG", "he", "iw", "fa_IR", "ur", "az-Arab", "ku-arab-IQ"])
def test_languages_from_right_to_left(tag: str) -> None:
    assert is_right_to_left(tag)


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("1. שלום hello", "rtl"),
        ("مرحبا", "rtl"),
        ("hello שלום", "ltr"),
        ("我", "ltr"),
        ("123!", "ltr"),
    ],
)
def test_the_first_letter_with_a_direction_decides(text: str, direction: str) -> None:
    assert find_direction(text) == direction


@pytest.mark.parametrize("tag", ["en", "zh-Hant", "sd-Deva", "az", "ar-Latn-EG", "und"])
def test_languages_from_left_to_right(tag: str) -> None:
    assert not is_right_to_left(tag)


@pytest.mark.parametrize("letter", [*"你々のカーไລខမ", "\U00020000"])
def test_letters_of_scripts_without_spaces(letter: str) -> None:
    assert is_unspaced_letter(letter)
    assert not is_spaced_alnum(letter)


@pytest.mark.parametrize("letter", [*"aß한عйन3"])
def test_letters_and_digits_of_scripts_with_spaces(letter: str) -> None:
    assert not is_unspaced_letter(letter)
    assert is_spaced_alnum(letter)


@pytest.mark.parametrize("character", [*"。、「.!؟ ", ""])
def test_marks_are_no_letters(character: str) -> None:
    assert not is_unspaced_letter(character)
    assert not is_spaced_alnum(character)


@pytest.mark.parametrize(
    ("sentences", "language", "joined"),
    [
        (["你饿吗？", "", "饿。"], "zh", "你饿吗？饿。"),
        (["お元気ですか。", "はい。"], "und", "お元気ですか。はい。"),
        (["كيف حالك؟", "بخير."], "ar", "كيف حالك؟ بخير."),
        (["Hallo.", "Ja."], "und", "Hallo. Ja."),
        ([], "zh", ""),
    ],
)
def test_sentences_are_joined_as_the_language_is_written(
    sentences: list[str], language: str, joined: str
) -> None:
    assert join_sentences(sentences, language) == joined


def test_many_accents_are_read_once() -> None:
    """Were there several ways to read them, a failing match would take time without end."""
    assert not re.fullmatch(PLAIN_WORD, "a" + "\u0301" * 200 + "!")
    assert re.fullmatch(PLAIN_WORD, "a" + "\u0301" * 200)


def test_german_nouns_have_capitals() -> None:
    assert has_capital_nouns("de-AT")
    assert not has_capital_nouns("en")


@pytest.mark.parametrize(
    ("lines", "paragraph"),
    [
        (["Hoy", "", "hace frío."], "Hoy hace frío."),
        (
            ["今日はとても", "いい天気です。", "昨日、", "John", "は来た"],
            "今日はとてもいい天気です。昨日、Johnは来た",
        ),
        (["ผมชื่อสมชาย", "ผมมาจากเชียงใหม่"], "ผมชื่อสมชาย ผมมาจากเชียงใหม่"),  # a space ends a clause
        ([], ""),
    ],
)
def test_lines_become_a_paragraph(lines: list[str], paragraph: str) -> None:
    assert join_lines(lines) == paragraph
