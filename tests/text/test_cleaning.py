"""What every text passes: each expectation is written out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.cleaning import clean_input, clean_text


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("", ""),
        ("plain", "plain"),
        ("  two \t words\r", "two words"),
        ("no\u00a0break\u3000ideographic\u2028line\u0085next", "no break ideographic line next"),
        ("cafe\u0301", "café"),  # NFD in, NFC out
        ("cafe\u00ad\u0301", "café"),  # a soft hyphen between letter and accent
        ("nul\0 bell\a esc\x1b", "nul bell esc"),
        ("a \0 b", "a b"),  # a removed control character leaves one space, not two
        ("\ufeffbom", "bom"),
        ("zero\u200bwidth", "zerowidth"),
        ("\u202eright to left\u202c", "right to left"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # Persian needs its non-joiner
        ("👩\u200d🚀 ok", "👩\u200d🚀 ok"),  # and an astronaut her joiner
        ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4\U000e0067\U000e007f"),  # a flag
        ("lone \ud800 surrogate", "lone surrogate"),
        ("¿Qué?  ", "¿Qué?"),
    ],
)
def test_clean_text(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


def test_ligatures_become_letters_where_texts_are_translated() -> None:
    text = "ﬀ ﬁ ﬂ ﬃ ﬄ ﬅ ﬆ el ﬁn \ud800"
    assert clean_input(text) == "ff fi fl ffi ffl st st el fin ?"
    assert clean_input("&iquest;Caf&eacute;&nbsp;&hellip; &eacute") == "¿Café&nbsp;&hellip; &eacute"
    assert clean_text("el ﬁn") == "el ﬁn"  # runs must be able to resume


@given(st.text())
def test_cleaning_twice_changes_nothing_and_the_result_is_encodable(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once) == once
    once.encode()
    assert not any(sign.isspace() and sign != " " for sign in once)
    assert "\0" not in once
