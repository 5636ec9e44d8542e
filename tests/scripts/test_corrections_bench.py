"""The simulated reviewer of scripts/bench/corrections.py."""

from __future__ import annotations

import pytest
from corrections import Row, expand, format_table, has_contraction, list_corrected

from nmt.data.splitting import Pair


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("I don't know.", "I do not know."),
        ("Can't you see? I won't.", "Cannot you see? I will not."),
        ("They're sure we've left, and I'm here.", "They are sure we have left, and I am here."),
        ("Tom's car isn't here.", "Tom's car is not here."),
        ("It's Tom's.", "It's Tom's."),
    ],
)
def test_contractions_are_written_out(text: str, expanded: str) -> None:
    assert expand(text) == expanded
    assert has_contraction(text) == (text != expanded)
    assert expand(expanded) == expanded


def test_only_pairs_with_a_contraction_are_corrected() -> None:
    pairs = [Pair("No sé.", "I don't know."), Pair("Sí.", "Yes.")]
    assert list_corrected(pairs) == [Pair("No sé.", "I do not know.")]


def test_the_table_compares_before_and_after() -> None:
    table = format_table([Row("other", 1456, (55.3, 55.04), (0.06, 0.02))])
    assert table.splitlines()[-1] == "| other | 1,456 | 55.3 | 55.0 | 6% | 2% |"
