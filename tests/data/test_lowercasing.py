"""A tokenizer that lower-cases its sources, with the same pieces in the same places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.lowercasing import lowercase
from nmt.data.splitting import Pair
from nmt.data.tokenizer import SentencePieceTokenizer
from nmt.data.tokenizer_training import list_texts, train_tokenizer
from nmt.text.spans import SLOTS

pytestmark = pytest.mark.xdist_group("tokenizers")

PAIRS = [
    Pair("Hoy hace frío en Ávila.", "It's cold in Ávila today."),
    Pair("¿DÓNDE ESTÁ EL BAÑO?", "Where's the bathroom?"),
    Pair("Ana vive en Madrid.", "Ana lives in Madrid."),
]


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    config = TokenizerConfig("unigram", 400, 0, 1.0, lowercase_source=True, slots=3)
    trained = train_tokenizer(config, list_texts(config, PAIRS), lambda line: None)
    assert isinstance(trained, SentencePieceTokenizer)
    return trained


def test_case_makes_no_difference_to_sources(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.lowercases
    lower, upper = tokenizer.encode(["¿dónde está ávila?", "¿DÓNDE ESTÁ ÁVILA?"])
    np.testing.assert_array_equal(lower, upper)


def test_targets_keep_their_case(tokenizer: SentencePieceTokenizer) -> None:
    target = tokenizer.target
    assert not target.lowercases
    assert target.vocabulary_size == tokenizer.vocabulary_size
    for text in ("Ana lives in MADRID.", "İstanbul, Ærø"):
        assert target.decode(target.encode([text])) == [text]


def test_a_loaded_tokenizer_still_lowercases(tokenizer: SentencePieceTokenizer) -> None:
    again = SentencePieceTokenizer(tokenizer.model)
    assert again.lowercases
    assert again.slots == 3
    assert again.fingerprint == tokenizer.fingerprint


@given(st.text())
def test_the_model_reads_what_lowercase_returns(
    tokenizer: SentencePieceTokenizer, text: str
) -> None:
    ids = tokenizer.encode([text, lowercase(text)])
    np.testing.assert_array_equal(*ids)
    assert tokenizer.target.encode([lowercase(text)])[0].tolist() == ids[0].tolist()


@given(st.text())
def test_pieces_cover_the_same_characters(tokenizer: SentencePieceTokenizer, text: str) -> None:
    assert len(lowercase(text).encode("utf-8", "replace")) == len(text.encode("utf-8", "replace"))


def test_a_slot_is_one_piece_wherever_it_stands(tokenizer: SentencePieceTokenizer) -> None:
    for slot in SLOTS[:3]:
        for text in (f"a{slot}b", f"{slot}.", f"a {slot}"):
            assert sum(tokenizer.pieces(ids).count(slot) for ids in tokenizer.encode([text])) == 1
    assert tokenizer.pieces(tokenizer.encode([SLOTS[3]])[0]).count(SLOTS[3]) == 0
