"""Words joined by a slash, such as he/she and niño/a, which training sources hardly have.

And endings with @, as in amig@s, which stand for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nmt.text.abbreviations import MIN_COUNT, Replacement
from nmt.text.final_marks import SLASH
from nmt.text.scripts import PLAIN_WORD, primary_subtag
from nmt.text.source_words import SourceWords

_SHORT = 4  # letters; a longer word with a capital after a slash may be a name


class _Language(NamedTuple):
    both: str  # and
    either: str  # or
    each: str  # per, before a unit
    units: str  # of time and so on
    inflected: str  # expression of a word, a slash and another ending


_LANGUAGES = {
    "de": _Language(
        "und",
        "oder",
        "pro",
        "tag stunde woche monat jahr minute sekunde person kilometer",
        r"(?!(?:über|unter|hinter|nach|ohne|beim|oder|aber)/)\w{4,}/-?(?:in|innen|r|n|en)",
    ),
    "en": _Language(
        "and",
        "or",
        "per",
        "day hour week month year minute second person night kilometer mile",
        r"\w{2,}[a-rt-z]/e?s",
    ),
    "es": _Language(
        "y",
        "o",
        "por",
        "día hora semana mes año minuto segundo persona noche kilómetro",
        r"\w{2,}(?:o/as?|os/as|a/o|as/os)|(?!(?:sobre|entre|desde)/)\w{3,}(?:e|es|r|l|n|s)/-?r?as?"
        r"|(?:el/la|la/el|los/l?as|las/l?os|una?/[oa]|unos/u?n?as)|\w{2,}[aeo]/s",
    ),
    "fr": _Language(
        "et",
        "ou",
        "par",
        "jour heure semaine mois an minute seconde personne nuit kilomètre",
        r"(?!(?:pour|avec|sous|sans|dans|chez|vers)/)\w{4,}/-?(?:e|es|s|ne|nes|euses?|trices?)",
    ),
    "it": _Language(
        "e",
        "o",
        "al",
        "giorno ora settimana mese anno minuto secondo persona notte chilometro",
        r"\w{2,}(?:o/a|i/e|a/o)|\w{3,}(?:e/a|e/i)",
    ),
    "pt": _Language(
        "e",
        "ou",
        "por",
        "dia hora semana mês ano minuto segundo pessoa noite quilômetro",
        r"\w{2,}(?:o/as?|os/as|a/o|as/os)|(?!(?:sobre|entre|desde)/)\w{3,}(?:e|es|r|l|s)/-?r?as?",
    ),
}
# Languages in which @ stands for -o and -a.
_NEUTRAL_LANGUAGES = ("es", "pt")
_NEUTRAL = re.compile(r"(?<![\w@.-])[^\W\d_]+@s?(?![\w@-]|\.\w)")
_JOINED = re.compile(rf"(?<![\w/])({PLAIN_WORD})(/-?)({PLAIN_WORD})(?![\w/])")


class Slashes:
    """Finds slashes that are read as "or", endings after a slash, which are not read, and @.

    Args:
        language: BCP 47 tag of the texts.
        words: of the training sources. None: they are not known, so nothing is found.
    """

    def __init__(self, language: str, words: SourceWords | None) -> None:
        self._counts = words.counts if words else {}
        self._language = None
        if words is not None and not words.has_learned(SLASH):
            self._language = _LANGUAGES.get(primary_subtag(language))
        self._reads_neutral = primary_subtag(language) in _NEUTRAL_LANGUAGES

    def find(self, text: str) -> Iterator[Replacement]:
        """Yield what replaces slashes and endings of a sentence.

        Of "and/or", the "and" is not read.
        """
        for match in _NEUTRAL.finditer(text) if self._reads_neutral and "@" in text else ():
            word = match[0].replace("@", "o")
            if match.start() == 0 or word == word.lower() or self._is_known(word):  # no name
                yield Replacement(*match.span(), word)
        if self._language is None or SLASH not in text:
            return
        language = self._language
        for match in _JOINED.finditer(text):
            first, second = match[1].lower(), match[3].lower()
            if (first, second) == (language.both, language.either):
                yield Replacement(match.start(), match.start(3), "")
            elif re.fullmatch(language.inflected, match[0].lower()):
                yield Replacement(match.end(1), match.end(), "")
            elif language.either not in (first, second) and self._are_words(match[1], match[3]):
                is_unit = second in language.units.split()
                word = language.each if is_unit else language.either
                yield Replacement(match.start(2), match.end(2), f" {word} ")

    def _are_words(self, first: str, second: str) -> bool:
        """Whether training sources have both, and the second is hardly a name."""
        may_be_name = second != second.lower() and len(second) > _SHORT
        return not may_be_name and self._is_known(first) and self._is_known(second)

    def _is_known(self, word: str) -> bool:
        """Whether training sources have a word often enough: names such as TCP/IP stay."""
        return len(word) > 1 and self._counts.get(word.lower(), 0) >= MIN_COUNT
