"""Marks around sentences, and brackets and quotation marks inside of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.text.cleaning import clean_text
from nmt.text.scripts import is_spaced_alnum
from nmt.text.spans import find_spans, make_overlap_test
from nmt.text.tags import TaggedText, take_out

PAIRS = {"(": ")", "[": "]", "«": "»", "“": "”", "„": "“", '"': '"'}
_CLOSING_SIGNS = frozenset(PAIRS.values())
_DEEPEST = 8  # brackets inside of each other that are matched

# The mark of an item, or the dash of a speech, at the beginning of a line ...
_LIST_MARKER = re.compile(
    r"(?:[-*•·–—▪▫■□●○◦►▶▸‣⁃]|[IVX]{2,4}[.)]|[IVX]\))\s+(?=\S)|[-–—](?=[¿¡«“\"(]*[^\W\d_])"
)
# ... and of any sentence.
_ANY_MARKER = re.compile(
    r"(?:(?:[0-9]{1,3}|[A-Za-z])(?:\)|\.-)|\((?:[0-9]{1,3}|[A-Za-z])\))\s+(?=\S)"
    r"|[-–—](?=[¿¡«“\"(]*[A-ZÀ-ÖØ-Þ]|[¿¡])"
)
# A sentence in quotation marks, brackets or signs of emphasis, which stay around it untranslated; a
# mark after them ends the sentence.
_ENCLOSED = re.compile(
    r"(?:(«\s*+)[^«»]*[^«»\s](\s*+»)|(“)[^“”]+(”)|(„)[^„“”]+([“”])|(\")[^\"]+(\")"
    r"|(‘)[^‘’]+(’)|(')[^']+(')|(\()[^()]+(\))|(\[)[^\[\]]+(\])"
    r"|(?P<sign>\*{1,2}|_|~{1,2})(?=\S)[^*_~]+(?<=\S)((?P=sign)))(?P<final>[.!?…]*)"
)


def split_marks(sentence: str, *, begins_line: bool) -> tuple[str, str, str]:
    """Return the marks before a sentence, itself, cleaned, and the marks behind it.

    A final mark behind the closing one moves into a sentence without a final mark: «Sí». → Sí.

    Args:
        sentence: the sentence.
        begins_line: whether it begins a line, so that it may be an item of a list.
    """
    marker = _ANY_MARKER.match(sentence) or (_LIST_MARKER.match(sentence) if begins_line else None)
    before = marker[0] if marker and clean_text(sentence[marker.end() :]) else ""
    sentence = sentence[len(before) :]
    match = _ENCLOSED.fullmatch(sentence)
    if match is None:
        return before, clean_text(sentence), ""
    opening, closing, final = filter(lambda each: each is not None, match.groups())
    stop = len(sentence) - len(final)
    inside = sentence[len(opening) : stop - len(closing)]
    if (0, stop) in find_spans(sentence) or not clean_text(inside):  # such as *|NAME|*
        return before, clean_text(sentence), ""
    if inside.rstrip().endswith((".", "!", "?", "…")):
        closing += final
    else:
        inside += final
    return before + opening, clean_text(inside), closing


def read_brackets(sentence: str, signs: frozenset[str]) -> TaggedText:
    """Return a sentence whose brackets are taken out, as elements around the text inside of them.

    Brackets that touch a word, as in "niño(s)", stay, and so do those inside of kept spans and
    around nothing but marks.

    Args:
        sentence: the sentence.
        signs: the opening brackets and quotation marks to take out, of `PAIRS`.
    """
    if signs.isdisjoint(sentence):
        return take_out(sentence, ())
    pairs = []
    for begin, end in _match_brackets(sentence):
        inside = sentence[begin + 1 : end]
        touches = any(
            map(is_spaced_alnum, (sentence[begin - 1 : begin], sentence[end + 1 : end + 2]))
        )
        if sentence[begin] in signs and not touches and any(map(str.isalnum, inside)):
            first = begin + 1 + len(inside) - len(inside.lstrip())
            last = begin + 1 + len(inside.rstrip())
            pairs.append(((begin, first), (last, end + 1)))
    return take_out(sentence, pairs)


def _match_brackets(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield where brackets that belong together are, but for those inside of kept spans."""
    is_kept = make_overlap_test(list(find_spans(sentence)))
    opened: list[int] = []
    for at, sign in enumerate(sentence):
        if not (sign in PAIRS or sign in _CLOSING_SIGNS) or is_kept(at, at + 1):
            continue
        inner = reversed(opened[-_DEEPEST:])
        begin = next((each for each in inner if PAIRS[sentence[each]] == sign), None)
        if begin is not None:
            del opened[opened.index(begin) :]
            yield begin, at
        elif sign in PAIRS:
            opened.append(at)
