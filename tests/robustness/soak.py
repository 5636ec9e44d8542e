"""Kill a training run again and again: it must end as if it had never been killed.

    python tests/robustness/soak.py --kills 100
    python tests/robustness/soak.py --minutes 60 --seed 7

Trains a tiny model twice on the embedded phrasebook: once undisturbed, once killed (SIGKILL) at
random moments and resumed, so that kills hit start, resume, updates, evaluations and writes. Then
compares all results of both runs: checkpoints, best weights, metrics, TensorBoard's curves,
samples, scores, translations; and looks for files and lines that should not exist. Prints one
table, and exits with 1 if anything differs. KERAS_BACKEND selects the backend.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TIMED = ("seconds", "speed/tokens_per_second")  # differ between runs
TEXTS = ("Hoy hace frío.", "¿Dónde está la estación?", "")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--minutes", type=float, help="time limit, whatever the number of kills")
    parser.add_argument("--updates", type=int, default=400, help="updates per run (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the kill times (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        different = soak(Path(folder), arguments)
    sys.exit(1 if different else 0)


def soak(folder: Path, arguments: argparse.Namespace) -> list[str]:
    """Train, kill, resume and compare; return the differences."""
    corpus = write_corpus(folder / "corpus.tsv")
    start = time.monotonic()
    reference = folder / "whole"
    seconds = wait_for(train(reference, corpus, arguments.updates))
    log(f"undisturbed: {seconds:.0f} s")
    moments = random.Random(arguments.seed)
    phases: Counter[str] = Counter()
    different: list[str] = []
    victims = 0
    while phases.total() < arguments.kills and not is_over(start, arguments.minutes):
        victims += 1
        victim = folder / f"victim_{victims}"
        while phases.total() < arguments.kills and not is_over(start, arguments.minutes):
            # The longest times exceed a start by far, so the run makes slow progress.
            moment = moments.uniform(0.05 * seconds, 0.6 * seconds)
            phase = kill_after(train(victim, corpus, arguments.updates), moment)
            if phase is None:
                break
            phases[phase] += 1
            log(f"kill {phases.total()}: {phase}")
        wait_for(train(victim, corpus, arguments.updates))
        different += [f"victim {victims}: {what}" for what in compare(reference, victim)]
        shutil.rmtree(victim)
    print("\n| killed while | times |\n|---|---|")
    for phase, count in phases.most_common():
        print(f"| {phase} | {count} |")
    print(f"| total, {victims} runs of {arguments.updates} updates | {phases.total()} |")
    print("\n".join(["", *different]) if different else "\nno differences, no leftover files")
    return different


def write_corpus(path: Path) -> Path:
    """Write about 1,500 lines of the embedded corpus; return the path."""
    lines = [
        line
        for table in sorted((ROOT / "data" / "phrasebook").glob("*.tsv"))
        for line in table.read_text(encoding="utf-8").splitlines()
    ]
    path.write_text("\n".join(lines[:: len(lines) // 1500]) + "\n", encoding="utf-8")
    return path


def is_over(start: float, minutes: float | None) -> bool:
    """Whether the time limit is reached."""
    return minutes is not None and time.monotonic() - start > 60 * minutes


def log(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def train(folder: Path, corpus: Path, updates: int) -> subprocess.Popen[str]:
    """Start a run in a folder, or resume the one in it."""
    runs = folder / "runs"
    overrides = [f"runs_dir={runs}", f"cache_dir={folder / 'cache'}"]
    # A run that was killed before its first checkpoint has nothing to resume from.
    if any(runs.glob("latest/checkpoints/step_*.npz")):
        overrides.append("training.resume=latest")
    else:
        shutil.rmtree(runs, ignore_errors=True)
        overrides += ["data=files", "data.source_language=es", "data.target_language=en"]
        overrides += [f"data.train={corpus}", "data.dev=40", "data.test=40"]
        overrides += ["model=tiny", "model.dropout=0.1", "tokenizer.vocabulary_size=600"]
        overrides += ["training.batch_tokens=256", "training.max_minutes=null"]
        overrides += [f"training.max_steps={updates}", "training.evaluate_every=20"]
        overrides += ["training.evaluation_share=null"]
        overrides += ["training.log_every=5", "training.attention_every=10"]
        overrides += ["training.early_stopping=null", "training.jit_compile=off"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "nmt.train", *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def wait_for(process: subprocess.Popen[str]) -> float:
    """Wait until a process ends well; return its seconds."""
    start = time.monotonic()
    output, _ = process.communicate()
    if process.returncode:
        sys.exit(f"a run ended with status {process.returncode}:\n{output[-3000:]}")
    return time.monotonic() - start


def kill_after(process: subprocess.Popen[str], seconds: float) -> str | None:
    """Kill a process; return the phase it was in, or None if it had ended before."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        return name_phase(output)
    if process.returncode:
        sys.exit(f"a run ended with status {process.returncode}:\n{output[-3000:]}")
    return None


def name_phase(output: str) -> str:
    """Return the phase of a run with this output."""
    if "test split" in output:
        return "scoring"
    if "resumed" in output:
        evaluated = "dev loss" in output.partition("resumed")[2]
        return "training, evaluating, saving" if evaluated else "resuming, first updates"
    if "dev loss" in output:
        return "training, evaluating, saving"
    return "first updates" if "run folder" in output else "starting"


def compare(reference: Path, victim: Path) -> Iterator[str]:
    """Yield the differences of two folders with one run each."""
    one, two = ((folder / "runs" / "latest").resolve() for folder in (reference, victim))
    if len(list((victim / "runs").glob("2*"))) != 1:
        yield "it has more than one run folder"
    names = [
        {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
        for run in (one, two)
    ]
    names = [{name for name in each if not name.startswith("logs")} for each in names]
    if names[0] != names[1]:
        yield f"files: {sorted(names[0] ^ names[1])}"
    for name in sorted(names[0] & names[1]):
        if name.endswith(".npz"):
            yield from (f"{name}: {what}" for what in compare_arrays(one / name, two / name))
        elif name == "metrics.jsonl":
            if read_metrics(one / name) != read_metrics(two / name):
                yield "metrics.jsonl"
        elif name.startswith("evaluation") or name == "config.yaml":
            pass  # they hold times and paths
        elif (one / name).read_bytes() != (two / name).read_bytes():
            yield name
    if read_curves(one / "logs") != read_curves(two / "logs"):
        yield "TensorBoard's curves"
    if translate(one) != translate(two):
        yield "translations"


def compare_arrays(one: Path, two: Path) -> Iterator[str]:
    """Yield the names of arrays that differ in any bit, times excepted."""
    import numpy as np

    with np.load(one) as first, np.load(two) as second:
        if first.files != second.files:
            yield "names of arrays"
            return
        for name in first.files:
            if name == "metadata.json":
                metadata = [json.loads(stored[name].tobytes()) for stored in (first, second)]
                if metadata[0] | {"seconds": 0} != metadata[1] | {"seconds": 0}:
                    yield name
            elif first[name].tobytes() != second[name].tobytes():
                yield name


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without times."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMED} for line in lines]


def read_curves(logs: Path) -> dict[str, list[tuple[int, float]]]:
    """Return TensorBoard's scalars as it shows them: without points that a resume replaced."""
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(logs), size_guidance={"tensors": 0}, purge_orphaned_data=True)
    events.Reload()
    return {
        tag: [
            (event.step, float(make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)
        ]
        for tag in sorted(events.Tags()["tensors"])
        if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars" and tag not in TIMED
    }


def translate(run: Path) -> str:
    """Return the translations of a few texts."""
    done = subprocess.run(
        [sys.executable, "-m", "nmt.translate", "--run", run, "--nbest", "4", "--scores", *TEXTS],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return done.stdout


if __name__ == "__main__":
    main()
