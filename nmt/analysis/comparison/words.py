"""Words and n-grams that one system has right and another lacks, and sentences word by word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from nmt.analysis.comparison.slices import frequency_classes, list_words, split_words
from nmt.inference.significance import correct_p_values, sign_test

_ORDERS = (1, 2, 3)  # words of an n-gram
_MIN_LEAD = 3  # sentences by which one system leads, for an n-gram that is listed
_EXAMPLES = 2


class FrequencyScores(NamedTuple):
    """How well a system writes words of similar frequency in training."""

    name: str  # "10 to 99"
    occurrences: int  # in the references
    f1: tuple[float, ...]  # of each system, 0 to 100


class NgramLead(NamedTuple):
    """An n-gram of references that one system has right more often than the other."""

    words: str
    occurrences: int  # in the references
    leader: int  # 0: the first system has it right in more sentences; 1: the second one
    right: tuple[int, int]  # occurrences that the first and the second system have
    p_value: float  # of the sign test (corrected for the number of n-grams)
    examples: tuple[int, ...]  # indices of sentences where only the leader has it


def score_frequencies(
    references: Sequence[str], outputs: Sequence[Sequence[str]], counts: Mapping[str, int]
) -> list[FrequencyScores]:
    """Return the F1 of words by their frequency in training (as compare-mt: Neubig et al. 2019).

    Args:
        references: N.
        outputs: of each system, N.
        counts: of the words of the training targets.
    """
    classes = frequency_classes()

    def find_class(word: str) -> int:
        count = counts.get(word, 0)
        return next(i for i, (_, low, high) in enumerate(classes) if low <= count <= high)

    occurrences = np.zeros(len(classes), int)
    written, matched = (np.zeros((len(outputs), len(classes)), int) for _ in range(2))
    for index, reference in enumerate(references):
        expected = Counter(list_words(reference))
        for word, count in expected.items():
            occurrences[find_class(word)] += count
        for system, texts in enumerate(outputs):
            for word, count in Counter(list_words(texts[index])).items():
                at = find_class(word)
                written[system, at] += count
                matched[system, at] += min(count, expected[word])
    f1 = 200 * matched / np.maximum(written + occurrences, 1)
    return [
        FrequencyScores(name, int(occurrences[i]), tuple(f1[:, i].tolist()))
        for i, (name, _, _) in enumerate(classes)
        if occurrences[i]
    ]


def find_leads(
    references: Sequence[str], outputs: tuple[Sequence[str], Sequence[str]]
) -> list[NgramLead]:
    """Return the n-grams of one to three words in which one system leads, most evidence first.

    An n-gram that contains one with more evidence, or is a part of it, is left out. The sign test
    counts sentences in which one system has the n-gram more often than the other.
    """
    occurrences: Counter[tuple[str, ...]] = Counter()
    right: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    only: dict[tuple[str, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for index, reference in enumerate(references):
        expected = _count_ngrams(reference)
        occurrences.update(expected)
        ngrams = [_count_ngrams(texts[index]) for texts in outputs]
        for ngram, count in expected.items():
            matches = [min(count, each[ngram]) for each in ngrams]
            for system in range(2):
                right[ngram][system] += matches[system]
                if matches[system] > matches[1 - system]:
                    only[ngram][system].append(index)
    return _rank_leads(occurrences, right, only)


def _rank_leads(
    occurrences: Mapping[tuple[str, ...], int],
    right: Mapping[tuple[str, ...], Sequence[int]],
    only: Mapping[tuple[str, ...], tuple[list[int], list[int]]],
) -> list[NgramLead]:
    candidates = {
        ngram: (len(sides[0]), len(sides[1]))
        for ngram, sides in only.items()
        if occurrences[ngram] > 1
    }
    p_values = dict(
        zip(
            candidates,
            correct_p_values([sign_test(*counts) for counts in candidates.values()]),
            strict=True,
        )
    )
    leads = {n: c for n, c in candidates.items() if abs(c[0] - c[1]) >= _MIN_LEAD}
    ordered = sorted(leads, key=lambda ngram: (sign_test(*leads[ngram]), len(ngram), ngram))
    leaders: dict[tuple[str, ...], int] = {}
    covered: set[tuple[str, ...]] = set()  # all parts of the leaders
    for ngram in ordered:
        parts = _list_ngrams(ngram)
        if ngram not in covered and leaders.keys().isdisjoint(parts):
            leaders[ngram] = int(leads[ngram][1] > leads[ngram][0])
            covered.update(parts)
    return [
        NgramLead(
            " ".join(ngram),
            occurrences[ngram],
            leader,
            (right[ngram][0], right[ngram][1]),
            p_values[ngram],
            tuple(only[ngram][leader][:_EXAMPLES]),
        )
        for ngram, leader in leaders.items()
    ]


def _count_ngrams(text: str) -> Counter[tuple[str, ...]]:
    return Counter(_list_ngrams(split_words(text)))


def _list_ngrams(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        tuple(words[at : at + order]) for order in _ORDERS for at in range(len(words) - order + 1)
    ]


@dataclass(frozen=True)
class MarkedWord:
    """A word of an output beside a reference."""

    text: str
    is_right: bool  # whether the reference has it at this place
    is_shared: bool  # whether the other systems have it too


class WordGrid(NamedTuple):
    """A reference and outputs, word by word in columns: "" where a row has no word."""

    reference: list[str]
    outputs: list[list[MarkedWord]]


def align_words(reference: str, outputs: Sequence[str]) -> WordGrid:
    """Put the words of outputs under those of a reference that they match or replace."""
    expected = split_words(reference)
    rows = [_place(expected, split_words(output)) for output in outputs]  # [gap or word][row]
    columns: list[str] = []
    grid: list[list[MarkedWord]] = [[] for _ in outputs]
    for at in range(2 * len(expected) + 1):
        width = max([len(row[at]) for row in rows] + [at % 2])
        for offset in range(width):
            columns.append(expected[at // 2] if at % 2 and offset == 0 else "")
            words = [row[at][offset] if offset < len(row[at]) else "" for row in rows]
            is_shared = len(set(words)) == 1
            for target, word in zip(grid, words, strict=True):
                is_right = bool(word) and word == columns[-1]
                target.append(MarkedWord(word, is_right, is_shared))
    return WordGrid(columns, grid)


def _place(expected: Sequence[str], words: Sequence[str]) -> list[list[str]]:
    """Return words by place: 2 i + 1 is that of expected word i, and 2 i the gap before it."""
    places: list[list[str]] = [[] for _ in range(2 * len(expected) + 1)]
    matcher = SequenceMatcher(None, expected, words, autojunk=False)
    for _, first, last, begin, end in matcher.get_opcodes():
        for offset, word in enumerate(words[begin:end]):
            at = first + offset
            places[2 * at + 1 if at < last else 2 * last].append(word)
    return places


def rank_changes(scores: Iterable[tuple[float, float]]) -> list[int]:
    """Return the indices of sentences by the second score minus the first one, smallest first."""
    differences = [second - first for first, second in scores]
    return sorted(range(len(differences)), key=lambda i: (differences[i], i))
