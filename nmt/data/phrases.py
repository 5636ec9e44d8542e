"""Words and phrases that pairs of sentences translate, as further pairs.

A model that has read nothing but sentences makes a sentence of every word and every heading: "I
dog." of "perro". A phrase is a part of a pair whose words are aligned with each other and with no
other word (Koehn et al. 2003, Statistical Phrase-Based Translation, section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nmt.data.caching import cached_folder, digest_texts
from nmt.data.splitting import Pair, sample_evenly
from nmt.data.word_alignment import Ints, Words, align

_VERSION = "1"  # of the phrases of the same pairs
_FILE = "phrases.tsv"
_LENGTHS = range(1, 5)  # words of a phrase
_MIN_COUNT = 2  # occurrences of a phrase with its translation
_MIN_SHARE = 0.5  # of the occurrences of a phrase: more of them have its translation
# The most frequent words are articles, pronouns and prepositions. A phrase that ends with one is
# incomplete.
_FUNCTION_WORDS = 40
# Where a Spanish verb begins a sentence, English adds a pronoun: it has its usual translation less
# often there.
_MIN_BEGINNINGS = 5  # sentences that a word begins
_USUAL_SHARE = 0.7  # of its usual translation there, relative to elsewhere
_LONGEST_TEXT = 40  # words; longer texts are aligned poorly
_MAX_CELLS = 10_000_000  # words of sources times words of their targets: 1 GB of memory
_ID_BITS = 16  # of each word of a phrase: rarer words are in no phrase
_NOWHERE = np.iinfo(np.int64).max


class _Links(NamedTuple):
    """First and last aligned word on the other side of each word; `_NOWHERE` and -1: none."""

    first: Ints
    last: Ints

    @classmethod
    def collect(cls, words: Ints, others: Ints, size: int) -> _Links:
        """Return the links of ``size`` words, given which words are linked to which others."""
        links = cls(np.full(size, _NOWHERE), np.full(size, -1))
        np.minimum.at(links.first, words, others)
        np.maximum.at(links.last, words, others)
        return links


class _Occurrences(NamedTuple):
    """Occurrences of phrases: all [P]."""

    source: Ints  # first word
    source_length: Ints  # words
    source_number: Ints  # equal for equal words
    target: Ints
    target_length: Ints
    target_number: Ints

    def take(self, indices: Ints) -> _Occurrences:
        """Return some of the occurrences."""
        return _Occurrences(*(column[indices] for column in self))


def load_phrases(pairs: Sequence[Pair], cache_dir: Path) -> list[Pair]:
    """Return `extract_phrases` of pairs, from the cache if they are there."""
    key = digest_texts([text for pair in pairs for text in pair], _VERSION)

    def write(folder: Path) -> None:
        lines = (f"{phrase.source}\t{phrase.target}\n" for phrase in extract_phrases(pairs))
        (folder / _FILE).write_text("".join(lines), encoding="utf-8")

    path = cached_folder(cache_dir / "phrases" / key, write) / _FILE
    return [Pair(*line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines()]


def extract_phrases(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the phrases of pairs with their usual translations, the most frequent first."""
    sample = _sample(pairs)
    if not sample:
        return []
    source, target = (Words.split(texts) for texts in zip(*sample, strict=True))
    occurrences = _find_phrases(source, target, *align(source, target))
    chosen = occurrences.take(_choose(source, target, occurrences))
    return [
        Pair(source.read(at, length), target.read(target_at, target_length))
        for at, length, _, target_at, target_length, _ in zip(
            *(column.tolist() for column in chosen), strict=True
        )
    ]


def _sample(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs that are aligned: of many, some at even intervals."""
    sizes = [[len(text.split()) + 1 for text in pair] for pair in pairs]
    short = [n for n, each in enumerate(sizes) if max(each) <= _LONGEST_TEXT]
    cells = sum(sizes[n][0] * sizes[n][1] for n in short)
    return [
        pairs[n] for n in sample_evenly(short, len(short) * _MAX_CELLS // max(cells, _MAX_CELLS))
    ]


def _find_phrases(
    source: Words, target: Words, best_sources: Ints, best_targets: Ints
) -> _Occurrences:
    """Return the phrases that are aligned within themselves, the first and the last word too.

    Words are linked if either direction aligns them. Both directions agree on a link of each
    phrase.
    """
    from_target = np.flatnonzero((target.ids != 0) & (source.ids[best_sources] != 0))
    from_source = np.flatnonzero((source.ids != 0) & (target.ids[best_targets] != 0))
    linked_sources = np.append(best_sources[from_target], from_source)
    linked_targets = np.append(from_target, best_targets[from_source])
    links = _Links.collect(linked_sources, linked_targets, len(source.ids))
    links_back = _Links.collect(linked_targets, linked_sources, len(target.ids))
    is_mutual = (best_sources[best_targets] == np.arange(len(source.ids))) & (links.last >= 0)
    target_numbers = {length: _number_phrases(target, length) for length in _LENGTHS}
    parts = []
    for length in _LENGTHS:
        numbers = _number_phrases(source, length)
        last_links = _windows(links.last, length)
        first, last = _windows(links.first, length).min(0), last_links.max(0)
        is_linked = (numbers != 0) & (last_links[0] >= 0) & (last_links[-1] >= 0)
        is_linked &= _windows(is_mutual, length).any(0)
        for target_length in _LENGTHS:
            at = np.flatnonzero(is_linked & (last - first == target_length - 1))
            to = first[at]
            is_closed = (
                (_windows(links_back.first, target_length)[:, to].min(0) >= at)
                & (_windows(links_back.last, target_length)[:, to].max(0) < at + length)
                & (target_numbers[target_length][to] != 0)
            )
            at, to = at[is_closed], to[is_closed]
            sizes = np.full((2, len(at)), [[length], [target_length]])
            parts.append(
                (at, sizes[0], numbers[at], to, sizes[1], target_numbers[target_length][to])
            )
    return _Occurrences(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _number_phrases(words: Words, length: int) -> Ints:
    """Return a number of the phrase that begins at each word: [W]; 0: none does."""
    ids = _windows(words.ids, length)
    is_phrase = _windows(words.follows, length)[1:].all(0) & (ids.min(0) > 0)
    is_phrase &= ids.max(0) < 1 << _ID_BITS
    return is_phrase * sum(ids[place] << _ID_BITS * place for place in range(length))


def _windows(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Return each value with those after it: [length, W]. Zeros follow the last one."""
    return sliding_window_view(np.pad(values, (0, length - 1)), length).T


def _choose(source: Words, target: Words, occurrences: _Occurrences) -> Ints:
    """Return an occurrence of each frequent phrase with its usual translation: indices."""
    # Inside of a sentence, capitals are those of names: such occurrences come first.
    begins = (
        source.begins_sentence[occurrences.source] + 2 * target.begins_sentence[occurrences.target]
    )
    order = np.lexsort((begins, occurrences.target_number, occurrences.source_number))
    occurrences = occurrences.take(order)
    is_new = np.diff(occurrences.source_number, prepend=0) != 0  # phrase
    first = np.flatnonzero(is_new | (np.diff(occurrences.target_number, prepend=0) != 0))
    counts = np.diff(first, append=len(order))  # of each translation of each phrase
    phrase = np.cumsum(is_new) - 1
    totals = np.bincount(phrase)[phrase[first]]
    last_source = source.ids[occurrences.source + occurrences.source_length - 1][first]
    last_target = target.ids[occurrences.target + occurrences.target_length - 1][first]
    gains_subject = _find_words_that_gain_subjects(source, occurrences)
    is_chosen = (
        (counts >= _MIN_COUNT)
        & (counts > _MIN_SHARE * totals)
        & (last_source > _FUNCTION_WORDS)
        & (last_target > _FUNCTION_WORDS)
        & ~target.begins_sentence[occurrences.target[first]]
        & ~gains_subject[source.ids[occurrences.source[first]]]
    )
    chosen, counts = first[is_chosen], counts[is_chosen]
    return order[chosen[np.argsort(-counts, kind="stable")]]


def _find_words_that_gain_subjects(source: Words, occurrences: _Occurrences) -> NDArray[np.bool_]:
    """Return which words have another translation where they begin a sentence: by id.

    "Es" is *it is* there and *is* elsewhere. As a phrase, it would teach the model to leave the
    subject of a sentence out.
    """
    size = source.ids.max() + 1
    single = occurrences.take(np.flatnonzero(occurrences.source_length == 1))
    words, begins = source.ids[single.source], source.begins_sentence[single.source]
    # The most frequent translation inside of sentences.
    inside = np.stack((words, single.target_number))[:, ~begins]
    (translated, numbers), counts = np.unique(inside, axis=1, return_counts=True)
    order = np.argsort(counts, kind="stable")
    usual = np.zeros(size, np.int64)
    usual[translated[order]] = numbers[order]  # the last one is the most frequent
    is_usual = single.target_number == usual[words]
    places = (False, True)  # inside of a sentence, at its beginning
    total = [np.bincount(source.ids[source.begins_sentence == at], minlength=size) for at in places]
    usually = [np.bincount(words[is_usual & (begins == at)], minlength=size) for at in places]
    inside_rate, beginning_rate = (
        count / np.maximum(every, 1) for count, every in zip(usually, total, strict=True)
    )
    return (total[1] >= _MIN_BEGINNINGS) & (beginning_rate < _USUAL_SHARE * inside_rate)
