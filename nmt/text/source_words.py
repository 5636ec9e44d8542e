"""Words of the training sources; unseen words are corrected, or kept as names.

A typing error usually makes an unseen word, which resembles a frequent one. An unseen name is a
kept span, since the model can neither translate nor spell it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from unicodedata import combining, normalize

from nmt.errors import UserError

WORDS_FILE = "source_words.tsv"
MAX_WORDS = 100_000  # the most frequent ones are kept
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?…:«“\"(\[—–-])[\s¿¡«“\"'(\[—–-]*$")
_MIN_LETTERS = 3  # of words that are corrected: nearly every shorter string is a word
_MIN_COUNT = 10  # occurrences of a correction: a rare word is seldom the right one
_FIRST_WORDS = 1000  # that an unknown word with a capital may be, at the beginning of a sentence
_LONGEST_NAME = 9  # letters of a first name that looks like a word of the language
_MOST_ENDING, _LEAST_STEM = 3, 5  # letters in which forms of one word differ, and agree
_ALPHABET = 64  # letters that a correction may insert
_MIN_MODELED, _MODELED = 1000, 20_000  # words that the model of spelling is made of
_FOREIGN = -2.8  # nats per letter below which an unknown word does not look like its language


class SourceWords:
    """The words of training sources, in lower case, and how often they occur.

    Args:
        counts: word -> occurrences.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts

    @classmethod
    def count(cls, texts: Iterable[str]) -> SourceWords:
        """Count the words of distinct texts; those of scripts without letter case are left out."""
        counts = Counter(word for text in set(texts) for word in _WORD.findall(text.lower()))
        return cls._most_frequent({word: n for word, n in counts.items() if word.upper() != word})

    def merge(self, other: SourceWords) -> SourceWords:
        """Return the words of both."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return self._most_frequent(counts)

    @classmethod
    def _most_frequent(cls, counts: Mapping[str, int]) -> SourceWords:
        """Return the most frequent words, in an order that does not depend on that of the texts."""
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(dict(ranked[:MAX_WORDS]))

    @classmethod
    def load(cls, folder: Path) -> SourceWords | None:
        """Read the words in a folder; None if the file is missing.

        Raises:
            UserError: the file is damaged.
        """
        path = folder / WORDS_FILE
        try:
            fields = path.read_text(encoding="utf-8").split()  # no word has white space
            return cls(dict(zip(fields[::2], map(int, fields[1::2]), strict=True)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is damaged: {error}") from error

    def save(self, folder: Path) -> None:
        """Write the words into a folder, a line each: word TAB occurrences."""
        lines = (f"{word}\t{count}\n" for word, count in self.counts.items())
        (folder / WORDS_FILE).write_text("".join(lines), encoding="utf-8")

    def correct(self, text: str, spans: Sequence[tuple[int, int]]) -> str:
        """Return a text in which known words replace unknown ones that resemble them.

        A word without its accents gets them back. A word that is one letter, or two swapped ones,
        away from known words becomes the most frequent of them, unless it may be a name: it has a
        capital, and at the beginning of a sentence it resembles no frequent word.

        Args:
            text: a sentence.
            spans: characters [begin, end) of its kept spans, which stay.
        """
        parts, done = [], 0
        for begin, end, begins_sentence in self._find_unknown(text, spans):
            most = len(self.counts)
            if text[begin].isupper():
                is_short = end - begin <= _MIN_LETTERS
                most = _FIRST_WORDS if begins_sentence and not is_short else 0
            word = self._correct_word(text[begin:end], most)
            parts += [text[done:begin], word]
            done = end
        return "".join([*parts, text[done:]])

    def find_names(self, text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the characters [begin, end) of the names that no training source has.

        A capitalized word is a name. At the beginning of a sentence it is one if its letters do not
        look like the language of the sources, or if it is short, another word follows and it cannot
        be another form of a known word.

        Args:
            text: a sentence in ordinary letter case, after `correct`.
            spans: characters [begin, end) of its kept spans, which have no names.
        """
        names: list[tuple[int, int]] = []
        for begin, end, begins_sentence in self._find_unknown(text, spans):
            if not text[begin].isupper():
                continue
            if begins_sentence and not self._begins_with_name(text, begin, end):
                continue
            if names and text[names[-1][1] : begin] == " ":  # first and family name
                begin = names.pop()[0]
            names.append((begin, end))
        return names

    def _find_unknown(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield where each unknown word begins and ends, and whether it begins a sentence."""
        for match in _WORD.finditer(text):
            begin, end = match.span()
            lower = match[0].lower()
            if lower in self.counts or lower == match[0].upper() or end - begin < _MIN_LETTERS:
                continue
            if not any(first < end and begin < last for first, last in spans):
                yield begin, end, bool(_BEGINS_SENTENCE.search(text[:begin]))

    def _correct_word(self, word: str, most: int) -> str:
        """Return the known word that a word may be.

        Args:
            word: an unknown word.
            most: how many of the most frequent words may replace it, other than with its accents.
        """
        lower = word.lower()
        best = self._by_bare.get(_strip_accents(lower))
        if best is None and most:
            forms = {lower, _strip_accents(lower)}
            edits = {edit for form in forms for edit in _list_edits(form, self._alphabet)}
            known = (self._by_bare[edit] for edit in edits if edit in self._by_bare)
            best = max(known, key=self._rank, default=None)
            if best is not None and (self.counts[best] < _MIN_COUNT or self._ranks[best] >= most):
                best = None
        if best is None:
            return word
        return best[0].upper() + best[1:] if word[0].isupper() else best

    def _begins_with_name(self, text: str, begin: int, end: int) -> bool:
        """Whether an unknown word that begins a sentence may be a name."""
        if len(self.counts) < _MIN_MODELED:
            return False
        word = text[begin:end]
        has_next = _WORD.match(text, end + 1) is not None
        is_likely = has_next and len(word) <= _LONGEST_NAME and not self._resembles_known(word)
        return is_likely or self._looks_foreign(word)

    def _resembles_known(self, word: str) -> bool:
        """Whether a word may be another form of a known one, as Esperaré of esperar."""
        bare = _strip_accents(word.lower())
        stem = bare[: max(len(bare) - _MOST_ENDING, _LEAST_STEM)]
        at = bisect_left(self._sorted, stem)
        return at < len(self._sorted) and self._sorted[at].startswith(stem)

    def _looks_foreign(self, word: str) -> bool:
        """Whether the letters of a word are improbable in the language of the sources."""
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
        for word in list(self.counts)[:_MODELED]:
            spelled = _spell(word)
            letters.update(spelled)
            pairs.update(a + b for a, b in pairwise(spelled))
            triples.update(map("".join, zip(spelled, spelled[1:], spelled[2:], strict=False)))
        return letters, pairs, triples

    @cached_property
    def _sorted(self) -> list[str]:
        """The words without accents, in alphabetical order."""
        return sorted(self._by_bare)

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        """The words by frequency, the most frequent one first."""
        return {word: rank for rank, word in enumerate(self.counts)}

    @cached_property
    def _by_bare(self) -> Mapping[str, str]:
        """Word without accents -> the most frequent known word that it may be."""
        words: dict[str, str] = {}
        for word in self.counts:
            bare = _strip_accents(word)
            words[bare] = max(words.get(bare, word), word, key=self._rank)
        return words

    def _rank(self, word: str) -> tuple[int, str]:
        return self.counts[word], word

    @cached_property
    def _alphabet(self) -> str:
        letters = Counter("".join(self._by_bare))
        return "".join(letter for letter, _ in letters.most_common(_ALPHABET) if letter.isalpha())


def _spell(word: str) -> str:
    return f"^^{word}$"


def _strip_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(sign for sign in normalize("NFD", word) if not combining(sign))


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
