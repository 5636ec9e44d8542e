"""A trial of a sweep: a run in a process of its own, and the record of what became of it.

A process gives back all the memory that compiling a model took, and what ends it ends no other. The
record lets a sweep that is started again go on where it was: ``sweeps/trials/*.json`` in the folder
of runs, one for each configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from nmt.files import write_json

RECORD_VARIABLE = "NMT_TRIAL"  # of the environment: where a run writes its record
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")  # those that training stops at, and saves


@dataclass(frozen=True)
class Trial:
    """What became of a trial."""

    run: str  # name of its folder
    complete: bool  # whether it came to its end; otherwise it can be resumed
    best_score: float | None  # dev BLEU


def locate_record(runs_dir: Path, configuration: str) -> Path:
    """Return where the record of a trial is, or will be: another configuration has another."""
    digest = hashlib.sha256(configuration.encode()).hexdigest()
    return runs_dir / "sweeps" / "trials" / f"{digest[:16]}.json"


def locate_run(record: Path, trial: Trial) -> Path:
    """Return the folder of a trial's run."""
    return record.parents[2] / trial.run


def read_record(record: Path) -> Trial | None:
    """Return what became of a trial; None if it is not known, or its run is no longer there."""
    try:
        trial = Trial(**json.loads(record.read_text(encoding="utf-8")))
        return trial if locate_run(record, trial).is_dir() else None
    except (OSError, ValueError, TypeError):
        return None


def write_record(trial: Trial) -> None:
    """Write the record of this process's run, if it is a trial."""
    name = os.environ.get(RECORD_VARIABLE)
    if name is not None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(trial))


def run_trial(command: Sequence[str], record: Path) -> tuple[int, int | None]:
    """Run the command of a trial to its end.

    What asks this process to stop is passed on, and the trial saves where it is. It has a process
    group of its own: Ctrl-C reaches it once, through here.

    Returns:
        (its exit status, negative where a signal ended it; the signal that came meanwhile).
    """
    process: subprocess.Popen[bytes] | None = None
    received: list[int] = []

    def pass_on(number: int) -> None:
        received.append(number)
        if process is not None:
            with contextlib.suppress(ValueError):  # where a system has no such signal
                process.send_signal(number)

    with _on_stop_signals(pass_on):
        environment = os.environ | {RECORD_VARIABLE: str(record)}
        process = subprocess.Popen(command, env=environment, process_group=0)
        for number in received:  # before there was a process
            process.send_signal(number)
        status = process.wait()
    return status, received[0] if received else None


@contextlib.contextmanager
def _on_stop_signals(act: Callable[[int], None]) -> Iterator[None]:
    """Call ``act`` with every signal of `PASSED_ON`, but those that are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: old for number, old in previous.items() if old != signal.SIG_IGN}

    def handle(number: int, frame: FrameType | None) -> None:
        act(number)

    for number in previous:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
