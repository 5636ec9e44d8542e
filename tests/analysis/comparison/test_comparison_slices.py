"""Kinds of sentences, and which of them tell systems apart."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from sample_prepared import plan, prepared

from nmt.analysis.comparison.interactions import choose_findings, score_slices
from nmt.analysis.comparison.slices import (
    FREQUENCIES,
    Slice,
    TrainingWords,
    drop_repeated,
    frequency_classes,
    list_words,
    make_slices,
    read_training_words,
)
from nmt.data.corpus import Corpus
from nmt.errors import UserError
from nmt.inference.significance import Statistics, count_statistics
from nmt.runs.corpus import read_corpus
from nmt.runs.folder import RunFolder

WORDS = TrainingWords(
    {"ya": 90, "la": 500, "casa": 20, "es": 400, "roja": 3, "no": 200, "tengo": 30},
    {"the": 5000, "house": 20, "is": 400, "red": 3},
)


def slices_of(
    source: str, reference: str = "Yes.", languages: tuple[str, str] = ("es", "en")
) -> set[str]:
    """Return the slices of a sentence, beside another one that has none of its properties."""
    other = "Ya Ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya"
    listed = make_slices([source, other], [reference, "The the"], languages, WORDS)
    return {each.name for each in listed if each.members[0]}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("La casa es roja.", "the source has 1 to 5 words"),
        ("La casa es roja y no tengo.", "the source has 6 to 10 words"),
        ("¿La casa?", "the source is a question"),
        ("这是房子吗？", "the source is a question"),
        ("¡La casa!", "the source is an exclamation"),
        ("La casa, roja.", "the source has commas"),
        ("«La casa» es roja.", "the source has quotation marks"),
        ("La casa: roja.", "the source has colons, semicolons, dashes or brackets"),
        ("La casa. La casa roja.", "the source has several sentences"),
        ("LA CASA ES ROJA", "the source is in capitals"),
        ("La Casa Roja Tengo Casa Roja", "the source is in title case"),
        ("la casa", "the source is in lower case"),
        ("Tengo 3 casas.", "the source has digits"),
        ("Tengo 3 casas.", "the source has numbers"),
        ("Tengo tres casas.", "the source has numbers"),
        ("No tengo casa.", "the source has a negation"),
        ("Jamás.", "the source has a negation"),
        ("Escribe a ana@example.org.", "the source has kept spans"),
        ("La xilografía.", "the source has unseen words"),
        ("La casa de Wanjiku.", "the source has unseen names"),
    ],
)
def test_sentences_belong_to_slices(source: str, name: str) -> None:
    assert name in slices_of(source)
    assert name not in slices_of(
        "Ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya ya"
    )


def test_words_are_found_in_the_references_of_an_unknown_language() -> None:
    found = slices_of("Ez daukat hiru etxe.", "I don't have three houses.", ("eu", "en"))
    assert {"the source has a negation", "the source has numbers"} <= found
    assert "the source has a negation" not in slices_of("Etxea.", "A note.", ("eu", "en"))


def test_unseen_names_are_unseen_words_with_a_capital() -> None:
    assert "the source has unseen names" not in slices_of("La xilografía.")
    assert "the source has unseen words" not in slices_of("La casa, 12.")


def test_the_rarest_word_decides() -> None:
    assert "the rarest reference word occurs 1 to 9 times in training" in slices_of(
        "La", "The red house."
    )
    assert "the rarest reference word occurs 0 times in training" in slices_of("La", "The castle.")
    without = make_slices(["La", "No"], ["A", "B"], ("es", "en"), TrainingWords({}, {}))
    assert not any("training" in each.name or "unseen" in each.name for each in without)


def test_every_frequency_is_in_one_class() -> None:
    classes = frequency_classes()
    assert [name for name, _, _ in classes][:3] == ["0", "1 to 9", "10 to 99"]
    assert classes[-1][0] == "10,000 or more"
    for count in {*FREQUENCIES, *(bound - 1 for bound in FREQUENCIES[1:]), 123_456}:
        assert sum(least <= count <= most for _, least, most in classes) == 1


def test_groups_are_slices_and_slices_of_everything_are_left_out() -> None:
    slices = make_slices(["a", "b", "c"], ["x"] * 3, ("es", "en"), WORDS, ["talk", "talk", ""])
    by_name = {each.name: each for each in slices}
    assert by_name["the group is talk"].members.tolist() == [True, True, False]
    assert all(0 < each.size < 3 for each in slices)


def test_slices_with_the_same_sentences_are_one() -> None:
    members = np.array([True, False])
    slices = [Slice("a", "", members), Slice("b", "", ~members), Slice("c", "", members)]
    assert [each.name for each in drop_repeated(slices)] == ["a", "b"]


def test_words_are_counted_in_lower_case_without_marks() -> None:
    assert list_words("¿Don't, 8:30?") == ["don't", "8:30"]
    assert TrainingWords.count([("A a.", "B"), ("a", "b b")]) == TrainingWords({"a": 3}, {"b": 3})
    many = TrainingWords({f"w{n}": n for n in range(200)}, {})
    assert many.function_words == {f"w{n}" for n in range(100, 200)}


# --- Which slices tell systems apart ------------------------------------------------------------

COUNT = 400
EXCHANGES = 4000
VOCABULARY = "one two red green house river bread sleeps reads near with of".split()


def make_statistics(rates: np.ndarray, seed: int) -> Statistics:
    """Return statistics of outputs in which a share of words, by sentence, is wrong."""
    rng = random.Random(seed)
    fixed = random.Random(0)
    references = [" ".join(fixed.choices(VOCABULARY, k=6)) for _ in range(COUNT)]
    outputs = [
        " ".join("x" if rng.random() < rate else word for word in reference.split())
        for reference, rate in zip(references, rates, strict=True)
    ]
    return count_statistics(outputs, references, language="en")["chrF2++"]


def make_slice(name: str, members: np.ndarray) -> Slice:
    return Slice(name, "", members)


NUMBERS = np.arange(COUNT)
THIRD = make_slice("third", NUMBERS % 3 == 0)
HALF_OF_THIRD = make_slice("half of third", NUMBERS % 6 == 0)
WIDER = make_slice("wider", (NUMBERS % 3 == 0) | (NUMBERS % 7 == 0))
OTHER = make_slice("other", NUMBERS % 5 == 1)
FEW = make_slice("few", NUMBERS < 4)
SLICES = [OTHER, HALF_OF_THIRD, WIDER, THIRD, FEW]


def test_the_damaged_slice_is_found_first_and_those_that_only_overlap_are_not() -> None:
    first = make_statistics(np.full(COUNT, 0.2), 1)
    second = make_statistics(np.where(THIRD.members, 0.7, 0.2), 2)
    results = {each.slice.name: each for each in score_slices(first, second, SLICES, EXCHANGES)}
    assert results["third"].is_significant
    assert results["third"].p_value is not None
    assert results["third"].p_value < 0.001
    assert results["third"].difference < -20
    assert results["third"].inside[1] == pytest.approx(second.score(THIRD.members))
    assert results["third"].outside[0] == pytest.approx(first.score(~THIRD.members))
    assert results["few"].test is None
    assert not results["few"].is_significant
    assert results["half of third"].is_significant
    findings = choose_findings(first, second, list(results.values()), EXCHANGES)
    assert [each.slice.name for each in findings] == ["third"]


def test_two_damages_are_two_findings() -> None:
    first = make_statistics(np.full(COUNT, 0.2), 1)
    rates = np.where(THIRD.members, 0.8, np.where(OTHER.members, 0.6, 0.2))
    second = make_statistics(rates, 2)
    results = score_slices(first, second, SLICES, EXCHANGES)
    findings = choose_findings(first, second, results, EXCHANGES)
    assert [each.slice.name for each in findings] == ["third", "other"]


def test_a_system_that_is_worse_everywhere_is_not_worse_in_a_slice() -> None:
    for seed in range(5):
        first = make_statistics(np.full(COUNT, 0.2), 10 + seed)
        second = make_statistics(np.full(COUNT, 0.4), 20 + seed)
        results = score_slices(first, second, SLICES, EXCHANGES)
        assert choose_findings(first, second, results, EXCHANGES) == []


def test_corrected_p_values_hold_their_level_without_a_difference() -> None:
    """A finding in few of many comparisons of systems that do not differ."""
    found = 0
    for seed in range(40):
        first, second = (make_statistics(np.full(COUNT, 0.3), 1000 * n + seed) for n in (1, 2))
        results = score_slices(first, second, SLICES, EXCHANGES)
        found += bool(choose_findings(first, second, results, EXCHANGES))
    assert found <= 6  # 2 are expected; more than 6 of 40 have a probability of 0.3%


def test_training_words_are_those_of_the_corpus_or_of_the_sources(
    tiny_run: Path, tmp_path: Path
) -> None:
    """A prepared corpus has no text of its pairs."""
    run = RunFolder.open(tiny_run)
    log: list[str] = []
    sources = ["El coche es rojo."]
    words = read_training_words(run, lambda: read_corpus(run, log.append), sources, log.append)
    assert words.source
    assert words.target
    pairs = [(f"rojo w{i}a", f"red v{i}b") for i in range(60)]
    corpus = prepared(plan(tmp_path, pairs))
    without_text = read_training_words(run, lambda: corpus, sources, log.append)
    assert without_text.source
    assert not without_text.target

    def fail() -> Corpus:
        raise UserError("it is gone")

    assert read_training_words(run, fail, sources, log.append) == without_text
    assert log[-1] == "frequencies are those of source words alone: it is gone"
    assert not read_training_words(run, fail, ["السيارة حمراء في iOS."], log.append).source
