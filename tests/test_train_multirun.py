"""A sweep runs each trial in a process of its own, and survives those that fail."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from processes import command

from nmt import train
from nmt.config.files import conf_dir
from nmt.sweeps import trials
from nmt.sweeps.trials import Trial, locate_record

Commands = list[list[str]]
COMMAND = [sys.executable, "-m", "nmt.train", "--config-name"]
FILES = ["train", "--config-path", str(conf_dir())]
MULTIRUN = ("-m", "model=tiny", "runs_dir=runs")


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Commands]]:
    """Run ``nmt.train`` with the children replaced; return its exit status, and their commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "warn_in_one_line", lambda: None)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def run(
        *words: str, child: Callable[[int, Path], tuple[int, int | None]]
    ) -> tuple[int, Commands]:
        made: Commands = []

        def run_trial(command: list[str], record: Path) -> tuple[int, int | None]:
            assert command[: len(COMMAND)] == COMMAND
            made.append(command[len(COMMAND) :])
            return child(len(made), record)

        monkeypatch.setattr("nmt.sweeps.sweep.run_trial", run_trial)
        monkeypatch.setattr(sys, "argv", ["nmt.train", *words])
        with pytest.raises(SystemExit) as ended:
            train.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, made

    return run


def leave(record: Path, name: str, *, complete: bool = True, score: float | None = 1.5) -> None:
    """Do what a trial does in the end: leave a run and its record."""
    (record.parents[2] / name).mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(trials.RECORD_VARIABLE, str(record))
        trials.write_record_if_trial(Trial(name, complete, score))


def well(number: int, record: Path) -> tuple[int, None]:
    leave(record, f"run_{number}")
    return 0, None


def test_each_trial_is_a_command_of_its_own(sweep: Callable[..., Any], tmp_path: Path) -> None:
    probes = "training.probes=['one, two','three']"
    folder = tmp_path / "more conf" / "model"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("defaults: [tiny, _self_]\nname: mine\n")
    options = ("--config-dir", str(folder.parent))
    status, made = sweep(*options, *MULTIRUN, "seed=1,2", "model=mine", probes, child=well)
    assert status == 0
    expected = ["model=mine", "runs_dir=runs", probes]
    assert [sorted(words[5:]) for words in made] == [
        sorted([*expected, f"seed={seed}", "hydra.mode=RUN"]) for seed in (1, 2)
    ]
    assert [words[:5] for words in made] == [[*FILES, *options]] * 2


@pytest.mark.parametrize(
    "options",
    [
        ["--config-name", "mine", "--config-dir", "conf d"],
        ["-cn", "mine", "-cp", "{path}/conf d", "hydra.searchpath=['{conf}']"],
        ["--config-name", "searching", "--config-dir", "other"],
    ],
)
def test_each_trial_runs_under_the_configuration_of_the_sweep(
    sweep: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
) -> None:
    mine = tmp_path / "conf d" / "mine.yaml"
    (mine.parent / "model").mkdir(parents=True)
    mine.write_text("defaults: [train, _self_]\nname: mine\ntraining: {max_steps: 7}\n")
    (mine.parent / "model" / "wide.yaml").write_text("defaults: [tiny, _self_]\nd_model: 96\n")
    searching = tmp_path / "other" / "searching.yaml"
    searching.parent.mkdir()
    searching.write_text(
        f"defaults: [train, {{override model: wide}}, _self_]\n"
        f"hydra: {{searchpath: ['{mine.parent}']}}\n"
    )
    records: list[Path] = []

    def child(number: int, record: Path) -> tuple[int, None]:
        records.append(record)
        return well(number, record)

    given = [option.format(path=tmp_path, conf=conf_dir()) for option in options]
    status, made = sweep("-m", *given, "runs_dir=runs", "seed=1,2", child=child)
    assert status == 0
    composed: list[DictConfig] = []
    monkeypatch.setattr(train, "run_job", composed.append)
    for words in made:
        monkeypatch.setattr(sys, "argv", ["nmt.train", "--config-name", *words])
        with pytest.raises(SystemExit) as ended:
            train.main()
        assert not ended.value.code
    assert [locate_record(Path("runs"), OmegaConf.to_yaml(one)) for one in composed] == records
    for one in composed:  # what is chosen has an effect
        assert one.training.max_steps == 7 or one.model.d_model == 96


def test_an_experiment_that_compares_is_a_sweep_of_itself(sweep: Callable[..., Any]) -> None:
    status, made = sweep("experiment=compare_norms", "runs_dir=runs", child=well)
    assert status == 0
    assert len(made) == 6
    assert all({"experiment=compare_norms", "hydra.mode=RUN"} <= set(words) for words in made)
    assert len({tuple(words) for words in made}) == 6


def test_a_trial_that_fails_is_named_and_stops_no_other(
    sweep: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def child(number: int, record: Path) -> tuple[int, int | None]:
        return (2, None) if number == 1 else (-9, None) if number == 2 else well(number, record)

    status, made = sweep(*MULTIRUN, "seed=1,2,3", child=child)
    assert status == 2
    assert len(made) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "trial 1 (seed=1) failed: exit status 2; the other trials continue",
        "trial 2 (seed=2) failed: ended by signal 9; the other trials continue",
    ]
    assert lines[-1] == "error: trial 1 (seed=1) failed: exit status 2"


def test_a_sweep_goes_on_where_it_was(
    sweep: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first trial is complete, the second was stopped, the third never began."""

    def stopped(number: int, record: Path) -> tuple[int, int | None]:
        leave(record, f"it's {number}", complete=number == 1)
        return (0, None) if number == 1 else (130, signal.SIGINT)

    status, made = sweep(*MULTIRUN, "seed=1,2,3", child=stopped)
    assert (status, len(made)) == (130, 2)
    status, made = sweep(*MULTIRUN, "seed=1,2,3", child=lambda *_: (75, signal.SIGTERM))
    assert (status, len(made)) == (75, 1)
    capsys.readouterr()

    status, made = sweep(*MULTIRUN, "seed=1,2,3", child=lambda *_: (0, None))
    assert status == 0
    assert made[0] == [*FILES, "training.resume='runs/it\\'s 2'", "hydra.mode=RUN"]
    assert "seed=3" in made[1]
    said = capsys.readouterr().out
    assert "it's 1 is complete" in said
    assert "it's 2 was stopped and is resumed" in said


def test_a_trial_is_recorded_from_its_first_checkpoint_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that one that is killed is resumed."""
    record = tmp_path / "runs" / "sweeps" / "trials" / "1.json"
    checkpoints = tmp_path / "runs" / "one" / "checkpoints"
    checkpoints.mkdir(parents=True)
    monkeypatch.setenv(trials.RECORD_VARIABLE, str(record))
    train.TrialRecorder().on_save(checkpoints / "step_00000001.npz")
    assert trials.read_record(record) == Trial("one", complete=False, best_score=None)


def test_what_a_sweep_looks_at_is_the_score_of_the_trial(
    sweep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = []
    run_job = train.run_sweep_job

    def keep(*arguments: Any) -> float | None:
        returned.append(run_job(*arguments))
        return returned[-1]

    def child(number: int, record: Path) -> tuple[int, None]:
        leave(record, f"run_{number}", score=10.0 * number)
        return 0, None

    monkeypatch.setattr(train, "run_sweep_job", keep)
    sweep(*MULTIRUN, "seed=1,2", child=child)
    sweep(*MULTIRUN, "seed=2,3", child=lambda *_: (0, None))
    assert returned == [10.0, 20.0, 20.0, None]


@pytest.mark.slow
def test_a_stopped_trial_is_resumed_by_the_same_sweep(tmp_path: Path) -> None:
    """With real children: the second trial is stopped, and the sweep started again ends it."""
    from conftest import tiny_overrides

    overrides = [*tiny_overrides(tmp_path, lines=60), "data.test=0", "seed=1,2"]
    words = ("nmt.train", "-m", *overrides, "training.max_steps=3")
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = sorted((tmp_path / "runs" / "sweeps" / "trials").glob("*.json"))
    assert len(records) == 2
    stopped = records[1].read_text()
    assert '"complete": true' in stopped
    records[1].write_text(stopped.replace("true", "false"))
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"is complete; to train anew") == 1
    assert done.stdout.count(b"resumed ") == 1
    assert records[1].read_text() == stopped
