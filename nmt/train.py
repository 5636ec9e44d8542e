"""Train a model: ``python -m nmt.train [overrides]``. Configuration: ``conf/train.yaml``."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from nmt.config.command_line import failing_inside_hydra, run_hydra
from nmt.data.splitting import evenly
from nmt.errors import UserError
from nmt.runs.resuming import job_config
from nmt.startup.commands import set_up_training, warn_in_one_line
from nmt.startup.liveness import STATUS_REQUEUE
from nmt.sweeps.trials import (
    Trial,
    locate_record,
    locate_run,
    read_record,
    run_trial,
    write_record,
)
from nmt.training.job import Run, Tested, train

SHOWN = 5  # test translations printed at the end

STATUS_INTERRUPTED = 130  # by Ctrl-C


def run_job(composed: DictConfig) -> float | None:
    """Run one Hydra job; return the best dev BLEU, which a sweep may look at."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return sweep_job(composed, console)
    with failing_inside_hydra():
        config = job_config(composed, list(HydraConfig.get().overrides.task))
        set_up_training(Path(config.cache_dir), deterministic=config.training.deterministic)
        run = train(config, console)
        if run.written_here:
            write_record(Trial(run.path.name, run.complete, run.best_score))
    if run.stopped_by is not None:
        if run.written_here:
            console.print(f"stopped; to go on: python -m nmt.train training.resume={run.path}")
        stop(run.stopped_by)
    if run.written_here:
        print_scores(run, console)
    return run.best_score


def stop(number: int) -> NoReturn:
    """Exit as a job does that a signal has stopped."""
    raise SystemExit(STATUS_INTERRUPTED if number == signal.SIGINT else STATUS_REQUEUE)


def sweep_job(composed: DictConfig, console: Console) -> float | None:
    """Run one trial of a sweep in a process of its own; return its best dev BLEU.

    A trial that is complete is not run again, and one that was stopped goes on.

    Raises:
        UserError: it failed. Others go on, and the sweep fails in the end.
    """
    job = HydraConfig.get()
    overrides = list(job.overrides.task)
    named = f"trial {job.job.num + 1}"
    differing = [override for override in overrides if override not in sys.argv]
    console.print(f"\n{named}: {' '.join(differing or overrides)}")
    record = locate_record(Path(composed.runs_dir), OmegaConf.to_yaml(composed))
    known = read_record(record)
    if known is not None:
        run = locate_run(record, known)
        begun = "is complete" if known.complete else "was stopped, and goes on"
        console.print(f"{run} {begun}; to train anew, remove that folder")
        if known.complete:
            return known.best_score
        # Hydra reads a backslash as itself, except before a quotation mark.
        quoted = re.sub(r"(\\*)'", r"\1\1\\'", str(run))
        overrides = [f"training.resume='{quoted}'"]
    status, received = run_trial(make_command(overrides), record)
    if received is not None:
        stop(received)
    if status:
        why = f"exit status {status}" if status > 0 else f"ended by signal {-status}"
        failed = f"{named} ({' '.join(differing or overrides)}) failed: {why}"
        print(f"{failed}; the others go on", file=sys.stderr, flush=True)
        raise UserError(failed)
    ended = read_record(record)
    return None if ended is None else ended.best_score


def make_command(overrides: Sequence[str]) -> list[str]:
    """Return the command line of one job alone, with the configuration files of this one."""
    job = HydraConfig.get()
    options = ["--config-name", str(job.job.config_name)]
    names = {"main": "--config-path", "command-line": "--config-dir"}
    for source in job.runtime.config_sources:
        if source.provider in names:
            options += [names[source.provider], source.path]
    # Where else files are found, if the command line says so; the rest of Hydra is this job's.
    searched = [one for one in job.overrides.hydra if re.match(r"\+{0,2}hydra\.searchpath=", one)]
    command = [sys.executable, "-m", "nmt.train", *options]
    return [*command, *overrides, *searched, "hydra.mode=RUN"]


def print_scores(run: Run, console: Console) -> None:
    """Print what the run makes of the test split, and of what else it was scored on."""
    if len(run.tests) > (run.evaluation is not None):
        console.print(tabulate(run.tests))
    if run.evaluation is None:
        return
    pairs = run.evaluation.pairs
    console.print(f"\ntest split, {len(pairs):,} sentences:")
    console.print("\n".join(run.evaluation.lines()))
    translated = list(zip(pairs, run.evaluation.outputs, strict=True))
    for pair, output in evenly(translated, SHOWN):
        console.print(f"\n  source     {pair.source}")
        console.print(f"  reference  {pair.target}\n  output     {output}")


def tabulate(tests: Mapping[str, Tested]) -> Table:
    """Lay out the scores of all sets of pairs; where the run started from another, of both."""
    scored = [(name, one.evaluation, one.before) for name, one in tests.items()]
    metrics = [score.name for score in scored[0][1].scores]
    earlier = any(before is not None for _, _, before in scored)
    table = Table("scored on", "sentences")
    for metric in metrics:
        for title in (f"{metric} before", metric) if earlier else (metric,):
            table.add_column(title, justify="right")
    for name, evaluation, before in scored:
        cells = [name, f"{len(evaluation.pairs):,}"]
        for i, score in enumerate(evaluation.scores):
            if earlier:
                cells.append(f"{before.scores[i].value:.2f}" if before else "–")
            cells.append(f"{score.value:.2f} ± {score.half_width or 0:.2f}")
        table.add_row(*cells)
    return table


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    run_hydra("train", run_job)


if __name__ == "__main__":
    main()
