"""Marks at the end of sentences that a model may not have learned, such as ":" and "...".

The model reads the sentence with the full stop, question or exclamation mark that these stand for,
or without a mark, and its translation ends as the sentence.
"""

from __future__ import annotations

import re

# Those of scripts without ".": a translation with one of them needs no other mark.
OTHER_STOPS = "。！？｡．؟۔।॥།።፧။។៕։"
ELLIPSIS = "…"
CLAUSE_MARKS = ":;,"
_STOPS = ".…!?"
_ELLIPSES = re.compile(r"\.{2,}|…")
_ABBREVIATION = re.compile(r"\w\.\w\.$")  # whose dot stays: p.m.


def split_final_marks(text: str) -> tuple[str, str]:
    """Return a sentence without the marks that end it, and them.

    They are one colon, semicolon or comma, or any number of stops, question and exclamation marks.
    Of a text without words, none are split.
    """
    rest = text[:-1] if text[-1:] in CLAUSE_MARKS else text.rstrip(_STOPS)
    return (rest, text[len(rest) :]) if any(map(str.isalnum, rest)) else (text, "")


def simplify_marks(marks: str) -> str:
    """Return the mark that final marks stand for: "!" of "!!!", nothing of ":"."""
    if not marks or marks in CLAUSE_MARKS:
        return ""
    return next((mark for mark in "?!" if mark in marks), ".")


def copy_final_marks(source: str, translation: str) -> str:
    """Return a translation with the final marks of its source, if they say more than its own.

    A question stays one, and so does a sentence that ends with a mark of another script.
    """
    _, marks = split_final_marks(source)
    text, own = split_final_marks(translation)
    simple = simplify_marks(marks)
    has_words = any(map(str.isalnum, text))
    if marks == simple or not has_words or text[-1] in OTHER_STOPS:
        return translation
    replaced = ("", simple) if simple in ("?", "!") else ("", ".", *CLAUSE_MARKS)
    if own not in replaced:
        return translation
    if own == "." and marks in CLAUSE_MARKS and _ABBREVIATION.search(translation):
        text = translation
    return text + marks


def list_unusual_marks(sentence: str) -> set[str]:
    """Return which marks a sentence has that are rare in some corpora.

    They are a colon, semicolon or comma at its end, and an ellipsis, also as dots, anywhere.
    """
    _, marks = split_final_marks(sentence)
    found = {marks} & {*CLAUSE_MARKS}
    return found | {ELLIPSIS} if _ELLIPSES.search(sentence) else found
