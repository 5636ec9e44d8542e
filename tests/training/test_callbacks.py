"""Callbacks see what happens in a run, and can end it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nmt import Callback, fit
from nmt.errors import UserError
from nmt.training.callbacks import list_callbacks
from nmt.training.job import Run

if TYPE_CHECKING:
    from workshop import Workshop

pytest_plugins = ("workshop",)
pytestmark = pytest.mark.xdist_group("workshop")

FEW = ("training.max_steps=4", "training.evaluate_every=2", "training.log_every=2")


class Recorder(Callback):
    """Records the calls; may end the run after an update, or fail at one."""

    def __init__(self, last: int | None = None, fail_at: int | None = None) -> None:
        self.calls: list[Any] = []
        self.last, self.fail_at = last, fail_at

    def on_start(self, session: Any) -> None:
        self.session = session
        self.calls.append("start")

    def on_update(self, step: int) -> None:
        self.calls.append(step)
        if step == self.fail_at:
            raise RuntimeError("a fault in a callback")
        if step == self.last:
            self.session.stop()

    def on_report(self, step: int, report: Any) -> None:
        assert report.nll > 0
        self.calls.append(("report", step))

    def on_evaluation(self, step: int, evaluation: Any) -> None:
        assert "dev/BLEU" in evaluation.values()
        self.calls.append(("evaluation", step))

    def on_save(self, path: Path) -> None:
        assert path.is_file()
        self.calls.append(path.name)

    def on_end(self, run: Run) -> None:
        self.calls.append(("end", run.complete, bool(run.scores)))


def test_callbacks_are_called_in_order(kept: Workshop) -> None:
    recorder = Recorder()
    kept.train(*FEW, callbacks=[recorder])
    assert recorder.calls == [
        "start",
        *(1, 2, ("report", 2), "step_00000002.npz", ("evaluation", 2)),
        *(3, 4, ("report", 4), "step_00000004.npz", ("evaluation", 4)),
        ("end", True, True),
    ]


def test_a_stopped_run_is_complete_and_resuming_continues_it(kept: Workshop) -> None:
    recorder = Recorder(last=3)
    run = kept.train(*FEW, callbacks=[recorder])
    assert recorder.calls[-4:] == [3, "step_00000003.npz", ("evaluation", 3), ("end", True, True)]
    assert run.complete
    resumed = kept.train(f"training.resume={run.path}")
    assert resumed.complete
    assert resumed.folder.checkpoints.steps()[-1] == 4


def test_a_fault_in_a_callback_leaves_a_run_that_can_be_resumed(kept: Workshop) -> None:
    with pytest.raises(RuntimeError, match="a fault in a callback"):
        kept.train(*FEW, callbacks=[Recorder(fail_at=3)])
    resumed = kept.train(f"training.resume={kept.runs / 'latest'}")
    assert resumed.complete
    assert [line["step"] for line in resumed.metrics if "train/loss" in line] == [2, 4]


@pytest.mark.parametrize("callbacks", [Recorder, [Recorder], [Recorder(), print], 7])
def test_what_is_no_callback_is_refused(callbacks: Any) -> None:
    with pytest.raises(UserError, match=r"is not an instance of nmt\.Callback"):
        fit(callbacks=callbacks)


def test_callbacks_may_be_one_or_come_from_an_iterator() -> None:
    first, second = Recorder(), Recorder()
    assert list_callbacks(first) == [first]
    assert list_callbacks(iter((first, second))) == [first, second]
