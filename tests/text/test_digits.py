"""Numbers in the digits of another script are written as a language writes them."""

from __future__ import annotations

import pytest

from nmt.text.dates import NO_DATES, DateWriter
from nmt.text.digits import localize_digits


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("٢٥", "en", "25"),
        ("٣٫٥", "en-GB", "3.5"),
        ("٣٫٥", "fr", "3,5"),
        ("۱٬۵۰۰", "de", "1500"),
        ("−٢٠٢٤/٥/٣", "en", "−2024/5/3"),
        ("५,०००", "en", "5,000"),
        ("１，５００．５", "es", "1500,5"),
        ("２０km", "en", "20km"),
        ("٢٥", "zh", "25"),
        ("٣٫٥", "he", "3.5"),
        ("٣٫٥", "fa", "٣٫٥"),
        ("५", "mr", "५"),
        ("２０", "zh-Hant", "２０"),
        ("٢٥", "und", "٢٥"),
        ("1½", "en", "1½"),
        ("http://x.org/٥", "en", "http://x.org/٥"),
        ("{٥}", "en", "{٥}"),
        ("8:30 a. m.", "en", "8:30 a.m."),
        ("9 P. M.", "pt", "9 P.M."),
        ("8:30 a. m.", "es-MX", "8:30 a. m."),
        ("8:30 a. m.", "und", "8:30 a. m."),
        ("a. m.", "en", "a. m."),
    ],
)
def test_numbers_have_the_digits_of_a_language(text: str, language: str, expected: str) -> None:
    assert localize_digits(text, language) == expected


def test_kept_spans_have_the_digits_of_the_translation() -> None:
    assert DateWriter("ar", "en").write_all("", ["٢٥", "a@b.org"]) == ("25", "a@b.org")
    assert DateWriter("ar", "en").without(frozenset(["٢٥"])).write("٢٥") == "٢٥"
    assert NO_DATES.write("٢٥") == "٢٥"
