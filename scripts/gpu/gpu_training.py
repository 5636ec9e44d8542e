"""Train on a GPU: the recipe `experiment=tatoeba_gpu`, and one model in each precision."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from gpu_offline import override_path
from gpu_processes import ROOT, PartError, run_limited
from gpu_session import Session

RECIPE = "experiment=tatoeba_gpu"
FINISH_SECONDS = 150  # of a training run besides its minutes: corpus, search programs, test split
MARGIN_SECONDS = 300  # besides its minutes, before the run is killed
PRECISION_SECONDS = 540  # limit
PRECISION_UPDATES, PRECISION_WITHIN = 2000, 0.01  # relative, of the loss on the dev split

REHEARSAL_RUN = [
    *("model.d_model=32", "model.num_heads=2", "model.ffn_width=64"),
    *("model.encoder_layers=1", "model.decoder_layers=1", "training.batch_tokens=256"),
    *("training.max_minutes=null", "training.max_steps=4", "training.evaluate_every=4"),
    *("training.log_every=2", "training.evaluation_sentences=8", "training.probes=[]"),
    *("decoding.beam_size=2", "decoding.max_length_margin=4", "decoding.max_length_ratio=0.5"),
]


def seconds_for_training(session: Session) -> float:
    """Return the seconds that other parts must leave for the training run."""
    if "train" not in session.arguments.parts or not session.has_corpus:
        return 0.0
    return float(60 * session.arguments.train_minutes + FINISH_SECONDS)


def train_recipe(session: Session) -> None:
    """Train the recipe for some minutes, and record its scores."""
    arguments = session.arguments
    minutes = min(arguments.train_minutes, (session.seconds_left() - FINISH_SECONDS) / 60)
    if not session.has_corpus:
        note = "no corpus was given: name one with --archive or --encoded"
        session.record("train", RECIPE, "skipped", {"note": note})
        return
    if minutes < min(1.0, arguments.train_minutes):
        note = f"no time is left of {arguments.minutes:g} minutes: raise --minutes"
        session.record("train", RECIPE, "skipped", {"note": note})
        return
    length = REHEARSAL_RUN if session.is_rehearsal else [f"training.max_minutes={minutes:.2f}"]
    command = [sys.executable, "-m", "nmt.train", RECIPE, *session.data, *length]
    command += [override_path("runs_dir", session.runs), *arguments.override]
    limit = min(session.seconds_left(), 60 * minutes + MARGIN_SECONDS)
    start = time.monotonic()
    details: dict[str, Any] = {}
    try:
        run_limited(command, limit, session.log, {"KERAS_BACKEND": session.backend})
    except PartError as error:
        details["note"] = str(error)
    details["seconds"] = round(time.monotonic() - start)
    with contextlib.suppress(OSError, ValueError):  # the run may have failed before writing them
        details |= read_figures(session.runs / "latest")
        details |= read_scores(session.runs / "latest")
    if "scores" not in details:
        details.setdefault("note", "it left no scores")
        if details.get("dev_bleu") is not None:
            details["note"] += f"; its best dev BLEU was {details['dev_bleu']:.2f}"
    session.record("train", RECIPE, "failed" if "note" in details else "ok", details)


def compare_precisions(session: Session) -> None:
    """Train in each precision, and record how far its dev loss is from that of float32."""
    script = str(ROOT / "scripts" / "bench" / "compare_precisions.py")
    updates = 4 if session.is_rehearsal else PRECISION_UPDATES
    model = ["model=tiny"] if session.is_rehearsal else []
    overrides = [*session.data, *model, *session.arguments.override]
    command = [sys.executable, script, *overrides, "--out", str(session.out / "precision")]
    command += [f"--updates={updates}", "--within=inf"]  # the tolerance is applied below
    limit = min(PRECISION_SECONDS, session.seconds_left())
    output = run_limited(command, limit, session.log, {"KERAS_BACKEND": session.backend})
    for line in output.splitlines():
        result = json.loads(line)
        is_close = result["apart"] <= PRECISION_WITHIN
        if not is_close:
            result["note"] = "is further from float32 than the tolerance"
        result["tolerance"] = PRECISION_WITHIN
        status = "ok" if is_close else "failed"
        session.record("precision", result.pop("precision"), status, result)


def read_figures(run: Path) -> dict[str, Any]:
    """Return length and speed of a run, from its metrics."""
    from nmt.runs.folder import RunFolder

    records = RunFolder(run).metrics.read()
    speeds = [
        record["speed/tokens_per_second"]
        for record in records
        if "speed/tokens_per_second" in record
    ]
    scores = [record["dev/BLEU"] for record in records if "dev/BLEU" in record]
    return {
        "updates": max((record["step"] for record in records), default=0),
        "training_seconds": max((record["seconds"] for record in records), default=0.0),
        "tokens_per_second": round(statistics.median(speeds)) if speeds else None,
        "dev_bleu": max(scores, default=None),
        "run": str(run.resolve()),
    }


def read_scores(run: Path) -> dict[str, Any]:
    """Return the scores of a run on its test split."""
    stored = json.loads((run / "evaluation_test.json").read_text(encoding="utf-8"))
    return {
        "sentences": stored["sentences"],
        "scores": {
            name: {"value": score["value"], "half_width": score["half_width"]}
            for name, score in stored["scores"].items()
        },
    }
