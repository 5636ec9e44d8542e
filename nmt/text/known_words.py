"""Spelling of known words: which of them an unknown word may be, and whether it looks foreign."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise

from nmt.text.scripts import strip_accents

_REPEATED = re.compile(r"([^\W\d_])\1{2,}")  # a letter three times in a row
_NUMERAL = re.compile("[ivxlcdm]+")
_MIN_COUNT = 10  # occurrences of a correction: a rare word is seldom the right one
_ALPHABET = 64  # letters that a correction may insert
_MODELED = 20_000  # words that the model of spelling is made of
_MIN_FORM = 4  # letters of a plural: shorter words are often typing errors
_FOREIGN = -2.8  # nats per letter below which an unknown word does not look like its language
_MAX_ENDING, _MIN_STEM = 3, 5  # letters in which forms of one word differ, and agree


class KnownWords:
    """Corrects unknown words by one edit, and rates their spelling by triples of letters.

    Args:
        counts: word -> occurrences, the most frequent ones first.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def correct(self, word: str, max_rank: int) -> str:
        """Return the known word that an unknown one may be, or that word itself.

        Args:
            word: an unknown word.
            max_rank: how many of the most frequent words may replace it, other than with its
                accents.
        """
        lower = word.lower()
        bare = strip_accents(lower)
        best = self._by_bare.get(bare)
        if best == bare != lower:  # odió is not odio
            return word
        if best is not None and best[:-1] == lower[:-1] and f"{lower}s" in self._counts:
            return word  # saludo, of saludos, is not saludó
        if best is None and any(form in self._counts for form in _list_forms(lower)):
            return word  # besos, of beso, is not esos, and querida, of querido, not quería
        if best is None and max_rank:
            edits = _list_shorter(bare)  # holaaa is hola, however rare
            limit = len(self._counts) if edits else max_rank
            if not edits and len(lower) <= self._longest + 1:
                forms = {lower, bare}
                edits = {edit for form in forms for edit in _list_edits(form, self._alphabet)}
            known = (self._by_bare[edit] for edit in edits if edit in self._by_bare)
            best = max(known, key=self._count_and_word, default=None)
            if best is not None and (self._counts[best] < _MIN_COUNT or self._ranks[best] >= limit):
                best = None
        if best is None:
            return word
        return best[0].upper() + best[1:] if word[0].isupper() else best

    def resembles(self, word: str) -> bool:
        """Whether a word may be another form of a known one, as Esperaré of esperar."""
        bare = strip_accents(word.lower())
        stem = bare[: max(len(bare) - _MAX_ENDING, _MIN_STEM)]
        at = bisect_left(self._sorted, stem)
        return at < len(self._sorted) and self._sorted[at].startswith(stem)

    def looks_foreign(self, word: str) -> bool:
        """Whether the letters of a word are improbable in the language of the known ones."""
        letters, pairs, triples = self._spelling
        total = sum(letters.values())
        log_prob = 0.0
        spelled = _spell(word.lower())
        for first, second, third in zip(spelled, spelled[1:], spelled[2:], strict=False):
            # Each count is smoothed by the distribution of the shorter context.
            prob = (letters[third] + 1) / (total + len(letters) + 1)
            for count, context in (
                (pairs[second + third], letters[second]),
                (triples[first + second + third], pairs[first + second]),
            ):
                prob = (count + 5 * prob) / (context + 5)
            log_prob += math.log(prob)
        return log_prob / (len(spelled) - 2) < _FOREIGN

    @cached_property
    def _spelling(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """Letters, pairs and triples of letters of the most frequent words."""
        letters, pairs, triples = Counter[str](), Counter[str](), Counter[str]()
        for word in list(self._counts)[:_MODELED]:
            spelled = _spell(word)
            letters.update(spelled)
            pairs.update(a + b for a, b in pairwise(spelled))
            triples.update(map("".join, zip(spelled, spelled[1:], spelled[2:], strict=False)))
        return letters, pairs, triples

    @cached_property
    def _by_bare(self) -> Mapping[str, str]:
        """Word without accents -> the most frequent known word that it may be."""
        words: dict[str, str] = {}
        for word in self._counts:
            bare = strip_accents(word)
            words[bare] = max(words.get(bare, word), word, key=self._count_and_word)
        return words

    @cached_property
    def _sorted(self) -> list[str]:
        """The words without accents, in alphabetical order."""
        return sorted(self._by_bare)

    @cached_property
    def _longest(self) -> int:
        """Letters of the longest known word."""
        return max(map(len, self._by_bare), default=0)

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        """Word -> its place by frequency, from 0."""
        return {word: rank for rank, word in enumerate(self._counts)}

    def _count_and_word(self, word: str) -> tuple[int, str]:
        return self._counts[word], word

    @cached_property
    def _alphabet(self) -> str:
        letters = Counter("".join(self._by_bare))
        return "".join(letter for letter, _ in letters.most_common(_ALPHABET) if letter.isalpha())


def _spell(word: str) -> str:
    return f"^^{word}$"


def _list_forms(word: str) -> Iterator[str]:
    """Yield the singulars and, for Romance languages, the masculine forms that a word may have."""
    if len(word) > _MIN_FORM:
        if word.endswith("s"):
            yield word[:-1]
        for feminine, masculine in (("a", "o"), ("as", "os"), ("as", "o")):
            if word.endswith(feminine):
                yield word.removesuffix(feminine) + masculine


def _list_shorter(word: str) -> set[str]:
    """Return the words that one such as nooooo may be; none for other words and numerals."""
    if not _REPEATED.search(word) or _NUMERAL.fullmatch(word):
        return set()
    return {_REPEATED.sub(letters, word) for letters in (r"\1", r"\1\1")}


def _list_edits(word: str, alphabet: str) -> Iterator[str]:
    """Yield what one missing, additional, wrong or swapped letter makes of a word."""
    for i in range(len(word) + 1):
        before, after = word[:i], word[i:]
        yield from (before + letter + after for letter in alphabet)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in alphabet)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
