"""Tokens are grouped to words, and other words are found for their places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nmt.analysis.explaining.words import (
    choose_word,
    encode_other,
    find_rivals,
    find_tag,
    group_tokens,
    separate,
)
from nmt.data.paired import PairedTokenizer
from nmt.data.tokenizer import EOS
from nmt.errors import UserError


class Pieces:
    """A tokenizer of a list of pieces; texts are encoded by the longest pieces."""

    vocabulary = (
        *("<pad>", "<s>", "</s>", "<unk>", "▁the", "▁bank", "▁ben", "ch", "s", ".", "▁don", "'"),
        *("t", "▁", "ed", "▁1", ",", "5", "日本", "語", "-", "▁re", "▁I", "<0xE2>", "?", "Hi"),
    )
    vocabulary_size = len(vocabulary)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary[i] for i in ids]

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        return [
            "".join(self.pieces([i for i in ids if i > 3])).replace("▁", " ").strip()
            for ids in sequences
        ]

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        rows = []
        for text in texts:
            rest, ids = "▁" + text.replace(" ", "▁"), []
            while rest:
                fitting = [piece for piece in self.vocabulary if rest.startswith(piece)]
                ids.append(self.vocabulary.index(max(fitting, key=len)))
                rest = rest[len(self.vocabulary[ids[-1]]) :]
            rows.append(np.array(ids, np.int32))
        return rows


TOKENIZER = Pieces()


def ids(*pieces: str) -> tuple[int, ...]:
    return tuple(map(TOKENIZER.vocabulary.index, pieces))


def test_a_tag_begins_a_source() -> None:
    source = ids("▁the", "▁bank", "s", "</s>")
    assert find_tag(TOKENIZER, ["ben", "the", "the bank"], source) == range(2)
    assert find_tag(TOKENIZER, ["bank"], source) == range(0)
    assert find_tag(TOKENIZER, [], source) == range(0)


@pytest.mark.parametrize(("first", "size"), [(">>fra<<", 1), ("▁the", 0)])
def test_the_language_code_of_a_pair_of_models_is_a_tag(first: str, size: int) -> None:
    tokenizer = PairedTokenizer.__new__(PairedTokenizer)
    tokenizer._pieces = ["<pad>", first, "▁bank"]
    assert find_tag(tokenizer, [], [1, 2]) == range(size)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁the", "▁ben", "ch", ".", "</s>"], ["the", "bench", ".", "</s>"]),
        (["▁don", "'", "t", "▁bank", "s", "</s>"], ["don't", "banks", "</s>"]),
        (["▁bank", "'", "▁the"], ["bank", "'", "the"]),  # a mark at the end is no part of it
        (["▁", "ed", "▁the"], ["ed", "the"]),  # the space is the word's
        (["日本", "語", "."], ["日本", "語", "."]),  # a script without spaces
        (["▁re", "-", "ed", "?", "Hi"], ["re-ed", "?", "Hi"]),
    ],
)
def test_words_share_out_the_tokens(pieces: list[str], expected: list[str]) -> None:
    words = group_tokens(TOKENIZER, ids(*pieces))  # type: ignore[arg-type]
    assert [word.text for word in words] == expected
    assert [word.begin for word in words[1:]] == [word.end for word in words[:-1]]
    assert (words[0].begin, words[-1].end) == (0, len(pieces))


def test_no_tokens_are_no_words() -> None:
    assert group_tokens(TOKENIZER, []) == []  # type: ignore[arg-type]


def test_a_word_is_chosen_in_any_letter_case() -> None:
    words = group_tokens(TOKENIZER, ids("▁I", "▁the", "▁bank", "▁the"))  # type: ignore[arg-type]
    assert choose_word(words, "i") == 0
    assert choose_word(words, "the") == 1
    with pytest.raises(UserError, match=r"no word 'bench' .* choose from: I, the, bank, the"):
        choose_word(words, "bench")


def test_another_word_is_encoded_as_it_would_stand_there() -> None:
    before, written = ids("▁the"), ids("▁bank")
    other = encode_other(TOKENIZER, before, written, "bench")  # type: ignore[arg-type]
    assert other == ids("▁ben", "ch")
    mark = encode_other(TOKENIZER, ids("▁the", "▁bank"), ids("."), "?")  # type: ignore[arg-type]
    assert mark == ids("?")  # without a space, as the mark that it replaces
    first = encode_other(TOKENIZER, (), ids("▁I"), "bank")  # type: ignore[arg-type]
    assert first == ids("▁bank")
    with pytest.raises(UserError, match="the translation has the word 'bank' itself"):
        encode_other(TOKENIZER, before, written, "bank")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the other word is empty: give a word"):
        encode_other(TOKENIZER, before, written, " ")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "written", "other", "expected"),
    [
        (("▁the",), ("▁bank",), ".", (".",)),
        (("▁the",), ("</s>",), ".", (".",)),
        (("▁the",), (".",), "bank", ("▁bank",)),
        (("▁the",), ("</s>",), "bank", ("▁bank",)),
    ],
)
def test_a_mark_and_a_word_have_spaces_of_their_own(
    before: tuple[str, ...], written: tuple[str, ...], other: str, expected: tuple[str, ...]
) -> None:
    encoded = encode_other(TOKENIZER, ids(*before), ids(*written), other)  # type: ignore[arg-type]
    assert encoded == ids(*expected)


def table(likely: dict[tuple[str, ...], dict[str, float]]):  # type: ignore[no-untyped-def]
    """Return a scorer with the probabilities of some next pieces; all others have hardly any."""

    def score(prefixes: Sequence[Sequence[int]]) -> np.ndarray:
        rows = np.full((len(prefixes), TOKENIZER.vocabulary_size), 1e-6)
        for row, prefix in zip(rows, prefixes, strict=True):
            for piece, probability in likely.get(tuple(TOKENIZER.pieces(prefix)), {}).items():
                row[TOKENIZER.vocabulary.index(piece)] = probability
        return np.log(rows)

    return score


def test_a_word_that_begins_with_the_other_is_compared_where_they_part() -> None:
    bank, banks = ids("▁bank"), ids("▁bank", "s")
    score = table({("▁the", "▁bank"): {"s": 0.6, ".": 0.3, "ed": 0.2}})
    before, dot = ids("▁the"), ids(".")[0]
    assert separate(score, before, bank, dot, banks) == ((*bank, dot), banks)
    assert separate(score, before, banks, EOS, bank) == (banks, (*bank, dot))  # not the "s" again
    assert separate(score, before, bank, dot, ids("▁ben")) == (bank, ids("▁ben"))
    with pytest.raises(UserError, match="the translation has the other word, too"):
        separate(score, before, bank, dot, ids("▁bank", "."))


def test_the_rival_is_the_most_probable_whole_word() -> None:
    tokens = ids("▁the", "▁bank", ".", "</s>")
    score = table(
        {
            (): {"▁the": 0.9, "▁don": 0.05, "▁I": 0.01, "s": 0.04},
            ("▁don",): {"'": 0.9},
            ("▁don", "'"): {"t": 0.9},
            ("▁don", "'", "t"): {"▁the": 0.9},
            ("▁I",): {"▁the": 0.9},
            # "bench" is the more probable first piece, but the less probable word than "1".
            ("▁the",): {"▁bank": 0.6, "▁ben": 0.2, "▁1": 0.1, "ed": 0.09, "<unk>": 0.3},
            ("▁the", "▁ben"): {"ch": 0.3, "s": 0.2},
            ("▁the", "▁ben", "ch"): {".": 0.9},
            ("▁the", "▁1"): {".": 0.9},
            ("▁the", "▁bank"): {".": 0.9, "</s>": 0.05, "▁the": 0.01},
            ("▁the", "▁bank", "."): {"</s>": 0.9, "▁I": 0.05},
            ("▁the", "▁bank", ".", "▁I"): {"'": 0.9},
            ("▁the", "▁bank", ".", "▁I", "'"): {"▁the": 0.9},
        }
    )
    words = group_tokens(TOKENIZER, tokens)  # type: ignore[arg-type]
    rivals = find_rivals(score, TOKENIZER, tokens, words)  # type: ignore[arg-type]
    assert rivals == [ids("▁don", "'", "t"), ids("▁1"), (EOS,), ids("▁I")]
