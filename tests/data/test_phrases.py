"""Phrases of pairs are those whose words are aligned with each other and with no other word."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from nmt.data import phrases
from nmt.data.phrases import extract_phrases, load_phrases
from nmt.data.splitting import Pair
from nmt.data.word_alignment import Words

NOUNS = {"perro": "dog", "gato": "cat", "libro": "book", "pan": "bread", "Tom": "Tom"}
ADJECTIVES = {"rojo": "red", "viejo": "old", "blanco": "white"}
VERBS = {"come": "eats", "mira": "watches", "quiere": "wants"}


def sentences() -> list[Pair]:
    """Return all sentences of a small grammar; adjectives follow their nouns in Spanish."""
    short = [Pair(f"Ana {verb}.", f"Ana {translation}.") for verb, translation in VERBS.items()]
    return short * 9 + [
        Pair(f"El {noun} {verb}, el {thing} {adjective}.", f"The {n} {v}, the {a} {t}.")
        for (noun, n), (verb, v), (thing, t), (adjective, a) in product(
            NOUNS.items(), VERBS.items(), NOUNS.items(), ADJECTIVES.items()
        )
    ]


@pytest.fixture(autouse=True)
def two_function_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phrases, "_FUNCTION_WORDS", 1)


def test_words_and_phrases_have_their_translations() -> None:
    found = dict(extract_phrases(sentences()))
    everything = NOUNS | ADJECTIVES | VERBS
    assert {word: found[word] for word in everything} == everything
    assert found["perro rojo"] == "red dog"
    assert found["el perro rojo"] == "the red dog"  # the first word of a sentence in lower case
    assert found["el Tom viejo"] == "the old Tom"  # but a name as inside of a sentence
    assert "el" not in found
    assert not any("come el" in phrase for phrase in found)  # a comma is between them


def test_the_most_frequent_phrases_come_first() -> None:
    pairs = sentences() + [Pair("Un pan viejo.", "An old bread.")] * 40
    found = [phrase.source for phrase in extract_phrases(pairs)]
    assert set(found[:2]) == {"pan", "viejo"}
    assert found.index("pan viejo") < found.index("pan rojo")


def test_a_phrase_without_a_usual_translation_is_left_out() -> None:
    half = [Pair(p.source, p.target.replace("dog", "hound")) for p in sentences()]
    pairs = sentences() + half
    assert "perro" not in dict(extract_phrases(pairs))
    assert dict(extract_phrases([*pairs, *sentences()]))["perro"] == "dog"


def test_no_phrase_begins_with_a_word_that_gains_a_subject() -> None:
    """Where it begins a sentence, and not inside of one."""
    things = NOUNS.items()
    inside = [
        Pair(f"El {a} es un {b}.", f"The {x} is a {y}.") for a, x in things for b, y in things
    ]
    pairs = sentences() + inside
    assert dict(extract_phrases(pairs))["es un perro"] == "is a dog"
    alone = [Pair(f"Es un {noun}.", f"It is a {translation}.") for noun, translation in things]
    found = dict(extract_phrases(pairs + alone * 3))
    assert not any(phrase.split()[0] == "es" for phrase in found)
    assert found["un perro"] == "a dog"


def test_a_phrase_that_occurs_once_is_left_out() -> None:
    pair = Pair("El queso come, el queso rojo.", "The cheese eats, the red cheese.")
    assert "queso" in dict(extract_phrases([*sentences(), pair]))  # twice in one sentence
    once = Pair("El queso come, el pan rojo.", "The cheese eats, the red bread.")
    assert "queso" not in dict(extract_phrases([*sentences(), once]))


def test_words_that_only_begin_sentences_are_no_phrases() -> None:
    """Whether they have a capital elsewhere, as names do, is not known."""
    pairs = sentences() + [Pair("Hola come.", "Hello eats.")] * 9
    assert not any("hola" in phrase.lower() for phrase in dict(extract_phrases(pairs)))


@pytest.mark.parametrize(
    ("words", "are_used"), [((39, 39), True), ((40, 40), False), ((39, 40), False)]
)
def test_long_sentences_give_no_phrases(words: tuple[int, int], are_used: bool) -> None:
    pair = Pair(" ".join(["queso"] * words[0]), " ".join(["cheese"] * words[1]))
    assert ("queso" in dict(extract_phrases([*sentences(), *[pair] * 9]))) == are_used


@pytest.mark.parametrize(
    "pairs", [[], [Pair("...", "!")], [Pair("Sí.", "Yes.")], [Pair("sí " * 50, "yes " * 50)]]
)
def test_too_few_pairs_have_no_phrases(pairs: list[Pair]) -> None:
    assert extract_phrases(pairs) == []


def test_of_many_pairs_a_sample_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = extract_phrases(sentences())
    monkeypatch.setattr(phrases, "_MAX_CELLS", 4000)
    sample = extract_phrases(sentences())
    assert sample
    assert sample != whole
    assert sample == extract_phrases(sentences())


def naive_phrases(links: set[tuple[int, int]], mutual: set[tuple[int, int]], size: int) -> set:
    """Return (first, length, target first, target length) by the definition of Koehn et al."""
    found = set()
    for first, length in product(range(size), range(1, 5)):
        inside = range(first, first + length)
        targets = {t for s, t in links if s in inside}
        ends = {s for s, _ in links} >= {first, first + length - 1}
        if first + length > size or not targets or not ends:
            continue
        to, last = min(targets), max(targets)
        closed = all(s in inside for s, t in links if to <= t <= last)
        if closed and last - to < 4 and any(s in inside for s, _ in mutual):
            found.add((first, length, to, last - to + 1))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_phrases_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    size = 8
    words = Words.split([" ".join(f"w{chr(97 + i)}" for i in range(size))])
    # `size` is the mark at the end of the text: not aligned.
    best_sources, best_targets = (
        np.array([rng.choice([i, i, size, rng.randrange(size)]) for i in range(size)] + [size])
        for _ in range(2)
    )
    forward = {(int(s), t) for t, s in enumerate(best_sources) if s < size and t < size}
    backward = {(s, int(t)) for s, t in enumerate(best_targets) if t < size and s < size}
    found = phrases._find_phrases(words, words, best_sources, best_targets)
    places = zip(
        *(column.tolist() for column in (found[0], found[1], found[3], found[4])), strict=True
    )
    expected = naive_phrases(forward | backward, forward & backward, size)
    assert set(places) == expected
    assert len(found.source) == len(expected)


def test_phrases_are_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_phrases(sentences(), tmp_path)
    assert first == extract_phrases(sentences())
    monkeypatch.setattr(phrases, "extract_phrases", lambda pairs: [])
    assert load_phrases(sentences(), tmp_path) == first
    assert load_phrases(sentences()[1:], tmp_path) == []
    monkeypatch.setattr(phrases, "_VERSION", "another")
    assert load_phrases(sentences(), tmp_path) == []
