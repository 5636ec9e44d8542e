"""The embedded table of patterns holds what the generator makes."""

from __future__ import annotations

import pytest
from build_patterns import PAIRS
from generator import GRAMMAR_DIR
from generator.expand import expand

from nmt.data.embedded import read_patterns


def test_the_table_begins_with_a_pair_of_every_pattern() -> None:
    """The generator takes one pair of each of its patterns, 586, then another of each."""
    assert expand(GRAMMAR_DIR, 600) == read_patterns(600, "pairs")


@pytest.mark.long
def test_the_whole_table_is_what_the_generator_makes() -> None:
    pairs = expand(GRAMMAR_DIR, PAIRS)
    assert len(pairs) == PAIRS
    assert read_patterns(PAIRS, "pairs") == pairs
