"""Words that are kept wherever they stand, not translated: listed names, acronyms, laughter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from nmt.text.scripts import POSSESSIVE, primary_subtag, strip_accents

_FILE = Path(__file__).with_name("names.txt")
# Names that are also words of these languages, whose sources have few names in lower case.
_LANGUAGES_OF_WORDS = {
    "alan": "fi tr",
    "ana": "az sw tr",
    "anna": "et fi",
    "ben": "ca da fr it nb nl nn no sv tr",
    "ken": "br nl",
    "kim": "az pl tr",
    "marc": "ca fr",
    "minh": "vi",
    "nora": "eu",
    "ole": "et fi",
    "quang": "vi",
    "sam": "bs hr pl sl sr",
    "thao": "vi",
    "ute": "nb nn no sv",
}
# Headings in the file. The first is followed by all names, up to the last heading: by cities after
# the second, names that are also ordinary words after the third; by frequent words after the last.
_NAMES, _CITIES = "# Spanish", "# Cities"
_WORDS, _FREQUENT = "# Also words", "# Frequent words"
# Words before names, in any letter case; and abbreviations and words with a capital.
HONORIFICS = frozenset(
    "señor señora señorita doctor doctora profesor profesora don doña tío tía senhor senhora "
    "monsieur madame mademoiselle signor signora".split()
)
CAPITALIZED_HONORIFICS = frozenset(
    "Sr Sra Srta Dña Dr Dra Prof Mr Mrs Ms Miss Sir Lady St Herr Frau Mme Mlle Sig".split()
)
_DOTTED_HONORIFICS = frozenset(["D.", "M."])
_LONGEST_PARTICLE = 3  # letters, as of De and Los
_FAMILY_NAMES = 2  # of a person
_OPENING_MARKS = "¿¡«“‘\"'([—–-"
_LONGEST_ACRONYM = 4  # letters, between hyphens
MIN_KNOWN = 3  # occurrences from which on a word or an acronym is known, and no rare name
# By themselves, or before a colon or a dot.
_ACRONYMS = re.compile(r"([A-Z]{2,4}(?:(?:, |/)[A-Z]{2,5})*|[A-Z]{1,3}(?:-[A-Z]{1,3})+)\s?[:.]?")
# Letters and sizes with commas or slashes between them, and the one after "and" or "or". What
# follows tells "vitamin A, I think".
_LETTER = "(?:[A-Z]|X{1,4}[SL])"
_JOINT = " (?:y|e|o|u|ni|and|or|et|ou|und|oder) "
_LETTERS = re.compile(
    rf"(?<![\w.'’&/@-])(?<![A-Z], )(?P<list>{_LETTER}(?:(?:, |/){_LETTER})+)"
    rf"(?:,?{_JOINT}(?P<last>{_LETTER})(?![\w'’])|(?=[.,;:!?)\]]*(?:\s?$|(?<!\w)\s)))"
)
# Initials of a plural, as of EE. UU.; the dot that ends a text stays.
_DOUBLED = re.compile(r"(?<![\w.])(?:([A-Z])\1\. ?){1,3}([A-Z])\2(?!\w)(?:\.(?!\s*$))?")
_LAUGHTER = re.compile("(?:[hj][aeiou]){2,}[hj]?|(?:[хг][аеио]){2,}[хг]?|k{4,}|(?:rs){2,}")


def is_name(word: str) -> bool:
    """Whether a word, or the one before its 's, is a name or a city of `names.txt`.

    A lower-case word that is also an ordinary word of some language is not a name.
    """
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    return lower in _read_names(_NAMES) and not (name == lower and lower in _read_names(_WORDS))


def is_person_name(word: str) -> bool:
    """Whether a word is a name of `names.txt`, other than a city."""
    return is_name(word) and word.lower() not in _read_names(_CITIES, _WORDS)


def is_word_of(language: str, name: str) -> bool:
    """Whether a name in lower case is an ordinary word of a language, a BCP 47 tag."""
    return primary_subtag(language) in _LANGUAGES_OF_WORDS.get(name, "").split()


def may_be_name(word: str) -> bool:
    """Whether a word is a name, or one without its accents."""
    name = POSSESSIVE.sub("", word)
    lower = name.lower()
    if is_name(word) or strip_accents(lower) != lower:
        return is_name(word)
    is_word = name == lower and lower in _read_bare_names(_WORDS)
    return lower in _read_bare_names(_NAMES) and not is_word


def is_name_inside_sentence(word: str) -> bool:
    """Whether a word has a capital and is a frequent word that is also a name, such as Rosa."""
    name = POSSESSIVE.sub("", word)
    return name.istitle() and name.lower() in _read_names(_FREQUENT)


def is_honorific(word: str) -> bool:
    """Whether a word, such as Dr. or señora, precedes a name."""
    is_abbreviation = word.removesuffix(".") in CAPITALIZED_HONORIFICS
    return is_abbreviation or word in _DOTTED_HONORIFICS or word.lower() in HONORIFICS


def ends_with_name(text: str) -> bool:
    """Whether a text ends with a space after a first name or an honorific, or a word after it.

    A family name may follow.
    """
    words = text.split() if text[-1:].isspace() else []
    for at in range(len(words) - 1, max(len(words) - 1 - _FAMILY_NAMES, -1), -1):
        word = words[at].lstrip(_OPENING_MARKS)
        if is_honorific(word):
            return True
        if not (word.istitle() and word.isalpha()):
            return False
        is_inside = at > 0 and words[at - 1][-1] not in ".!?"
        if is_person_name(word) or (is_inside and is_name_inside_sentence(word)):
            return True
        if len(word) <= _LONGEST_PARTICLE:
            return False
    return False


def is_laughter(word: str) -> bool:
    """Whether a word is laughter, such as jajaja."""
    return _LAUGHTER.fullmatch(word.lower()) is not None


def is_acronym(word: str) -> bool:
    """Whether a word is written as PDF or USB-C; longer ones and C'EST may be shouted."""
    parts = word.split("-")
    is_short = all(part.isalpha() and len(part) <= _LONGEST_ACRONYM for part in parts)
    return len(word) > 1 and word.isupper() and is_short


def find_rare_acronyms(text: str, counts: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the characters of rare acronyms that are all of a text: PDF, IMC:, L-V, JPG/PNG.

    Args:
        text: the text.
        counts: word in lower case -> occurrences in training.
    """
    match = _ACRONYMS.fullmatch(text)
    if match is None:
        return None
    parts = re.split("/|, ", match[1].lower())
    is_known = any(counts.get(part, 0) >= MIN_KNOWN for part in parts)
    return None if is_known else match.span(1)


def find_rare_initials(text: str, counts: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yield the characters of doubled initials that are rare in training, such as EE. UU.

    Args:
        text: the text.
        counts: see `find_rare_acronyms`.
    """
    for match in _DOUBLED.finditer(text):
        parts = re.findall("[A-Z]+", match[0])
        if not any(counts.get(part.lower(), 0) >= MIN_KNOWN for part in parts):
            yield match.span()


def find_letters(text: str) -> Iterator[tuple[int, int]]:
    """Yield the characters of the letters and sizes that a text lists: of "A, B y C", A, B and C.

    Those with only a comma or a slash between them are one.
    """
    for match in _LETTERS.finditer(text):
        yield match.span("list")
        if match["last"]:
            yield match.span("last")


@cache
def _read_names(heading: str, end: str = _FREQUENT) -> frozenset[str]:
    """Return the names after a heading and before another one, in lower case."""
    _, _, text = _FILE.read_text(encoding="utf-8").partition(heading)
    lines = text.partition(end)[0].splitlines()[1:]
    names = (line for line in lines if not line.startswith("#"))
    return frozenset(" ".join(names).lower().split())


@cache
def _read_bare_names(heading: str) -> frozenset[str]:
    """Return the names after a heading, without accents."""
    return frozenset(map(strip_accents, _read_names(heading)))
