"""Effects are differences of log-probabilities, with words visible and hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nmt import Translator
from nmt.analysis.explaining.forced import ForcedRow, ForcedScorer
from nmt.analysis.explaining.occlusion import Continuation, Effects, contrast, occlude
from nmt.data.tokenizer import BOS, EOS, UNK

SOURCE = np.array([7, 12, 7, 20, EOS])
SOURCE_WORDS = ([0, 1], [2], [3], [4])  # the last one is EOS
PREFIX = (9, 4, 15)
PREFIX_WORDS = (range(1), range(1, 3), range(3, 4), range(4, 6))
CONTINUATIONS = [
    Continuation(PREFIX, (8, 22)),  # the fourth word
    Continuation(PREFIX, (11,)),  # instead of it
    Continuation((9, 4), (15,)),
    Continuation((), (9, 4)),
    Continuation((), (5, 6, EOS)),
]


def occlude_all(score: object, **options: Sequence[int]) -> list[Effects]:
    return occlude(score, SOURCE, SOURCE_WORDS, PREFIX_WORDS, CONTINUATIONS, **options)


@pytest.mark.backend
def test_effects_are_differences_of_forced_scores(letters: Translator) -> None:
    """Each is computed by the engine, one pair at a time."""
    engine = letters.keras_engine("a test")

    def score(
        continuation: Continuation, sources: Sequence[int] = (), reads: Sequence[int] = ()
    ) -> np.ndarray:
        prefix, tokens = continuation
        source, read = np.delete(SOURCE, list(sources)), np.array([BOS, *prefix, *tokens[:-1]])
        read[list(reads)] = UNK
        labels = np.zeros(len(read), np.int32)
        labels[len(prefix) :] = tokens
        [row] = engine._scores(source[None], read[None], labels[None])
        return row[len(prefix) :]

    computed = occlude_all(ForcedScorer(engine.model).score_pieces)
    for continuation, effects in zip(CONTINUATIONS, computed, strict=True):
        visible = score(continuation)
        np.testing.assert_allclose(effects.log_probs, visible, atol=1e-4)
        expected = [(visible - score(continuation, word)).sum() for word in SOURCE_WORDS]
        assert np.abs(expected).max() > 0.01, "nothing depends on anything: the test is blind"
        np.testing.assert_allclose(effects.source, expected, atol=1e-4)
        end = len(continuation.prefix) + 1
        words = [list(word) for word in PREFIX_WORDS if word.stop <= end]
        expected = [(visible - score(continuation, (), word)).sum() for word in words]
        np.testing.assert_allclose(effects.prefix, expected, atol=1e-4)
        hidden = visible - score(continuation, range(len(SOURCE) - 1))
        np.testing.assert_allclose(effects.all_source, hidden, atol=1e-4)
        hidden = visible - score(continuation, (), range(1, end))
        np.testing.assert_allclose(effects.all_prefix, hidden, atol=1e-4)
    assert not np.allclose(computed[0].source[0], computed[0].source[1])
    alone = occlude(
        ForcedScorer(engine.model).score_pieces,
        *(SOURCE, SOURCE_WORDS, PREFIX_WORDS, CONTINUATIONS[:1]),
    )
    for left, right in zip(alone[0], computed[0], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-4)


def count_sevens(rows: Sequence[ForcedRow]) -> list[np.ndarray]:
    """Score pieces by hand: log p is -10, and 1 more for each 7 of the source and 9 read before.

    The log-probability of piece 11 does not depend on anything.
    """
    return [
        np.array(
            [
                -3.0
                if label == 11
                else -10.0 + (row.source == 7).sum() + list(row.read[: position + 1]).count(9)
                for position, label in zip(row.positions, row.labels, strict=True)
            ]
        )
        for row in rows
    ]


def test_a_known_model_has_known_effects() -> None:
    effects = occlude_all(count_sevens)
    assert effects[0].log_probs.tolist() == [-7, -7]
    assert effects[0].source.tolist() == [2, 2, 0, 0]  # of two pieces
    assert effects[0].prefix.tolist() == [0, 2, 0]
    assert effects[0].all_source.tolist() == [2, 2]
    assert effects[0].all_prefix.tolist() == [1, 1]
    assert effects[3].log_probs.tolist() == [-8, -7]  # its second piece reads 9, its first one
    assert effects[3].prefix.tolist() == [0]
    assert effects[3].all_prefix.tolist() == [0, 0]
    difference = contrast(*effects[:2])
    assert difference.source.tolist() == [2, 2, 0, 0]
    assert difference.prefix.tolist() == [0, 2, 0]
    assert (difference.all_source, difference.all_prefix) == (4, 2)
    assert contrast(effects[1], effects[0]).all_source == -4
    assert effects[1].source.tolist() == [0, 0, 0, 0]


def test_kept_tokens_stay_where_the_source_is_hidden() -> None:
    [effects, *_] = occlude_all(count_sevens, kept=[0])
    assert effects.all_source.tolist() == [1, 1]
    assert effects.source.tolist() == [2, 2, 0, 0]


def test_words_that_are_read_alike_share_rows() -> None:
    rows: list[ForcedRow] = []

    def score(batch: Sequence[ForcedRow]) -> list[np.ndarray]:
        rows.extend(batch)
        return count_sevens(batch)

    occlude_all(score)
    [whole] = [
        row for row in rows if len(row.source) == 5 and UNK not in row.read and 5 not in row.read
    ]
    assert sorted(zip(whole.positions, whole.labels, strict=True)) == [
        *((0, 9), (1, 4), (2, 15), (3, 8), (3, 11), (4, 22)),
    ]
    # Of the two paths: each source word, all of them, the words of the prefixes, and these.
    assert len(rows) == (1 + 5 + 3 + 2) + (1 + 5 + 1)
