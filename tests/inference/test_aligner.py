"""Alignments made of attention and a lexicon, counted by hand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.tokenizer import EOS
from nmt.inference.alignment import (
    _MIN_ATTENTION,
    _MIN_PROBABILITY,
    Aligner,
    expand_slots,
    map_chars_to_tokens,
    match_characters,
    measure_layers,
    move_spans,
    weigh_words,
)
from nmt.inference.lexicon import Lexicon
from nmt.text.spans import SLOTS


def make_lexicon(entries: dict[tuple[int, int], float], layer: int | None = None) -> Lexicon:
    keys = sorted(entries)
    return Lexicon(
        np.array([source << 32 | target for source, target in keys]),
        np.array([entries[key] for key in keys], np.float32),
        layer,
    )


def test_what_every_position_attends_to_counts_less() -> None:
    """Both words look at EOS most; each has one source word that the other lacks."""
    attention = np.array([[0.4, 0.0, 0.6], [0.0, 0.4, 0.6], [0.0, 0.0, 1.0]])
    weights = Aligner().align(attention, np.array([5, 6]), np.array([7, 8]))
    first, last = 0.4 / 0.4**0.75, 0.6 / 2.2**0.75  # columns sum to 0.4, 0.4, 2.2
    expected = np.array([[first, 0, last], [0, first, last], [0, 0, 1]])
    expected[:2] /= first + last
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert weights[:2].argmax(1).tolist() == [0, 1]
    weights = Aligner().align(np.array([[0.04, 0.96], [0, 1]]), np.array([5]), np.array([7]))
    first, last = 0.04 / 0.04**0.75, 0.96 / 1.96**0.75
    np.testing.assert_allclose(weights[0], np.array([first, last]) / (first + last), atol=1e-6)


def test_a_lexicon_overrules_attention_and_rare_tokens_follow_it() -> None:
    attention = np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.0, 0.0, 1.0]])
    source, target = np.array([5, 6]), np.array([7, 8])
    assert Aligner().align(attention, source, target).argmax(1).tolist() == [0, 0, 2]
    # Token 8 is known, but as the translation of a token that is not there.
    known = make_lexicon({(6, 7): 0.9, (20, 8): 0.9})
    weights = Aligner(known).align(attention, source, target)
    assert weights.argmax(1).tolist() == [1, 0, 2]
    assert weights[0, 1] > 0.9


def test_a_lexicon_weighs_what_is_aligned_without_it() -> None:
    """All positions attend to EOS, and the lexicon has a translation of it."""
    attention = np.array([[0.2, 0.0, 0.8], [0.0, 0.2, 0.8], [0.0, 0.0, 1.0]])
    source, target = np.array([5, 6]), np.array([7, 8])
    known = make_lexicon({(5, 7): 0.3, (EOS, 8): 0.6, (6, EOS): 0.1, (EOS, EOS): 0.9})
    probabilities = np.array([[0.3, 0, 0], [0, 0, 0.6], [0, 0.1, 0.9]])
    expected = Aligner().align(attention, source, target) + _MIN_ATTENTION
    expected *= probabilities + _MIN_PROBABILITY
    expected /= expected.sum(1, keepdims=True)
    weights = Aligner(known).align(attention, source, target)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_rows_sum_to_one(seed: int, rows: int, columns: int, has_lexicon: bool) -> None:
    rng = np.random.default_rng(seed)
    attention = rng.dirichlet(np.full(columns, 0.1), rows)
    attention[:, rng.integers(columns)] = 0
    source, target = rng.integers(4, 9, columns - 1), rng.integers(4, 9, rows - 1)
    lexicon = make_lexicon({(5, 6): 0.5, (6, 6): 1.0}) if has_lexicon else None
    weights = Aligner(lexicon).align(attention, source, target)
    assert weights.shape == (rows, columns)
    assert weights.dtype == np.float32
    assert (weights >= 0).all()
    if has_lexicon or attention.sum(1).min() > 1e-6:
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(("layers", "layer"), [(1, 0), (2, 1), (3, 2), (4, 2), (6, 4)])
def test_the_layer_that_is_read(layers: int, layer: int) -> None:
    assert Aligner().choose_layer(layers) == layer
    assert Aligner(make_lexicon({(5, 6): 1.0})).choose_layer(layers) == layer
    assert Aligner(make_lexicon({(5, 6): 1.0}, layer=0)).choose_layer(layers) == 0


def test_the_layer_that_agrees_with_a_lexicon() -> None:
    right = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    heads = np.stack([np.roll(right, shift, axis=1) for shift in range(3)])
    attention = np.stack([heads[[1, 2]], heads[[0, 0]], heads[[2, 2]]])  # [layers, H, T, S]
    known = make_lexicon({(5, 7): 0.9, (6, 8): 0.9})
    layer = measure_layers([attention] * 2, [np.array([5, 6])] * 2, [np.array([7, 8])] * 2, known)
    assert layer == 1


def test_all_pairs_and_heads_determine_the_layer() -> None:
    """One pair speaks clearly for the second layer, the other one weakly for the first one."""
    right, even = np.eye(3), np.full((3, 3), 1 / 3)
    wrong = np.roll(right, 1, axis=1)
    clear = np.array([[right, wrong, wrong], [wrong, right, right]])  # [layers, H, T, S]
    weak = np.array([[0.1 * right + 0.9 * even] * 3, [even] * 3])
    known = make_lexicon({(5, 7): 0.9, (6, 8): 0.9})
    source, target = [np.array([5, 6])] * 2, [np.array([7, 8])] * 2
    assert measure_layers([weak], source[:1], target[:1], known) == 0
    for attentions in ([clear, weak], [weak, clear]):
        assert measure_layers(attentions, source, target, known) == 1


def test_words_of_several_tokens() -> None:
    """Source words of tokens (0, 1) and 2; target words of token 0 and (1, 2); EOS last."""
    weights = np.array(
        [[0.1, 0.2, 0.6, 0.1], [0.5, 0.1, 0.4, 0.0], [0.0, 0.0, 0.2, 0.8], [0, 0, 0, 1]]
    )
    source = np.array([[1, 0], [1, 0], [0, 1.0]])
    target = np.array([[1, 0], [0, 1], [0, 1.0]])
    expected = [[0.3, 0.6, 0.1], [0.3, 0.3, 0.4]]
    np.testing.assert_allclose(weigh_words(weights, source, target), expected)


class Halves:
    """Tokens are digits: each decodes to two letters, but 0 and 4 to a part of a character.

    A character has two bytes 0, or three bytes 4.
    """

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        parts = "0", "ab ", "cd ", "ef", "4"
        texts = ["".join(parts[i] for i in ids) for ids in sequences]
        for whole, character in (("00", "ñ"), ("444", "€"), ("0", "\ufffd"), ("4", "\ufffd")):
            texts = [text.replace(whole, character) for text in texts]
        return [text.strip() for text in texts]


def test_the_token_of_each_character() -> None:
    tokenizer: Any = Halves()
    assert map_chars_to_tokens(tokenizer, [1, 2, 3]) == ("ab cd ef", [0, 0, 1, 1, 1, 2, 2, 2])
    # The second byte completes the character that the first one began.
    assert map_chars_to_tokens(tokenizer, [1, 0, 0, 2]) == ("ab ñcd", [0, 0, 1, 1, 3, 3])
    assert map_chars_to_tokens(tokenizer, [1, 4, 4, 4]) == ("ab €", [0, 0, 1, 1])
    assert map_chars_to_tokens(tokenizer, []) == ("", [])


@pytest.mark.parametrize(
    ("text", "other", "matched"),
    [
        ("a b", "  A   b", [2, -1, 6]),
        ("ab", "ab", [0, 1]),
        ("a x b", "a b", [0, -1, -1, -1, 2]),  # x was inserted
        ("ab", "<2en> ab", [6, 7]),
        ("fin", "Ya \ufb01n", [3, -1, 4]),
        ("", "a", []),
        ("a", "", [-1]),
        pytest.param("ab" * 90, "x" * 30 + "ab" * 90, [*range(30, 210)], id="frequent-characters"),
    ],
)
def test_characters_of_two_texts(text: str, other: str, matched: list[int]) -> None:
    assert match_characters(text, other) == matched


def test_characters_of_two_long_texts() -> None:
    text = "Él comió pan en la estación. " * 60
    for other in (f"<2en> {text}", unicodedata.normalize("NFD", text), text.replace("pan", "")):
        matched = match_characters(text, other)
        pairs = [(sign, other[at]) for sign, at in zip(text, matched, strict=True) if at >= 0]
        assert all(sign.lower() == match.lower() for sign, match in pairs)
        letters = sum(sign in other and not sign.isspace() for sign in text)
        assert len(pairs) > 0.8 * letters
    # With `SequenceMatcher`, these would take minutes.
    with cpu_seconds(10):
        match_characters("12" * 1000, "1\u200b\u00ad2" * 1000)
        match_characters("a" * 2500, "a\u200b" * 2500)


def test_long_texts_match_again_after_a_difference() -> None:
    """Every character occurs once, but for one that is inserted, too."""
    text, inserted = ("".join(map(chr, range(first, first + 300))) for first in (0x4E00, 0x6000))
    for other in (
        text[:100] + text[140:],
        text[:100] + text[180:],
        text[:-5] + inserted[:20] + text[-5:],
        text[:100] + inserted[:40] + text[100:],
        text[:100] + inserted[:40] + text[101:],
        text[:100] + inserted[:1] + text[140:],
        text[:100] + text[120] + inserted[:30] + text[100:],
        text[:100] + inserted[:1] + text[101:200] + inserted[:2] + text[200:-1],
        inserted[:3] + text + inserted[:1],
    ):
        assert match_characters(text, other) == [other.rfind(sign) for sign in text]


@pytest.mark.parametrize(
    ("matched", "moved", "whole"),
    [
        ([4], (4, 5), (3, 6)),
        ([3, 4, 5], (3, 6), (3, 6)),  # words that touch it are others
        ([-1, 5, 6, -1], (5, 7), (3, 8)),
        ([7, -1, 4], (4, 8), (3, 8)),
        ([8], (8, 9), (8, 9)),  # between words
        ([8, 9], (8, 10), (8, 12)),
        ([0], (0, 1), (0, 2)),
    ],
)
def test_spans_move_with_their_characters_and_cover_whole_words(
    matched: list[int], moved: tuple[int, int], whole: tuple[int, int]
) -> None:
    words = [(0, 2), (3, 6), (6, 8), (9, 12)]
    spans = [(0, len(matched)), (len(matched), len(matched) + 2)]
    assert move_spans(spans, [*matched, -1, -1]) == (moved,), "no character of the other matches"
    assert move_spans(spans, [*matched, -1, -1], words) == (whole,)


def test_slots_become_spans_of_any_length() -> None:
    a, b = SLOTS[:2]
    assert expand_slots(f"x{b}{a}", ["12", "3"]) == ("x312", [0, 1, 2, 2])
    assert expand_slots(f"x{a}", []) == (f"x{a}", [0, 1])
