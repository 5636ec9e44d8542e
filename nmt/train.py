"""Train a model: ``python -m nmt.train [overrides]``. Configuration: ``conf/train.yaml``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from nmt.config.command_line import run_hydra
from nmt.data.splitting import TEST, sample_evenly
from nmt.errors import exit_on_fixable_error
from nmt.runs.resuming import check_trial, job_config
from nmt.startup.commands import set_up_training, warn_in_one_line
from nmt.startup.console import make_console
from nmt.startup.signals import exit_stopped
from nmt.sweeps.sweep import run_sweep_job
from nmt.sweeps.trials import Trial, write_record_if_trial
from nmt.training.callbacks import Callback
from nmt.training.job import Run, train

if TYPE_CHECKING:  # loads Keras
    from nmt.training.scoring import SplitScores

SAMPLES = 5  # test translations printed at the end


class TrialRecorder(Callback):
    """Records a trial of a sweep at its checkpoints, so that one that is killed can be resumed."""

    def on_save(self, path: Path) -> None:
        """See `Callback.on_save`."""
        write_record_if_trial(Trial(path.parents[1].name, complete=False, best_score=None))


def run_job(composed: DictConfig) -> float | None:
    """Run one Hydra job; return the best dev BLEU, which a sweeper may optimize."""
    console = make_console()
    job = HydraConfig.get()
    overrides = list(job.overrides.task)
    if job.mode == RunMode.MULTIRUN:
        with exit_on_fixable_error():
            check_trial(OmegaConf.to_container(composed))
        configuration, runs_dir = OmegaConf.to_yaml(composed), Path(composed.runs_dir)
        return run_sweep_job(job.job.num + 1, overrides, configuration, runs_dir, console)
    with exit_on_fixable_error():  # Hydra would add a line
        config = job_config(composed, overrides)
        set_up_training(Path(config.cache_dir), deterministic=config.training.deterministic)
        run = train(config, console, callbacks=[TrialRecorder()])
        if run.written_here:
            write_record_if_trial(Trial(run.path.name, run.complete, run.best_score))
    if run.stopped_by is not None:
        if run.written_here:
            override = shlex.quote(f"training.resume={run.path}")
            console.print(f"stopped; to resume: python -m nmt.train {override}")
        exit_stopped(run.stopped_by)
    if run.written_here:
        print_scores(run, console)
    return run.best_score


def print_scores(run: Run, console: Console) -> None:
    """Print the scores on the test split and ``data.tests``, and some translations."""
    if run.tests.keys() - {TEST}:
        console.print(tabulate(run.tests))
    if run.evaluation is None:
        return
    pairs = run.evaluation.pairs
    console.print(f"\ntest split, {len(pairs):,} sentences:")
    console.print("\n".join(run.evaluation.lines()))
    translated = list(zip(pairs, run.evaluation.outputs, strict=True))
    for pair, output in sample_evenly(translated, SAMPLES):
        console.print(f"\n  source     {pair.source}")
        console.print(f"  reference  {pair.target}\n  output     {output}")


def tabulate(tests: Mapping[str, SplitScores]) -> Table:
    """Return a table of scores, with those of the run that this one started from."""
    metrics = [score.name for score in next(iter(tests.values())).evaluation.scores]
    has_before = any(scores.before is not None for scores in tests.values())
    table = Table("scored on", "sentences")
    for metric in metrics:
        for title in (f"{metric} before", metric) if has_before else (metric,):
            table.add_column(title, justify="right")
    for name, scores in tests.items():
        evaluation, before = scores.evaluation, scores.before
        cells = [name, f"{len(evaluation.pairs):,}"]
        for i, score in enumerate(evaluation.scores):
            if has_before:
                cells.append(f"{before.scores[i].value:.2f}" if before else "–")
            interval = "" if score.half_width is None else f" ± {score.half_width:.2f}"
            cells.append(f"{score.value:.2f}{interval}")
        table.add_row(*cells)
    return table


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    run_hydra("train", run_job)


if __name__ == "__main__":
    main()
