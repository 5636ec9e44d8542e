"""A sweep runs each trial in a process of its own, and resumes where it was stopped."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from nmt.config.command_line import make_command, quote
from nmt.errors import UserError
from nmt.startup.signals import exit_stopped
from nmt.sweeps.trials import locate_record, locate_run, read_record, run_trial


def run_sweep_job(
    number: int, overrides: list[str], configuration: str, runs_dir: Path, console: Console
) -> float | None:
    """Run one trial of a sweep in a process of its own; return its best dev BLEU.

    A complete trial is not run again, and a stopped one is resumed.

    Args:
        number: of the trial in its sweep, from 1.
        overrides: of the trial.
        configuration: its composed configuration, as YAML, by which the trial is found again.
        runs_dir: folder of runs.
        console: where messages are shown.

    Raises:
        UserError: the trial failed. The others run, and the sweep fails in the end.
    """
    name = f"trial {number}"
    # Overrides that are not on the command line are those that the sweep varies.
    varied = [override for override in overrides if override not in sys.argv]
    description = " ".join(varied or overrides)
    console.print(f"\n{name}: {description}")
    record = locate_record(runs_dir, configuration)
    previous = read_record(record)
    if previous is not None:
        run = locate_run(record, previous)
        state = "is complete" if previous.complete else "was stopped and is resumed"
        console.print(f"{run} {state}; to train anew, remove that folder")
        if previous.complete:
            return previous.best_score
        overrides = [f"training.resume={quote(str(run))}"]
    status, stop_signal = run_trial(make_command(overrides), record)
    if stop_signal is not None:
        exit_stopped(stop_signal)
    if status:
        reason = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
        failure = f"{name} ({description}) failed: {reason}"
        print(f"{failure}; the other trials continue", file=sys.stderr, flush=True)
        raise UserError(failure)
    trial = read_record(record)
    return None if trial is None else trial.best_score
