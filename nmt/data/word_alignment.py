"""The words of pairs, and which of them are translations of each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.model1 import estimate_translations
from nmt.text.scripts import PLAIN_WORD

Ints = NDArray[np.int64]

_WORD_OR_MARK = re.compile(rf"{PLAIN_WORD}|\n")
_BEFORE_SENTENCE = [ord(mark) for mark in ".!?…:"]
_ID_BITS = 32  # of the key of two words
_TIE = 1e-6  # decides only between equal probabilities


class Words(NamedTuple):
    """The words of one side of all pairs, one after the other: all [W]. A mark ends each text."""

    text: str  # all texts; a line break is a mark
    ids: Ints  # 1 for the most frequent word, 2 for the next; the mark is 0
    text_numbers: Ints
    begins: Ints  # characters
    ends: Ints
    follows: NDArray[np.bool_]  # whether there is only a space between a word and the one before it
    begins_sentence: NDArray[np.bool_]

    @classmethod
    def split(cls, texts: Iterable[str]) -> Words:
        """Return the words of texts without line breaks; case is ignored."""
        text = "".join(f"{each}\n" for each in texts)
        spans = [match.span() for match in _WORD_OR_MARK.finditer(text)]
        words = [text[begin:end].lower() for begin, end in spans]
        counts = Counter(words)
        del counts["\n"]
        ranks = {word: rank for rank, (word, _) in enumerate(counts.most_common(), 1)}
        ids = np.array([ranks.get(word, 0) for word in words])
        begins, ends = np.array(spans).T
        after = np.frombuffer(text.encode("utf-32-le"), np.uint32)[ends[:-1]]
        follows = np.append(False, (begins[1:] - ends[:-1] == 1) & (after == ord(" ")))
        begins_sentence = np.append(True, np.isin(after, _BEFORE_SENTENCE) | (ids[:-1] == 0))
        is_mark = ids == 0
        numbers = np.cumsum(is_mark) - is_mark
        return cls(text, ids, numbers, begins, ends, follows, begins_sentence)

    def read(self, first: int, length: int) -> str:
        """Return words as the text has them; one that begins a sentence is in lower case."""
        words = self.text[self.begins[first] : self.ends[first + length - 1]]
        return words[0].lower() + words[1:] if self.begins_sentence[first] else words


def align(source: Words, target: Words) -> tuple[Ints, Ints]:
    """Return the likeliest source word of each target word, and the reverse.

    Marks stand for words without a counterpart. Both directions are IBM Model 1, so they may
    disagree. Of equal words in a text, the one at the nearest place is the likeliest.

    Args:
        source: at least one text.
        target: its translation, text by text.

    Returns:
        Indices of source words [target words], and of target words [source words].
    """
    # A cell is a target word with a word of its source. The cells of a target word are neighbors.
    lengths = np.bincount(source.text_numbers)
    cells_of_target = lengths[target.text_numbers]
    targets = np.repeat(np.arange(len(target.ids)), cells_of_target)
    first_cells = np.cumsum(cells_of_target) - cells_of_target
    first_words = (np.cumsum(lengths) - lengths)[target.text_numbers]
    sources = np.arange(len(targets)) + np.repeat(first_words - first_cells, cells_of_target)
    keys = (source.ids[sources] << _ID_BITS) | target.ids[targets]
    entries, entry_of_cell = np.unique(keys, return_inverse=True)
    to_target = estimate_translations(entry_of_cell, targets, entries >> _ID_BITS)
    to_source = estimate_translations(entry_of_cell, sources, entries & ((1 << _ID_BITS) - 1))
    nearness = 1 - _TIE * np.abs(_find_places(source)[sources] - _find_places(target)[targets])
    return (
        _choose_best(to_target[entry_of_cell] * nearness, targets, sources),
        _choose_best(to_source[entry_of_cell] * nearness, sources, targets),
    )


def _find_places(words: Words) -> NDArray[np.float64]:
    """Return the place of each word in its text, from 0 for the first one to 1 for the mark."""
    lengths = np.bincount(words.text_numbers)
    first_words = np.cumsum(lengths) - lengths
    places = np.arange(len(words.ids)) - first_words[words.text_numbers]
    return places / np.maximum(lengths - 1, 1)[words.text_numbers]


def _choose_best(values: NDArray[np.float64], rows: Ints, columns: Ints) -> Ints:
    """Return the column of the largest value of each row."""
    largest = np.zeros(rows.max() + 1)
    np.maximum.at(largest, rows, values)
    is_largest = values == largest[rows]
    best = np.zeros(len(largest), np.int64)
    best[rows[is_largest]] = columns[is_largest]
    return best
