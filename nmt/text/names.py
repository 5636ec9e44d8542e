"""Words that are kept, and not translated, wherever they stand: names of a list, and laughter."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from nmt.text.scripts import POSSESSIVE, strip_accents

_FILE = Path(__file__).with_name("names.txt")
_WORDS_LINE = "# Also words"  # what follows this line are names that are ordinary words as well
_LAUGHTER = re.compile("(?:[hj][aeiou]){2,}[hj]?|(?:[хг][аеио]){2,}[хг]?|k{4,}|(?:rs){2,}")


def is_name(word: str) -> bool:
    """Whether a word, or the one before its 's, is a first name or a city of `names.txt`.

    In lower case, an ordinary word of some language is none.
    """
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    return lower in _read_names() and not (name == lower and lower in _read_words())


def may_be_name(word: str) -> bool:
    """Whether a word is a name, or one without its accents."""
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    if is_name(word) or strip_accents(lower) != lower:
        return is_name(word)
    bare_names, bare_words = _without_accents()
    return lower in bare_names and not (name == lower and lower in bare_words)


def is_laughter(word: str) -> bool:
    """Whether a word is laughter, such as jajaja."""
    return _LAUGHTER.fullmatch(word.lower()) is not None


@cache
def _read_names() -> frozenset[str]:
    """Return all names, in lower case."""
    lines = _FILE.read_text(encoding="utf-8").lower().splitlines()
    return frozenset(" ".join(line for line in lines if not line.startswith("#")).split())


@cache
def _read_words() -> frozenset[str]:
    """Return the names that are ordinary words as well, in lower case."""
    lines = _FILE.read_text(encoding="utf-8").partition(_WORDS_LINE)[2].splitlines()[1:]
    return frozenset(" ".join(lines).lower().split())


@cache
def _without_accents() -> tuple[frozenset[str], frozenset[str]]:
    """Return names and ordinary words without accents."""
    return (
        frozenset(map(strip_accents, _read_names())),
        frozenset(map(strip_accents, _read_words())),
    )
