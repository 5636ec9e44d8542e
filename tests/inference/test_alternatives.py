"""Alternatives are whole words with the probabilities of their tokens, on any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from translator_inputs import SENTENCES

from nmt import Translator
from nmt.data.tokenizer import BOS, EOS
from nmt.inference.alternatives import CANDIDATES, find_alternatives
from nmt.inference.contract import BeamOptions, Hypothesis, split_prefix
from nmt.inference.prefixes import make_prefix
from nmt.inference.segments import Segment
from nmt.text.case import LetterCase
from nmt.text.words import find_words

pytest_plugins = ("random_translator",)
pytestmark = pytest.mark.xdist_group("translator")

PIECES = ["<pad>", "<s>", "</s>", "<unk>", "▁the", "▁old", "▁o", "ld", "re", ",", "▁new", "er"]
# Probabilities of what follows each piece; all else has almost none.
FOLLOWING = {
    "<s>": {"▁the": 0.9, "▁old": 0.1},
    "▁the": {"▁old": 0.5, "re": 0.3, "▁o": 0.1, ",": 0.05, "▁new": 0.01, "</s>": 0.04},
    "▁old": {"</s>": 0.6, "er": 0.4},
    "re": {"▁old": 0.9, "</s>": 0.1},  # "there old"
    "▁o": {"ld": 0.9, "</s>": 0.1},
    "▁new": {"er": 0.8, "</s>": 0.2},
}


class Pieces:
    """A tokenizer of `PIECES`."""

    slots = 0
    vocabulary_size = len(PIECES)

    @cached_property
    def target(self) -> Pieces:
        return self

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [
            np.array([PIECES.index(f"▁{word.lower()}") for word in text.split()], np.int32)
            for text in texts
        ]

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        texts = ("".join(PIECES[i] for i in ids if i > EOS) for ids in sequences)
        return [text.replace("▁", " ").strip() for text in texts]


class Table:
    """An engine that searches the probabilities of `FOLLOWING` exhaustively."""

    max_length = 16
    workers = 1
    keras_engine = None
    can_align = True

    def log_prob(self, before: int, token: int) -> float:
        likely = FOLLOWING.get(PIECES[before], {"</s>": 1.0})
        return float(np.log(likely.get(PIECES[token], 1e-9)))

    def search(
        self,
        sources: Sequence[np.ndarray],
        limits: np.ndarray,
        options: BeamOptions,
        prefix: np.ndarray,
    ) -> list[list[Hypothesis]]:
        rows = zip(split_prefix(prefix, len(sources)), limits, strict=True)
        return [self.search_row(list(map(int, ids)), int(limit), options) for ids, limit in rows]

    def search_row(self, prefix: list[int], limit: int, options: BeamOptions) -> list[Hypothesis]:
        live, ended = [(0.0, (BOS, *prefix))], []
        while live:
            grown = [
                (score + self.log_prob(tokens[-1], token), (*tokens, token))
                for score, tokens in live
                for token in (range(EOS, len(PIECES)) if len(tokens) < limit else [EOS])
            ]
            best = sorted(grown, reverse=True)[: options.beam_size]
            ended += [
                Hypothesis(each[1][1:], each[0], each[0]) for each in best if each[1][-1] == EOS
            ]
            live = [each for each in best if each[1][-1] != EOS]
            if len(ended) >= options.beam_size:
                break
        return sorted(ended, key=lambda each: -each.score)[: options.n_best]

    def score(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        paths = ([BOS, *map(int, target), EOS] for target in targets)
        return [np.array([self.log_prob(*pair) for pair in pairwise(path)]) for path in paths]


def segment_with(prefix: str, case: LetterCase = LetterCase.ORDINARY) -> Segment:
    begin = make_prefix(prefix, (), case)
    return Segment(np.array([4, 5], np.int32), "el viejo", case=case, prefix=begin)


def test_words_have_the_probability_of_their_tokens() -> None:
    [words] = find_alternatives(Table(), Pieces(), [segment_with("the")], 3)
    # "old" may be written by one piece or by two; "there" is no next word after "the".
    assert [word.text for word in words] == ["old", ",", "newer"]
    assert words[0].probability == pytest.approx(0.5 + 0.1 * 0.9)
    assert words[1].probability == pytest.approx(0.05)
    assert words[2].probability == pytest.approx(0.01 * 0.8)
    assert [word.prefix for word in words] == ["the old", "the,", "the newer"]


def test_the_count_limits_words_and_an_empty_prefix_begins_the_sentence() -> None:
    words, first = find_alternatives(Table(), Pieces(), [segment_with("the"), segment_with("")], 1)
    assert [word.text for word in words] == ["old"]
    assert [(word.text, word.prefix) for word in first] == [("the", "the")]
    assert first[0].probability == pytest.approx(0.9)


def test_words_have_the_letter_case_of_their_sentence() -> None:
    [words] = find_alternatives(Table(), Pieces(), [segment_with("THE", LetterCase.UPPER)], 1)
    assert (words[0].text, words[0].prefix) == ("OLD", "THE OLD")


def test_the_first_word_has_the_capital_of_the_source() -> None:
    first, later = (replace(segment_with(prefix), text="El viejo") for prefix in ("", "the"))
    words, others = find_alternatives(Table(), Pieces(), [first, later], 1)
    assert (words[0].text, words[0].prefix) == ("The", "The")
    assert (others[0].text, others[0].prefix) == ("old", "the old")


def test_copied_segments_and_full_outputs_have_no_alternatives() -> None:
    copied = replace(segment_with(""), is_copied=True)
    full = segment_with(" ".join(["old"] * (Table.max_length - 2)))
    assert find_alternatives(Table(), Pieces(), [copied, full], 4) == [[], []]


def test_probabilities_are_those_of_forced_decoding(translator: Translator) -> None:
    """On the Keras engine, whose sixteen best tokens are compared with scores of all tokens."""
    [segment] = translator.segmenter.segment(SENTENCES[1]).segments
    prefix = "We are"
    segment = replace(segment, prefix=make_prefix(prefix, (), segment.case))
    [words] = find_alternatives(translator.engine, translator.tokenizer, [segment], CANDIDATES)
    assert words
    assert len({word.text for word in words}) == len(words)
    assert [word.probability for word in words] == sorted(
        (word.probability for word in words), reverse=True
    )
    [begin] = translator.tokenizer.target.encode([prefix])
    vocabulary = np.arange(4, translator.tokenizer.vocabulary_size, dtype=np.int32)
    nexts = [np.append(begin, token).astype(np.int32) for token in vocabulary]
    scores = translator.engine.score([segment.ids] * len(nexts), nexts)
    probabilities = np.exp([row[len(begin)] for row in scores])
    for word in words:
        spans = find_words(word.prefix)
        assert word.prefix[slice(*spans[-1])] == word.text
        assert word.prefix.startswith(prefix)
        # All ways to write a word together are at most as probable as their first tokens.
        texts = translator.tokenizer.target.decode([[*begin, int(each)] for each in vocabulary])
        starts = [word.prefix.startswith(" ".join(text.split())) for text in texts]
        assert word.probability <= probabilities[starts].sum() + 1e-5


def test_both_engines_give_the_same_alternatives(parrot_run: Path) -> None:
    keras, fast = (Translator.load(parrot_run, engine=name) for name in ("keras", "ctranslate2"))
    samples = (parrot_run / "samples" / "step_00000100.tsv").read_text("utf-8").splitlines()
    source, translation, _ = samples[1].split("\t")
    [segment] = keras.segmenter.segment(source).segments
    words = find_words(translation)
    segments = [
        replace(segment, prefix=make_prefix(translation[:begin].strip(), (), segment.case))
        for begin, _ in words
    ]
    expected, computed = (
        find_alternatives(each.engine, each.tokenizer, segments, 3) for each in (keras, fast)
    )
    for number, (begin, end) in enumerate(words):
        best = expected[number][0]
        assert best.text == translation[begin:end], "a memorised sentence goes on as it is known"
        assert computed[number][0].text == best.text
        assert computed[number][0].probability == pytest.approx(best.probability, abs=1e-3)
