"""Checkpoints of a run without its training: what is written, removed and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.errors import UserError
from nmt.runs.checkpoint import Checkpoints, read_arrays, write_arrays
from nmt.runs.folder import name_test_scores
from nmt.training.process_group import ProcessGroup
from nmt.training.saver import Saver
from nmt.training.trainer_state import TrainerState


def make_session(folder: Path, **state: Any) -> Any:
    """Return a session whose only weight is 1, and 2 on average."""
    weights = {"weight": np.ones(1)}

    @contextmanager
    def use_averages() -> Iterator[None]:
        weights["weight"] += 1
        yield
        weights["weight"] -= 1

    return SimpleNamespace(
        state=TrainerState(**state),
        training=SimpleNamespace(stop_behind=None, max_skipped=2, keep_checkpoints=2),
        config=SimpleNamespace(data=SimpleNamespace(tests={"more": None})),
        folder=SimpleNamespace(path=folder, checkpoints=Checkpoints(folder)),
        model=SimpleNamespace(trained_weights=lambda: weights),
        train_step=SimpleNamespace(
            state=lambda: dict(weights), restore=weights.update, use_averages=use_averages
        ),
        process_group=ProcessGroup(),
        console=SimpleNamespace(print=lambda line: None),
        callbacks=[],
    )


def test_rewinds_are_counted_since_the_last_checkpoint(tmp_path: Path) -> None:
    saver = Saver(make_session(tmp_path, step=5))
    for _ in range(2):
        saver.count_rewind()
        saver.count_rewind()
        saver.save()
    for _ in range(2):
        saver.count_rewind()
    with pytest.raises(UserError, match="rewound to update 5 2 times"):
        saver.count_rewind()


def test_a_checkpoint_is_kept_with_those_before_it(tmp_path: Path) -> None:
    session, saved = make_session(tmp_path), list[Path]()
    session.callbacks = [SimpleNamespace(on_save=saved.append)]
    saver = Saver(session)
    for session.state.step in (5, 10, 15):
        saver.save()
        assert saver.saved_step == session.state.step
    assert session.folder.checkpoints.steps() == [10, 15]
    assert saved == [session.folder.checkpoints.path(step) for step in (5, 10, 15)]
    resumed = make_session(tmp_path)
    saver = Saver(resumed)
    assert saver.resume()
    assert saver.saved_step == resumed.state.step == 15


def test_only_the_main_process_writes(tmp_path: Path) -> None:
    session = make_session(tmp_path, step=5)
    session.process_group = SimpleNamespace(
        is_main_process=False, check_same_state=lambda arrays: None, barrier=lambda: None
    )
    saver = Saver(session)
    saver.save()
    saver.save_best()
    assert list(tmp_path.iterdir()) == []


def test_the_best_weights_are_averages_without_scores(tmp_path: Path) -> None:
    session = make_session(tmp_path, step=5, best_step=5)
    scores = [tmp_path / name_test_scores(name) for name in ("test", "more")]
    for path in scores:
        path.touch()
    saver = Saver(session)
    saver.save_best()
    saver.save_best()
    arrays, metadata = read_arrays(session.folder.checkpoints.best)
    assert (arrays["model/weight"].item(), metadata["best_step"]) == (2, 5)
    assert not any(path.exists() for path in scores)


@pytest.mark.parametrize(
    ("state", "best_step", "is_repaired"),
    [
        ({"best_step": 5, "best_score": 20.0}, None, True),
        ({"best_step": 5, "best_score": 20.0}, 3, True),
        ({"best_step": 5, "best_score": 20.0}, 5, False),
        ({"best_step": 3, "best_score": 20.0}, None, False),  # those of another update
        ({"evaluated_step": 5}, None, True),  # of older versions
        ({"evaluated_step": 3}, None, False),
        ({"best_step": 5, "evaluations": 0}, None, False),
    ],
)
def test_best_weights_are_repaired_where_they_are_those_of_the_checkpoint(
    tmp_path: Path, state: dict[str, Any], best_step: int | None, is_repaired: bool
) -> None:
    session = make_session(tmp_path, **({"step": 5, "evaluations": 1} | state))
    Saver(session).save()
    best = session.folder.checkpoints.best
    if best_step is not None:
        write_arrays(best, {"model/weight": np.zeros(1)}, {"best_step": best_step})
    assert Saver(make_session(tmp_path)).resume()
    written = read_arrays(best)[0]["model/weight"].item() if best.exists() else None
    assert written == (2 if is_repaired else best_step and 0)
