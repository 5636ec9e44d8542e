"""Texts of another language than the run's are not translated without a warning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nmt.inference import rare_words
from nmt.inference.rare_words import RareWords
from nmt.text.source_words import SourceWords

KNOWN = "el gato duerme en la mesa".split()
WORDS = SourceWords({f"w{number}": 5 for number in range(1000)} | dict.fromkeys(KNOWN, 50))
ENGLISH = "The cat sleeps on the table."


def make(words: SourceWords | None = WORDS, language: str = "es-MX") -> RareWords:
    segmenter: Any = SimpleNamespace(words=words, language=language)
    return RareWords(segmenter)


def read_warning(counted: RareWords, capsys: pytest.CaptureFixture[str]) -> str:
    counted.warn()
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_texts_of_another_language_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    counted = make()
    chunks = [["El gato duerme."], [ENGLISH, "EN LA MESA"]]
    assert list(counted.watch(chunks)) == chunks
    assert (counted.rare, counted.total) == (6, 12)
    assert read_warning(counted, capsys) == (
        "warning: 6 of 12 words hardly occur in the training sources: is the text in the run's "
        "source language, Spanish (es)?\n"
    )
    counted.add(["gato"])  # fewer than half are rare now
    assert read_warning(counted, capsys) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Heidi Schmidt Wu",  # three words may be names
        "https://example.com/here/they/wrote/something",
        "El gato de Heidi duerme en la mesa de Wu Schmidt.",
    ],
)
def test_other_texts_are_not(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    counted = make()
    counted.add([text])
    assert read_warning(counted, capsys) == ""


def test_occurrences_of_words_outside_of_kept_spans_are_counted() -> None:
    counted = make(SourceWords({**WORDS.counts, "casa": 3, "the": 2}))
    counted.add(["La CASA y the house: https://example.com/the", "12, 3!", "كتاب جديد the"])
    assert (counted.rare, counted.total) == (4, 6)


@pytest.mark.parametrize("words", [None, SourceWords({"casa": 3})])
def test_without_enough_words_nothing_is_counted(
    words: SourceWords | None, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = make(words)
    assert list(counted.watch([[ENGLISH]])) == [[ENGLISH]]
    assert counted.total == 0
    assert read_warning(counted, capsys) == ""


def test_an_unknown_language_is_not_named(capsys: pytest.CaptureFixture[str]) -> None:
    counted = make(language="und")
    counted.add([ENGLISH])
    assert read_warning(counted, capsys).endswith("the run's source language?\n")


def test_a_large_file_is_counted_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rare_words, "_ENOUGH", 10)
    counted = make()
    counted.add([ENGLISH] * 5)
    assert counted.total == 12
