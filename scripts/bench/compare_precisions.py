"""Check that training in each precision ends at the same loss, within a percent.

    python scripts/bench/compare_precisions.py --out FOLDER \\
        data=tatoeba data.archive=/path/to/spa-eng.zip
    KERAS_BACKEND=jax python scripts/bench/compare_precisions.py --updates 500 --out FOLDER

Trains `compact` in float32, `mixed_bfloat16` and `mixed_float16`, with one seed and the same
batches, each in a separate process, and compares the losses on the dev split with that of float32.
Prints one JSON line for each; exits with 1 if one differs by more than `--within`. The overrides
are those of `python -m nmt.train`. A second call with the same folder resumes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads import PRECISIONS

EVERY = 500  # updates between evaluations, after which a run can resume
DEV_LOSS = "dev/loss"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="as for python -m nmt.train")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the runs")
    parser.add_argument("--updates", type=int, default=2000, help="(%(default)s)")
    parser.add_argument("--within", type=float, default=0.01, help="relative (%(default)s)")
    arguments = parser.parse_intermixed_args()
    results = []
    for precision in PRECISIONS:
        folder = arguments.out / precision
        train(folder, precision, arguments.updates, arguments.overrides)
        results.append({"precision": precision, **read_run(folder / "latest")})
    compare(results)
    for result in results:
        print(json.dumps(result), flush=True)
    sys.exit(0 if all(result["apart"] <= arguments.within for result in results) else 1)


def train(folder: Path, precision: str, updates: int, overrides: Sequence[str]) -> None:
    """Train a run in a separate folder, or resume the one in it.

    Exits if the run fails; it has then printed the reason.
    """
    if any((folder / "latest" / "checkpoints").glob("step_*.npz")):
        changes = ["training.resume=latest"]
    else:
        changes = [
            *("model=compact", "training.batch_tokens=1024", f"training.precision={precision}"),
            f"training.evaluate_every={min(EVERY, updates)}",
            "training.evaluation_share=null",
            *("training.max_minutes=null", "training.early_stopping=null"),
            *("training.evaluation_sentences=8", "training.probes=[]", *overrides),
        ]
    command = [sys.executable, "-m", "nmt.train", *changes]
    command += [f"runs_dir={folder}", f"training.max_steps={updates}"]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode:
        sys.exit(f"error: training in {precision} ended with status {done.returncode}")


def read_run(run: Path) -> dict[str, Any]:
    """Return the last loss on the dev split, with its updates and seconds."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    last = [record for record in records if DEV_LOSS in record][-1]
    return {"updates": last["step"], "seconds": round(last["seconds"]), "dev_loss": last[DEV_LOSS]}


def compare(results: Sequence[dict[str, Any]]) -> None:
    """Add to each result the relative difference of its loss from the first one's."""
    for result in results:
        result["apart"] = abs(result["dev_loss"] / results[0]["dev_loss"] - 1)


if __name__ == "__main__":
    main()
