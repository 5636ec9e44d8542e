"""What is too long for one go is cut where it hurts least, and nothing of it is lost."""

from __future__ import annotations

import gc

import pytest
from conftest import corpus_lines

from nmt.config import TokenizerConfig
from nmt.data.cleaning import clean_text
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.errors import UserError
from nmt.inference.cutting import Cutter


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    return train_tokenizer(TokenizerConfig("unigram", 500, 0, 0.9998), texts, str)


def test_a_long_text_is_cut_into_few_parts_with_one_warning(tokenizer: Tokenizer) -> None:
    cutter = Cutter(tokenizer, 63)
    line = " ".join(["Hoy hace buen tiempo. ¿Vamos a la playa?"] * 625)  # 5,000 words
    gc.collect()  # what earlier tests left open warns when it is found
    with pytest.warns(UserWarning, match="translated in parts") as caught:
        parts, again = map(cutter.cut, [line, line])
    assert len(caught) == 1
    assert [list(part) for part in again] == [list(part) for part in parts]
    assert all(0 < len(part) <= cutter.room for part in parts)
    assert len(parts) < 1.5 * sum(map(len, parts)) / cutter.room
    assert " ".join(tokenizer.decode(parts)) == line


def test_long_texts_are_cut_after_sentences_then_clauses_then_words(tokenizer: Tokenizer) -> None:
    cutter = Cutter(tokenizer, len(tokenizer.encode(["No sé si hoy va a llover,"])[0]))
    with pytest.warns(UserWarning, match="in parts"):
        parts = cutter.cut(
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol; "
            "mañana mañana mañana mañana mañana mañana mañana mañana mañana mañana"
        )
    texts = tokenizer.decode(parts)
    assert all(0 < len(part) <= cutter.room for part in parts)
    assert (
        " ".join(texts).split()
        == (
            "Hoy hace frío. ¿Vamos? No sé si hoy va a llover, pero ayer hizo sol; " + "mañana " * 10
        ).split()
    )
    assert texts[0].startswith("Hoy hace frío.")
    assert any(text.endswith(",") for text in texts)
    assert any(text.endswith(";") for text in texts)


@pytest.mark.filterwarnings("ignore:a text of")
def test_a_word_longer_than_the_room_is_cut_too(tokenizer: Tokenizer) -> None:
    cutter = Cutter(tokenizer, 7)
    parts = cutter.cut("z" * 50)
    assert max(map(len, parts)) == cutter.room
    assert "".join(tokenizer.decode(parts)) == "z" * 50


@pytest.mark.filterwarnings("ignore:a text of")
def test_what_is_empty_has_no_parts_and_what_fits_has_one(tokenizer: Tokenizer) -> None:
    cutter = Cutter(tokenizer, 63)
    assert cutter.cut(" \u200b\n") == []
    [ids] = cutter.cut("  Hoy\u00a0hace frío. ")
    assert ids.tolist() == tokenizer.encode(["Hoy hace frío."])[0].tolist()
    assert cutter.whole("Hoy hace frío.").tolist() == ids.tolist()
    with pytest.raises(UserError, match="the sentence is empty"):
        cutter.whole(" ")
    with pytest.raises(UserError, match="longer than the 63 tokens"):
        cutter.whole("Hoy hace frío. " * 50)
