"""Words that are kept, and not translated, wherever they stand: names of a list, and laughter."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from nmt.text.scripts import POSSESSIVE, strip_accents

_FILE = Path(__file__).with_name("names.txt")
# Headings in the file. The first is followed by all names, up to the last heading; names that are
# also ordinary words come after the second, and frequent words after the third.
_NAMES, _WORDS, _FREQUENT = "# Spanish", "# Also words", "# Frequent words"
# Titles, without their dots, and words for relatives: both precede names.
TITLES = (
    "sr sra srta d dña dr dra prof don doña señor señora señorita doctor doctora profesor "
    "profesora tío tía mr mrs ms miss st sir lady senhor senhora herr frau monsieur madame mme "
    "mlle signor signora"
).split()
_LONGEST_PARTICLE = 3  # letters, as of De and Los
_OPENING_MARKS = "¿¡«“‘\"'([—–-"
_LAUGHTER = re.compile("(?:[hj][aeiou]){2,}[hj]?|(?:[хг][аеио]){2,}[хг]?|k{4,}|(?:rs){2,}")


def is_name(word: str) -> bool:
    """Whether a word, or the one before its 's, is a first name or a city of `names.txt`.

    A lower-case word that is also an ordinary word of some language is not a name.
    """
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    return lower in _read_names(_NAMES) and not (name == lower and lower in _read_names(_WORDS))


def may_be_name(word: str) -> bool:
    """Whether a word is a name, or one without its accents."""
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    if is_name(word) or strip_accents(lower) != lower:
        return is_name(word)
    bare_names, bare_words = _without_accents()
    return lower in bare_names and not (name == lower and lower in bare_words)


def is_name_inside_sentence(word: str) -> bool:
    """Whether a word has a capital and is a frequent word that is also a name, such as Rosa."""
    name = POSSESSIVE.sub("", word)
    return name.istitle() and name.lower() in _read_names(_FREQUENT)


def is_title(word: str) -> bool:
    """Whether a word, such as Dr or señora, precedes a name."""
    return word.removesuffix(".").lower() in TITLES


def ends_with_name(text: str) -> bool:
    """Whether a text ends with a name or a title, and a space; a family name may follow."""
    words = text.split() if text[-1:].isspace() else []
    for word in reversed(words):
        bare = word.lstrip(_OPENING_MARKS)
        if is_title(bare):
            return True
        if not (bare.istitle() and bare.isalpha()):
            return False
        if is_name(bare) or is_name_inside_sentence(bare):
            return True
        if len(bare) <= _LONGEST_PARTICLE:
            return False
    return False


def is_laughter(word: str) -> bool:
    """Whether a word is laughter, such as jajaja."""
    return _LAUGHTER.fullmatch(word.lower()) is not None


@cache
def _read_names(heading: str) -> frozenset[str]:
    """Return the names after a heading, in lower case; frequent words only after theirs."""
    _, _, text = _FILE.read_text(encoding="utf-8").partition(heading)
    lines = text.partition(_FREQUENT)[0].splitlines()[1:]
    names = (line for line in lines if not line.startswith("#"))
    return frozenset(" ".join(names).lower().split())


@cache
def _without_accents() -> tuple[frozenset[str], frozenset[str]]:
    """Return names and ordinary words without accents."""
    return (
        frozenset(map(strip_accents, _read_names(_NAMES))),
        frozenset(map(strip_accents, _read_names(_WORDS))),
    )
