"""Measure every GPU figure of the project: tables, and one JSON line per figure.

    bash scripts/gpu/gpu_check.sh --archive /path/to/spa-eng.zip
    bash scripts/gpu/gpu_check.sh --parts speed --rows small,float    # some of the speeds alone
    bash scripts/gpu/gpu_check.sh --cpu-rehearsal    # the whole way in a tiny form, without a GPU
    bash scripts/gpu/gpu_check.sh --lower    # lower for CUDA what would be compiled, without a GPU

Parts, in this order:

    devices  name of the GPU, and the backend: TensorFlow if it sees the GPU, else JAX
    parity   loss and gradient norm of one update against float32 on the CPU
    speed    tokens per second, utilisation and peak memory of `small`, `base` and `big` in each
             precision, with explicit and fused attention, with XLA on and off
    train    three minutes of `experiment=tatoeba_gpu`, and its BLEU

and, only if --parts names them,

    scaling  tokens per second of `base` on 1, 2, 4, … and all GPUs, with one batch for all, then
             one batch for each; and whether the loss is the same if all share one batch
    precision  loss of `compact` after 2,000 updates in each precision: compare_precisions.py

All but `scaling` use one GPU. Each part runs in its own processes under a time limit. A failure is
reported with its last error line and does not stop the other parts. The training run has priority
over the less informative speeds, which are measured afterwards if there is time; a second call can
measure the rest. Exit status: 0, 1 if anything failed, 2 without a GPU.

On a machine without network, TensorFlow or an installed environment, you need the checkout, Python
with JAX, NumPy, matplotlib, Pillow, PyYAML, rich, sacrebleu, safetensors, scipy, sentencepiece and
tensorboard, and a folder that a machine with the environment and with network prepares:

    bash scripts/gpu/gpu_check.sh --prepare FOLDER --python 3.12 --archive /path/to/spa-eng.zip
    bash scripts/gpu/gpu_check.sh --wheels FOLDER/wheels --encoded FOLDER    # on the GPU machine

FOLDER then holds the archive (downloaded without --archive), the tokenizer, the encoded corpus and,
with --python, wheels of the packages that the GPU machine lacks, for its version of Python: 21 MiB
in total. Wheels are installed into a temporary folder; the machine's Python is not changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path

import gpu_lowering
from gpu_lowering import NO_GPU
from gpu_offline import install, prepare
from gpu_parity import check_parity
from gpu_processes import stop
from gpu_session import Session
from gpu_speed import SpeedMeter, list_speeds
from gpu_training import RECIPE, compare_precisions, seconds_for_training, train_recipe

PARTS = ("devices", "parity", "speed", "train")
OPTIONAL_PARTS = ("scaling", "precision")
MODULES = (
    "PIL absl backports h5py hydra keras matplotlib ml_dtypes namex numpy omegaconf optree "
    "platformdirs py3langid rich sacrebleu safetensors sentencepiece sentencex snowballstemmer "
    "tensorboard yaml"
).split()


def main() -> None:
    """Run the command line."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="gpu_check-") as site:
        if arguments.wheels:
            install(arguments.wheels, Path(site))
        missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
        if missing:
            stop(
                f"these Python packages are missing: {', '.join(missing)}; install them, or give "
                "their wheels with --wheels FOLDER (see --help)"
            )
        if arguments.prepare:
            prepare(arguments)
            return
        if arguments.lower:
            backends = [arguments.backend] if arguments.backend else gpu_lowering.BACKENDS
            rows, overrides = arguments.rows, arguments.override
            sys.exit(gpu_lowering.check(backends, rows, overrides, arguments.out))
        sys.exit(check(Session(arguments)))


def check(session: Session) -> int:
    """Measure all selected parts; return the exit status."""
    if session.is_rehearsal:
        os.environ |= NO_GPU
    session.open()
    arguments = session.arguments
    if "parity" in arguments.parts:
        session.attempt("parity", "one update", check_parity)
    meter = SpeedMeter(session)
    rows = list_speeds(("tiny",) if session.is_rehearsal else ("base", "big", "small"))
    names = arguments.rows.split(",")
    rows = [row for row in rows if any(name in row.what for name in names)]
    if "speed" not in arguments.parts:
        rows = []
    rows = meter.measure_rows(rows, reserve=seconds_for_training(session))
    if "train" in arguments.parts:
        session.attempt("train", RECIPE, train_recipe)
    for row in meter.measure_rows(rows, reserve=0.0):
        note = f"not reached in {arguments.minutes:g} minutes: see --minutes, --rows"
        session.record("speed", row.what, "skipped", vars(row) | {"note": note})
    if "scaling" in arguments.parts:
        model = "tiny" if session.is_rehearsal else "base"
        session.attempt("scaling", "several devices", lambda _: meter.measure_scaling(model))
    if "precision" in arguments.parts:
        session.attempt("precision", "compact", compare_precisions)
    session.print_tables()
    return int(any(result["status"] == "failed" for result in session.results))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="gpu_check.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--archive", type=Path, metavar="ZIP", help="the Tatoeba pairs")
    parser.add_argument(
        "--encoded", type=Path, metavar="FOLDER", help="folder that --prepare filled"
    )
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels of missing packages")
    parser.add_argument(
        "--prepare", type=Path, metavar="FOLDER", help="fill this folder, then exit"
    )
    parser.add_argument(
        "--python", metavar="3.X", help="with --prepare: also fetch wheels for this version"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="tables, JSON lines and log")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="for the training run")
    parser.add_argument("--parts", type=parts, default=PARTS, help="default: " + ",".join(PARTS))
    parser.add_argument(
        "--rows", default="", help="select speeds, such as small,'base float32',fused"
    )
    parser.add_argument(
        "--backend", choices=("tensorflow", "jax"), help="default: the one that sees the GPU"
    )
    parser.add_argument(
        "--minutes", type=float, default=9.5, help="total time limit (default: 9.5)"
    )
    parser.add_argument("--train-minutes", type=float, default=3.0, help="default: 3")
    parser.add_argument(
        *("--override", "-o"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="applied to every configuration; may be repeated",
    )
    parser.add_argument(
        "--cpu-rehearsal", action="store_true", help="run tiny models without a GPU"
    )
    parser.add_argument("--lower", action="store_true", help="lower for a GPU, without one")
    arguments = parser.parse_args()
    if arguments.python and not re.fullmatch(r"3\.\d+", arguments.python):
        parser.error(f"--python {arguments.python}: give a version such as 3.12")
    return arguments


def parts(text: str) -> tuple[str, ...]:
    """Read the value of --parts."""
    names = text.split(",")
    choices = PARTS + OPTIONAL_PARTS
    unknown = [name for name in names if name not in choices]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown part {unknown[0]!r}; choose from: {', '.join(choices)}"
        )
    return tuple(names)


if __name__ == "__main__":
    main()
