"""Greetings without their comma, as in "Hola Marta", which training sources hardly have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.text.abbreviations import Replacement
from nmt.text.scripts import primary_subtag

_WORD = r"[^\s.,;:!?…]+"
# A greeting, and up to three words after it that a mark or the end of the sentence follows.
_GREETINGS = {
    "es": re.compile(
        r"[¿¡]?(?:hola|buen(?:os días|as (?:tardes|noches)| día))"
        rf"(?P<space> )(?![y—–-] ){_WORD}(?: {_WORD}){{0,2}}(?:[.,;:!?…]|$)",
        re.IGNORECASE,
    )
}


def find_greetings(text: str, language: str) -> Iterator[Replacement]:
    """Yield the comma that a greeting at the beginning of a sentence lacks before an address.

    Args:
        text: the sentence.
        language: BCP 47 tag; Spanish is the only one whose greetings are listed.
    """
    greeting = _GREETINGS.get(primary_subtag(language))
    if greeting and (match := greeting.match(text)):
        yield Replacement(*match.span("space"), ", ")
