"""Training and evaluation compute perplexity in one way."""

from __future__ import annotations

import math

from nmt.data.splitting import Pair
from nmt.inference.perplexity import ScoredPairs, measure_perplexity, perplexity
from nmt.inference.results import PairScore


def test_the_perplexity_of_a_report_without_an_applied_update_is_unknown() -> None:
    assert math.isnan(perplexity(math.nan))
    assert (perplexity(0.0), perplexity(1e9)) == (1.0, math.inf)


def test_the_perplexity_of_given_translations() -> None:
    likely = measure_perplexity([PairScore(["▁a", "b", "</s>"], [-1.0, -2.0, -3.0])], ["ab"])
    assert (likely.pieces, likely.nats_per_piece) == (3, 2.0)
    assert (likely.per_piece, likely.per_word) == (math.exp(2), math.exp(3))
    unlikely = measure_perplexity([PairScore(["▁a", "</s>"], [-1e4, 0.0])], ["a"])
    assert (unlikely.per_piece, unlikely.per_word) == (math.inf, math.inf)


def test_words_are_those_of_the_texts() -> None:
    """A slot stands for several words, and an unknown token has no space before it."""
    pairs = [Pair("s", text) for text in ("Call +34 912 345 678.", "word " * 99, "A ☃.")]
    scores = [
        PairScore(["▁Call", "▁", "+34 912 345 678", ".", "</s>"], [-1.0] * 5),
        None,
        PairScore(["▁A", "<unk>", "</s>"], [-1.0] * 3),
    ]
    measured = ScoredPairs(pairs, scores).perplexity
    assert measured.pieces == 8
    assert measured.per_word == math.exp(8 / (6 + 3))
