"""Translations of terms, annotated in a source behind each term (Dinu et al. 2019, "append").

An annotation is the given translation between two marks, which the tokenizer reserves as pieces.
A model that was trained with annotations copies them, inflected as its sentence needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Private characters, which no other text has: see `nmt.text.spans`.
TERM_MARKS = ("\ue009", "\ue00a")  # begin and end
_ANNOTATION = re.compile(" ?{}[^{}]*{}".format(TERM_MARKS[0], "".join(TERM_MARKS), TERM_MARKS[1]))


def annotate(text: str, translations: Iterable[tuple[int, str]]) -> str:
    """Return a text with annotations.

    Args:
        text: a source.
        translations: index in the text where each annotation belongs, and the translation; in
            order.
    """
    parts = []
    done = 0
    for at, translation in translations:
        parts += [text[done:at], f" {TERM_MARKS[0]} {translation} {TERM_MARKS[1]}"]
        done = at
    return "".join([*parts, text[done:]])


def find_annotations(text: str) -> list[tuple[int, int]]:
    """Return the characters [begin, end) of each annotation, with the space before it."""
    if TERM_MARKS[0] not in text:
        return []
    return [match.span() for match in _ANNOTATION.finditer(text)]


def remove_annotations(text: str) -> str:
    """Return a text without its annotations."""
    return _ANNOTATION.sub("", text) if TERM_MARKS[0] in text else text
