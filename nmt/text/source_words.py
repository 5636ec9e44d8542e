"""Words of the training sources; unseen words are corrected, or kept as names.

A typing error usually makes an unseen word, which resembles a frequent one. An unseen name is a
kept span, since the model can neither translate nor spell it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from nmt.errors import UserError
from nmt.text.known_words import KnownWords
from nmt.text.scripts import PLAIN_WORD

WORDS_FILE = "source_words.tsv"
MAX_WORDS = 100_000  # the most frequent ones are kept
_WORD = re.compile(PLAIN_WORD)
_MOST_MARKS = 64  # characters that are read before a word: all, in a long line, would take long
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?…:«“\"(\[—–-])[\s¿¡«“\"'(\[—–-]*$")
_MIN_LETTERS = 3  # of words that are corrected: nearly every shorter string is a word
_FIRST_WORDS = 1000  # that an unknown word with a capital may be, at the beginning of a sentence
_LONGEST_NAME = 9  # letters of a first name that looks like a word of the language
_MIN_MODELED = 1000  # words; with fewer, spelling and names cannot be judged


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
            word = self._known.correct(text[begin:end], most)
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
                before = text[max(0, begin - _MOST_MARKS) : begin]
                yield begin, end, bool(_BEGINS_SENTENCE.search(before))

    def _begins_with_name(self, text: str, begin: int, end: int) -> bool:
        """Whether an unknown word that begins a sentence may be a name."""
        if len(self.counts) < _MIN_MODELED:
            return False
        word = text[begin:end]
        has_next = _WORD.match(text, end + 1) is not None
        is_likely = has_next and len(word) <= _LONGEST_NAME and not self._known.resembles(word)
        return is_likely or self._known.looks_foreign(word)

    @cached_property
    def _known(self) -> KnownWords:
        return KnownWords(self.counts)
