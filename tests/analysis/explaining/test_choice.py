"""A word of a given translation: what its explanation lists besides the words of the source."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import SMALL, Letters, transformer

from nmt.analysis.explaining.choice import ChoiceExplainer
from nmt.analysis.explaining.contributions import make_contributions
from nmt.analysis.explaining.forced import ForcedScorer
from nmt.analysis.explaining.occlusion import Continuation, contrast, occlude
from nmt.data.tokenizer import BOS, EOS
from nmt.inference.segments import Segment

WORD, OTHER = "ab", "cd"


@pytest.mark.parametrize(
    ("ids", "context_size", "names", "groups"),
    [
        ([11, 18, 15, 4], 0, ["hola", "EOS"], [[0, 1, 2, 3], [4]]),
        ([7, 9, 11, 18, 15, 4], 2, ["hola", "context", "EOS"], [[2, 3, 4, 5], [0, 1], [6]]),
        ([7, 11, 18, 15, 4], 0, ["hola", "tag", "EOS"], [[1, 2, 3, 4], [0], [5]]),
        ([11, 18], 0, ["sentence", "EOS"], [[0, 1], [2]]),  # cut between tokens: it has no words
    ],
)
def test_tokens_of_no_word_are_a_group_of_their_own(
    ids: list[int], context_size: int, names: list[str], groups: list[list[int]]
) -> None:
    model = transformer(vocabulary_size=Letters.vocabulary_size, **SMALL)
    tokenizer = Letters()
    segment = Segment(np.array(ids, np.int32), "hola", context_size=context_size)
    explainer = ChoiceExplainer(model, tokenizer)  # type: ignore[arg-type]
    explanation = explainer.explain(
        segment.begin_with(""), segment.begin_with(WORD), segment.begin_with(OTHER)
    )
    assert [reason.text for reason in explanation.source] == names
    assert [reason.span for reason in explanation.source] == [
        (0, 4) if name == "hola" else None for name in names
    ]
    source = np.array([*ids, EOS])
    word, other = (tuple(row.tolist()) for row in tokenizer.encode([WORD, OTHER]))
    effects = occlude(
        ForcedScorer(model).score_pieces,
        source,
        groups,
        [range(1)],
        [Continuation((), word), Continuation((), other)],
    )
    np.testing.assert_allclose(
        [reason.contrast for reason in explanation.source], contrast(*effects).source, atol=1e-5
    )
    [shares] = make_contributions(model)([source], [np.array([BOS, word[0]])], [np.array(word)])
    by_token = shares.source.mean(0)
    np.testing.assert_allclose(
        [reason.contribution for reason in explanation.source],
        [by_token[group].sum() for group in groups],
        atol=1e-5,
    )
