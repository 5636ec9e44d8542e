"""Spans that a translation must contain unchanged: URLs, numbers, placeholders, emoji.

Each is replaced by a *slot*, a piece that the tokenizer reserves and training inserts on both sides
of pairs, and put back after the search.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from nmt.text.marked import splice
from nmt.text.scripts import UNSPACED, UNSPACED_LETTERS, is_spaced_alnum, join_sentences

Span = tuple[int, int]  # characters [begin, end) of a text

# Private characters, which no other text needs; where a text has one, it is a kept span itself.
SLOTS = tuple(map(chr, range(0xE000, 0xE008)))
ANY_SLOT = f"[{SLOTS[0]}-{SLOTS[-1]}]"  # expression
_SLOT = re.compile(ANY_SLOT)
_SLOT_AND_JOINTS = re.compile(rf"([:,;]?\s*)({ANY_SLOT})((?:['’]s\b)?)")
# By a slot after it, as by an end tag; but scripts without spaces have none before any span.
_TOUCHED = re.compile(rf"(?!{UNSPACED})[^\s¿¡(\[{{«“‘\"'-]$")
_LAST_WORD = re.compile(r"(\w*)\s*$")
_FIRST_WORD = re.compile(r"\s*(\w*)")
# Begins a tag, an ending or a reference, or is a tag of a document.
_TAG = re.compile(r"[<(\[\ue000-\uf8ff]|&[a-z#]|\{\{[#/^]|\{%|\{\$(?:START|CLOSE)_")
_FOLLOWED = re.compile(r" +[.,…)]")  # by a mark, after a space; French has one before others
RANGE = r"\s[—–x×+=÷±-]\s"  # between numbers, also of a formula
FILLED_RANGE = rf"(?:[—–x×/:.-]|{RANGE})"  # between placeholders
# A placeholder without a number or a name, which programs fill by its position: %5.2f, %s, {}.
_FILLED = (
    r"(?:%[-+#0']?(?:\*|[0-9]*)(?:\.(?:\*|[0-9]+))?(?:(?:hh?|ll?|[zjtqL])?[A-Za-z]|@)"
    r"|\{(?:![a-z])?(?::[^{}]*)?\})"
)
_POSITIONAL = re.compile(
    rf"(?:[0-9]+{FILLED_RANGE})?{_FILLED}(?:{FILLED_RANGE}(?:{_FILLED}|[0-9]+))*"
)

_DOMAINS = "com|org|net|edu|gov|info|io|dev|app|cat|COM|ORG|NET"
_COUNTRIES = "es|mx|ar|co|cl|pe|uk|us|eu|de|fr|it|pt|br|ai|tv"
_EXTENSIONS = (
    "txt|pdf|docx?|xlsx?|pptx?|odt|csv|tsv|json|xml|ya?ml|html?|css|js|ts|py|ipynb|java|cpp|rs|go|"
    "sh|md|zip|gz|tar|7z|rar|exe|png|jpe?g|gif|svg|webp|mp3|mp4|wav|avi|mkv|log|ini|cfg|toml|sql|db"
)

# Members of character classes. \w and \s are avoided: in Python they know Unicode, in RE2 ASCII.
_SPACE = "\x00-\x20\x7f-\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000"
_DIGIT = "0-9\u00bc-\u00be\u2150-\u215e\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\uff10-\uff19"
_LATIN = "A-Za-z_ªº\u00c0-\u024f"
# Letters of scripts with spaces; roughly, as a class of all of them would be too large. Between
# letters of other scripts, a span may begin anywhere.
_LETTER = (
    f"{_LATIN}µ\u0250-\u0dff\u0f00-\u0fff\u10a0-\u177f\u1800-\u1fff\u2c00-\u2dff\u3130-\u318f"
    "\ua000-\ud7ff\ufb00-\ufdff\ufe70-\ufefe\uff21-\uff5a\uffa1-\uffdc"
)
_URL = "!#-';*-;=?-Z_a-z~\u00a1-\u00aa\u00ac-\u00ba\u00bc-\u1fff"  # without ( ) [ ] « »

# Repetitions are bounded where a text could otherwise be read again from each of its words.
_PART = rf"(?:[{_URL}]|\([{_URL}]*\)|\[[{_URL}]*\])*(?:[{_LATIN}0-9/=#&~+-]|\([{_URL}]*\))"
_LABEL = "[A-Za-z0-9]+(?:--?[A-Za-z0-9]+){0,3}"  # of a domain
_DOMAIN = (
    rf"(?:(?:{_LABEL}\.){{1,4}}(?:{_DOMAINS})"
    rf"|(?:{_LABEL}\.){{0,3}}[A-Za-z0-9]+(?:-*[A-Za-z0-9]){{1,9}}\.(?:{_COUNTRIES}))\b"
)
_WEB = f"(?:https?|ftp|HTTPS?)://{_PART}"
_EMAIL = rf"(?:[{_LATIN}0-9]+[.+-]){{0,4}}[{_LATIN}0-9]+@(?:{_LABEL}\.){{1,4}}[A-Za-z]{{2,9}}\b"
# Of a measure. No single letter alone: \b is ASCII's, so that "5 m" would begin in "5 más".
_SQUARED = "(?:km|cm|mm|m)(?:[²³]|[23]\\b)"
_RATE = (
    f"(?:[km\u00b5\u03bc]?g|m?mol|kcal|kJ)/(?:{_SQUARED}|(?:kg|[cdm]?l|[cdm]L|min|kWh)\\b)"
    f"|(?:[kcm]?m|[cdm]?[lL]|kWh?|[KkMGT][Bb])/(?:{_SQUARED}|s²|(?:min|h|s)\\b)"
)
_UNIT = (
    f"{_SQUARED}|l/100 ?km\\b|{_RATE}"
    "|(?:km|cm|mm|KM|CM|MM|KG|ML|[\u00b5\u03bc][mg]|nm|kg|mg|ml|kWh|kW|kcal|kJ|[hkM]Pa|mmHg|mAh|m[AV]|kV|[GMk]?Hz"
    "|[KkMGT]B|[kMG]bps|px|ppm|dB|rpm)\\b"
)
# A placeholder with a name: %(n)s, %<n>d, %{n}. After a number and a space, it belongs to the
# number, as RE2 cannot tell that its sign is not that of a percentage.
_NAMED = (
    r"%\([A-Za-z_][A-Za-z0-9_]*\)[-+#0]?[0-9]*(?:\.[0-9]+)?[A-Za-z]\b"
    r"|%<[A-Za-z_]+>[-+#0-9.]*[bcdeEfgGiosuxX]\b|%\{[A-Za-z_][A-Za-z0-9_]*\}"
)
_STEM = rf"[{_LATIN}0-9]+(?:-+[{_LATIN}0-9]+){{0,5}}"
_NAME = rf"\.?{_STEM}(?:\.{_STEM}){{0,2}}"  # of a file or folder
_DAY, _YEAR = "(?:dd?|gg?|jj?|tt?)", "(?:a{4}|aa|j{4}|jj|y{4}|yy)"  # of dd/mm/aaaa

_EMOJI = (
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2190-\u21ff\u2300-\u23ff\u203c\u2049\u3030"
    "\u303d\u00a9\u00ae\u2122]"
)
_MODIFIERS = "[\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"
_EMOJI_SEQUENCE = f"{_EMOJI}{_MODIFIERS}(?:\u200d{_EMOJI}{_MODIFIERS})*"

# Kind -> expression. Where several match at one place, the first does. Marks that end a sentence
# end no span. Only syntax that RE2 shares with Python, so that a SavedModel finds the same spans;
# and no look-behind, as RE2 forgets the text before each match.
PATTERNS = {
    "code": "```[^`\n]+```|`[^`\n]+`"
    "|<(?:code|kbd|output|samp|var)(?: [^<>]*)?>[^<>]*</(?:code|kbd|output|samp|var)>",
    "e-mail": f"{_EMAIL}|<{_EMAIL}>|&lt;{_EMAIL}&gt;",
    "url": rf"{_WEB}|www\.{_PART}|<{_WEB}>|&lt;{_WEB}&gt;"
    rf"|(?:{_DOMAIN}|localhost)(?::[0-9]{{2,5}}\b)?(?:[/?#]{_PART}|/)?",
    "placeholder": r"\{\{[^{}]+\}\}|\{%[^{}]+%\}"
    r"|\{ *[A-Za-z0-9_]+ *, *"
    r"(?:plural|select|selectordinal|number|date|time|choice|spellout|ordinal|duration)"
    r" *(?:,(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)?\}"
    rf"|[$%#@]?\{{[^{{}}{_SPACE}]*\}}|\[\[[^\[\]{_SPACE}]+\]\]"
    r"|%#@[A-Za-z_]+@|%(?:[0-9]+\$)?[-+#0']?(?:\*|[0-9]*)(?:\.(?:\*|[0-9]+))?"
    r"(?:(?:hh?|ll?|[zjtqL])?[A-Za-z]\b|@)"
    rf"|{_NAMED}"
    r"|%%[A-Za-z_][A-Za-z0-9_.]*%%|%[A-Za-z_][A-Za-z0-9_.]*%|%[0-9]{1,2}\b"
    r"|\*\|[A-Z0-9_:]+\|\*"
    r"|</?[A-Za-z][A-Za-z0-9_:.-]*(?: [^<>=]*=[^<>]*)? ?/?>|</?[0-9]+ ?/?>"
    r"|&lt;/?[A-Za-z][A-Za-z0-9]*(?: [^<>=]{0,40}=[^<>]{0,200}?)? ?/?&gt;"
    r"|\[/?(?:b|i|u|s|url|img|quote|code|color|size|list)(?:=[^\[\]]*)?\]"
    r"|&(?:#[0-9]+|#x[0-9A-Fa-f]+|[A-Za-z][A-Za-z0-9]+);"
    r"|<%[^%]*%>|\$t\([^()]*\)|@(?:\.[a-z]+)?:[A-Za-z_]+(?:\.[A-Za-z0-9_]+)*"
    r"|\$[A-Za-z_][A-Za-z0-9_]*|:[a-z_][a-z0-9_]*(?:-[a-z0-9_]+)*:|:[a-z_][a-z0-9_]*\b|:[+-]1:",
    "file": rf"(?:[A-Za-z]:\\|~?/)?(?:{_NAME}[/\\]|\.\.?/){{0,9}}"
    rf"(?:{_STEM}\.){{0,2}}{_STEM}(?:\([{_LATIN}0-9]+\))?\.(?:{_EXTENSIONS})\b"
    rf"|[A-Za-z]:\\(?:{_NAME}\\?)*"
    # One backslash, and any before n, r, t or u, may be that of a command or an escape.
    rf"|{_STEM}(?:\\[A-Za-mo-qsv-z0-9_](?:[.-]?[{_LATIN}0-9])+){{2,}}"
    rf"|(?:(?:~|\.\.?)/|/{_NAME}/){_NAME}(?:/{_NAME})*/?",
    "escape": r"\\(?:[nrt]\b|u[0-9A-Fa-f]{4}|['\"])",  # that a program will read
    "option": "-[A-Za-z], --[a-z][a-z-]*(?:=[A-Za-z_]+)?|--[a-z][a-z-]*=[A-Za-z_]+",
    "date format": rf"{_DAY}[/.-][mM]{{1,2}}[/.-]{_YEAR}\b|{_YEAR}[/.-][mM]{{1,2}}[/.-]{_DAY}\b"
    rf"|[mM]{{1,2}}[/.-](?:{_DAY}[/.-])?{_YEAR}\b|[hH]{{2}}:mm(?::ss)?\b",
    "identifier": r"__[A-Z][A-Z0-9_]*__|[A-Za-z]+(?:_+[A-Za-z0-9]+)+\b(?:\(\))?"
    r"|[A-Za-z][A-Za-z0-9_]*(?:(?:\.|::)[A-Za-z_][A-Za-z0-9_]*){0,4}\(\)"
    r"|[A-Za-z][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)+",
    "tag": rf"@[{_LATIN}][{_LATIN}0-9]*(?:\.[a-z0-9_]+)*|#[{_LATIN}][{_LATIN}0-9]*",
    "emoji": f"{_EMOJI_SEQUENCE}(?: ?{_EMOJI_SEQUENCE})*|[0-9#*]\ufe0f?\u20e3"
    r"|[:;]'?-?(?:[()]|[DPp]\b)|:/\B|<3\b",
    # Degrees, minutes and seconds, as of coordinates.
    "number": "[0-9]{1,3}[°º] ?[0-9]{1,2}['′’](?: ?[0-9]{1,2}(?:[.,][0-9]{1,4})?(?:[\"″”]|''))?"
    r"|\+[0-9]{1,3}(?:[ -]?(?:\([0-9]{2,4}\)|[0-9]{2,4})){2,5}\b"
    rf"|(?:[A-Za-z]{{1,5}}-|[+−±~-]?(?:[A-Z]{{0,3}}[$€£¥] ?)?[+−-]?)"
    rf"(?:(?:[A-Z]{{2}}[0-9]{{2}}|[0-9]{{2,4}})(?: [0-9]{{2,4}}){{2,7}}\b"  # telephone, account
    rf"|[0-9]{{1,3}}(?: [0-9]{{3}})+\b|[0-9]{{7,8}}-[A-Z]\b"
    rf"|[{_LATIN}]*[{_DIGIT}][{_LATIN}{_DIGIT}₀-₉]*)"
    rf"(?:[.,:/'’–٫٬-][{_DIGIT}][{_LATIN}{_DIGIT}]*|，[０-９]{{3}}|．[０-９][{_LATIN}{_DIGIT}]*"
    rf"|\.[ºª]|-[A-Z]{{2,4}}\b)*"
    rf"(?:%| (?:{_NAMED})| %\B"
    rf"| ?(?:[€£]/(?:kg|km|m²|m2|h|l)\b|[‰€£]|[°º](?:[CFK]\b)?|{_UNIT})|[$¥]"
    rf"| ?(?:[ap]\. ?m\.|[AP]\. ?M\.|[AP]M\b))?",
    # A mark of an item, an ending as of niño(s), a function of a letter, a reference.
    "bracket": r"[A-Za-z]?\([A-Za-z]\)|\((?:[ivx]{2,4}|[IVX]{2,4}|[0-9]{1,4})\)"
    r"|\[(?:[0-9]{1,4}|[xX]|sic)\]|\(sic\)|[JOSY]/n\b"
    r"|\[(?:[0-9]+|\*),(?:[0-9]+|\*)\]",  # and a choice by number
    "line": r"_{2,}(?:/_{2,})+|_{3,}|[=~*#-]{3,}",  # to write on, or to draw
    "private": "[\ue000-\uf8ff]",
}
SPAN = "|".join(f"(?:{pattern})" for pattern in PATTERNS.values())
# Words in which no span begins: "his/her/their" and "Sr./Sra." have no path, "amig@s" no mention.
# A colon after a word, a mark or a letter of another script begins no placeholder, and a hyphen is
# no sign of a number.
WORD = (
    rf"[{_LETTER}]+(?:(?:['’/@-]|\./)[{_LETTER}]+)*[:-]?"
    rf"|[”’»\"\]){UNSPACED_LETTERS}]:|[”’»\])]-"
)
# The number of a month, which other languages write as its name: 3月, 3~5月, 3월, tháng 3. It is
# tried before SPAN, so that its digits are not kept as a number.
_MONTH_NUMBER = "(?:1[0-2]|１[０-２]|[0０]?[1-9１-９])"
MONTH = (
    f"(?:{_MONTH_NUMBER} ?[~～〜–—、至到-] ?)?{_MONTH_NUMBER}(?: ?月|월)"
    r"|(?:[Tt]háng|THÁNG) (?:1[0-2]|0?[1-9])\b"
)
# Every span has one of these; most sentences do not, and need no search for spans.
_HINT = re.compile(
    rf"[{_DIGIT}@#%$&`{{\[</\\_:;\u203c\u2049\u3030\u303d\u00a9\u00ae\u2122\u20e3\u2190-\u2bff"
    rf"\ue000-\uf8ff\U0001f000-\U0001faff]"
    rf"|[adgjty]-[mM]|[mM]-[adgjty]"
    rf"|[{_LATIN}0-9]\.[A-Za-z0-9]|www\.|localhost|\([A-Za-z]{{0,4}}\)|[=~*-]{{3}}|--[a-z]|\*\|"
)


@cache
def _span_or_word() -> re.Pattern[str]:
    """Return the expression, which takes long to compile and few texts need."""
    return re.compile(f"{MONTH}|({SPAN})|{WORD}", re.ASCII)


class SlottedText(NamedTuple):
    """A text with slots in place of its kept spans."""

    text: str
    values: tuple[str, ...]  # the spans, by number of their slot
    remarks: tuple[int, ...] = ()  # numbers of those that are remarks: `nmt.text.brackets`


def make_overlap_test(spans: Sequence[Span]) -> Callable[[int, int], bool]:
    """Return a function that tells whether characters [begin, end) overlap one of the spans.

    Args:
        spans: characters [begin, end), in any order, which do not overlap each other.
    """
    ordered = sorted(spans)
    ends = [end for _, end in ordered]

    def overlaps(begin: int, end: int) -> bool:
        at = bisect_right(ends, begin)  # the first span that ends after the beginning
        return at < len(ordered) and ordered[at][0] < end

    return overlaps


def find_overlapping(spans: Sequence[Span], begin: int, end: int) -> slice:
    """Return which spans, in order and apart from each other, overlap characters [begin, end)."""
    first = bisect_right(spans, begin, key=itemgetter(1))
    return slice(first, bisect_left(spans, end, key=itemgetter(0)))


def cut_spans(text: str, spans: Iterable[Span], cuts: Collection[int]) -> Iterator[Span]:
    """Yield spans, without those white spaces at which they are cut.

    Args:
        text: the text.
        spans: characters [begin, end).
        cuts: indices at which something was taken out of the text, such as the bracket of "Lugo
            (Galicia)": these names are not one.
    """
    for begin, end in spans:
        for first, last in pairwise(sorted({begin, *(at for at in cuts if begin < at < end), end})):
            part = text[first:last]
            if part.strip():
                yield last - len(part.lstrip()), first + len(part.rstrip())


def find_spans(text: str) -> Iterator[Span]:
    """Yield the characters [begin, end) of the kept spans of a text, in order."""
    if _HINT.search(text):
        for match in _span_or_word().finditer(text):
            if match[1]:
                yield match.span()


def make_kept_test(text: str) -> Callable[[int, int], bool]:
    """Return a function that tells whether characters of a text overlap one of its kept spans."""
    return make_overlap_test(list(find_spans(text)))


def drop_inner(ends: list[int], spans: Sequence[Span]) -> list[int]:
    """Return the ends that are not inside a kept span."""
    return [end for end in ends if skip_span(end, spans) == end]


def skip_span(at: int, spans: Sequence[Span]) -> int:
    """Return an index, or the end of the span that it is inside of."""
    number = bisect_left(spans, (at, 0)) - 1  # the last span that begins before it
    return max(at, spans[number][1]) if number >= 0 else at


def has_letters_outside(text: str, spans: Sequence[Span]) -> bool:
    """Whether a text has letters outside of kept spans."""
    end = 0
    for first, last in spans:
        if any(map(str.isalpha, text[end:first])):
            return True
        end = last
    return any(map(str.isalpha, text[end:]))


def keep_spans(text: str, spans: Sequence[Span], slots: Sequence[str] = SLOTS) -> SlottedText:
    """Replace spans by slots; those for which no slot is left stay as they are.

    Args:
        text: the text.
        spans: characters [begin, end) of each span, in order.
        slots: the slots that may be used, in order.
    """
    kept = list(zip(spans, slots, strict=False))
    with_slots = splice(text, ((*span, slot) for span, slot in kept))
    return SlottedText(with_slots, tuple(text[begin:end] for (begin, end), _ in kept))


def show_spans(text: str, spans: Sequence[str]) -> str:
    """Return a text or a piece with kept spans in place of their slots, for display."""
    return text.translate({ord(slot): span for slot, span in zip(SLOTS, spans, strict=False)})


def is_intact(text: str, count: int) -> bool:
    """Whether a translation has each of the first ``count`` slots once, and no other slot."""
    slots = _SLOT.findall(text)
    return len(slots) == count and sorted(slots) == list(SLOTS[:count])


def space_slots(source: str, text: str, values: Sequence[str]) -> str:
    """Return a translation whose slots have the spaces that those of the source have.

    A space is inserted between a slot and a word that do not touch in the source. Where they touch,
    it is removed beside tags; beside other spans only if the word is the same, as in "5km": "5권"
    becomes "5 books". In scripts without spaces, no space is added.

    Args:
        source: with slots.
        text: its translation.
        values: the spans, by number of their slot.
    """
    for slot, value in zip(SLOTS, values, strict=False):
        if slot not in source or slot not in text:
            continue
        source_before, _, source_after = source.partition(slot)
        before, _, after = text.partition(slot)
        follows_word = is_spaced_alnum(source_before[-1:])
        precedes_word = is_spaced_alnum(source_after[:1])
        # Signs, as of *Nota and &Archivo, and numbers of footnotes touch words as tags do.
        is_sign = not any(each.isalpha() or each.isdecimal() for each in value)
        is_tag = is_sign or bool(_TAG.match(value))
        joins_left = is_tag or value[0] == "/" or _have_equal(_LAST_WORD, source_before, before)
        joins_right = is_tag or value[-1] == "/" or _have_equal(_FIRST_WORD, source_after, after)
        follows_slot = bool(_SLOT.match(source_before[-1:]) and _SLOT.search(before.rstrip()[-1:]))
        if (follows_word or follows_slot) and precedes_word:  # brothers/sisters, 5 €/mes
            before, after = before.rstrip(), after.lstrip()
        if is_spaced_alnum(before[-1:]) and not follows_word:
            before += " "
        elif _TOUCHED.search(source_before) and not precedes_word and joins_left:
            before = before.rstrip()
        if is_spaced_alnum(after[:1]) and not precedes_word:
            after = f" {after}"
        elif (precedes_word and not follows_word and joins_right) or (
            _FOLLOWED.match(after) and not _FOLLOWED.match(source_after)
        ):
            after = after.lstrip()
        text = f"{before}{slot}{after}"
    return text


def _have_equal(word: re.Pattern[str], source: str, text: str) -> bool:
    """Whether two texts have the same word at one end, or none."""
    ends = [word.search(each) for each in (source, text)]
    return len({match[1].lower() for match in ends if match}) == 1


def restore_spans(
    text: str,
    values: Sequence[str],
    place: Callable[[str, int], int] | None = None,
    first: int = 0,
) -> tuple[str, tuple[str, ...]]:
    """Put spans back in place of their slots.

    Args:
        text: a translation with slots.
        values: the spans, by number of their slot.
        place: returns where in a translation to insert a slot that it lacks, given its number;
            None: at the end.
        first: index in the text before which no slot is inserted.

    Returns:
        The translation, in which each span replaces the first of its slots, and the spans that were
        lost and had to be inserted. Unknown slots are removed, and repeated ones with the marks
        before and an 's after them.
    """
    seen: set[str] = set()

    def drop_repeated(match: re.Match[str]) -> str:
        before, slot, after = match.groups()
        if slot in seen:
            return ""
        seen.add(slot)
        return match[0] if slot in SLOTS[: len(values)] else before + after

    text = _SLOT_AND_JOINTS.sub(drop_repeated, text)
    lost = [number for number in range(len(values)) if SLOTS[number] not in seen]
    for number in lost:
        at = len(text) if place is None else max(place(text, number), first)
        if number:  # spans at the same place keep their order
            touching = re.compile(rf"(?:\s*[{SLOTS[0]}-{SLOTS[number - 1]}])+").match(text, at)
            at = touching.end() if touching else at
        before, after = text[:at].rstrip(), text[at:].lstrip()
        text = join_sentences((before, SLOTS[number], after))
    restored = _SLOT.sub(lambda match: values[SLOTS.index(match[0])], text)
    return restored, tuple(values[number] for number in lost)


def order_placeholders(text: str, values: Sequence[str], first: int = 0) -> str:
    """Return a translation whose positional placeholders, such as %s and {}, keep their order.

    Args:
        text: a translation with slots.
        values: the spans, by number of their slot.
        first: index in the text before which nothing is changed.
    """
    by_slot = dict(zip(SLOTS, values, strict=False))
    slots = [
        slot for slot in _SLOT.findall(text[first:]) if _POSITIONAL.fullmatch(by_slot.get(slot, ""))
    ]
    ordered = sorted(slots)
    if list(map(by_slot.get, slots)) == list(map(by_slot.get, ordered)):  # equal ones stay
        return text
    moved = str.maketrans(dict(zip(slots, ordered, strict=True)))
    return text[:first] + text[first:].translate(moved)
