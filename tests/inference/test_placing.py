"""Where a translation has a place of its source."""

from __future__ import annotations

import pytest

from nmt.inference.placing import _find_edge


@pytest.mark.parametrize(
    ("at", "is_before", "edge"), [(6, True, 2), (6, False, 7), (1, True, 2), (1, False, 1)]
)
def test_nothing_is_inserted_inside_of_a_word(at: int, is_before: bool, edge: int) -> None:
    assert _find_edge("I don't want", at, is_before=is_before) == edge
