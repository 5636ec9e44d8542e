"""Scores are sacreBLEU's own, with their signatures, and comparisons are fair."""

from __future__ import annotations

import pytest
import sacrebleu

from nmt.inference.metrics import RESAMPLES, corpus_scores, paired_bootstrap

REFERENCES = [
    "Where is the train station?",
    "I would like a cup of coffee, please.",
    "She has lived in this city for ten years.",
    "They didn't want to go home yesterday.",
    "It is raining again.",
    "My brother works in a small bakery near the river.",
]
GOOD = [
    "Where is the train station?",
    "I would like a cup of tea, please.",
    "She has lived in this town for ten years.",
    "They did not want to go home yesterday.",
    "It rains again.",
    "My brother works in a small bakery near the river.",
]
BAD = [
    "Where is station train?",
    "I want coffee.",
    "She lives here since ten years in the city.",
    "They want home.",
    "Rain.",
    "Brother is bakery of a river near.",
]
NAMES = ["BLEU", "chrF2++", "TER"]


def test_scores_are_those_of_sacrebleu() -> None:
    scores = corpus_scores(GOOD, REFERENCES)
    assert [score.name for score in scores] == NAMES
    expected = [
        sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score,
        sacrebleu.corpus_chrf(GOOD, [REFERENCES], word_order=2).score,
        sacrebleu.corpus_ter(GOOD, [REFERENCES]).score,
    ]
    assert [score.value for score in scores] == expected
    assert 40 < expected[0] < 90  # neither nothing nor perfect, so that a mix-up shows
    assert len(set(expected)) == 3
    # References and hypotheses are not exchanged: that would change the brevity penalty.
    assert corpus_scores(REFERENCES, BAD)[0].value != corpus_scores(BAD, REFERENCES)[0].value
    assert corpus_scores(BAD, REFERENCES)[0].value == (
        sacrebleu.corpus_bleu(BAD, [REFERENCES]).score
    )


def test_signatures_name_what_was_done() -> None:
    bleu, chrf, ter = (score.signature for score in corpus_scores(GOOD, REFERENCES))
    version = sacrebleu.__version__
    assert bleu == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert chrf == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}"
    assert ter == f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version}"


def test_only_the_names_asked_for_in_their_order() -> None:
    scores = corpus_scores(GOOD, REFERENCES, names=("TER", "BLEU"))
    assert [score.name for score in scores] == ["TER", "BLEU"]
    full = {score.name: score for score in corpus_scores(GOOD, REFERENCES)}
    assert scores == [full["TER"], full["BLEU"]]


def test_a_perfect_translation() -> None:
    values = [score.value for score in corpus_scores(REFERENCES, REFERENCES)]
    assert values == pytest.approx([100, 100, 0])


def test_confidence_intervals() -> None:
    for score in corpus_scores(GOOD, REFERENCES):
        assert score.mean is None
        assert score.half_width is None
    plain = {score.name: score.value for score in corpus_scores(GOOD, REFERENCES)}
    for score in corpus_scores(GOOD, REFERENCES, intervals=True):
        assert score.value == plain[score.name]
        assert f"|bs:{RESAMPLES}|" in score.signature
        assert score.mean is not None
        assert score.half_width is not None
        assert score.half_width > 0.5  # six sentences are few
        assert abs(score.mean - score.value) < score.half_width
    # All resamples of a perfect translation are perfect.
    bleu = corpus_scores(REFERENCES, REFERENCES, names=("BLEU",), intervals=True)[0]
    assert bleu.mean == pytest.approx(100)
    assert bleu.half_width == pytest.approx(0, abs=1e-9)


def test_paired_bootstrap_tells_good_from_bad() -> None:
    compared = paired_bootstrap(BAD, GOOD, REFERENCES)
    assert list(compared) == NAMES
    bad = {score.name: score.value for score in corpus_scores(BAD, REFERENCES)}
    good = {score.name: score.value for score in corpus_scores(GOOD, REFERENCES)}
    for name, (baseline, system, p_value) in compared.items():
        assert (baseline.name, system.name) == (name, name)
        assert baseline.value == pytest.approx(bad[name])
        assert system.value == pytest.approx(good[name])
        assert 0 < p_value < 0.05
        assert f"|bs:{RESAMPLES}|" in system.signature
        assert system.half_width is not None
        assert system.half_width > 0
    assert compared["BLEU"][0].value < compared["BLEU"][1].value
    assert compared["TER"][0].value > compared["TER"][1].value  # lower is better


def test_paired_bootstrap_is_symmetric() -> None:
    """Exchanging the systems exchanges the scores; the p-values stay, as resamples are the same."""
    one = paired_bootstrap(BAD, GOOD, REFERENCES)
    other = paired_bootstrap(GOOD, BAD, REFERENCES)
    for name in NAMES:
        assert one[name][0] == other[name][1]
        assert one[name][1] == other[name][0]
        assert one[name][2] == pytest.approx(other[name][2], abs=0.01)


def test_a_system_does_not_differ_from_itself() -> None:
    for baseline, system, p_value in paired_bootstrap(GOOD, GOOD, REFERENCES).values():
        assert baseline == system
        assert p_value > 0.9


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (GOOD[:5], REFERENCES, "5 hypotheses for 6 references"),
        (GOOD, REFERENCES[:5], "6 hypotheses for 5 references"),
        ([], [], "0 hypotheses for 0 references"),
    ],
)
def test_unequal_numbers_are_refused(
    hypotheses: list[str], references: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        corpus_scores(hypotheses, references)
