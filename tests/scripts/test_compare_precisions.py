"""The comparison of precisions: its results, and how it starts and resumes runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import compare_precisions
import pytest
from workloads import PRECISIONS

ROOT = Path(__file__).parents[2]


class Runs:
    """Stands for `nmt.train`: writes the metrics of runs that end at given losses."""

    def __init__(self, losses: dict[str, float]) -> None:
        self.losses = losses
        self.commands: list[list[str]] = []
        self.status = 0

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        settings = dict(word.split("=", 1) for word in command if "=" in word)
        run = Path(settings["runs_dir"]) / "latest"
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        (run / "checkpoints" / "step_00000500.npz").touch()
        loss = self.losses[run.parent.name]
        records = [
            {"step": 500, "seconds": 1.0, "dev/loss": 5.0},
            {"step": 2000, "seconds": 4.2, "dev/loss": loss},
            {"step": 2000, "seconds": 4.3, "train/loss": 1.0},
        ]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (run / "metrics.jsonl").write_text(text, encoding="utf-8")
        return subprocess.CompletedProcess(command, self.status)


def compared(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, folder: Path, *words: str
) -> int | str | None:
    monkeypatch.setattr(compare_precisions.subprocess, "run", runs)
    monkeypatch.setattr(sys, "argv", ["compare_precisions.py", "--out", str(folder), *words])
    with pytest.raises(SystemExit) as ended:
        compare_precisions.main()
    return ended.value.code


@pytest.mark.parametrize(("half", "status"), [(1.019, 0), (1.021, 1), (0.979, 1)])
def test_a_loss_too_far_from_that_of_float32_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    half: float,
    status: int,
) -> None:
    losses = dict(zip(PRECISIONS, (2.0, 2.0, 2.0 * half), strict=True))
    runs = Runs(losses)
    assert compared(monkeypatch, runs, tmp_path, "--within", "0.02") == status
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["precision"] for line in said] == list(PRECISIONS)
    assert [line["apart"] for line in said] == pytest.approx([0, 0, abs(half - 1)])
    assert all(line["updates"] == 2000 for line in said)


def test_runs_begin_in_their_precision_and_are_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(dict.fromkeys(PRECISIONS, 2.0))
    assert compared(monkeypatch, runs, tmp_path, "seed=7") == 0
    for command, precision in zip(runs.commands, PRECISIONS, strict=True):
        assert f"training.precision={precision}" in command
        assert "seed=7" in command
    runs.commands.clear()
    assert compared(monkeypatch, runs, tmp_path, "seed=7") == 0
    assert all("training.resume=latest" in command for command in runs.commands)
    runs.status = 2
    ended = compared(monkeypatch, runs, tmp_path)
    assert ended == "error: training in float32 ended with status 2"
