"""Words, punctuation and tokens: nothing is lost between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.cleaning import clean_text
from nmt.text.words import assign_to_words, find_words, join_words, merge_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Sí.", ["Sí", "."]),
        ("¿Qué hora es?", ["¿", "Qué", "hora", "es", "?"]),
        ("It's 8:30, isn't it?!", ["It's", "8:30", ",", "isn't", "it", "?", "!"]),
        ("a well-known e-mail-", ["a", "well-known", "e-mail", "-"]),
        ("1,000.5 € (U.S.)", ["1,000.5", "€", "(", "U.S", ".", ")"]),
        ("“Ven”... dijo—él", ["“", "Ven", "”", "...", "dijo", "—", "él"]),
        ("'tis dogs' o'clock", ["'", "tis", "dogs", "'", "o'clock"]),
        ("¡¡No!!", ["¡", "¡", "No", "!", "!"]),
        ("क्षत्रिय می‌خواهم", ["क्षत्रिय", "می‌خواهم"]),
        ("会议14:30开始。", [*"会议", "14:30", *"开始。"]),
        ("トムはテレビを3時に見ます", ["トム", "は", "テレビ", "を", "3", *"時に見ます"]),
        ("น้ำดื่ม OK", ["น้", "ำ", "ดื่", "ม", "OK"]),  # vowel signs belong to their letter
        ("👍🏽!", ["👍🏽", "!"]),
        ("Te quiero ❤️👩‍💻.", ["Te", "quiero", "❤️", "👩‍💻", "."]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert [text[begin:end] for begin, end in find_words(text)] == words


@given(st.text(max_size=60))
def test_words_are_the_text_without_its_white_space(text: str) -> None:
    text = clean_text(text)
    spans = find_words(text)
    assert "".join(text[begin:end] for begin, end in spans) == text.replace(" ", "")
    assert all(end > begin for begin, end in spans)
    assert not any(" " in text[begin:end] for begin, end in spans)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("¿ Qué hora es ?", "¿Qué hora es?"),
        ("I don't know , Ana .", "I don't know, Ana."),
        ('He said : " Come ! "', 'He said: "Come!"'),
        ("« Ven » ( hoy ) ...", "«Ven» (hoy)..."),
        ("It costs 5 % – or less .", "It costs 5% – or less."),
        ("¡ No !", "¡No!"),
        ("هل أنت جائع ؟", "هل أنت جائع؟"),
        ("他 买 了 面包 、 API 。", "他买了面包、API。"),
    ],
)
def test_words_are_written_as_people_write(words: str, expected: str) -> None:
    text, spans = join_words(words.split())
    assert text == expected
    assert [text[begin:end] for begin, end in spans] == words.split()


# "¡Hola, Ana!": a word of two tokens, a token that straddles a word and its comma.
TEXT = "¡Hola, Ana!"
WORDS = [(0, 1), (1, 5), (5, 6), (7, 10), (10, 11)]


def test_pieces_are_shared_out_by_characters() -> None:
    assert find_words(TEXT) == WORDS
    tokens = [(0, 0), (0, 3), (3, 6), (6, 7), (7, 11)]  # "▁" "¡Ho" "la," "▁" "Ana!"
    third, quarter = 1 / 3, 1 / 4
    expected = [
        [1, 0, 0, 0, 0],  # no characters: the word where it stands
        [third, 2 * third, 0, 0, 0],
        [0, 2 * third, third, 0, 0],
        [0, 0, 0, 1, 0],  # a space: the word after it
        [0, 0, 0, 3 * quarter, quarter],
    ]
    np.testing.assert_allclose(assign_to_words(tokens, WORDS), expected)


def test_a_space_goes_with_the_word_behind_it() -> None:
    shares = assign_to_words([(0, 2), (2, 5)], [(0, 2), (3, 5)])  # "no" "▁va"
    np.testing.assert_allclose(shares, np.eye(2))


def test_the_bytes_of_a_character_are_all_of_its_word() -> None:
    shares = assign_to_words([(0, 0), (0, 1), (0, 1), (0, 1), (1, 3)], [(0, 1), (2, 3)])
    np.testing.assert_allclose(shares, [[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]])


def test_words_of_one_span_are_merged() -> None:
    text = "ve a {x.y} o 5 km, no"
    words = find_words(text)
    spans = [(text.index(span), text.index(span) + len(span)) for span in ("{x.y}", "5 km")]
    merged = [text[begin:end] for begin, end in merge_words(words, spans)]
    assert merged == ["ve", "a", "{x.y}", "o", "5 km", ",", "no"]
    assert merge_words(words, []) == words
    assert merge_words([(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 3)]) == [(0, 1), (1, 3)]
