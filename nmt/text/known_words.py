"""Spelling of known words: which of them an unknown word may be, and whether it looks foreign."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from unicodedata import combining

from nmt.text.noise import KEY_NEIGHBORS
from nmt.text.scripts import (
    UNKNOWN_LANGUAGE,
    is_agglutinative,
    may_change_accents,
    split_accents,
    strip_accents,
)

_REPEATED = re.compile(r"([^\W\d_])\1{2,}")  # a letter three times in a row
_NUMERAL = re.compile("[ivxlcdm]+")
_ALPHABET = 64  # letters that a correction may insert
_MODELED = 20_000  # words that the model of spelling is made of
_MIN_FORM = 4  # letters of a plural: shorter words are often typing errors
_FOREIGN = -2.8  # nats per letter below which an unknown word does not look like its language
# Probabilities of errors, relative to those of a missing, doubled or swapped letter: the letter of
# a key beside the right one, and any other; an accent that is too much, and one that is left out;
# two letters more of nooo than of noo.
_BESIDE, _FAR = 0.3, 0.01
_ADDED, _LEFT_OUT = 0.1, 0.2
_DRAWN_OUT = 0.1
_MIN_SCORE = 1.5  # occurrences of a correction, times the probability of the error
_LIKELY = 0.2  # probability of an error inside, from which on a first word may become a rare one
_LONG = 5  # letters of a word that has an inside
_COMMON_ENDING = 20  # known words with an ending, from which on an unknown word may be a form
_ENDING, _MIN_STEM = 3, 5  # letters in which forms of one word differ, and agree
_SUFFIX = 2  # last letters of a word of an agglutinative language, which may be another form
_DIFFERENT = {"и", "й"}  # endings of герои and герой: neither is written for the other


class KnownWords:
    """Corrects unknown words by one edit, and rates their spelling by triples of letters.

    Args:
        counts: word -> occurrences, the most frequent ones first.
        language: BCP 47 tag of the words, which decides whether accents alone make another word.
    """

    def __init__(self, counts: Mapping[str, int], language: str = UNKNOWN_LANGUAGE) -> None:
        self._counts = counts
        self._language = language

    def correct(self, word: str, max_rank: int) -> str:
        """Return the known word that an unknown one may be, or that word itself.

        Args:
            word: an unknown word.
            max_rank: how many of the most frequent words may replace it, other than with its
                accents, or for an error inside of the word.
        """
        lower = word.lower()
        bare = strip_accents(lower)
        best = self._by_bare.get(bare)
        if best == bare != lower:  # odió is not odio
            return word
        if best is not None and not may_change_accents(lower, self._language):
            return word  # Mantel is not Mäntel
        if best is not None and best[:-1] == lower[:-1] and f"{lower}s" in self._counts:
            return word  # saludo, of saludos, is not saludó
        if best is None and any(form in self._counts for form in _list_forms(lower)):
            return word  # besos, of beso, is not esos, and querida, of querido, not quería
        if best is None and max_rank:
            best = self._find_drawn_out(bare) or self._find_intended(lower, bare, max_rank)
        if best is None:
            return word
        return best[0].upper() + best[1:] if word[0].isupper() else best

    def _find_drawn_out(self, bare: str) -> str | None:
        """Return the known word, however rare, that a word such as nooooo stretches; else None."""
        known = [
            (probability * self._counts[self._by_bare[right]], self._by_bare[right])
            for right, probability in _list_shorter(bare).items()
            if right in self._by_bare
        ]
        return max(known, default=(0, None))[1]

    def _find_intended(self, lower: str, bare: str, max_rank: int) -> str | None:
        """Return the word with the largest product of its frequency and the error's probability.

        As in Kernighan, Church & Gale 1990, A spelling correction program based on a noisy channel
        model. None: all products are small.

        Args:
            lower: an unknown word in lower case.
            bare: the same without accents.
            max_rank: see `correct`.
        """
        if len(lower) > self._longest + 1:
            return None
        errors = _list_errors(bare, self._alphabet)
        is_form = self._endings[bare[-_ENDING:]] >= _COMMON_ENDING  # importan is not importa
        kept = _SUFFIX if is_agglutinative(self._language) else int(is_form)
        suffix = bare[len(bare) - kept :]
        may_change = may_change_accents(lower, self._language)
        accents, intended = _count_accents(lower), [(_MIN_SCORE, "")]
        for right, probability in errors.items():
            if not right.endswith(suffix):
                continue
            has_same_ends = right[0] == bare[0] and right[-_ENDING:] == bare[-_ENDING:]
            is_inside = has_same_ends and len(bare) >= _LONG
            for known in self._variants.get(right, ()):
                known_accents = _count_accents(known)
                if known_accents != accents and not may_change:
                    continue
                rate = probability * _compare_accents(accents, known_accents)
                if self._ranks[known] < max_rank or (is_inside and rate >= _LIKELY):
                    intended.append((rate * self._counts[known], known))
        return max(intended)[1] or None

    def resembles(self, word: str) -> bool:
        """Whether a word may be another form of a known one, as Esperaré of esperar."""
        bare = strip_accents(word.lower())
        stem = bare[: max(len(bare) - _ENDING, _MIN_STEM)]
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
        return {
            bare: max((self._counts[word], word) for word in words)[1]
            for bare, words in self._variants.items()
        }

    @cached_property
    def _variants(self) -> Mapping[str, list[str]]:
        """Word without accents -> all known words that it may be."""
        variants: dict[str, list[str]] = {}
        for word in self._counts:
            variants.setdefault(strip_accents(word), []).append(word)
        return variants

    @cached_property
    def _endings(self) -> Counter[str]:
        """How many known words have each ending."""
        return Counter(word[-_ENDING:] for word in self._by_bare)

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

    @cached_property
    def _alphabet(self) -> str:
        letters = Counter("".join(self._by_bare))
        return "".join(letter for letter, _ in letters.most_common(_ALPHABET) if letter.isalpha())


def _spell(word: str) -> str:
    return f"^^{word}$"


def _list_forms(word: str) -> Iterator[str]:
    """Yield the singulars and, for Romance languages, the masculine forms that a word may have."""
    if len(word) > _MIN_FORM:
        if word.endswith("s") and not word.endswith("ss"):
            yield word[:-1]
        for feminine, masculine in (("a", "o"), ("as", "os"), ("as", "o")):
            if word.endswith(feminine):
                yield word.removesuffix(feminine) + masculine


def _list_shorter(word: str) -> dict[str, float]:
    """Return the words that one such as nooooo may be -> their relative probabilities.

    Empty for other words and for numerals.
    """
    if not _REPEATED.search(word) or _NUMERAL.fullmatch(word):
        return {}
    return {_REPEATED.sub(r"\1\1", word): 1.0, _REPEATED.sub(r"\1", word): _DRAWN_OUT}


def _list_errors(word: str, alphabet: str) -> dict[str, float]:
    """Return what one error may have made a word of -> the relative probability of that error.

    The error is a missing, additional, wrong or swapped letter. Of two that give the same word, the
    more probable one counts.
    """
    errors: dict[str, float] = {}

    def add(right: str, probability: float) -> None:
        errors[right] = max(probability, errors.get(right, 0))

    for i in range(len(word) + 1):
        before, after = word[:i], word[i:]
        for letter in alphabet:
            add(before + letter + after, 1)
            if after and {letter, after[0]} != _DIFFERENT:
                is_beside = after[0] in KEY_NEIGHBORS.get(letter, "")
                add(before + letter + after[1:], _BESIDE if is_beside else _FAR)
        if after:
            around = before[-1:] + after[1:2]
            is_beside = any(after[0] in KEY_NEIGHBORS.get(letter, "") for letter in around)
            add(before + after[1:], 1 if after[0] in around else _BESIDE if is_beside else _FAR)
        if len(after) > 1:
            add(before + after[1] + after[0] + after[2:], 1)
    return errors


def _count_accents(word: str) -> Counter[str]:
    return Counter(filter(combining, split_accents(word)))


def _compare_accents(typed: Counter[str], known: Counter[str]) -> float:
    """Return the relative probability of accents that are too much, or left out."""
    return float(_ADDED ** (typed - known).total() * _LEFT_OUT ** (known - typed).total())
