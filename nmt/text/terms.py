"""Glossaries: words whose translations are given."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from nmt.errors import UserError
from nmt.text.scripts import (
    UNKNOWN_LANGUAGE,
    UNSPACED_LETTERS,
    extends_character,
    is_unspaced_letter,
    primary_subtag,
    strip_accents,
)
from nmt.text.spans import Span

# Of scripts without spaces between words, each character is a token.
_TOKEN = re.compile(rf"[{UNSPACED_LETTERS}]|[^\W{UNSPACED_LETTERS}]+|[^\w\s]")
_MIN_LETTERS = 3  # of a singular, so that mes is not a plural of me
_LOSES_ACCENT = re.compile("[áéíóú][ns]$")  # canción, inglés
# Language -> endings of singular and plural. In these languages words with equal stems are often
# different nouns, such as puerto and puerta, so only the number may differ.
_NUMBER = {
    "es": (("", "s"), ("", "es"), ("z", "ces")),
    "gl": (("", "s"), ("", "es"), ("z", "ces"), ("l", "is")),
    "pt": (("", "s"), ("", "es"), ("m", "ns"), ("ão", "ões"), ("ão", "ães"), ("l", "is")),
    "ca": (("", "s"), ("a", "es"), ("", "os")),
    "fr": (("", "s"), ("", "x"), ("al", "aux"), ("ail", "aux")),
    "it": (("o", "i"), ("e", "i"), ("a", "e"), ("co", "chi"), ("ca", "che"), ("ga", "ghe")),
    "en": (
        *(("", "s"), ("y", "ies"), ("f", "ves"), ("fe", "ves"), ("o", "oes"), ("s", "ses")),
        *(("x", "xes"), ("z", "zes"), ("ch", "ches"), ("sh", "shes")),
    ),
}
# Language -> algorithm of Snowball, for the other languages.
_STEMMERS = {
    **{"ar": "arabic", "hy": "armenian", "eu": "basque", "cs": "czech", "da": "danish"},
    **{"nl": "dutch", "eo": "esperanto", "et": "estonian", "fi": "finnish", "de": "german"},
    **{"el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish"},
    **{"lt": "lithuanian", "ne": "nepali", "no": "norwegian", "nb": "norwegian", "fa": "persian"},
    **{"pl": "polish", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish"},
    **{"ta": "tamil", "tr": "turkish", "yi": "yiddish"},
}


class Term(NamedTuple):
    """An entry of a glossary."""

    source: str
    target: str  # equal to the source: the term is not translated
    note: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the term is not translated."""
        return self.source == self.target


class TermMatch(NamedTuple):
    """A term in a text."""

    begin: int  # characters [begin, end) of the text
    end: int
    term: Term  # one that is not translated is written as in the text
    entry: Term  # as in the glossary


class _Token(NamedTuple):
    begin: int
    end: int
    text: str


class Glossary:
    """Terms, found in texts whether singular or plural; letter case counts in acronyms only.

    Args:
        terms: the entries. Of terms that begin at one word, the longest is found; of equally long
            ones the one that is written as in the text, or else the first.
        languages: of source and target, BCP 47 tags.

    Attributes:
        terms: the entries, each once.
        kept: sources of those that are not translated, case-folded.

    Raises:
        UserError: two entries have the same source and different targets.
    """

    def __init__(self, terms: Iterable[Term], languages: tuple[str, str]) -> None:
        self.terms = tuple(dict.fromkeys(terms))
        self.kept = frozenset(term.source.casefold() for term in self.terms if term.is_kept)
        codes = [primary_subtag(language) for language in languages]
        self._target_code = codes[1]
        self._list_forms, self._list_target_forms = map(_make_forms, codes)
        # Form of the first word -> number of the term, and its words.
        self._by_first: dict[str, list[tuple[int, list[_Token]]]] = defaultdict(list)
        targets: dict[str, str] = {}
        for number, term in enumerate(self.terms):
            if targets.setdefault(term.source, term.target) != term.target:
                raise UserError(
                    f"the term {term.source!r} has two translations, {targets[term.source]!r} and "
                    f"{term.target!r}: keep one"
                )
            tokens = _split(term.source)
            for form in self._list_forms(tokens[0].text):
                self._by_first[form].append((number, tokens))

    def find(self, text: str) -> list[TermMatch]:
        """Return the terms of a text, in order; they do not overlap."""
        tokens = _split(text) if self.terms else []
        matches = []
        at = 0
        while at < len(tokens):
            candidates = [
                (len(wanted), text[tokens[at].begin : tokens[at + len(wanted) - 1].end], number)
                for form in self._list_forms(tokens[at].text)
                for number, wanted in self._by_first.get(form, ())
                if self._begins_with(tokens[at : at + len(wanted)], wanted)
            ]
            if not candidates:
                at += 1
                continue
            length, written, number = max(candidates, key=self._rank)
            entry = self.terms[number]
            begin = tokens[at].begin
            # A term that is not translated stays as it is written, also in another form.
            term = entry._replace(source=written, target=written) if entry.is_kept else entry
            matches.append(TermMatch(begin, begin + len(written), term, entry))
            at += length
        return matches

    def list_targets(self, match: TermMatch, text: str) -> list[str]:
        """Return what a translation may have for a term of a text.

        That is its target; for a singular in place of a plural or the reverse, also the target in
        the other number. Some of these forms may be misspelt.
        """
        term = match.term
        if text[match.begin : match.end].lower() == term.source.lower():
            return [term.target]
        before, space, last = term.target.rpartition(" ")
        endings = _NUMBER.get(self._target_code, ())
        forms = [*_list_singulars(last, endings), *_list_plurals(last, endings)]
        return [f"{before}{space}{form}" for form in forms] + [term.target]

    def mark_used(self, terms: Sequence[Term], translation: str) -> list[bool]:
        """Return of each term whether a translation has its target: see `find_targets`."""
        return [place is not None for place in self.find_targets(terms, translation)]

    def find_targets(self, terms: Sequence[Term], translation: str) -> list[Span | None]:
        """Return of each term the characters of its target in a translation, or None.

        A place in the translation counts for one term only, so a term that a text has twice is
        wanted twice. Longer targets are sought first, and acronyms before words.
        """
        tokens = _split(translation)
        targets = [_split(term.target) for term in terms]
        places: list[Span | None] = [None] * len(terms)
        free = [True] * len(tokens)
        ranks = [
            (-len(target), not any(_is_acronym(each.text) for each in target)) for target in targets
        ]
        for number in sorted(range(len(terms)), key=ranks.__getitem__):
            target = targets[number]
            for at in range(len(tokens) - len(target) + 1):
                end = at + len(target)
                if all(free[at:end]) and _match(tokens[at:end], target, self._list_target_forms):
                    free[at:end] = [False] * len(target)
                    places[number] = tokens[at].begin, tokens[end - 1].end
                    break
        return places

    def _rank(self, candidate: tuple[int, str, int]) -> tuple[int, bool, int]:
        """Rank a candidate: its length, whether it is written as in the text, its place."""
        length, written, number = candidate
        return length, written.lower() == self.terms[number].source.lower(), -number

    def _begins_with(self, tokens: Sequence[_Token], wanted: Sequence[_Token]) -> bool:
        return len(tokens) == len(wanted) and _match(tokens, wanted, self._list_forms)


def _split(text: str) -> list[_Token]:
    """Return the words and other signs of a text; vowel signs and joiners belong to words."""
    tokens: list[_Token] = []
    for match in _TOKEN.finditer(text):
        begin, end = match.span()
        if tokens and tokens[-1].end == begin and _is_inside_word(text[begin - 1], text[begin]):
            begin = tokens.pop().begin
        tokens.append(_Token(begin, end, text[begin:end]))
    return tokens


def _is_inside_word(before: str, after: str) -> bool:
    """Whether two characters belong to one word: one of them is a vowel sign or a joiner."""
    if is_unspaced_letter(before) or is_unspaced_letter(after):
        return False
    return extends_character(before) or extends_character(after)


def _match(
    tokens: Sequence[_Token], wanted: Sequence[_Token], list_forms: Callable[[str], frozenset[str]]
) -> bool:
    """Whether tokens are those of a term, perhaps in another form."""
    for token, word in zip(tokens, wanted, strict=True):
        if _is_acronym(word.text):
            if token.text != word.text:
                return False
        elif list_forms(token.text).isdisjoint(list_forms(word.text)):
            return False
    return True


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _make_forms(code: str) -> Callable[[str], frozenset[str]]:
    """Return a function that returns keys of a word; forms of one word share a key."""
    stem: Callable[[str], str] = str
    if code in _STEMMERS:
        import snowballstemmer

        stemmer, lock = snowballstemmer.stemmer(_STEMMERS[code]), threading.Lock()

        def stem_word(word: str) -> str:
            with lock:  # a stemmer keeps the word that it is at
                return str(stemmer.stemWord(word))

        stem = stem_word

    @lru_cache(100_000)
    def list_forms(word: str) -> frozenset[str]:
        word = word.lower()
        return frozenset([word, stem(word), *_list_singulars(word, _NUMBER.get(code, ()))])

    return list_forms


def _list_singulars(word: str, endings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield possible singulars of a word; an accent may be lost, as in cancion of canciones."""
    if _LOSES_ACCENT.search(word):
        yield strip_accents(word)
    for singular, plural in endings:
        if word.endswith(plural) and len(word) - len(plural) + len(singular) >= _MIN_LETTERS:
            yield word.removesuffix(plural) + singular


def _list_plurals(word: str, endings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield possible plurals of a word."""
    for singular, plural in endings:
        if word.endswith(singular) and not word.endswith(plural):
            yield word.removesuffix(singular) + plural


NO_TERMS = Glossary((), (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE))
