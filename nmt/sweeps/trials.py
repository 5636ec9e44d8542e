"""A trial of a sweep: a run in a process of its own, and a record of how it ended.

A process frees all the memory that compiling a model took, and a crash ends one trial alone. With
the records (``sweeps/trials/*.json`` in the folder of runs, one for each configuration) a sweep
resumes when it is started again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.files import read_json, write_json
from nmt.startup.signals import handle_stop_signals

RECORD_VARIABLE = "NMT_TRIAL"  # environment variable: where a run writes its record


@dataclass(frozen=True)
class Trial:
    """The state of a trial at its last checkpoint, or at its end."""

    run: str  # name of its run folder
    complete: bool  # False: it can be resumed
    best_score: float | None  # dev BLEU


def locate_record(runs_dir: Path, configuration: str) -> Path:
    """Return the path of a trial's record: a hash of its configuration names it."""
    digest = hashlib.sha256(configuration.encode()).hexdigest()
    return runs_dir / "sweeps" / "trials" / f"{digest[:16]}.json"


def locate_run(record: Path, trial: Trial) -> Path:
    """Return the folder of a trial's run."""
    return record.parents[2] / trial.run


def read_record(record: Path) -> Trial | None:
    """Return how a trial ended; None if it has no record, or its run is gone."""
    try:
        trial = Trial(**read_json(record))
        return trial if locate_run(record, trial).is_dir() else None
    except (OSError, ValueError, TypeError):
        return None


def write_record_if_trial(trial: Trial) -> None:
    """Write the record of this process's run, if it is a trial of a sweep."""
    name = os.environ.get(RECORD_VARIABLE)
    if name is not None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(trial))


def run_trial(command: Sequence[str], record: Path) -> tuple[int, int | None]:
    """Run the command of a trial to its end.

    Stop signals are passed on to the trial, which saves its state. It has a process group of its
    own, so that Ctrl-C reaches it only once.

    Returns:
        (its exit status, negative if a signal ended it; the first stop signal received meanwhile).
    """
    process: subprocess.Popen[bytes] | None = None
    received: list[int] = []

    def pass_on(number: int) -> None:
        received.append(number)
        if process is not None:
            with contextlib.suppress(ValueError):  # where a system has no such signal
                process.send_signal(number)

    with handle_stop_signals(pass_on):
        environment = os.environ | {RECORD_VARIABLE: str(record)}
        process = subprocess.Popen(command, env=environment, process_group=0)
        for number in received:  # before the process was started
            process.send_signal(number)
        status = process.wait()
    return status, received[0] if received else None
