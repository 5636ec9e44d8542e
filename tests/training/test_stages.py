"""Training in stages, each on a mixture of its own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from conftest import corpus_lines

from nmt.runs.checkpoint import read_arrays
from nmt.training.job import Run

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

FEW = ("training.evaluate_every=2", "decoding.beam_size=1", "data.test=0", "training.samples=2")


def sources(folder: Path) -> list[str]:
    """Write two corpora, the second with weights; return the overrides that name them."""
    lines = corpus_lines(120)
    one, other = folder / "one.tsv", folder / "other.tsv"
    one.write_text("\n".join(lines[:90]) + "\n", encoding="utf-8")
    weighed = [f"{line}\t{1 + number % 3}" for number, line in enumerate(lines[90:])]
    other.write_text("\n".join(weighed) + "\n", encoding="utf-8")
    return [
        f"data.sources.pairs.path={one}",
        "data.sources.other.kind=files",
        f"data.sources.other.path={other}",
        "data.sources.other.columns=[0,1,2]",
        "data.sources.other.split=train",
    ]


def last(run: Run, step: int) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    return read_arrays(run.folder.checkpoints.path(step))


@pytest.mark.parametrize(
    ("until", "stop"),
    [
        pytest.param("steps:3", 2, marks=pytest.mark.long),
        ("plateau:1", 2),
        pytest.param("plateau:1", 6, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_stopped_in_a_stage_ends_as_if_it_had_not_been(
    shop: Workshop, tmp_path: Path, until: str, stop: int
) -> None:
    stages = f"data.stages=[{{weights:{{other:0}},{until}}},{{weights:{{pairs:1,other:3}}}}]"
    # The rate is so high that no evaluation is better than the first one.
    given = [*sources(tmp_path), *FEW, stages, "training.learning_rate=300"]
    kept = [one for one in shop.overrides if not one.startswith("data.train=")]
    plain, shop.overrides = shop.overrides, kept
    try:
        with shop.keeping():
            whole = shop.train(*given, "training.max_steps=8")
            arrays, position = last(whole, 8)
            part = shop.train(*given, f"training.max_steps={stop}")
            assert part.complete
            again = shop.train(f"training.resume={part.path}", "training.max_steps=8")
            found, where = last(again, 8)
            for name, array in arrays.items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)
            assert where["stage"] == position["stage"] == 1
            assert where["stage_step"] == position["stage_step"] >= 2
    finally:
        shop.overrides = plain
    if until.startswith("steps"):
        assert position["stage_step"] == 3
    stored = json.loads((whole.path / "corpus.json").read_text(encoding="utf-8"))
    assert stored["pairs"]["train"] > 100


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(
    ("first", "second", "third_start"),
    [
        ("share:0.25", "share:0.4", 6),  # 4 updates are the fewest that make 0.4 of 8
        pytest.param("steps:2", "steps:3", 5, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_stopped_in_its_second_stage_ends_as_if_it_had_not_been(
    kept: Workshop,
    at_update: Callable[[int, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    first: str,
    second: str,
    third_start: int,
) -> None:
    """Of three stages in 8 updates, the second begins after update 2."""
    stages = (
        f"data.stages=[{{weights:{{other:0}},{first}}},{{weights:{{pairs:1,other:3}},{second}}},"
        "{weights:{pairs:1,other:1}}]"
    )
    overrides = [each for each in kept.overrides if not each.startswith("data.train=")]
    monkeypatch.setattr(kept, "overrides", overrides)
    settings = (*sources(tmp_path), *FEW, stages, "training.max_steps=8")
    expected, expected_state = last(kept.train(*settings), 8)
    at_update(4, lambda: os.kill(os.getpid(), signal.SIGTERM))
    stopped = kept.train(*settings)
    assert not stopped.complete
    _, state = last(stopped, 4)
    assert (state["stage"], state["stage_step"]) == (1, 2)
    at_update(-1, lambda: None)
    arrays, state = last(kept.train(f"training.resume={stopped.path}"), 8)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert state["stage"] == expected_state["stage"] == 2
    assert state["stage_step"] == expected_state["stage_step"] == third_start
    assert state["stage_progress"] == third_start / 8
