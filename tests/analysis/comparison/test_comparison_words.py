"""Words that one system has right and another lacks, and sentences word by word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import numpy as np
import pytest
from rich.console import Console

from nmt import Translator
from nmt.analysis.comparison import coverage
from nmt.analysis.comparison.confidence import Reliability, make_bins, measure_reliability
from nmt.analysis.comparison.words import (
    align_words,
    find_leads,
    rank_changes,
    score_frequencies,
)
from nmt.analysis.heads.alignment import SentencePair
from nmt.inference.contract import SearchRequest
from nmt.inference.results import Translation, Word


def test_f1_by_frequency_by_hand() -> None:
    references = ["The cat saw a lynx.", "The cat."]
    outputs = [["The cat saw a dog.", "A cat."], ["The the.", ""]]
    counts = {"the": 200, "cat": 15, "a": 150, "saw": 12, "dog": 5}
    scores = {each.name: each for each in score_frequencies(references, outputs, counts)}
    assert set(scores) == {"0", "10 to 99", "100 to 999"}
    # the, a: 3 in the references; the first system writes 3, of which 2 match; the second one 2
    # and 1, as its second "the" matches nothing.
    common = scores["100 to 999"]
    assert common.occurrences == 3
    assert common.f1 == pytest.approx((200 * 2 / 6, 200 * 1 / 5))
    assert scores["10 to 99"].f1 == pytest.approx((100.0, 0.0))
    assert scores["0"].f1 == (0.0, 0.0)


def test_leads_are_by_evidence_without_what_contains_them() -> None:
    references = ["I see two dogs.", "You have two cats.", "We sold two pigs.", "They want two."]
    references += ["He likes red wine."] * 9
    first = [*references[:4], *["He likes wine."] * 9]
    second = ["I see dogs.", "You have cats.", "We sold pigs.", "They want.", *references[4:]]
    leads = find_leads(references, (first, second))
    assert [lead.words for lead in leads] == ["red", "two"]
    red, two = leads
    assert (red.leader, red.right, red.occurrences) == (1, (0, 9), 9)
    assert (two.leader, two.right, two.examples) == (0, (4, 0), (0, 1))
    assert red.p_value < two.p_value <= 1.0
    assert find_leads(references, (first, first)) == []


def test_the_leader_is_right_in_more_sentences_not_more_often() -> None:
    references = ["red wine", "red sea", "red hat", "red car", "red red red red red red"]
    first = ["red wine", "red sea", "red hat", "red car", "no"]
    second = ["wine", "sea", "hat", "car", references[4]]
    [red] = find_leads(references, (first, second))
    assert (red.words, red.leader, red.right) == ("red", 0, (4, 6))
    assert red.examples == (0, 1)


def test_an_ngram_with_more_evidence_than_its_words_is_kept_whole() -> None:
    references = ["do you know", "do you see", "do you go", "do you eat", "you do", "do it"]
    second = ["you do know", "you do see", "you do go", "you do eat", "you do", "do it"]
    leads = find_leads(references, (references, second))
    assert leads[0].words == "do you"
    assert leads[0].right == (4, 0)
    assert not any(lead.words in ("do", "you") for lead in leads)


def test_repeated_ngrams_count_as_often_as_they_match() -> None:
    [lead] = find_leads(["no no no"] * 4, (["no no no"] * 4, ["no"] * 4))
    assert (lead.words, lead.right, lead.occurrences) == ("no", (12, 4), 12)


def test_words_stand_under_those_of_the_reference() -> None:
    grid = align_words("I am here, Tom.", ["I was here now, Tom.", "am here"])
    assert grid.reference == ["I", "am", "here", "", ",", "Tom", "."]
    assert [word.text for word in grid.outputs[0]] == ["I", "was", "here", "now", ",", "Tom", "."]
    assert [word.text for word in grid.outputs[1]] == ["", "am", "here", "", "", "", ""]
    assert [word.is_right for word in grid.outputs[0]] == [
        True,
        False,
        *[True] * 1,
        False,
        *[True] * 3,
    ]
    assert [word.is_shared for word in grid.outputs[1]] == [False, False, True, *[False] * 4]


@pytest.mark.parametrize(
    ("reference", "outputs"),
    [
        ("a b c d e", ["e d c b a", "a a a", ""]),
        ("", ["a b", ""]),
        ("a", ["b c d", "a a"]),
        ("one two three.", ["zero one and two or three!", "two"]),
    ],
)
def test_no_word_is_lost_in_a_grid(reference: str, outputs: list[str]) -> None:
    grid = align_words(reference, outputs)
    squeezed = reference.replace(" ", "")
    assert "".join(grid.reference) == squeezed
    for row, output in zip(grid.outputs, outputs, strict=True):
        assert len(row) == len(grid.reference)
        assert "".join(word.text for word in row) == output.replace(" ", "")


def test_sentences_are_ranked_by_their_change() -> None:
    assert rank_changes([(50.0, 60.0), (90.0, 10.0), (10.0, 10.0), (0.0, 99.0)]) == [1, 2, 0, 3]


def test_bins_of_confidence_by_hand() -> None:
    words = [(0.95, True), (1.0, True), (0.91, False), (0.05, False)]
    low, high = make_bins(words)
    assert (low.lowest, low.words, low.confidence, low.right) == (0.0, 1, 0.05, 0.0)
    assert (high.highest, high.words) == (1.0, 3)
    assert high.confidence == pytest.approx(2.86 / 3)
    assert high.right == pytest.approx(2 / 3)
    error = Reliability(2, 4, [low, high]).calibration_error
    assert error == pytest.approx((0.05 + (2.86 - 2)) / 4)
    assert make_bins([]) == []


def test_the_words_of_translations_are_right_if_references_have_them() -> None:
    words = (Word(0, 3, 0.9, ()), Word(4, 7, 0.2, ()), Word(7, 8, None, ()))
    best = Translation("the dog.", -1.0, -0.5, (), words=words)

    class Unsure:
        def stream(
            self, chunks: Iterable[Sequence[str]], request: SearchRequest
        ) -> Iterator[list[list[Translation]]]:
            assert request.quality
            for texts in chunks:
                yield [[best] for _ in texts]

    measured = measure_reliability(
        cast(Translator, Unsure()),
        ["el gato", "el perro"],
        ["the cat", "the dog"],
        SearchRequest(quality=True),
        Console(quiet=True),
    )
    assert (measured.sentences, measured.words) == (2, 4)
    assert [(each.confidence, each.right) for each in measured.bins] == [(0.2, 0.5), (0.9, 1.0)]


def test_omissions_and_additions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second and third word of "la casa roja." are content; each row is of a target word."""
    rows: dict[str, list[tuple[int, float]] | None] = {
        "The house.": [(0, 1), (1, 1), (3, 1)],  # "roja" is left out
        "The big red house.": [(0, 1), (4, 0.6), (2, 1), (1, 1), (3, 1)],  # "big" is added
        "": None,
    }

    def align(_translator: object, pairs: Sequence[SentencePair]) -> Iterator[np.ndarray | None]:
        for pair in pairs:
            chosen = rows[pair.target]
            if chosen is None:
                yield None
                continue
            weights = np.zeros((len(chosen), 5))  # four source words and EOS
            for row, (column, weight) in zip(weights, chosen, strict=True):
                row[column] = weight
                row[0 if column else 1] += 1 - weight
            yield weights

    monkeypatch.setattr(coverage, "align", align)
    measured = coverage.measure_coverage(
        cast(Translator, None),
        ["La casa roja."] * 3,
        list(rows),
        frozenset({"la"}),
        Console(quiet=True),
    )
    assert measured.omitted.tolist() == [1, 0, 2]
    assert measured.content.tolist() == [2, 2, 2]
    assert measured.added.tolist() == [0, 1, 0]
    assert measured.written.tolist() == [2, 4, 0]
    assert measured.examples == [
        (0, ("roja",), ()),
        (1, (), ("big",)),
        (2, ("casa", "roja"), ()),
    ]
    assert measured.omission_rate == pytest.approx(3 / 6)
    assert measured.addition_rate == pytest.approx(1 / 6)
