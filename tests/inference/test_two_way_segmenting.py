"""Texts of a model for both directions are read by the rules of their own language."""

from __future__ import annotations

import pytest
from conftest import corpus_lines

from nmt.config import TokenizerConfig
from nmt.data.tokenizer_training import train_tokenizer
from nmt.inference.segmenting import Segmenter
from nmt.inference.two_way_segmenting import TwoWaySegmenter, make_segmenter
from nmt.text.cleaning import clean_text
from nmt.text.context import CONTEXT_MARK, add_context
from nmt.text.terms import Glossary, Term

TAGS = ["<2en>", "<2es>"]
SPANISH, ENGLISH = "<2en> Nació el 5 de mayo.", "<2es> Born on May 5."
DATES = {SPANISH: ("May 5",), ENGLISH: ("5 de mayo",)}


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    texts = [clean_text(side) for line in corpus_lines(200) for side in line.split("\t")[:2]]
    config = TokenizerConfig("unigram", 500, 0, 0.9998, True, 3)
    tokenizer = train_tokenizer(config, texts, str, [*TAGS, CONTEXT_MARK])
    return make_segmenter(
        tokenizer, 63, TAGS, ["<2es>"], language="es", target_language="en", context=1
    )


def find_dates(segmenter: Segmenter, text: str) -> tuple[str, ...]:
    """Return the dates of the last sentence, as its translation writes them."""
    return segmenter.segment(text).segments[-1].target_spans


def test_the_tag_chooses_the_rules(segmenter: Segmenter) -> None:
    texts = [ENGLISH, SPANISH, SPANISH, ENGLISH]
    segmented = segmenter.segment_all(texts)
    assert [text.segments[0].target_spans for text in segmented] == [*map(DATES.get, texts)]
    assert find_dates(segmenter, "Nació el 5 de mayo.") == ("May 5",)
    assert segmenter.segment_all([]) == []


def test_a_tag_before_or_after_a_context_is_found(segmenter: Segmenter) -> None:
    tag, _, sentence = ENGLISH.partition(" ")
    in_front = f"{tag} {add_context(sentence, ['She is old.'])}"
    for text in (in_front, add_context(ENGLISH, ["She is old."])):
        assert find_dates(segmenter, text) == ("5 de mayo",)


def test_terms_that_are_not_translated_count_in_both_directions(segmenter: Segmenter) -> None:
    terms = [Term(date, date) for date in ("5 de mayo", "May 5")]
    translated = segmenter.with_glossary(Glossary([Term("May 5", "Mayo 5")], ("es", "en")))
    assert find_dates(translated, ENGLISH) == DATES[ENGLISH]
    assert segmenter.with_glossary(None) is segmenter
    with_terms = segmenter.with_glossary(Glossary(terms, ("es", "en")))
    assert find_dates(with_terms, ENGLISH) == ("May 5",)
    assert find_dates(with_terms, SPANISH) == ("5 de mayo",)
    assert find_dates(segmenter, ENGLISH) == DATES[ENGLISH]


def test_one_direction_needs_no_second_reader(segmenter: Segmenter) -> None:
    assert isinstance(segmenter, TwoWaySegmenter)
    one_way = make_segmenter(segmenter._tokenizer, 63, TAGS)
    assert type(one_way) is Segmenter
