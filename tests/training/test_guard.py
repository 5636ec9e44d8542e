"""Skipped updates are counted, spikes found, and a run in which nothing is applied stops."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from nmt.errors import UserError
from nmt.training.guard import MEDIAN_OF, Guard
from nmt.training.process_group import ProcessGroup
from nmt.training.report import ReportWindow
from nmt.training.schedule import TrainingSchedule
from nmt.training.train_step import UpdateMetrics
from nmt.training.trainer_state import TrainerState

BATCH = {
    "source_segments": np.array([[1, 1, 0, 0]]),
    "target_segments": np.array([[1, 1, 1, 0]]),
    "labels": np.array([[5, 6, 2, 0]]),
}


def applied(nll: float = 6.0, norm: float = 1.0) -> UpdateMetrics:
    return UpdateMetrics(nll=nll, tokens=3.0, gradient_norm=norm, skipped=False)


def skipped(nll: float = math.nan, norm: float = math.nan) -> UpdateMetrics:
    return UpdateMetrics(nll=nll, tokens=3.0, gradient_norm=norm, skipped=True)


class Case:
    """A guard over made-up updates."""

    def __init__(
        self, folder: Path, process_group: ProcessGroup | None = None, **training: Any
    ) -> None:
        self.output = io.StringIO()
        self.state = TrainerState()
        settings = {"spike_factor": None, "max_skipped": 3} | training
        session: Any = SimpleNamespace(
            state=self.state,
            training=SimpleNamespace(**settings),
            console=Console(file=self.output, soft_wrap=True),
            process_group=process_group or ProcessGroup(),
            folder=SimpleNamespace(path=folder, write_json=self.write_json),
            train_step=SimpleNamespace(gradient_norms=lambda batch, number, share: {"w": math.inf}),
        )
        self.written: dict[str, Any] = {}
        self.window = ReportWindow(session, TrainingSchedule(session.training, [], [2]))
        self.guard = Guard(session, lambda number: (BATCH | {"number": np.array(number)}, 1.0))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        self.written[name] = json.loads(json.dumps(content))

    def add(self, *updates: UpdateMetrics) -> None:
        for update in updates:
            self.state.step += 1
            self.guard.add(update)
            self.window.add(update, BATCH)

    def has_spike(self) -> bool:
        self.guard.count_skipped()
        return self.guard.has_spike


def test_a_window_reports_applied_updates_alone(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add(applied(6.0, 1.0), skipped(100.0), applied(3.0, 2.0))
    case.window.add_seconds(0.5)
    assert not case.has_spike()
    case.guard.record_norm()
    report = case.window.close(0.1)
    assert report.nll == 9.0 / 6.0
    assert (report.skipped, case.state.skipped, case.state.skipped_in_row) == (1, 1, 0)
    assert report.tokens_per_second == 3 * 5 / 0.5
    assert report.padding == 1 - 5 / 8
    assert (report.learning_rate, report.epoch, report.gradient_norm) == (0.1, 1.5, 2.0)
    assert case.state.norms == [2.0]
    assert "update 3: 1 of the last 3 updates skipped, with a non-finite" in case.output.getvalue()


def test_a_window_in_which_all_was_skipped_has_no_loss(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add(skipped(), skipped())
    case.window.add_seconds(1.0)
    case.guard.count_skipped()
    case.guard.record_norm()
    assert math.isnan(case.window.close(0.1).nll)
    assert case.state.norms == []
    case.add(applied())
    case.window.add_seconds(1.0)
    assert case.window.close(0.1).skipped == 2, "of the run, not of the window"


def test_a_window_counts_the_rows_of_all_processes(tmp_path: Path) -> None:
    class TwoProcesses(ProcessGroup):
        def all_gather(self, value: Any) -> list[Any]:
            return [value, [10, 24]]

    case = Case(tmp_path, TwoProcesses(processes=2))
    case.add(applied(6.0))
    case.window.add_seconds(0.5)
    report = case.window.close(0.1)
    assert report.tokens_per_second == (5 + 10) / 0.5
    assert report.padding == 1 - (5 + 10) / (8 + 24)
    assert report.nll == 6.0 / 3.0, "an update has the sums of all processes"


def test_a_window_begins_where_the_last_one_was_closed(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for nll, seconds in ((6.0, 0.5), (3.0, 0.25)):
        case.add(applied(nll))
        case.window.add_seconds(seconds / 2)
        case.window.add_seconds(seconds / 2)
        report = case.window.close(0.1)
        assert (report.nll, report.tokens_per_second) == (nll / 3.0, 5 / seconds)
        assert report.padding == 1 - 5 / 8


def test_updates_are_counted_once_however_often_they_are_checked(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add(skipped())
    case.guard.count_skipped()
    case.guard.count_skipped()
    case.add(skipped(), applied())
    case.guard.count_skipped()
    assert (case.state.skipped, case.state.skipped_in_row) == (2, 0)


def test_a_spike_is_a_skipped_update_with_finite_loss_and_gradient(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add(skipped(norm=math.nan))
    assert not case.has_spike()
    case.add(skipped(nll=math.inf, norm=900.0), applied())  # only its loss makes it invalid
    assert not case.has_spike()
    case.add(skipped(nll=6.0, norm=900.0))
    assert case.has_spike()
    case.guard.reset()
    assert not case.has_spike()


def test_the_norm_limit_is_a_multiple_of_the_median(tmp_path: Path) -> None:
    guard, state = (case := Case(tmp_path, spike_factor=4.0)).guard, case.state
    state.norms = [1.0] * (MEDIAN_OF - 1)
    assert guard.norm_limit == math.inf  # too few reports
    state.norms = [1.0, 2.0, 3.0] * 3 + [2.0, 900.0]
    assert guard.norm_limit == 8.0
    assert Case(tmp_path).guard.norm_limit == math.inf


def test_a_resumed_run_may_have_skipped_more_than_it_now_may(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.state.skipped_in_row = 5
    case.add(skipped())
    with pytest.raises(UserError, match="3 updates in a row were skipped"):
        case.guard.count_skipped()


def test_too_many_skipped_in_a_row_are_dumped(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add(skipped(), skipped(), applied(), skipped(), skipped())
    case.guard.count_skipped()
    case.add(skipped(), applied())
    with pytest.raises(UserError, match="3 updates in a row were skipped, the last of them upd"):
        case.guard.count_skipped()
    with np.load(tmp_path / "skipped_update_00000006.npz") as batch:
        assert batch["number"] == 6
    assert case.written["skipped_update_00000006.json"] == {
        "step": 6,
        "gradient_norms": {"w": math.inf},
    }


@pytest.mark.parametrize("process", [0, 1])
def test_no_process_fails_before_the_dump_is_written(tmp_path: Path, process: int) -> None:
    written = list[int]()

    class Group(ProcessGroup):
        def barrier(self) -> None:
            written.append(len(list(tmp_path.iterdir())) + len(case.written))

    case = Case(tmp_path, Group(process=process, processes=2))
    case.add(skipped(), skipped(), skipped())
    with pytest.raises(UserError, match="3 updates in a row were skipped"):
        case.guard.count_skipped()
    assert written == [0 if process else 2]
