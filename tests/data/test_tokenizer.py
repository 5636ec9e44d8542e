"""Text to ids and back without loss, the same on every path, and small where the corpus is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import sentencepiece
from conftest import corpus_lines
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerConfig
from nmt.data.tokenizer import (
    BOS,
    EOS,
    MODEL_FILE,
    PAD,
    UNK,
    VOCABULARY_FILE,
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
    load_tokenizer,
)
from nmt.data.tokenizer_training import train_tokenizer
from nmt.errors import UserError
from nmt.text.cleaning import clean_text

pytestmark = pytest.mark.xdist_group("tokenizers")

# 245 lines of the embedded corpus, both sides.
LINES = [clean_text(side) for line in corpus_lines(245) for side in line.split("\t")[:2]]
ALPHABET = sorted(set("".join(LINES)))

HARD = [
    "¿Dónde está el baño?",
    "¡Ñandú, pingüino, cigüeña!",
    "naïve façade, Łódź, Ærø, straße, İstanbul",
    "👍",
    "👨‍👩‍👧‍👦 y 👩🏽‍🚀",  # joined by U+200D
    "🇪🇸 → 🇬🇧",
    "日本語の文章です。",
    "中文，没有空格！",
    "한국어 문장",
    "Привет, мир",
    "שלום עולם",
    "مرحبا بالعالم",
    "می\u200cخواهم",  # zero width non-joiner
    "क्षत्रिय",
    "q\u0301 has no composed form",
    "0123456789",
    "1.234.567,89 € (≈ 10⁻³ %)",
    "a1b2-c3_d4@e5.f6/g7?h=8&i=9#j",
    "“curly” ‘quotes’ «guillemets» — dash… ‽ ⸘ ;",
    "<s> </s> <unk> <pad> <0x41> ⁇",
    "[UNK] [PAD] ##a ## #",
    "\\n \\t % $ ^ ~ ` | { }",
    ". , ; :",
    "x" * 500,
    " ".join(["word"] * 300),
    "\ufffd",
    "\U0010ffff",
]

SENTENCEPIECE = ["unigram", "bpe"]
KINDS = [*SENTENCEPIECE, "wordpiece"]


def configure(kind: str, **changes: Any) -> TokenizerConfig:
    values: dict[str, Any] = {
        "kind": kind,
        "vocabulary_size": 600,
        "min_characters_per_piece": 0,
        "character_coverage": 0.9998,
        "lowercase_source": False,
        "slots": 0,
    }
    return TokenizerConfig(**(values | changes))


def train(texts: Sequence[str], kind: str, **changes: Any) -> tuple[Tokenizer, list[str]]:
    """Return a tokenizer and the messages of its training."""
    messages: list[str] = []
    return train_tokenizer(configure(kind, **changes), texts, messages.append), messages


def complaint(folder: Path) -> str:
    """Return why a folder has no tokenizer, which must be one line."""
    with pytest.raises(UserError) as caught:
        load_tokenizer(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    """One tokenizer of each kind; nobody changes them."""
    return {kind: train(LINES, kind)[0] for kind in KINDS}


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest, trained: dict[str, Tokenizer]) -> Tokenizer:
    return trained[request.param]


@pytest.fixture(params=SENTENCEPIECE)
def pieced(request: pytest.FixtureRequest, trained: dict[str, Tokenizer]) -> SentencePieceTokenizer:
    tokenizer = trained[request.param]
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


@pytest.fixture
def words(trained: dict[str, Tokenizer]) -> WordPieceTokenizer:
    tokenizer = trained["wordpiece"]
    assert isinstance(tokenizer, WordPieceTokenizer)
    return tokenizer


# --- Every kind -------------------------------------------------------------------------------


def test_the_lines_are_what_the_tests_think() -> None:
    assert 400 < len(LINES) < 600
    assert all(clean_text(text) == text for text in [*LINES, *HARD])
    assert {"¿", "¡", "ñ", "á", "'", " "} <= set(ALPHABET)


def test_special_ids(tokenizer: Tokenizer) -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert [piece.strip("<>[]").lower() for piece in tokenizer.pieces(range(4))] in (
        ["pad", "bos", "eos", "unk"],
        ["pad", "s", "/s", "unk"],
    )


def test_own_lines_come_back(tokenizer: Tokenizer) -> None:
    sequences = tokenizer.encode(LINES)
    assert tokenizer.decode(sequences) == LINES
    for ids in sequences:
        assert ids.dtype == np.int32
        assert ids.ndim == 1
        assert ids.min() > UNK  # and so neither BOS nor EOS
        assert ids.max() < tokenizer.vocabulary_size


def test_ids_do_not_depend_on_the_neighbours(tokenizer: Tokenizer) -> None:
    batched = tokenizer.encode(LINES[:20])
    for text, ids in zip(LINES, batched, strict=False):
        np.testing.assert_array_equal(tokenizer.encode([text])[0], ids)


def test_nothing_to_do(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode([]) == []
    assert tokenizer.decode([]) == []
    assert tokenizer.decode([[]]) == [""]
    assert tokenizer.pieces([]) == []
    (empty,) = tokenizer.encode([""])
    assert empty.shape == (0,)
    assert empty.dtype == np.int32


def test_empty_texts_keep_their_place(tokenizer: Tokenizer) -> None:
    texts = ["", "", LINES[0], "", LINES[1], ""]
    sequences = tokenizer.encode(texts)
    assert [len(ids) > 0 for ids in sequences] == [bool(text) for text in texts]
    assert tokenizer.decode(sequences) == texts


def test_special_ids_are_left_out_of_the_text(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode([LINES[0]])
    for sequence in ([BOS, *ids, EOS, PAD, PAD], np.array([BOS, UNK, *ids, EOS, PAD], np.int64)):
        assert tokenizer.decode([sequence]) == [LINES[0]]
    assert tokenizer.decode([[PAD, BOS, EOS, UNK]]) == [""]


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is type(tokenizer)
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.vocabulary_size == tokenizer.vocabulary_size
    everything = range(tokenizer.vocabulary_size)
    assert loaded.pieces(everything) == tokenizer.pieces(everything)
    for ours, theirs in zip(tokenizer.encode(LINES), loaded.encode(LINES), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_reproducible(kind: str) -> None:
    first, same, other = (
        train(lines, kind, vocabulary_size=400)[0].fingerprint
        for lines in (LINES[:80], LINES[:80], LINES[:60])
    )
    assert first == same
    assert first != other


def test_fingerprints_differ_between_kinds(trained: dict[str, Tokenizer]) -> None:
    assert len({tokenizer.fingerprint for tokenizer in trained.values()}) == len(KINDS)


def test_seeding_keras_does_not_break_it(tokenizer: Tokenizer) -> None:
    """Both calls destroy the resources of live TensorFlow objects."""
    before = tokenizer.encode(LINES[:5])
    for reset in (lambda: keras.utils.set_random_seed(3), keras.utils.clear_session):
        reset()
        for ours, theirs in zip(before, tokenizer.encode(LINES[:5]), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_pieces_show_the_text(tokenizer: Tokenizer) -> None:
    for text, ids in zip(LINES, tokenizer.encode(LINES), strict=True):
        pieces = tokenizer.pieces(ids)
        assert len(pieces) == len(ids)
        assert all(pieces)
        if "<0x" not in "".join(pieces):
            shown = "".join(piece.removeprefix("##") for piece in pieces)
            assert shown == "▁" + text.replace(" ", "▁")
    assert all(type(piece) is str for piece in tokenizer.pieces(np.array([4, 5], np.int32)))


def test_the_vocabulary_is_no_larger_than_asked(tokenizer: Tokenizer) -> None:
    assert 300 < tokenizer.vocabulary_size <= 600


# --- SentencePiece ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", HARD)
def test_hard_strings_come_back(pieced: SentencePieceTokenizer, text: str) -> None:
    (ids,) = pieced.encode([text])
    assert ids.min() > UNK
    assert pieced.decode([ids]) == [text]


def test_spans_say_which_characters_a_piece_stands_for(tokenizer: Tokenizer) -> None:
    for text in map(clean_text, [*HARD, *LINES[:50], "", "a"]):
        ids = tokenizer.encode([text])[0]
        spans = tokenizer.spans(text)
        assert len(spans) == len(ids)
        reached = 0
        for number, ((begin, end), piece) in enumerate(
            zip(spans, tokenizer.pieces(ids), strict=True)
        ):
            assert begin in (reached, reached - 1)  # before it for a further byte of a character
            reached = end
            if piece.startswith("<0x") and piece != "<0x41>":
                assert end - begin == 1
            elif piece != "[UNK]":
                # The first piece has a space that the text has not.
                surface = f" {text}"[begin + 1 if number else 0 : end + 1]
                if isinstance(tokenizer, WordPieceTokenizer):
                    piece = piece.removeprefix("##")
                assert piece.replace("▁", " ") == surface
        assert reached == len(text)


def test_spans_of_bytes_and_of_what_is_unknown(trained: dict[str, Tokenizer]) -> None:
    pieced = trained["unigram"]
    assert pieced.pieces(pieced.encode(["👍 a"])[0])[:5] == [
        "▁",
        "<0xF0>",
        "<0x9F>",
        "<0x91>",
        "<0x8D>",
    ]
    assert pieced.spans("👍 a")[:5] == [(0, 0), (0, 1), (0, 1), (0, 1), (0, 1)]
    word = trained["wordpiece"]
    assert word.pieces(word.encode(["日本語, Ana"])[0])[:2] == ["[UNK]", ","]
    assert word.spans("日本語, Ana")[:2] == [(0, 3), (3, 4)]


def test_the_sign_that_stands_for_a_space_comes_back(pieced: SentencePieceTokenizer) -> None:
    """U+2581 is SentencePiece's own mark for a space: cleaning makes it an underscore."""
    texts = [clean_text(text) for text in ["▁▂▃▅▆▇", "a▁b", "1 ▁ 2"]]
    assert texts == ["_▂▃▅▆▇", "a_b", "1 _ 2"]
    assert pieced.decode(pieced.encode(texts)) == texts


@settings(deadline=None, max_examples=150)
@given(texts=st.lists(st.text(max_size=40).map(clean_text), max_size=4))
def test_any_clean_text_comes_back(trained: dict[str, Tokenizer], texts: list[str]) -> None:
    for kind in SENTENCEPIECE:
        sequences = trained[kind].encode(texts)
        assert trained[kind].decode(sequences) == texts
        assert all((ids > UNK).all() for ids in sequences)


def test_both_runtimes_give_the_same_ids(pieced: SentencePieceTokenizer, tmp_path: Path) -> None:
    pieced.save(tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / MODEL_FILE))
    assert [processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()] == [
        0,
        1,
        2,
        3,
    ]
    texts = [*LINES, *HARD, ""]
    expected = processor.encode(texts)
    assert [ids.tolist() for ids in pieced.encode(texts)] == expected
    # After `encode`: that one revives a tokenizer which another test's seeding destroyed.
    assert pieced.in_graph().tokenize(texts).to_list() == expected


def test_what_has_no_piece_is_shown_as_bytes(pieced: SentencePieceTokenizer) -> None:
    (ids,) = pieced.encode(["👍"])  # U+1F44D
    assert pieced.pieces(ids) == ["▁", "<0xF0>", "<0x9F>", "<0x91>", "<0x8D>"]


def test_half_a_character_does_not_break_decoding(pieced: SentencePieceTokenizer) -> None:
    """A model may well say half of it."""
    (ids,) = pieced.encode(["Sí 👍"])
    (text,) = pieced.decode([ids[:-2]])
    assert text.startswith("Sí ")
    assert set(text.removeprefix("Sí ")) == {"\ufffd"}


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_tiny_corpus_lowers_the_vocabulary_to_its_alphabet(kind: str) -> None:
    tokenizer, messages = train(
        ["ab ab", "ba"], kind, vocabulary_size=8000, min_characters_per_piece=60
    )
    # 7 characters support no piece; 4 special, 256 bytes and twice {a, b, space} always fit.
    assert messages[0] == (
        "tokenizer.vocabulary_size 8000 is lowered to 266: 7 characters of text at "
        "tokenizer.min_characters_per_piece=60"
    )
    assert 260 < tokenizer.vocabulary_size <= 266
    assert tokenizer.decode(tokenizer.encode(["ab ba ñ"])) == ["ab ba ñ"]


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_small_corpus_lowers_the_vocabulary(kind: str) -> None:
    characters = sum(map(len, LINES))
    expected_size = characters // 20
    assert 600 < expected_size < 1000  # above the alphabet, below what is asked for
    tokenizer, messages = train(LINES, kind, vocabulary_size=1000, min_characters_per_piece=20)
    assert messages == [
        f"tokenizer.vocabulary_size 1000 is lowered to {expected_size}: {characters:,} characters "
        "of text at tokenizer.min_characters_per_piece=20"
    ]
    assert tokenizer.vocabulary_size == expected_size


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_a_vocabulary_beyond_the_corpus_is_cut(kind: str) -> None:
    texts = ["la casa", "la cosa", "el caso"] * 3
    tokenizer, messages = train(texts, kind, vocabulary_size=5000)
    assert 260 < tokenizer.vocabulary_size < 400
    assert messages == [
        f"the corpus gives {tokenizer.vocabulary_size} pieces, fewer than the 5000 allowed"
    ]
    assert tokenizer.decode(tokenizer.encode(texts)) == texts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16, 50])
def test_a_vocabulary_below_the_alphabet_is_refused(kind: str, size: int) -> None:
    with pytest.raises(UserError) as caught:
        train(LINES[:60], kind, vocabulary_size=size)
    message = str(caught.value)
    assert "\n" not in message
    assert f"tokenizer.vocabulary_size={size}" in message


# --- WordPiece --------------------------------------------------------------------------------


def by_hand() -> WordPieceTokenizer:
    return WordPieceTokenizer(
        ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "▁Go", "▁go", "##ing", ".", "▁", "##G", "##o", "▁¡"]
    )


def test_wordpiece_by_hand() -> None:
    tokenizer = by_hand()
    go, going, dot, mark = (
        sequence.tolist() for sequence in tokenizer.encode(["Go.", "Go going.", "Go . Go", "¡Go"])
    )
    assert go == [4, 7]
    assert going == [4, 5, 6, 7]
    assert dot == [4, UNK, 4]  # the word "▁." is "▁" and "##.", which is no piece
    assert mark == [11, UNK]  # no piece begins with "G": "##G" stands inside of words
    assert tokenizer.pieces(going) == ["▁Go", "▁go", "##ing", "."]
    assert tokenizer.decode([go, going, dot]) == ["Go.", "Go going.", "Go Go"]


def test_wordpiece_spacing(words: WordPieceTokenizer) -> None:
    texts = ["Go.", "No, no.", "I'm sad.", "What time is it?", "¿Dónde está?", "a , b", "(no)"]
    texts = [text for text in texts if set(text) <= set(ALPHABET)]
    assert len(texts) >= 5
    assert words.decode(words.encode(texts)) == texts


@settings(deadline=None, max_examples=100)
@given(texts=st.lists(st.text(alphabet=ALPHABET, max_size=30).map(clean_text), max_size=4))
def test_wordpiece_knows_its_alphabet(trained: dict[str, Tokenizer], texts: list[str]) -> None:
    tokenizer = trained["wordpiece"]
    sequences = tokenizer.encode(texts)
    assert tokenizer.decode(sequences) == texts
    assert all((ids > UNK).all() for ids in sequences)


def test_wordpiece_loses_unknown_characters_alone(words: WordPieceTokenizer) -> None:
    before, unknown, after = words.encode(["Good morning", "日本", ", Ana."])
    (ids,) = words.encode(["Good morning 日本, Ana."])
    assert unknown.tolist() == [UNK]
    pieces = words.pieces(ids)
    assert pieces.count("[UNK]") == 1
    assert ids[: len(before)].tolist() == before.tolist()
    assert words.decode([ids]) == ["Good morning, Ana."]
    assert "".join(p.removeprefix("##") for p in pieces).endswith("[UNK],▁Ana.")
    assert len(after) > 0


def test_wordpiece_keeps_long_words(words: WordPieceTokenizer) -> None:
    texts = ["a" * 90, "a" * 150]
    assert words.decode(words.encode(texts)) == texts


def test_wordpiece_keeps_a_large_alphabet() -> None:
    """Chinese and Japanese write several thousand characters; none of the corpus is unknown."""
    signs = [chr(0x4E00 + i) for i in range(1200)]
    lines = ["".join(signs[i : i + 4]) for i in range(0, 1200, 4)]
    tokenizer, _ = train(lines, "wordpiece", vocabulary_size=5000)
    assert tokenizer.decode(tokenizer.encode(lines)) == lines


@pytest.mark.parametrize("size", [300, 420])
def test_wordpiece_is_what_its_learner_finds(size: int) -> None:
    """The search for the size is ours, so that nothing is learned twice."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    lines = LINES[:80]
    tokenizer, _ = train(lines, "wordpiece", vocabulary_size=size)
    word = re.compile(r" ?(?:\w+|[^\w\s])|\s")  # carries the space before it
    counts = Counter(vocabulary for line in lines for vocabulary in word.findall(f" {line}"))
    words = sorted((word.replace(" ", "▁"), count) for word, count in counts.items())
    target, vocabulary = size, [""] * (size + 1)
    while len(vocabulary) > size:
        vocabulary = learner.learn(
            words,
            vocab_size=target,
            reserved_tokens=["[PAD]", "[BOS]", "[EOS]", "[UNK]"],
            lower_thresh=2,
            max_unique_chars=len(set("".join(word for word, _ in words))),
        )
        target -= len(vocabulary) - size
    assert tokenizer.pieces(range(tokenizer.vocabulary_size)) == vocabulary


def test_wordpiece_small_corpus_lowers_the_vocabulary() -> None:
    _, messages = train(
        ["ab ab", "ba"], "wordpiece", vocabulary_size=8000, min_characters_per_piece=60
    )
    # 4 special pieces and thrice {a, b, space}: beginning a word, inside, and room for words.
    assert messages[0] == (
        "tokenizer.vocabulary_size 8000 is lowered to 13: 7 characters of text at "
        "tokenizer.min_characters_per_piece=60"
    )


# --- Files ------------------------------------------------------------------------------------


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    message = complaint(tmp_path)
    assert all(name in message for name in (str(tmp_path), MODEL_FILE, VOCABULARY_FILE))


def test_a_file_of_another_kind_is_not_read_as_wordpiece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.data.tokenizer.TOKENIZER_FILES", ("tokenizer.other.json",))
    path = tmp_path / "tokenizer.other.json"
    path.write_text('["[PAD]", "[BOS]", "[EOS]", "[UNK]", "a"]', encoding="utf-8")
    with pytest.raises(ValueError, match=r"no kind of tokenizer reads tokenizer\.other\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not a model", b"\x0a\xff\xff", None], ids=["empty", "text", "bytes", "half"]
)
def test_a_damaged_model(
    content: bytes | None, trained: dict[str, Tokenizer], tmp_path: Path
) -> None:
    trained["unigram"].save(tmp_path)
    path = tmp_path / MODEL_FILE
    intact = path.read_bytes()
    path.write_bytes(intact[: len(intact) // 2] if content is None else content)
    assert str(path) in complaint(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"[", b"[]", b"null", b'{"a": 1}', b'["a", "b", "c", "d"]', b'["\xff"]', b'"[PAD]"']
    + [b'["[PAD]", "[BOS]", "[EOS]", "[UNK]", %b]' % piece for piece in (b"null", b'"\\ud800"')]
    + [pytest.param(b"[" * 10_000, id="nested")],
)
def test_a_damaged_vocabulary(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / VOCABULARY_FILE
    path.write_bytes(content)
    assert str(path) in complaint(tmp_path)


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_a_tag_is_one_piece(kind: str) -> None:
    """As a word, at the beginning or elsewhere, with what it is made of around it or not."""
    tags = ["<2en>", "<bt>"]
    corpus = [f"{tag} {text}" for text in LINES for tag in tags]
    pieced = train_tokenizer(configure(kind), corpus, str, tags)
    texts = ["<2en> Tom is here.", "<bt> <2en> here", "a < b > 2en <2en>", "x<2en>"]
    encoded = pieced.encode(texts)
    pieces = [pieced.pieces(ids) for ids in encoded]
    assert [text_pieces.count("▁<2en>") for text_pieces in pieces] == [1, 1, 1, 0]
    assert pieces[1][:2] == ["▁<bt>", "▁<2en>"]
    assert pieced.decode(encoded) == texts
    assert pieced.in_graph().tokenize(texts).to_list() == [ids.tolist() for ids in encoded]
    plain = train_tokenizer(configure(kind), corpus, str)
    assert "▁<2en>" not in plain.pieces(range(plain.vocabulary_size))[:6]
