"""Words are aligned with the words that usually occur in the translations of their sentences."""

from __future__ import annotations

import numpy as np

from nmt.data.word_alignment import Words, align


def test_words_know_their_places_and_neighbors() -> None:
    words = Words.split(["¡Hola, Ana! Te  veo bien.", "", "don't co-op hola"])
    read = [words.text[b:e] for b, e in zip(words.begins, words.ends, strict=True)]
    assert read == [*"Hola Ana Te veo bien \n \n don't co-op hola \n".split(" ")]
    assert words.ids[0] == words.ids[-2] == 1  # the most frequent word, in any case
    assert [number == 0 for number in words.ids] == [sign == "\n" for sign in read]
    assert words.text_numbers.tolist() == [0] * 6 + [1] + [2] * 4
    # Marks and two spaces separate.
    assert np.flatnonzero(words.follows).tolist() == [4, 8, 9]
    assert words.read(0, 1) == "hola"
    assert words.read(8, 2) == "co-op hola"


def test_vowel_signs_and_joiners_are_parts_of_words() -> None:
    text = "दरवाज़ा खोलो। घर में মানুষ می\u200cروم cafe\u0301s คุณจะไป နေကောင်းလား"
    words = Words.split([text])
    read = [words.text[b:e] for b, e in zip(words.begins, words.ends, strict=True)]
    assert read == [*text.replace("।", "").split(), "\n"]
    assert words.read(0, 2) == "दरवाज़ा खोलो"
    assert words.follows.tolist() == [False, True, False, *[True] * 6, False]


def test_words_are_aligned_whatever_their_order() -> None:
    names = [f"{a}{b}" for a in "abcde" for b in "fghij"]
    rng = np.random.default_rng(1)
    texts = [rng.choice(names, 5, replace=False) for _ in range(300)]
    source = Words.split(" ".join(words) for words in texts)
    # Translated backwards, with a word of no source, and without one of the sources.
    target = Words.split(
        " ".join(f"x{word}" for word in words[::-1] if word != "af") + " zz" for words in texts
    )
    best_sources, best_targets = align(source, target)
    for word, other in ((source.ids, best_targets), (target.ids, best_sources)):
        assert len(word) == len(other)
    for at, other in enumerate(best_sources):
        if target.ids[at]:
            expected = target.text[target.begins[at] : target.ends[at]].removeprefix("x")
            found = source.text[source.begins[other] : source.ends[other]]
            assert found == ("\n" if expected == "zz" else expected)
            assert source.text_numbers[other] == target.text_numbers[at]
    for at, other in enumerate(best_targets):
        if source.ids[at] and (word := source.read(at, 1)) != "af":
            assert target.text[target.begins[other] : target.ends[other]] == f"x{word}"


def test_of_equal_words_the_nearest_ones_are_aligned() -> None:
    pairs = [("el a ve el b", "the x sees the y"), ("el a", "the x"), ("ve el b", "sees the y")]
    source, target = (Words.split(texts) for texts in zip(*pairs, strict=True))
    for best in align(source, target):
        assert best[:5].tolist() == [0, 1, 2, 3, 4]
