"""Numbers with their units, which most languages write alike, and without words that touch them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from nmt.text.spans import FILLED_RANGE, RANGE, Span, find_overlapping, make_overlap_test

# Also a range, a time or a fraction.
_NUMBER = re.compile(r"[+−~±-]?[\d½¼¾](?:[\d.,:/½¼¾]|\s?[-–—]\s?(?=\d))*")
# After a number; also an unknown word without vowels, such as lpm.
_UNIT = re.compile(r"\s?([gmlL]|[b-df-hj-np-tv-z]{2,4}|am|AM|PM)(?![\w@'’/-]|\.\w)")
# Of a laboratory, such as mmol/L; the letter of a room, as in 101-B; a direction, after an angle.
_OTHER_UNITS = re.compile(
    r"(?:\s?(?:[kmnpµμ]?g|[mnpµμ]?mol|mEq|[mµμ]?(?:UI|IU|U))/m?[lL]|-[A-Z]"
    r"|(?<=['′’\"″”])\s?[NSEOW])(?![\w'’/-]|\.\w)"
)
_ANGLE = re.compile("\\d+[°º] ?\\d+['′’].*")
_CODE = re.compile(r"[A-Z0-9]+\d")
_PRIME = re.compile(r"['′](?![\w'])")
_OPENING_QUOTE = re.compile(r"(?<!\w)'\w")
_RANGE = re.compile(RANGE)
_FILLED_RANGE = re.compile(FILLED_RANGE)
# What programs fill, but for tags such as {{#if}}.
_PLACEHOLDER = re.compile(r"(?!\{\{[#/^]|\{%|\{\$)(?:[$%#@]?\{|%|\$[A-Za-z_]|:[a-z])")
_MEASURE = re.compile(r"[\d.,]+\s?(?:[kcm]?m|[km]?g|[cdhm]?l|cc|km/h)")
# Of a formula: a function, a variable, a number; x², f(x), P(A ∪ B), 10. Not the first word of
# "1 = a lot" and "1 = d'accord".
_TERM = (
    r"(?:[A-Za-z]{0,3}\([\w.,+−∪∩ -]{1,16}\)|(?![AEIOUaeou]\s[^\W\d_]{2})"
    r"√?\d*[A-Za-zα-ω]{1,2}[\d²³⁰¹⁴-⁹₀-₉]*(?!\w|['’]\w)|√?\d(?:[\w.,]*\w)?)"
)
_FORMULA = re.compile(
    rf"(?<![\w.,/@#$€]){_TERM}(?:\s?[-+−–±*/^·×÷=<>≤≥≠≈∪∩→]\s?{_TERM})+(?![\w(])"
    r"|\$(?=[^$]{0,200}[\\^_={}]|\w\$)[^\s$\d](?:[^$]{0,200}[^\s$])?\$(?![\w({%])"  # of LaTeX
)
_FORMULA_SIGN = re.compile("[=<>≤≥≠≈^·∪∩→$]")
_FORMULA_WORD = re.compile(r"(?<![\w\\])[^\W\d_]{2,}(?!\w|\()")  # not sin(x), \sin
_TOUCHING_WORD = re.compile(r"(\d+)[^\W\d_]{4,}")  # 3hijos; shorter ones are endings: 2nda
_WORD_BEFORE = re.compile(r"([a-z]{2,5})-\d[\d.,:/–-]*s?")  # type-2, mid-1990s
# After a number with its unit, no path or placeholder begins: 10 €/mes/usuario, Paso 2:abra.
_NUMBER_AND_UNIT = re.compile(r"[+−~±-]?[€$£]?\d[\d.,/]*\s?(?:[^\W\d_]+|[€$£%])?")
_CONTINUED = re.compile(r"/[^\W\d_]|:[a-z]")
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
    quote = _OPENING_QUOTE.search(text)
    for begin, end in spans:
        if _NUMBER.fullmatch(text, begin, end):
            unit = _UNIT.match(text, end)
            # The prime of minutes or feet, unless it closes a quotation.
            may_be_prime = quote is None or quote.end() > begin
            if other := _OTHER_UNITS.match(text, end) or (may_be_prime and _PRIME.match(text, end)):
                end = other.end()
            elif unit and not is_read(*unit.span(1)):
                end = unit.end()
        elif _ANGLE.fullmatch(text, begin, end) or (
            text.startswith("-", end) and _CODE.fullmatch(text, begin, end)
        ):
            other = _OTHER_UNITS.match(text, end)
            end = other.end() if other else end
        if _MEASURE.fullmatch(text, begin, end) and _ABBREVIATING_DOT.match(text, end):
            end += 1
        yield begin, end


def join_ranges(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the spans; numbers with only a dash or a sign between them, as 9 – 12, are one.

    So are placeholders, as {from}–{to}, {width}x{height} and 1-{total}.
    """
    joined: list[Span] = []
    for begin, end in spans:
        last = joined[-1] if joined else (0, 0)
        sides = text[slice(*last)], text[begin:end]
        others = [side for side in sides if not _PLACEHOLDER.match(side)]
        joint = _RANGE if len(others) == len(sides) else _FILLED_RANGE
        if joint.fullmatch(text, last[1], begin) and all(map(_has_digit, others)):
            begin = joined.pop()[0]
        joined.append((begin, end))
    return joined


def join_formulas(
    text: str, spans: Sequence[Span], is_read: Callable[[int, int], bool]
) -> list[Span]:
    """Return kept spans with the formulas of a sentence, such as x > 0 and c = 3·10^8 m/s.

    Args:
        text: the sentence.
        spans: characters [begin, end) of its kept spans, in order.
        is_read: see `add_units`; a formula has no such words.
    """
    formulas: list[Span] = []
    for match in _FORMULA.finditer(text) if _FORMULA_SIGN.search(text) else ():
        begin, end = match.span()
        words = (word.span() for word in _FORMULA_WORD.finditer(text, begin, end))
        has_words = any(is_read(*word) for word in words)
        inner = spans[find_overlapping(spans, begin, end)]
        begins, ends = zip((begin, end), *inner, strict=True)
        begin, end = min(begins), max(ends)
        is_apart = not formulas or formulas[-1][1] <= begin
        is_tag = any(text[first] in "<&" for first, _ in inner)
        if _FORMULA_SIGN.search(match[0]) and is_apart and not (is_tag or has_words):
            formulas.append((begin, end))
    is_inside = make_overlap_test(formulas)
    return sorted([*formulas, *(span for span in spans if not is_inside(*span))])


def _has_digit(text: str) -> bool:
    return any(map(str.isdecimal, text))


def cut_words(
    text: str, spans: Iterable[Span], is_read: Callable[[int, int], bool]
) -> Iterator[Span]:
    """Yield kept spans, in which numbers have no word beside them that a model reads.

    What follows a number with its unit is none: the /mes/usuario of 10 €/mes/usuario.

    Args:
        text: a sentence.
        spans: characters [begin, end) of its kept spans.
        is_read: whether a model reads characters [begin, end) of the sentence as words.
    """
    last = (0, 0)
    for begin, end in spans:
        touches = begin == last[1] and _NUMBER_AND_UNIT.fullmatch(text, *last)
        last = begin, end
        if touches and _CONTINUED.match(text, begin) and not _has_digit(text[begin:end]):
            continue
        before = _WORD_BEFORE.fullmatch(text, begin, end)
        if before and is_read(*before.span(1)):
            begin = before.end(1) + 1
        match = _TOUCHING_WORD.fullmatch(text, begin, end)
        at = match.end(1) if match else end
        is_word = text[at:end].islower() and is_read(at, end)  # not a product: 1Password
        yield begin, at if is_word else end
