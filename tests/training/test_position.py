"""A position is stored whole, and keeps the best score."""

from __future__ import annotations

import pytest

from nmt.errors import UserError
from nmt.training.cadence import Cadence
from nmt.training.position import Position


def test_a_checkpoint_gives_back_the_position() -> None:
    position = Position(step=7, norms=[1.0, 2.0], attention_cadence=Cadence(4, 8), behind=True)
    assert position.stored()["attention"] == {"interval": 4, "following": 8, "every": 0}
    assert list(position.stored())[-2:] == ["evaluation", "attention"]  # as released versions store
    restored = Position(step=99, best_score=3.0)
    restored.load(position.stored())
    assert restored == position
    restored.load({"step": 3})  # an older checkpoint has fewer fields
    assert restored == Position(step=3, evaluated_step=3)  # whose update counts as evaluated


@pytest.mark.parametrize("metadata", [{"step": 3, "new": 1}, {"evaluation": {"new": 1}}])
def test_a_field_of_a_newer_version_is_named(metadata: dict[str, object]) -> None:
    position = Position(step=7)
    with pytest.raises(UserError, match=r"was written by a newer version, which knows new: "):
        position.load(metadata)
    assert position == Position(step=7)


def test_the_best_score_is_the_first_of_the_highest() -> None:
    position = Position()
    bests = []
    for step, score in enumerate([10.0, 10.0, 9.0, 12.0, None], start=1):
        position.step = step
        bests.append(position.record_score(score))
    assert bests == [True, False, False, True, False]
    assert (position.best_score, position.best_step, position.evaluations) == (12.0, 4, 5)
    assert position.since_best == 0


def test_without_scores_the_last_weights_are_the_best() -> None:
    position = Position()
    for step in (5, 9):
        position.step = step
        assert position.record_score(None)
        assert (position.best_score, position.best_step, position.since_best) == (None, step, 0)
    assert position.record_score(3.0)  # resumed with more of training.evaluation_sentences
    assert not position.record_score(None)
    assert position.best_score == 3.0
