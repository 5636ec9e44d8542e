"""A trial has a process of its own, hears what this one is told, and leaves a record."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.sweeps.trials import (
    RECORD_VARIABLE,
    Trial,
    locate_record,
    locate_run,
    read_record,
    run_trial,
    write_record_if_trial,
)

DONE = Trial("2030-01-01_a", True, 12.5)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    (tmp_path / DONE.run).mkdir()
    return locate_record(tmp_path, "seed: 1")


def test_every_configuration_has_a_record_of_its_own(tmp_path: Path) -> None:
    names = [locate_record(tmp_path, text) for text in ("seed: 1", "seed: 2", "seed: 1")]
    assert names[0] == names[2] != names[1]
    assert names[0].is_relative_to(tmp_path)


def test_a_record_is_read_as_it_was_written(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECORD_VARIABLE, str(record))
    assert read_record(record) is None
    write_record_if_trial(DONE)
    assert read_record(record) == DONE
    assert locate_run(record, DONE) == tmp_path / DONE.run
    (tmp_path / DONE.run).rmdir()
    assert read_record(record) is None  # a run that was removed is trained anew


def test_a_run_that_is_no_trial_leaves_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    write_record_if_trial(DONE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"run": "x"}', '{"run": 1, "a": 2}'])
def test_a_damaged_record_counts_as_none(record: Path, text: str) -> None:
    record.parent.mkdir(parents=True)
    record.write_text(text, encoding="utf-8")
    assert read_record(record) is None


def test_a_trial_knows_where_its_record_is_and_ends_with_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = f"""
import os, pathlib
pathlib.Path("seen").write_text(os.environ[{RECORD_VARIABLE!r}])
raise SystemExit(3 if os.getpgrp() == os.getpid() else 4)  # what stops this group alone stops it
"""
    assert run_trial([sys.executable, "-c", program], tmp_path / "a.json") == (3, None)
    assert Path("seen").read_text() == str(tmp_path / "a.json")
    ended = run_trial([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], tmp_path)
    assert ended == (-signal.SIGKILL, None)


@pytest.fixture
def ignored_signals() -> Iterator[None]:
    """Ignore what a background job of a script ignores under ``nohup``."""
    numbers = (signal.SIGINT, signal.SIGHUP)
    previous = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    yield
    for number, handler in zip(numbers, previous, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("ignored_signals")
def test_an_ignored_signal_does_not_stop_a_trial(tmp_path: Path) -> None:
    program = """
import os, signal
for number in (signal.SIGINT, signal.SIGHUP):
    for process in (os.getppid(), os.getpid()):
        os.kill(process, number)
"""
    assert run_trial([sys.executable, "-c", program], tmp_path / "a.json") == (0, None)


@pytest.mark.usefixtures("ignored_signals", "default_signals")  # however the tests were started
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_asks_to_stop_is_passed_on_once(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    heard = tmp_path / "heard.json"
    program = f"""
import json, pathlib, signal, time
heard = []
signal.signal({int(number)}, lambda number, frame: heard.append(number))
pathlib.Path({str(tmp_path / "ready")!r}).touch()
patience = time.monotonic() + 30
while not heard and time.monotonic() < patience:
    time.sleep(0.01)
time.sleep(0.3)
pathlib.Path({str(heard)!r}).write_text(json.dumps(heard))
raise SystemExit(7)
"""
    before = signal.getsignal(number)

    def interrupt() -> None:
        patience = time.monotonic() + 30
        while not (tmp_path / "ready").exists() and time.monotonic() < patience:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=interrupt)
    sender.start()
    assert run_trial([sys.executable, "-c", program], tmp_path / "a.json") == (7, number)
    sender.join(60)
    assert json.loads(heard.read_text()) == [number]
    assert signal.getsignal(number) is before
