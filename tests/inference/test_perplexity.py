"""Training and evaluation compute perplexity in one way."""

from __future__ import annotations

import math

from nmt.inference.perplexity import measure_perplexity, perplexity
from nmt.inference.results import PairScore


def test_the_perplexity_of_a_report_without_an_applied_update_is_unknown() -> None:
    assert math.isnan(perplexity(math.nan))
    assert (perplexity(0.0), perplexity(1e9)) == (1.0, math.inf)


def test_the_perplexity_of_given_translations() -> None:
    likely = measure_perplexity([PairScore(["▁a", "b", "</s>"], [-1.0, -2.0, -3.0])])
    assert (likely.pieces, likely.nats_per_piece) == (3, 2.0)
    assert (likely.per_piece, likely.per_word) == (math.exp(2), math.exp(3))
    unlikely = measure_perplexity([PairScore(["▁a", "</s>"], [-1e4, 0.0])])
    assert (unlikely.per_piece, unlikely.per_word) == (math.inf, math.inf)
