"""Measure a track of the record table in README.md, and print its row: see scripts/record.sh.

    bash scripts/record.sh cpu-10 --archive /path/to/spa-eng.zip

Trains once for each seed, with nothing cached, and scores as every run does. After an interruption,
the same command resumes with the next seed: it skips finished runs of the same commit, machine and
backend. Remove runs/record_TRACK to measure them again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.data.corpus import load_corpus
from nmt.files import write_json
from nmt.runs.folder import LATEST, TEST_SCORES_FILE, RunFolder
from nmt.runs.resuming import compose_config
from nmt.startup.devices import cores
from nmt.startup.nvidia import nvidia_driver

ROOT = Path(__file__).parents[1]
TATOEBA = "data=tatoeba"
TRACKS = {
    "cpu-10": ["experiment=tatoeba_10m"],
    "cpu-60": ["experiment=tatoeba_60m"],
    "default": [],
    "gpu": ["experiment=tatoeba_gpu"],
}
METRICS = ("BLEU", "chrF2++")
RECORD_FILE = "record.json"  # in the folder of a finished run: what a row says beside its scores


@dataclass
class Trial:
    """One training of a track."""

    folder: RunFolder
    scores: dict[str, float]  # by metric
    signatures: dict[str, str]
    machine: str
    commit: str
    date: str  # of its end
    minutes: float  # wall clock of the whole command
    memory: float  # largest of any process of the script until its end, GiB

    @classmethod
    def load(cls, path: Path) -> Trial:
        """Return the trial of a finished run folder."""
        record, evaluation = (
            json.loads((path / name).read_text(encoding="utf-8"))
            for name in (RECORD_FILE, TEST_SCORES_FILE)
        )
        scores = {metric: evaluation["scores"][metric] for metric in METRICS}
        return cls(
            RunFolder.open(path),
            {metric: score["value"] for metric, score in scores.items()},
            {metric: score["signature"] for metric, score in scores.items()},
            **{name: record[name] for name in ("machine", "commit", "date", "minutes", "memory")},
        )


def main() -> None:
    """Train, and print the row."""
    parser = argparse.ArgumentParser(description="Measure a track of the record table.")
    parser.add_argument("track", choices=TRACKS)
    parser.add_argument("--archive", type=Path, help="spa-eng.zip (default: it is downloaded)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    archive = [f"data.archive={arguments.archive.resolve()}"] if arguments.archive else []
    overrides = TRACKS[arguments.track] + (archive if TRACKS[arguments.track] else [])
    runs_dir = ROOT / "runs" / f"record_{arguments.track}"
    trials = []
    for seed in arguments.seeds:
        trials.append(measure(overrides, seed, runs_dir))
        print(f"seed {seed}:\n{format_row(arguments.track, trials[-1:])}")
    print(f"\n{format_row(arguments.track, trials)}")
    if arguments.track == "default":
        with TemporaryDirectory() as folder:
            tatoeba = [score_on_tatoeba(trial.folder, archive, Path(folder)) for trial in trials]
        print(f"on the test split of Tatoeba: {format_scores(tatoeba)}")
    for metric, signature in trials[0].signatures.items():
        print(f"{metric}: {signature}")


def measure(overrides: Sequence[str], seed: int, runs_dir: Path) -> Trial:
    """Return the trial of a seed that has finished here, or train it."""
    conditions = {
        "seed": seed,
        "machine": describe_machine(),
        "commit": git("describe", "--always", "--dirty"),
        "backend": os.environ.get("KERAS_BACKEND", "tensorflow"),
    }
    path = find_finished(runs_dir, conditions) or train(overrides, conditions, runs_dir)
    return Trial.load(path)


def find_finished(runs_dir: Path, conditions: Mapping[str, Any]) -> Path | None:
    """Return the folder of a finished run under the same conditions, if there is one."""
    if conditions["commit"].endswith("-dirty"):  # the code may have changed since
        return None
    for path in runs_dir.glob(f"*/{RECORD_FILE}"):
        if json.loads(path.read_text(encoding="utf-8")).items() >= conditions.items():
            return path.parent.resolve()
    return None


def train(overrides: Sequence[str], conditions: Mapping[str, Any], runs_dir: Path) -> Path:
    """Train a run with nothing cached, in a process of its own; return its folder."""
    with TemporaryDirectory() as cache:
        folders = [f"seed={conditions['seed']}", f"runs_dir={runs_dir}", f"cache_dir={cache}"]
        command = [sys.executable, "-m", "nmt.train", *overrides, *folders]
        start = time.monotonic()
        subprocess.run(command, cwd=ROOT, check=True)
        minutes = (time.monotonic() - start) / 60
    path = (runs_dir / LATEST).resolve()
    record = {
        **conditions,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "minutes": minutes,
        "memory": read_peak_memory(),
    }
    write_json(path / RECORD_FILE, record)
    return path


def score_on_tatoeba(run: RunFolder, archive: Sequence[str], folder: Path) -> dict[str, float]:
    """Return the scores of a run on Tatoeba's test split, less the pairs that it was trained on."""
    config = compose_config([TATOEBA, *archive])
    test = load_corpus(config.data, cache_dir=Path(config.cache_dir)).test
    own = load_corpus(run.config.data, cache_dir=folder, read_only=True)
    trained = {side for pair in own.train for side in pair}
    test = [pair for pair in test if not trained & {*pair}]
    source, reference, output = (folder / name for name in ("source", "reference", "output.json"))
    for path, side in ((source, 0), (reference, 1)):
        path.write_text("".join(f"{pair[side]}\n" for pair in test), encoding="utf-8")
    command: list[str | Path] = [sys.executable, "-m", "nmt.evaluate", "--run", run.path]
    command += ["--source", source, "--reference", reference, "--output", output]
    subprocess.run(command, cwd=ROOT, check=True)
    scores = json.loads(output.read_text(encoding="utf-8"))["scores"]
    return {metric: scores[metric]["value"] for metric in METRICS}


def format_row(track: str, trials: Sequence[Trial]) -> str:
    """Return the row of the table in README.md.

    Args:
        track: one of `TRACKS`.
        trials: of its seeds.
    """
    weights, _ = trials[0].folder.load_weights()
    updates = [trial.folder.metrics.read()[-1]["step"] for trial in trials]
    minutes = [trial.minutes for trial in trials]
    command = f"bash scripts/record.sh {track}"
    cells = [
        f"`{track}`",
        f"{len(trials)}",
        *(format_score([trial.scores[metric] for trial in trials]) for metric in METRICS),
        f"{sum(array.size for array in weights.values()) / 1e6:.1f} million",
        format_range([f"{count:,}" for count in sorted(updates)]),
        format_range([f"{count:.1f}" for count in sorted(minutes)]),
        f"{max(trial.memory for trial in trials):.1f} GiB",
        *(
            format_range(sorted(getattr(trial, name) for trial in trials))
            for name in ("machine", "commit", "date")
        ),
        f"`{command}`",
    ]
    return f"| {' | '.join(cells)} |"


def read_peak_memory() -> float:
    """Return the largest memory of any child process so far, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)  # macOS counts bytes, Linux KiB


def format_range(values: Sequence[str]) -> str:
    """Return the first and the last of sorted values."""
    return " to ".join(dict.fromkeys([values[0], values[-1]]))


def format_scores(scores: Sequence[dict[str, float]]) -> str:
    return ", ".join(
        f"{metric} {format_score([each[metric] for each in scores])}" for metric in METRICS
    )


def format_score(values: Sequence[float]) -> str:
    """Return the mean and, in brackets, the standard deviation."""
    spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def describe_machine() -> str:
    """Return the GPU, if any, the processor, and how many cores this process may use."""
    printed = ""
    if shutil.which("lscpu"):  # only on Linux
        printed = subprocess.run(["lscpu"], check=True, capture_output=True, text=True).stdout
    model = re.search(r"^Model name: +(.+)", printed, re.MULTILINE)
    instructions = "AVX-512" if "avx512f" in printed else "AVX2"
    name = model[1] if model else platform.processor()
    driver = nvidia_driver()
    gpu = f"{driver.models[0]}, " if driver else ""
    suffix = f" ({instructions})" if printed else ""
    return f"{gpu}{cores()} cores, {name}{suffix}"


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:  # the command has printed why
        sys.exit(error.returncode)
