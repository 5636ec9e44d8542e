"""Contrastive references, contexts of other sentences, and the test of a difference."""

from __future__ import annotations

import pytest
from context import PRONOUNS, corrupt, exchange_contexts, find_kind, list_contrasts, mcnemar

from nmt.data.splitting import Pair
from nmt.text.context import CONTEXT_MARK, split_context


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("He took his rod.", "man"),
        ("Her sons saw it.", "woman"),
        ("Bring them here.", "several"),
        ("He saw her.", None),
        ("The others went home.", None),
    ],
)
def test_a_kind_is_found_if_it_is_the_only_one(text: str, kind: str | None) -> None:
    assert find_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "kind", "other", "expected"),
    [
        ("He took his rod.", "man", "woman", "She took her rod."),
        ("She saw her house; we saw her.", "woman", "man", "He saw his house; we saw him."),
        ("I gave her to the king.", "woman", "several", "I gave them to the king."),
        ("I saw her, and her sons.", "woman", "several", "I saw them, and their sons."),
        ("Their gods fell upon them.", "several", "man", "His gods fell upon him."),
        ("He sees.", "man", "several", None),
        ("They see.", "several", "woman", None),
    ],
)
def test_pronouns_are_exchanged_unless_the_verb_tells(
    text: str, kind: str, other: str, expected: str | None
) -> None:
    assert corrupt(text, kind, other) == expected


def test_every_contrast_differs_from_its_reference() -> None:
    targets = ["He went.", "They went.", "Her house fell.", "We saw him and her.", "Rain fell."]
    contrasts = list_contrasts([Pair("x", target) for target in targets], "en")
    assert [contrast.number for contrast in contrasts] == [0, 2]
    for contrast in contrasts:
        assert contrast.kind in PRONOUNS
        assert targets[contrast.number] not in contrast.corrupted


def test_spanish_contrasts_exchange_the_number_of_you() -> None:
    targets = {
        "Toma para ti la hacienda.": "Toma para vosotros la hacienda.",
        "La paz sea con vosotros.": "La paz sea contigo.",
        "Estoy contigo, y hablo de ti.": "Estoy con vosotros, y hablo de vosotros.",
        "A ti te digo.": None,
        "Hablo de ti y de vosotros.": None,
        "Vosotros lo sabéis.": None,
        "Llueve.": None,
    }
    contrasts = list_contrasts([Pair("x", target) for target in targets], "es")
    expected = [[other] for other in targets.values() if other]
    assert [contrast.corrupted for contrast in contrasts] == expected


def test_exchanged_contexts_are_those_of_other_sentences() -> None:
    pairs = [Pair(f"c{i} {CONTEXT_MARK} s{i}", f"t{i}") for i in range(9)] + [Pair("s9", "t9")]
    exchanged = exchange_contexts(pairs, 1)
    contexts, sentences = zip(*(split_context(pair.source) for pair in exchanged), strict=True)
    expected, original = zip(*(split_context(pair.source) for pair in pairs), strict=True)
    assert sentences == original
    assert sorted(contexts) == sorted(expected)
    assert all(new != old for new, old in zip(contexts[:9], expected[:9], strict=True))
    assert contexts[9] == ""


def test_the_significance_is_that_of_a_fair_coin() -> None:
    same, better = [True, False] * 5, [True] * 10
    assert mcnemar(same, same) == 1
    assert mcnemar(same, better) == pytest.approx(2 / 2**5)
    assert mcnemar(better, same) == mcnemar(same, better)
