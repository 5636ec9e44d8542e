"""Paired randomization: scores as sacreBLEU's, and p-values that are what they claim to be."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from nmt.inference.metrics import corpus_scores, sentence_scores
from nmt.inference.significance import (
    RATE,
    Exchanges,
    Statistics,
    compare_outputs,
    compare_scores,
    compare_selections,
    correct_p_values,
    count_statistics,
    score_totals,
    sign_test,
)

NAMES = ("BLEU", "chrF2++", "TER")
WORDS = "the a house river bread town seven green old reads sleeps near with of to".split()


def make_sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) + "." for _ in range(count)]


def damage(texts: list[str], rate: float, seed: int) -> list[str]:
    """Replace a share of the words."""
    rng = random.Random(seed)
    return [
        " ".join(rng.choice(WORDS) if rng.random() < rate else word for word in text.split())
        for text in texts
    ]


REFERENCES = make_sentences(60, 1)


@pytest.mark.parametrize(
    ("outputs", "references"),
    [
        (damage(REFERENCES, 0.3, 2), REFERENCES),
        (damage(REFERENCES, 1.0, 2), REFERENCES),
        (REFERENCES, REFERENCES),
        ([""] * len(REFERENCES), REFERENCES),
        (["x"], ["one two three four five"]),
        (["a house near the old town"], ["a house in an old city"]),
        (["a"], [""]),
        ([""], [""]),
    ],
)
def test_scores_are_those_of_sacrebleu(outputs: list[str], references: list[str]) -> None:
    counted = count_statistics(outputs, references, language="en")
    expected = corpus_scores(outputs, references, language="en")
    assert tuple(counted) == NAMES
    for score in expected:
        assert counted[score.name].score() == pytest.approx(score.value, abs=1e-9), score.name


def test_several_references_are_counted_as_by_sacrebleu() -> None:
    outputs = damage(REFERENCES, 0.4, 3)
    more = [[text if i % 2 else None for i, text in enumerate(damage(outputs, 0.2, 5))]]
    counted = count_statistics(outputs, REFERENCES, language="en", more_references=more)
    for score in corpus_scores(outputs, REFERENCES, language="en", more_references=more):
        assert counted[score.name].score() == pytest.approx(score.value, abs=1e-9), score.name
    # A system that equals the further references is better only with them.
    alone, together = (
        compare_outputs(REFERENCES, outputs, outputs, language="en", more_references=sets)
        for sets in ([], [REFERENCES])
    )
    assert alone["BLEU"].p_value < 0.01 < together["BLEU"].p_value


def test_scores_of_sentences_and_selections() -> None:
    outputs = damage(REFERENCES, 0.4, 3)
    chrf = count_statistics(outputs, REFERENCES, language="en")["chrF2++"]
    assert chrf.score_each() == pytest.approx(sentence_scores(outputs, REFERENCES))
    some = np.arange(len(outputs)) % 3 == 0
    expected = corpus_scores(outputs[::3], REFERENCES[::3], language="en", names=("chrF2++",))
    assert chrf.score(some) == pytest.approx(expected[0].value)


def test_a_p_value_is_the_share_of_all_exchanges() -> None:
    """Of six sentences, all 64 exchanges can be listed."""
    references = make_sentences(6, 4)
    first, second = (
        count_statistics(damage(references, rate, seed), references, language="en")["chrF2++"]
        for rate, seed in ((0.1, 5), (0.6, 6))
    )
    change = second.counts - first.counts
    observed = abs(second.score() - first.score())
    reached = []
    for exchanged in itertools.product((0, 1), repeat=6):
        moved = np.array(exchanged) @ change
        scores = [
            score_totals("chrF2++", total)
            for total in (second.counts.sum(0) - moved, first.counts.sum(0) + moved)
        ]
        reached.append(abs(scores[0] - scores[1]) >= observed - 1e-9)
    test = compare_scores(first, second, Exchanges(6, 20_000))
    assert test.p_value == pytest.approx(np.mean(reached), abs=0.015)  # 4 standard errors
    assert test.difference == pytest.approx(second.score() - first.score())


def test_p_values_are_uniform_without_a_difference() -> None:
    """Two unequal systems, whose outputs are exchanged at random: Kolmogorov and Smirnov."""
    count, trials = 60, 300
    pair = [
        count_statistics(damage(REFERENCES, rate, seed), REFERENCES, language="en")["chrF2++"]
        for rate, seed in ((0.2, 7), (0.5, 8))
    ]
    generator = np.random.default_rng(9)
    p_values = []
    for trial in range(trials):
        swap = generator.integers(2, size=(count, 1)).astype(bool)
        first, second = (
            Statistics("chrF2++", np.where(swap, one.counts, other.counts))
            for one, other in (pair, pair[::-1])
        )
        p_values.append(compare_scores(first, second, Exchanges(count, 499, seed=trial)).p_value)
    ranks = np.arange(1, trials + 1) / trials
    distance = np.abs(np.sort(p_values) - ranks).max()
    assert distance < 1.63 / trials**0.5  # the 1% point
    assert np.mean(np.array(p_values) <= 0.05) < 0.09


def test_a_difference_in_one_sentence_is_no_evidence() -> None:
    """Every exchange gives the same absolute difference; sacreBLEU's test has p = 1 / 10,001."""
    outputs = list(REFERENCES)
    outputs[5] = "x"
    for test in compare_outputs(REFERENCES, outputs, REFERENCES, language="en").values():
        assert test.p_value == 1.0
        assert test.difference != 0


def test_a_system_does_not_differ_from_itself() -> None:
    outputs = damage(REFERENCES, 0.3, 2)
    for test in compare_outputs(outputs, outputs, REFERENCES, language="en").values():
        assert test == (0.0, 1.0, 0.0)
        assert test.evidence == 0.0


def test_good_is_told_from_bad_in_both_directions() -> None:
    good, bad = damage(REFERENCES, 0.1, 2), damage(REFERENCES, 0.5, 3)
    forward = compare_outputs(bad, good, REFERENCES, language="en")
    backward = compare_outputs(good, bad, REFERENCES, language="en")
    for name, sign in (("BLEU", 1), ("chrF2++", 1), ("TER", -1)):  # of TER, lower is better
        assert forward[name].p_value < 0.001
        assert forward[name].difference * sign > 0
        assert forward[name].difference == pytest.approx(-backward[name].difference)
        assert forward[name].p_value == backward[name].p_value


def test_a_contrast_finds_where_systems_differ_and_not_that_they_do() -> None:
    chosen = np.arange(len(REFERENCES)) % 3 == 0
    first = damage(REFERENCES, 0.2, 2)
    everywhere = damage(REFERENCES, 0.5, 3)
    there = [
        b if is_chosen else a for a, b, is_chosen in zip(first, everywhere, chosen, strict=True)
    ]
    exchanges = Exchanges(len(REFERENCES), 2000)
    p_values = []
    for second in (there, everywhere):
        both = [
            count_statistics(each, REFERENCES, language="en")["chrF2++"] for each in (first, second)
        ]
        [test] = compare_selections(both[0], both[1], chosen[None], exchanges, contrasts=True)
        inside, outside = (both[1].score(part) - both[0].score(part) for part in (chosen, ~chosen))
        assert test.difference == pytest.approx(inside - outside, abs=1e-3)
        p_values.append(test.p_value)
    assert p_values[0] < 0.001
    assert p_values[1] > 0.05


def test_copies_of_a_sentence_are_exchanged_together() -> None:
    for exchanged in Exchanges(5, 100, copies=2).chunks():
        assert exchanged.shape == (100, 10)
        assert (exchanged[:, :5] == exchanged[:, 5:]).all()
        assert set(np.unique(exchanged)) == {0.0, 1.0}


def test_rates_are_sums_over_sums() -> None:
    assert score_totals(RATE, np.array([[1.0, 4.0], [0.0, 0.0]])).tolist() == [25.0, 0.0]


def test_holms_correction_by_hand() -> None:
    assert correct_p_values([]) == []
    assert correct_p_values([0.04]) == [0.04]
    # 3 × 0.01, then max(0.03, 2 × 0.02), then max(0.04, 1 × 0.03); the last one is at most 1.
    assert correct_p_values([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert correct_p_values([0.9, 0.8]) == [1.0, 1.0]


def test_the_sign_test_by_hand() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(2, 2) == 1.0
    assert sign_test(5, 0) == pytest.approx(2 / 32)
    assert sign_test(1, 7) == sign_test(7, 1) == pytest.approx(2 * (8 + 1) / 256)
