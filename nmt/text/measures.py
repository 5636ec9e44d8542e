"""Numbers with their units, which most languages write alike, and without words that touch them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from nmt.text.spans import Span

# Also a range, a time or a fraction.
_NUMBER = re.compile(r"[+−~±-]?[\d½¼¾](?:[\d.,:/½¼¾]|\s?[-–—]\s?(?=\d))*")
_UNIT = re.compile(r"\s?([gmlL]|[cdhm]l|cc|am|pm|AM|PM)(?![\w@'’/-]|\.\w)")  # after a number
_MEASURE = re.compile(r"[\d.,]+\s?(?:[kcm]?m|[km]?g|[cdhm]?l|cc|km/h)")
_TOUCHING_WORD = re.compile(r"(\d+)[^\W\d_]{4,}")  # 3hijos; shorter ones are endings: 2nda
_ABBREVIATING_DOT = re.compile(r"\.(?=\s+[a-zà-öø-ÿ])")  # of "5 km. de aquí"


def add_units(
    text: str, spans: Iterable[Span], is_read: Callable[[int, int], bool]
) -> Iterator[Span]:
    """Yield kept spans, in which numbers have their units and the dots of these.

    Args:
        text: a sentence.
        spans: characters [begin, end) of its kept spans, in order.
        is_read: whether a model reads characters [begin, end) of the sentence as words; then they
            are not a unit. Other units, such as km, are part of the spans already.
    """
    for begin, end in spans:
        if _NUMBER.fullmatch(text, begin, end):
            unit = _UNIT.match(text, end)
            if unit and not is_read(*unit.span(1)):
                end = unit.end()
        if _MEASURE.fullmatch(text, begin, end) and _ABBREVIATING_DOT.match(text, end):
            end += 1
        yield begin, end


def cut_words(
    text: str, spans: Iterable[Span], is_read: Callable[[int, int], bool]
) -> Iterator[Span]:
    """Yield kept spans, in which numbers have no word that touches them and that a model reads.

    Args:
        text: a sentence.
        spans: characters [begin, end) of its kept spans.
        is_read: whether a model reads characters [begin, end) of the sentence as words.
    """
    for begin, end in spans:
        match = _TOUCHING_WORD.fullmatch(text, begin, end)
        at = match.end(1) if match else end
        is_word = text[at:end].islower() and is_read(at, end)  # not a product: 1Password
        yield begin, at if is_word else end
