"""Words of translations that a reference has."""

from __future__ import annotations

from nmt.inference.word_links import make_word_test


def test_a_reference_has_words_and_kept_spans_in_any_case() -> None:
    is_right = make_word_test("Write to Ana@example.org or Tena Ruiz, {name}: 20 % today at 20°C.")
    for word in ("20°C", "write", "ana@example.org", "Tena Ruiz", "{name}", "20 %", "today", "."):
        assert is_right(word), word
    for word in ("tod", "an", "20%"):
        assert not is_right(word), word
