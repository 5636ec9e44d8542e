"""Train a model: ``python -m nmt.train [overrides]``. Configuration: ``conf/train.yaml``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from nmt.config.command_line import guard, register_schema
from nmt.config.files import conf_dir
from nmt.data.splitting import evenly
from nmt.errors import UserError, exit_on_user_error, fail, fail_if_full
from nmt.runs.resuming import job_config
from nmt.startup.commands import start_training, warn_in_one_line
from nmt.training.job import Run, train

SHOWN = 5  # test translations printed at the end

STATUS_INTERRUPTED = 130  # by Ctrl-C
STATUS_REQUEUE = 75  # by any other signal: whoever sent it may start the job again


def run_job(composed: DictConfig) -> float | None:
    """Run one Hydra job; return the best dev BLEU, which a sweep may look at."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    try:
        config = job_config(composed, list(HydraConfig.get().overrides.task))
        start_training(Path(config.cache_dir), deterministic=config.training.deterministic)
        run = train(config, console)
    except UserError as error:
        fail(error)  # here already: Hydra would add a line of its own
    except Exception as error:
        fail_if_full(error)
        raise
    if not run.complete:
        console.print(f"stopped; to go on: python -m nmt.train training.resume={run.path}")
        interrupted = run.stopped_by == signal.SIGINT
        raise SystemExit(STATUS_INTERRUPTED if interrupted else STATUS_REQUEUE)
    print_scores(run, console)
    return run.best_score


def print_scores(run: Run, console: Console) -> None:
    """Print what the run makes of the test split."""
    if run.evaluation is None:
        return
    pairs = run.evaluation.pairs
    console.print(f"\ntest split, {len(pairs):,} sentences:")
    console.print("\n".join(run.evaluation.lines()))
    translated = list(zip(pairs, run.evaluation.outputs, strict=True))
    for pair, output in evenly(translated, SHOWN):
        console.print(f"\n  source     {pair.source}")
        console.print(f"  reference  {pair.target}\n  output     {output}")


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    register_schema()
    # Hydra raises instead of printing and exiting with 1: `guard` says it in one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    command: Any = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")(
        run_job
    )
    exit_on_user_error(guard(command))


if __name__ == "__main__":
    main()
