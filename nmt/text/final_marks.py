"""Marks at the end of sentences that a model may not have learned, such as ":" and "...".

The model reads the sentence with the full stop, question or exclamation mark that these stand for,
or without a mark, and its translation ends as the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from nmt.text.marked import splice
from nmt.text.scripts import (
    UNKNOWN_LANGUAGE,
    UNSPACED_SENTENCES,
    WIDE,
    is_right_to_left,
    is_unspaced_letter,
    primary_subtag,
)
from nmt.text.spans import ANY_SLOT

_INVERTING = frozenset("es spa ast gl glg".split())  # languages with ¿ and ¡
_HEBREW = frozenset("he heb iw yi yid".split())  # from right to left, with the marks . and ?
STOPS = ".…!?"
OTHER_STOPS = "。！？｡．؟۔।॥།።፧။។៕։"  # of scripts without "."
ELLIPSIS = "…"
CLAUSE_MARKS = ":;,"
_OTHER_CLAUSE_MARKS = "：；，、،؛"
ALL_STOPS = STOPS + OTHER_STOPS
FINAL_MARKS = ALL_STOPS + CLAUSE_MARKS + _OTHER_CLAUSE_MARKS
SLASH = "/"
DASH = "—"
_COMMA = re.compile(r"[,،、，](?!(?<=\d.)\d|\s?[\"“«„])")
_CONTENT = re.compile(rf"\w|{ANY_SLOT}")
_NEXT_WORD = re.compile(r"\s\w+")
_ELLIPSES = re.compile(r"\.{2,}|…")
_SLASH = re.compile(r"[^\W\d_]/[^\W\d_]")
_DASH = re.compile(r"\s[—–―-]\s|\w[—–―]|[—–―]\w")
_GREEK = "[\u0370-\u03ff\u1f00-\u1fff]"
_GREEK_QUESTION = re.compile(f"{_GREEK};$")
_GREEK_SEMICOLON = "·"  # elsewhere, between words
# Letters of a script, and its marks in place of others.
_CLAUSE_MARKS_OF_SCRIPTS = (
    (re.compile(_GREEK), {";": _GREEK_SEMICOLON}),
    (re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff]"), {",": "،", ";": "؛"}),
    (re.compile(f"[{WIDE}]"), {",": "，", ":": "：", ";": "；"}),
)
_KANA = re.compile("[\u3040-\u30ff]")  # Japanese has another comma than Chinese
# A mark inside of a quotation: it ends a translation that gets no other mark.
_ENDS_QUOTATION = re.compile(r"[.!?…][\"'”’»)\]]+$")
# The dot of these stays before a colon.
_ABBREVIATION = re.compile(r"(?:\b\w\.\s?\w|\b(?:etc|Inc|Ltd|Jr|Dr|Mr|Mrs))\.$")


def split_final_marks(text: str) -> tuple[str, str]:
    """Return a sentence without the marks that end it, and them.

    They are one colon, semicolon or comma, or any number of stops, question and exclamation marks.
    The dot of an abbreviation before "?" or "!" is not split off. Texts without words, and those in
    scripts without spaces, which have other marks, are not split.
    """
    rest = text[:-1] if text[-1:] in CLAUSE_MARKS else text.rstrip(STOPS)
    marks = text[len(rest) :]
    if marks[:1] == "." and marks[1:2] not in ("", "."):
        rest, marks = rest + ".", marks[1:]
    has_words = any(map(str.isalnum, rest))
    if not has_words or is_unspaced_letter(rest[-1]) or _GREEK_QUESTION.search(text):
        return text, ""
    return rest, marks


def simplify_marks(marks: str) -> str:
    """Return the mark that final marks stand for: "!" of "!!!", nothing of ":"."""
    if not marks or marks in CLAUSE_MARKS:
        return ""
    return next((mark for mark in "?!" if mark in marks), ".")


def copy_final_marks(source: str, translation: str, *, is_fragment: bool = False) -> str:
    """Return a translation with the final marks of its source, if they say more than its own.

    A question stays one. A translation that ends with a mark of another script, with one that
    `split_final_marks` does not split off, or with one inside of a quotation, stays as it is.
    A colon, semicolon or comma is that of the script of most of its letters.

    Args:
        source: the source.
        translation: its translation.
        is_fragment: whether the translation has a full stop only if the source has one, as of a
            heading.
    """
    _, marks = split_final_marks(source)
    text, target_marks = split_final_marks(translation)
    simple = simplify_marks(marks)
    if is_fragment and not marks and target_marks == "." and not _ABBREVIATION.search(translation):
        return text
    has_words = any(map(str.isalnum, text))
    other_marks = (*FINAL_MARKS, _GREEK_SEMICOLON)
    has_other_marks = not target_marks and translation.endswith(other_marks)
    is_ended = has_other_marks or _ENDS_QUOTATION.search(translation)
    if marks == simple or not has_words or is_ended:
        return translation
    replaced = ("", simple) if simple in ("?", "!") else ("", ".", *CLAUSE_MARKS)
    if target_marks not in replaced:
        return translation
    if target_marks == "." and marks in CLAUSE_MARKS and _ABBREVIATION.search(translation):
        text = translation
    # Of «¿Sí?», the dot after the quotation ends the sentence around it.
    return text + (simple if marks == simple + "." else _localize_clause_mark(marks, text))


def _localize_clause_mark(mark: str, text: str) -> str:
    """Return what stands for a mark in the script of most letters of a text."""
    letters = "".join(filter(str.isalpha, text))
    for letter, marks in _CLAUSE_MARKS_OF_SCRIPTS:
        if 2 * len(letter.findall(letters)) > len(letters):
            is_japanese = _KANA.search(letters) is not None
            return "、" if mark == "," and is_japanese else marks.get(mark, mark)
    return mark


def find_commas(text: str) -> list[int]:
    """Return the indices of the commas of a text, but for those in numbers or before quotations."""
    return [match.start() for match in _COMMA.finditer(text)]


def replace_commas(text: str, marks: Mapping[int, str]) -> str:
    """Return a text with other marks at some of its indices.

    A mark replaces a comma at its index, right before it or after the next word, or a full stop at
    its index. It is left out if no word would follow.
    """
    replaced = {*find_commas(text), *(at for at in marks if text[at : at + 1] == ".")}
    places: dict[int, str] = {}
    for at, mark in marks.items():
        word = _NEXT_WORD.match(text, at)
        nearby = (at, at - 1, word.end() if word else at)
        places[next((place for place in nearby if place in replaced), at)] = mark
    changes = (
        # The second of two touches the word that follows.
        (at, at + (at in replaced) + (" " in mark.strip() and text[at + 1 : at + 2] == " "), mark)
        for at, mark in sorted(places.items())
        if _CONTENT.search(text, at)
    )
    return splice(text, changes)


def list_unusual_marks(sentence: str) -> set[str]:
    """Return which marks a sentence has that are rare in some corpora.

    They are a colon, semicolon or comma at its end, and an ellipsis, also as dots, or a slash
    between letters anywhere, or a dash, but for hyphens.
    """
    _, marks = split_final_marks(sentence)
    unusual = {marks} & {*CLAUSE_MARKS}
    if _ELLIPSES.search(sentence):
        unusual.add(ELLIPSIS)
    if _SLASH.search(sentence):
        unusual.add(SLASH)
    if _DASH.search(sentence):
        unusual.add(DASH)
    return unusual


def localize_marks(text: str, language: str) -> str:
    """Return a text with the marks of a language in place of others: "3?" of "¿3?" in English.

    Args:
        text: the text.
        language: BCP 47 tag. Where it is unknown, all marks stay.
    """
    return text.translate(_list_foreign_marks(language))


@cache
def _list_foreign_marks(language: str) -> dict[int, str]:
    """Return the marks that a language lacks, as a table of `str.translate`."""
    code = primary_subtag(language)
    marks: dict[str, str] = {}
    if code == UNKNOWN_LANGUAGE:
        return {}
    if code not in _INVERTING:
        marks |= {"¿": "", "¡": ""}
    if code not in UNSPACED_SENTENCES:
        marks |= {"。": ".", "｡": ".", "！": "!", "？": "?"}
    if not is_right_to_left(language) or code in _HEBREW:
        marks |= {"؟": "?", "۔": "."}
    return str.maketrans(marks)
