"""Words of the training sources; unseen words are corrected, or kept as names.

A typing error usually makes an unseen word, which resembles a frequent one. An unseen name is a
kept span, since the model can neither translate nor spell it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from nmt.errors import UserError
from nmt.text.brackets import PAIRS, list_brackets
from nmt.text.final_marks import CLAUSE_MARKS, DASH, ELLIPSIS, SLASH, list_unusual_marks
from nmt.text.known_words import KnownWords
from nmt.text.marked import splice
from nmt.text.names import (
    CAPITALIZED_HONORIFICS,
    HONORIFICS,
    ends_with_name,
    is_acronym,
    is_honorific,
    is_laughter,
    is_name,
    is_name_inside_sentence,
    may_be_name,
)
from nmt.text.scripts import (
    CAPITALS,
    CASELESS_LETTERS,
    POSSESSIVE,
    UNKNOWN_LANGUAGE,
    has_apostrophe_before_endings,
)
from nmt.text.spans import Span, make_overlap_test

WORDS_FILE = "source_words.tsv"
MAX_WORDS = 100_000  # the most frequent ones are kept
MIN_MODELED = 1000  # words; with fewer, others cannot be judged
# A word of a script with letter case; in others, names cannot be told.
_NO_LETTERS = rf"\W\d_{CASELESS_LETTERS}¹²³⁰⁴-⁹"  # Python counts superscripts as letters
CASED_WORD = rf"[^{_NO_LETTERS}]+(?:['’-][^{_NO_LETTERS}]+)*"
_WORD = re.compile(CASED_WORD)
_WORD_OR_INITIALS = re.compile(rf"(?:[{CAPITALS}]\.\s?)+[{CAPITALS}]\.|{CASED_WORD}")  # S. L.
_NAME_ENDING = re.compile(rf"['’][^\W\d_{CAPITALS}]+$")  # Ankara'daki
_LEARNED_NAME = 10  # occurrences, from which on the model knows the translation of a name
_LEARNED_LISTED = 100  # the same of a listed first name or city, and of a family name after one
_COMMON_INITIAL = 10  # occurrences of each letter of initials that are known
_JOINTS = re.compile("['’-]")  # of the parts of a word
_MAX_MARKS = 64  # characters that are read before a word: all, in a long line, would take long
# Not after an initial, such as the R. of J. R. R. Tolkien.
_BEGINS_SENTENCE = re.compile(rf"(?:^|(?<![{CAPITALS}])\.|[!?…:«“\"(\[—–-])[\s¿¡«“\"'(\[—–-]*$")
_INITIALS = re.compile(rf"(?<!\w)(?:[{CAPITALS}]\.\s?){{1,5}}$")  # before a name
_INITIALED = re.compile(
    rf"(?<![\w.])(?:[{CAPITALS}]\.\s?){{1,5}}([{CAPITALS}][^\W\d_{CAPITALS}]{{2,}})"
)
# Before other capitals with a dot, a heading such as "B. Methods" may begin.
_PRECEDES_PERSON = re.compile(r"(?<!\w)(?:de|por|y|e|a|con|by|of|and|von|und|et|par|di|do|da),?\s$")
# A word without a capital, other than an article or a possessive: la Rosa, mi Luz, Buena Flor.
_NOT_BEFORE_NAME = (
    "el la los las del al un una the an le les du des une il lo os as um uma my your his her our "
    "their mi mis tu tus su sus nuestro nuestra meu minha nosso nossa mon ma notre mio mia nostra"
)
# Words that precede a name also with a capital: honorifics, and the beginnings of letters.
_BEFORE_NAME = (
    rf"(?:{'|'.join(sorted([*map(str.capitalize, HONORIFICS), *CAPITALIZED_HONORIFICS]))})\.?|D\.ª|"
    "Hola|Gracias|Querid[oa]|Estimad[oa]|Adiós|Oye|Perdona|Dear|Hi|Hello|Thanks|Olá|Obrigad[oa]|"
    "Bonjour|Merci|Ch[eè]re?|Ciao|Grazie|Car[oa]"
)
_MAY_PRECEDE_NAME = re.compile(
    rf"(?<!\w)(?:(?!(?:{'|'.join(_NOT_BEFORE_NAME.split())})\s)[^\W\d_{CAPITALS}]+|{_BEFORE_NAME}),?\s$"
)
_ABBREVIATES = re.compile(rf"\.\s+(?:[^\W_{CAPITALS}]|[IVXLC]+\b)")  # the dot of an abbreviation
# A Roman numeral or another capital by itself, after a word; not the initial of a name.
_NUMERAL = re.compile(
    rf"(?:(?<=[^\W\d_{CAPITALS}] )|(?<=\b[{CAPITALS}], )|(?<=[a-z]\. )(?=[IVX]{{2}}))"
    r"(?:[IVX]{2,}(?:[-–][IVX]{1,5})?(?!\w|\.\s*\w)"
    rf"|(?:[B-DF-HJ-NP-TV-XZ]|[AEOUY](?!\s[{CAPITALS}]))"
    r"(?:[+-](?=[\s.,;:!?)]|$)|(?![\w'’+&#/-]|\.\s*\w))"  # of blood: O-; not of K-pop, Q&A, C++
    r"|I(?=[.,:;)]?(?:\s|$)))"
)
_ADJECTIVE = re.compile("(?:ian|ish|ese|ean)$")  # of a country, in English
_MEASURES = re.compile(r"\d[^\w\s]*\s?$")  # before the name of a unit
_LONGEST_UNIT = 4  # letters: mins, kgs, dto
_MIN_LETTERS = 3  # of words that are corrected: nearly every shorter string is a word
_FIRST_WORDS = 1000  # that an unknown word with a capital may be, at the beginning of a sentence
_LONGEST_NAME = 9  # letters of a first name that looks like a word of the language
_SIGNS = (*PAIRS, *CLAUSE_MARKS, ELLIPSIS, SLASH, DASH)  # that are counted
_LEARNED = 2000  # sources with a sign, from which on a model translates it itself


class SourceWords:
    """The words of training sources, in lower case, and how often they occur.

    Args:
        counts: word -> occurrences.
        signs: texts that have the brackets of an opening sign, of `nmt.text.brackets.PAIRS`, or a
            mark, see `nmt.text.final_marks.list_unusual_marks`.
        language: BCP 47 tag of texts that are read: see `KnownWords`. In Turkish, a name ends
            before its apostrophe.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        signs: Mapping[str, int] = MappingProxyType({}),
        language: str = UNKNOWN_LANGUAGE,
    ) -> None:
        self.counts = counts
        self.signs = signs
        self._language = language
        self._has_name_endings = has_apostrophe_before_endings(language)

    @classmethod
    def count(cls, texts: Iterable[str]) -> SourceWords:
        """Count the words of distinct texts; those of scripts without letter case are left out."""
        distinct = set(texts)
        counts = Counter(word.lower() for text in distinct for word in _WORD.findall(text))
        cased = {word: n for word, n in counts.items() if word.upper() != word}
        signs = Counter(
            sign for text in distinct for sign in list_brackets(text) | list_unusual_marks(text)
        )
        return cls(_keep_most_frequent(cased), dict(sorted(signs.items())))

    @classmethod
    def merge(cls, parts: Iterable[SourceWords]) -> SourceWords:
        """Return the words of all parts; a text that several have counts in each."""
        counts, signs = Counter[str](), Counter[str]()
        for part in parts:
            counts.update(part.counts)
            signs.update(part.signs)
        return cls(_keep_most_frequent(counts), dict(sorted(signs.items())))

    @classmethod
    def load(cls, folder: Path) -> SourceWords | None:
        """Read the words in a folder; None if the file is missing.

        Raises:
            UserError: the file is damaged.
        """
        path = folder / WORDS_FILE
        try:
            fields = path.read_text(encoding="utf-8").split()  # no word has white space
            counts = dict(zip(fields[::2], map(int, fields[1::2]), strict=True))
            signs = {sign: counts.pop(sign) for sign in _SIGNS if sign in counts}
            return cls(counts, signs)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is damaged: {error}") from error

    def save(self, folder: Path) -> None:
        """Write the words, then the signs, into a folder, a line each: word TAB occurrences."""
        items = chain(self.counts.items(), self.signs.items())
        lines = (f"{word}\t{count}\n" for word, count in items)
        (folder / WORDS_FILE).write_text("".join(lines), encoding="utf-8")

    def has_learned(self, sign: str) -> bool:
        """Whether enough sources have a sign for a model to learn its translation."""
        return self.signs.get(sign, 0) >= _LEARNED

    def correct(self, text: str, spans: Sequence[Span], *, accents_only: bool = False) -> str:
        """Return a text in which known words replace unknown ones that resemble them.

        A word without its accents gets them back. A word that is one letter, or two swapped ones,
        away from known words becomes the most probable of them (see `KnownWords`), unless it may be
        a name: it has a capital, and at the beginning of a sentence it resembles no frequent word.
        Apostrophes become those of the sources.

        Args:
            text: a sentence.
            spans: characters [begin, end) of its kept spans, which stay.
            accents_only: whether unknown words get only their accents back. For a sentence whose
                capitals are lost, so that any word may be a name.
        """
        text = self._write_apostrophes(text, spans)
        changes = []
        for begin, end, begins_sentence in self._find_unknown(text, spans):
            word = text[begin:end]
            if self.counts.get(word.lower(), 0) >= _LEARNED_NAME:
                continue  # it stands as a name
            max_rank = 0 if accents_only else len(self.counts)
            if word != word.lower():
                is_first = begins_sentence and word[1:] == word[1:].lower()
                max_rank = (
                    min(max_rank, _FIRST_WORDS) if is_first and len(word) > _MIN_LETTERS else 0
                )
            if _may_be_abbreviation(text, begin, end) or _is_name_or_laughter(word.capitalize()):
                max_rank = 0
            accented = self._known.correct(word, 0).lower()
            is_learned = self.counts.get(accented, 0) >= _LEARNED_NAME  # María, of Maria
            is_name_or_known = word.lower() in self.counts or is_name(word)
            is_right = word != word.lower() and is_name_or_known and not is_learned
            if not is_right:
                changes.append((begin, end, self._known.correct(word, max_rank)))
        return splice(text, changes)

    def find_names(self, text: str, spans: Sequence[Span]) -> list[Span]:
        """Return the characters [begin, end) of unknown names.

        A common name is one, and so is laughter. Another word with a capital is a name. One that
        begins a sentence, other than iPhone or McDonald, is a name if its letters do not look like
        the language of the sources, or if it is short, another word follows and it cannot be
        another form of a known word. Roman numerals are names, since most are known words, too.

        Args:
            text: a sentence in ordinary letter case, after `correct`.
            spans: characters [begin, end) of its kept spans, which have no names.
        """
        names: list[Span] = []
        is_kept = make_overlap_test(spans)
        for begin, end, begins_sentence in self._find_unknown(text, spans):
            word = text[begin:end]
            continues_name = bool(names) and text[names[-1][1] : begin] == " "
            is_first = begins_sentence and not (
                continues_name or _has_inner_capital(word) or is_acronym(word)
            )
            if not _is_name_or_laughter(word):
                if word == word.lower():
                    continue
                if is_first and not self._begins_with_name(text, begin, end):
                    continue
            if possessive := POSSESSIVE.search(word):
                end -= len(possessive[0])
            initials = _INITIALS.search(text, max(names[-1][1] if names else 0, begin - 20), begin)
            if initials and not is_kept(*initials.span()):  # D. is not an initial where it is don
                begin = initials.start()
            if continues_name:  # first and family name
                begin = names.pop()[0]
            names.append((begin, end))
        is_kept = make_overlap_test([*spans, *names])
        for match in _INITIALED.finditer(text):  # also before a family name that a model knows
            is_rare = self.counts.get(match[1].lower(), 0) < _LEARNED_LISTED
            before = text[max(0, match.start() - _MAX_MARKS) : match.start()]
            is_person = match[0].count(".") > 1 or ends_with_name(before)
            is_person = is_person or _PRECEDES_PERSON.search(before) is not None
            if is_rare and is_person and not is_kept(*match.span()):
                names.append(match.span())
        overlaps = make_overlap_test([*spans, *names])
        numerals = (
            match.span()
            for match in _NUMERAL.finditer(text)
            if match[0] != "I" or self.counts.get("i", 0) < _LEARNED_NAME  # in English, a word
        )
        return sorted([*names, *(each for each in numerals if not overlaps(*each))])

    def is_mostly_unknown(self, text: str) -> bool:
        """Whether at least half of the words of a text are unknown."""
        unknown = sum(1 for _ in self._find_unknown(text, ()))
        return unknown > 0 and 2 * unknown >= len(_WORD.findall(text))

    def _find_unknown(self, text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int, bool]]:
        """Yield where each unknown word begins and ends, and whether it begins a sentence.

        Names that are too rare for a model to know their translations are unknown, and so are words
        that stand as names, such as Rosa, and rare ones after a name or an honorific: Luis Pérez.
        """
        is_kept, last_end = make_overlap_test(spans), 0
        for match in _WORD_OR_INITIALS.finditer(text):
            word = match[0]
            if self._has_name_endings and word.lower() not in self.counts:
                word = _NAME_ENDING.sub("", word)
            lower = word.lower()
            count = self.counts.get(lower, 0)
            is_rare = _is_rare(word, count)
            if (word == lower and not is_rare) or lower == word.upper():  # most words
                continue
            if count >= _LEARNED_LISTED and not is_name_inside_sentence(word):
                continue
            begin, end = match.start(), match.start() + len(word)
            before = text[max(0, begin - _MAX_MARKS) : begin]
            begins_sentence = bool(_BEGINS_SENTENCE.search(before))
            follows_name = begin == last_end + 2 and text.startswith(", ", last_end)
            is_name_here = _stands_as_name(word, count, before, follows_name=follows_name)
            # At the beginning of a sentence, any word has a capital.
            is_name_anywhere = is_name(lower if begins_sentence else word)
            has_count = count > 0 or len(word) < _MIN_LETTERS  # a short one is known: pH
            is_unknown = (
                not self._is_known(lower)
                or _joins_names(word)
                or (is_rare and (is_acronym(word) or is_laughter(word)))
                or (is_rare and has_count and (is_name_anywhere or _has_inner_capital(word)))
            )
            if (is_unknown or is_name_here) and not is_kept(begin, end):
                yield begin, end, begins_sentence and not is_name_here
                last_end = end

    def _is_known(self, word: str) -> bool:
        """Whether a word in lower case, or each part of it, as of Spain's or l'eau, is known."""
        if len(word) < _MIN_LETTERS or word in self.counts:
            return True
        if "." in word:
            letters = filter(str.isalpha, word)
            return all(self.counts.get(letter, 0) >= _COMMON_INITIAL for letter in letters)
        *firsts, last = _JOINTS.split(word)
        is_end = len(last) == 1 or last in self.counts  # but not the one of did'nt
        return bool(firsts) and is_end and all(map(self._is_known, firsts))

    def _write_apostrophes(self, text: str, spans: Sequence[Span]) -> str:
        """Write apostrophes as most sources do where that makes a word known."""
        usual, other = self._apostrophes
        if other not in text:
            return text
        is_kept, signs = make_overlap_test(spans), list(text)
        for match in _WORD.finditer(text):
            word = match[0].replace(other, usual)
            is_unknown = match[0].lower() not in self.counts and not is_kept(*match.span())
            if is_unknown and self._is_known(word.lower()):
                signs[slice(*match.span())] = word
        return "".join(signs)

    @cached_property
    def _apostrophes(self) -> tuple[str, str]:
        """The usual apostrophe of the sources, and the other one."""
        curly = sum(count for word, count in self.counts.items() if "’" in word)
        straight = sum(count for word, count in self.counts.items() if "'" in word)
        return ("’", "'") if curly > straight else ("'", "’")

    def _begins_with_name(self, text: str, begin: int, end: int) -> bool:
        """Whether an unknown word that begins a sentence may be a name."""
        if len(self.counts) < MIN_MODELED:
            return False
        word = text[begin:end]
        has_next = _WORD.match(text, end + 1) is not None
        is_likely = has_next and len(word) <= _LONGEST_NAME and not self._known.resembles(word)
        return is_likely or self._known.looks_foreign(word)

    @cached_property
    def _known(self) -> KnownWords:
        return KnownWords(self.counts, self._language)


def _keep_most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent words, in an order that does not depend on that of the texts."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:MAX_WORDS])


def _is_rare(word: str, count: int) -> bool:
    """Whether a model has not learned a word that occurs ``count`` times.

    Names of the list take more occurrences, unless they are ordinary words, too.
    """
    return count < _LEARNED_NAME or (count < _LEARNED_LISTED and is_name(word.lower()))


def _stands_as_name(word: str, count: int, before: str, *, follows_name: bool) -> bool:
    """Whether a word is a name where it stands, such as Rosa, or the Pérez of Luis Pérez.

    Args:
        word: as it is written.
        count: how often training has it.
        before: the text before it.
        follows_name: whether a name and a comma stand before it.
    """
    may_be_rare = count < _LEARNED_LISTED
    if (
        may_be_rare
        and _may_be_family_name(word)
        and ends_with_name(before)
        and (_is_rare(word, count) or not is_honorific(before.split()[-1]))  # señor Presidente
    ):
        return True
    is_listed = is_name_inside_sentence(word) or (may_be_rare and is_name(word))
    return is_listed and (follows_name or bool(_MAY_PRECEDE_NAME.search(before)))


def _has_inner_capital(word: str) -> bool:
    """Whether a word is written as iPhone or McDonald."""
    return not word.isupper() and word[1:] != word[1:].lower()


def _is_name_or_laughter(word: str) -> bool:
    """Whether an unknown word is kept wherever it stands."""
    return may_be_name(word) or is_laughter(word)


def _joins_names(word: str) -> bool:
    """Whether a word is written as Madrid-París."""
    parts = word.split("-")
    return len(parts) > 1 and all(len(part) > 2 and _may_be_family_name(part) for part in parts)


def _may_be_family_name(word: str) -> bool:
    """Whether a word has one capital, and is not an adjective such as Belgian."""
    return word.istitle() and not _ADJECTIVE.search(word)


def _may_be_abbreviation(text: str, begin: int, end: int) -> bool:
    """Whether an unknown word may be an abbreviation, such as pág. or the min of "10 min"."""
    if _ABBREVIATES.match(text, end):
        return True
    before = text[max(0, begin - 3) : begin]
    return end - begin <= _LONGEST_UNIT and bool(_MEASURES.search(before))
