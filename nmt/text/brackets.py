"""Marks around sentences, and brackets inside of them.

Here, brackets are round and square ones, quotation marks, and signs of emphasis as in **this**.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from nmt.text.cleaning import clean_text
from nmt.text.marked import splice
from nmt.text.scripts import CAPITALS, is_spaced_alnum, is_unspaced_letter
from nmt.text.spans import (
    Span,
    find_spans,
    has_letters_outside,
    make_kept_test,
    make_overlap_test,
)
from nmt.text.tags import SPACED_MARKS, TaggedText, take_out

# Opening sign -> closing sign.
PAIRS = {
    **{"(": ")", "[": "]", "«": "»", "“": "”", "„": "“", "‘": "’"},
    **{sign: sign for sign in "\"'*_~"},
}
# The end of a link in Markdown closes its text.
_SIGN = re.compile(r"\]\([^()\s]+\)|[()\[\]«»“”„\"‘’']|\*{1,2}|~{1,2}|(?<!_)_(?!_)")
_FINAL_DOTS = re.compile(r"\s*(?:(?<!\.)\.{3}|…)?\s*\Z")  # in brackets; they stay there
_ALL = frozenset(PAIRS)
_CLOSING = frozenset(PAIRS.values())
_TIGHT = frozenset("\"'’*_~")  # without a space on the inner side, and a word on the outer one
_OPENING = frozenset("([{«“„‘¿¡<")  # between a word and one of them, there is a space
_DEEPEST = 8  # opened brackets that a sign may close
_REMARK_SIGNS = frozenset("([")
_REMARK = re.compile(rf"[(\[].*(?:\w\W+\w|[{CAPITALS}]\w).*[)\]]", re.DOTALL)

_TAGS = r"(?:</?\w[^<>]*>)*"  # around the mark of an item
# The mark of an item, or the dash of a speech, at the beginning of a line ...
_LIST_MARKER = re.compile(
    rf"{_TAGS}(?:[-*•·–—▪▫■□●○◦►▶▸‣⁃]|[IVX]{{2,4}}[.)]|[IVX]\)|[ivx]{{2,4}}\)){_TAGS}\s+(?=\S)"
    # Not an initial, nor a letter of an abbreviation, which no capital follows.
    rf"|{_TAGS}[a-z]\.{_TAGS}\s+(?=[¿¡]?[{CAPITALS}])|{_TAGS}[ivx]{{2,4}}\.{_TAGS}\s+(?=\S)"
    # With the numbers of parts: 1.a), A.1.
    rf"|{_TAGS}(?:[0-9]{{1,2}}\.[A-Za-z]|[A-Za-z]\.[0-9]{{1,2}})[.)]{_TAGS}\s+(?=\S)"
    # Of a heading in capitals, where an initial is copied, too, or of an interview: P. ¿Por qué?
    rf"|{_TAGS}[A-Z]\.{_TAGS}\s+(?=[{CAPITALS}]{{3}}|[¿¡])"
    # The bullet of a list in a PDF may touch its text.
    rf"|[•‣⁃](?=[¿¡«“\"(]*[^\W_])"
    # A dash before a single consonant is that of an option: -v.
    r"|[-–—](?![A-Za-z], --|[b-df-hj-np-tv-xz]\s)(?=[¿¡«“\"(]*[^\W\d_])"
)
# ... of a heading, unless the word is a family name: A. Machado, I. Newton ... A sentence may begin
# with a family name that is a word, as "A. Blanco es mi profesor.", but not with these words.
_ARTICLES = frozenset("el la los las un una the le les der die das".split())
_HEADING_MARKER = re.compile(
    rf"{_TAGS}[A-IVX]\.{_TAGS}\s+(?=[¿¡«“\"(]*(?P<word>[{CAPITALS}][^\W\d_]+))"
)
# ... and of any sentence.
_ANY_MARKER = re.compile(
    rf"{_TAGS}(?:(?:[0-9]{{1,3}}|[A-Za-z])(?:\)|\.-)|\((?:[0-9]{{1,3}}|[A-Za-z]|[ivx]{{2,4}}|[IVX]{{2,4}})\)){_TAGS}\s+(?=\S)"
    r"|(?:\.{3}|…) ?(?=[¿¡]?[^\W\d_])"  # of a sentence that continues another one
    rf"|[-–—](?=[¿¡«“\"(]*[{CAPITALS}]|[¿¡])|[-–—] (?=[¿¡\d{CAPITALS}])"
)
# A sentence in quotation marks, brackets (also < and >) or signs of emphasis, which stay around it
# untranslated; a mark after them ends the sentence.
_ENCLOSED = re.compile(
    r"(?:(«\s*+)[^«»]*[^«»\s](\s*+»)|(“)[^“”]+(”)|(„)[^„“”]+([“”])|(\")[^\"]+(\")"
    r"|(‘)[^‘’]+(’)|(')[^']+(')|(\()[^()]+(\))|(\[)[^\[\]]+(\])|(<)[^<>]+(>)"
    r"|(?P<sign>\*{1,2}|_|~{1,2})(?=\S)[^*_~]+(?<=\S)((?P=sign)))(?P<final>[.!?…]*)"
)


def split_marks(
    sentence: str, *, begins_line: bool, is_word: Callable[[str], bool] = lambda word: False
) -> tuple[str, str, str]:
    """Return the marks before a sentence, the sentence, and the marks after it.

    A final mark after the closing one moves into a sentence without a final mark: «Sí». → Sí.

    Args:
        sentence: the sentence.
        begins_line: whether it begins a line, so that it may be an item of a list.
        is_word: whether a word is known to be no name, so that no initial is before it.
    """
    marker = _ANY_MARKER.match(sentence)
    if begins_line and marker is None:
        marker = _LIST_MARKER.match(sentence)
        marker = marker or _match_heading(sentence, is_word)
    before = marker[0] if marker and clean_text(sentence[marker.end() :]) else ""
    sentence = sentence[len(before) :]
    match = _ENCLOSED.fullmatch(sentence)
    if match is None:
        return before, sentence, ""
    opening, closing, final = filter(lambda each: each is not None, match.groups())
    stop = len(sentence) - len(final)
    inside = sentence[len(opening) : stop - len(closing)]
    if (0, stop) in find_spans(sentence) or not clean_text(inside):  # such as *|NAME|*
        return before, sentence, ""
    is_remark = opening in _REMARK_SIGNS and final == "."
    if is_remark or inside.rstrip().endswith((".", "!", "?", "…")):
        closing += final
    else:
        inside += final
    return before + opening, inside, closing


def _match_heading(sentence: str, is_word: Callable[[str], bool]) -> re.Match[str] | None:
    match = _HEADING_MARKER.match(sentence)
    if match is None or not is_word(match["word"]):
        return None
    is_heading = not sentence.rstrip().endswith((".", "!", "?", "…"))
    return match if is_heading or match["word"].lower() in _ARTICLES else None


def find_remarks(
    sentence: str, signs: frozenset[str] = _REMARK_SIGNS, terms: Sequence[Span] = ()
) -> list[Span]:
    """Return the characters [begin, end) of remarks in brackets: those of "Ana (mi prima) y yo".

    A remark comes after a word and a space. It is several words, or one with a capital.

    Args:
        sentence: the sentence.
        signs: opening signs; only round and square brackets count.
        terms: characters [begin, end) of terms, whose brackets count as letters.
    """
    is_term = make_overlap_test(terms)
    remarks: list[Span] = []
    for start, end in _match_brackets(sentence, signs & _REMARK_SIGNS):
        begin, stop = start.start(), end.end()
        follows_word = sentence[begin - 1 : begin].isspace() and any(
            map(str.isalpha, sentence[:begin])
        )
        is_free = not (is_term(*start.span()) or is_term(*end.span()))
        if follows_word and is_free and _has_words(sentence[begin:stop]):
            while remarks and remarks[-1][0] > begin:  # inside of this one
                remarks.pop()
            remarks.append((begin, stop))
    return remarks


def find_bracketed(text: str) -> list[Span]:
    """Return the characters [begin, end) of texts in round and square brackets, by their begin.

    Those that the text does not close end after it. Kept spans such as [12] and (a) count.
    """
    missing: list[str] = []
    for sign in text:
        if sign in _REMARK_SIGNS:
            missing.append(PAIRS[sign])
        elif missing and sign == missing[-1]:
            missing.pop()
    if missing:  # with letters, as brackets around nothing do not count
        text += "".join(["ab", *reversed(missing)])
    others = [span for span in find_spans(text) if text[span[0]] not in _REMARK_SIGNS]
    pairs = _match_brackets(text, _REMARK_SIGNS, make_overlap_test(others))
    return sorted((start.start(), end.end()) for start, end in pairs)


def _has_words(text: str) -> bool:
    """Whether a text in brackets may be a remark: see `find_remarks`."""
    if not _REMARK.fullmatch(text) or PAIRS[text[0]] != text[-1]:
        return False
    spans = list(find_spans(text))
    return (0, len(text)) not in spans and has_letters_outside(text, spans)


def read_brackets(sentence: str, signs: frozenset[str], stay: Sequence[Span] = ()) -> TaggedText:
    """Return a sentence whose brackets are taken out, as elements around the text inside of them.

    Brackets that alone separate words, as in "(pre)historia", stay, and so do those inside of kept
    spans and around nothing but marks.

    Args:
        sentence: the sentence.
        signs: the opening signs to take out, of `PAIRS`.
        stay: characters [begin, end) of terms and remarks, whose brackets stay.
    """
    stays = make_overlap_test(stay)
    elements = []
    for start, end in _match_brackets(sentence, signs):
        if stays(*start.span()) or stays(*end.span()):
            continue
        inside = sentence[start.end() : end.start()]
        first = start.end() + len(inside) - len(inside.lstrip())
        last = start.end() + len(_FINAL_DOTS.sub("", inside))
        elements.append(((start.start(), first), (last, end.end())))
    return take_out(sentence, elements)


def remove_brackets(text: str, brackets: Sequence[tuple[str, str]]) -> str:
    """Return a beginning of a text without the brackets that it has of the given ones.

    Apostrophes and brackets inside of kept spans stay.
    """
    left = Counter(sign.strip(" .…") for pair in brackets for sign in pair)
    if not left:
        return text
    is_kept = make_kept_test(text)
    cuts = []
    for match in _SIGN.finditer(text):
        is_apostrophe = _follows_word(match) and _precedes_word(match)
        if left[match[0]] and not is_apostrophe and not is_kept(match.start(), match.start() + 1):
            left[match[0]] -= 1
            cuts.append((match.start(), match.end(), ""))
    return splice(text, cuts)


def list_brackets(sentence: str) -> set[str]:
    """Return the opening signs of the brackets of a sentence."""
    return {start[0][0] for start, _ in _match_brackets(sentence, _ALL)}


def _match_brackets(
    sentence: str, signs: frozenset[str], is_kept: Callable[[int, int], bool] | None = None
) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Yield the signs of each two brackets that may be taken out.

    Args:
        sentence: the sentence.
        signs: the opening ones.
        is_kept: tells the characters whose brackets stay; None: kept spans.
    """
    if signs.isdisjoint(sentence):
        return
    is_kept = is_kept or make_kept_test(sentence)
    opened: list[re.Match[str]] = []
    for sign in _SIGN.finditer(sentence):
        if is_kept(sign.start(), sign.start() + 1):
            continue
        place = _find_opened(opened, sign)
        if place is None:
            if _may_open(sign):
                opened = [*opened[1 - _DEEPEST :], sign]
            continue
        start = opened[place]
        del opened[place:]
        inside = sentence[start.end() : sign.start()]
        separates = _separates_before(start) or _separates_after(sign)
        if start[0][0] in signs and not separates and any(map(str.isalnum, inside)):
            yield start, sign


def _find_opened(opened: Sequence[re.Match[str]], sign: re.Match[str]) -> int | None:
    """Return the index of the last opened bracket that a sign closes."""
    kind, before = sign[0][0], sign.string[sign.start() - 1 : sign.start()]
    is_loose = before.isspace() or _precedes_word(sign)
    if kind not in _CLOSING or (kind in _TIGHT and is_loose):
        return None
    closing = "]" if sign[0].startswith("](") else sign[0]
    for place in reversed(range(len(opened))):
        opening = opened[place][0]
        if PAIRS[opening[0]] * len(opening) == closing:
            return place
    return None


def _may_open(sign: re.Match[str]) -> bool:
    kind, after = sign[0][0], sign.string[sign.end() : sign.end() + 1]
    return kind in PAIRS and not (kind in _TIGHT and (not after.strip() or _follows_word(sign)))


def _separates_before(opening: re.Match[str]) -> bool:
    """Whether nothing but an opening bracket separates its content from the text before it."""
    before = opening.string[max(opening.start() - 2, 0) : opening.start()]
    follows_bracket = before[-1:] in _CLOSING and len(before.strip()) == 2
    inner = opening.string[opening.end() : opening.end() + 1]
    return (
        _follows_word(opening)
        or before[-1:] in SPACED_MARKS
        or follows_bracket
        or _are_unspaced(before[-1:], inner)
    )


def _separates_after(closing: re.Match[str]) -> bool:
    """Whether nothing but a closing bracket separates its content from the text after it."""
    after = closing.string[closing.end() : closing.end() + 1]
    inner = closing.string[closing.start() - 1 : closing.start()]
    return _precedes_word(closing) or after in _OPENING or _are_unspaced(inner, after)


def _are_unspaced(*neighbors: str) -> bool:
    """Whether the letters on both sides of a bracket are of scripts without spaces."""
    return all(map(is_unspaced_letter, neighbors))


def _follows_word(sign: re.Match[str]) -> bool:
    return is_spaced_alnum(sign.string[sign.start() - 1 : sign.start()])


def _precedes_word(sign: re.Match[str]) -> bool:
    return is_spaced_alnum(sign.string[sign.end() : sign.end() + 1])
