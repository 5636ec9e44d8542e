"""Words are annotated with the target words that translate them."""

from __future__ import annotations

import random
import re

import pytest
from conftest import corpus_lines

from nmt.config import TokenizerConfig
from nmt.config.data import list_reserved
from nmt.data.cleaning import clean_text
from nmt.data.noise import BatchNoise, PackedPair
from nmt.data.term_noise import TermAnnotator
from nmt.data.tokenizer import Tokenizer
from nmt.data.tokenizer_training import train_tokenizer
from nmt.inference.lexicon import Lexicon
from nmt.runs.resuming import compose_config
from nmt.text.annotations import TERM_MARKS, find_annotations

PAIRS = [
    (clean_text(source), clean_text(target))
    for source, target in (line.split("\t")[:2] for line in corpus_lines(3000))
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [side for pair in PAIRS for side in pair]
    config = TokenizerConfig("unigram", 800, 0, 0.9998, True, 3)
    return train_tokenizer(config, texts, lambda line: None, TERM_MARKS)


@pytest.fixture(scope="module")
def lexicon(tokenizer: Tokenizer) -> Lexicon:
    return Lexicon.train(
        tokenizer.encode([source for source, _ in PAIRS]),
        tokenizer.target.encode([target for _, target in PAIRS]),
    )


def test_annotations_are_words_of_the_target_behind_words_of_the_source(
    tokenizer: Tokenizer, lexicon: Lexicon
) -> None:
    annotator = TermAnnotator(tokenizer, lexicon.weigh)
    draw = random.Random(1)
    counts = []
    for source, target in PAIRS[:300]:
        annotated = annotator.annotate(source, target, draw)
        spans = find_annotations(annotated)
        counts.append(len(spans))
        pattern = re.escape(annotated)
        for begin, end in spans:
            assert annotated[begin + 1 : end - 1].strip() in target
            pattern = pattern.replace(re.escape(annotated[begin:end]), r"[^\W\d_]+")
        assert re.fullmatch(pattern, source)
    assert max(counts) == 2
    assert sum(map(bool, counts)) > 150


def test_linked_words_translate_each_other(tokenizer: Tokenizer, lexicon: Lexicon) -> None:
    annotator = TermAnnotator(tokenizer, lexicon.weigh)
    links = {
        (source[begin:end].lower(), word.lower())
        for source, target in PAIRS
        for begin, end, word in annotator.link_words(source, target)
    }
    assert {("casa", "house"), ("agua", "water"), ("noche", "night")} <= links


def test_noise_annotates_pairs_of_rows_and_nothing_else_of_them(
    tokenizer: Tokenizer, lexicon: Lexicon
) -> None:
    rates = {"accents": 1.0, "typos": 1.0, "terms": 1.0}
    noise = BatchNoise(rates, tokenizer, ("es", "en"), [], 1, lexicon.weigh)
    row = [
        PackedPair(tokenizer.encode([source])[0], tokenizer.target.encode([target])[0])
        for source, target in PAIRS[:20]
    ]
    changed = noise.change(row, 4000, [0, 1])
    assert [pair.target.tolist() for pair in changed] == [pair.target.tolist() for pair in row]
    texts, before = (tokenizer.decode([pair.source for pair in side]) for side in (changed, row))
    assert [a for a, b in zip(texts, before, strict=True) if a != b] == [
        text for text in texts if TERM_MARKS[0] in text
    ]
    assert sum(TERM_MARKS[0] in text for text in texts) >= 10


def test_the_tokenizer_reserves_the_marks_of_annotations_if_they_are_needed() -> None:
    assert list_reserved(compose_config(["data.noise.terms=0.1"]).data) == list(TERM_MARKS)
    assert list_reserved(compose_config([]).data) == []
