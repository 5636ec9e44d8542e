"""Sentences before a text: which are remembered, and how a context is separated from its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.context import (
    CONTEXT_MARK,
    MAX_CHARACTERS,
    NO_CONTEXT,
    PreviousSentences,
    add_context,
    add_contexts,
    remove_context,
    split_context,
    to_context,
)
from nmt.text.spans import SLOTS, find_spans

WORDS = st.lists(st.text("abcñ.", min_size=1, max_size=90), min_size=1, max_size=9).map(" ".join)


@given(WORDS, st.lists(WORDS, max_size=4))
def test_a_context_is_separated_from_its_text(text: str, previous: list[str]) -> None:
    extended = add_context(text, previous)
    context, sentence = split_context(extended)
    assert context + sentence == extended
    assert sentence == text
    assert len(context) <= MAX_CHARACTERS
    assert remove_context(extended) == text


def test_the_space_that_a_text_begins_with_stays() -> None:
    extended = add_context("  fin", ["Ana ríe."])
    assert split_context(extended) == (f"Ana ríe. {CONTEXT_MARK} ", "  fin")


def test_of_a_long_context_the_end_stays_in_whole_words() -> None:
    words = [f"palabra{number}" for number in range(60)]
    context, _ = split_context(add_context("fin", [" ".join(words)]))
    kept = context.removesuffix(f" {CONTEXT_MARK} ").split(" ")
    assert 10 < len(kept) < 60
    assert kept == words[-len(kept) :]


def test_of_a_long_context_no_mark_stays_without_its_sentence() -> None:
    spaceless = "好" * MAX_CHARACTERS + "。"
    context, _ = split_context(add_context("你好。", [spaceless]))
    assert context == f"{spaceless} {CONTEXT_MARK} "[-MAX_CHARACTERS:]
    word, short = "x" * MAX_CHARACTERS, "Ana ríe."
    assert split_context(add_context("fin", [word]))[0] == ""
    assert split_context(add_context("fin", [word, short]))[0] == f"{short} {CONTEXT_MARK} "


def test_the_configured_number_of_sentences_is_remembered() -> None:
    lines = ["Ana vino. Luis no.", "Ella ríe.", "Él llora."]
    contexts = [split_context(line)[0] for line in add_contexts(lines, PreviousSentences(2, "es"))]
    assert contexts == [
        "",
        f"Ana vino. {CONTEXT_MARK} Luis no. {CONTEXT_MARK} ",
        f"Luis no. {CONTEXT_MARK} Ella ríe. {CONTEXT_MARK} ",
    ]


def test_a_mark_of_the_text_itself_hides_nothing() -> None:
    lines = ["Uno.", f"Mi {CONTEXT_MARK} casa."]
    assert list(add_contexts(lines, PreviousSentences(1, "es"))) == [
        "Uno.",
        f"Uno. {CONTEXT_MARK} Mi   casa.",
    ]


def test_an_empty_line_begins_another_document() -> None:
    lines = ["Uno.", "Dos.", " ", "Tres.", "Cuatro."]
    texts = list(add_contexts(lines, PreviousSentences(1, "es")))
    assert [CONTEXT_MARK in text for text in texts] == [False, True, False, False, True]
    assert texts[2] == " "


def test_without_contexts_texts_stay_as_they_are() -> None:
    lines = ["Uno.", "", "Dos."]
    assert list(add_contexts(lines, NO_CONTEXT)) == lines


@pytest.mark.parametrize("mark", [CONTEXT_MARK, SLOTS[0], "\uf000"])
def test_a_context_has_no_private_characters_of_its_own(mark: str) -> None:
    assert to_context(f" Uno {mark}  dos\n") == "Uno dos"


def test_the_mark_in_a_text_of_a_user_is_a_kept_span() -> None:
    assert list(find_spans(f"a {CONTEXT_MARK} b")) == [(2, 3)]


def test_a_tag_before_a_context_stays() -> None:
    extended = "<2en> " + add_context("Ella ríe.", ["Ana vino."])
    assert remove_context(extended, ["<2fr>", "<2en>"]) == "<2en> Ella ríe."
    assert remove_context(extended) == "Ella ríe."
    assert remove_context("<2en> Ella ríe.", ["<2en>"]) == "<2en> Ella ríe."
