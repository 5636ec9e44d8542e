"""``nmt.inspect average``: one model of several."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "average",
        help="one model of several runs or checkpoints",
        description="Write a run whose weights are the mean of those of several runs, or of "
        "checkpoints, of one model and one tokenizer. Means are of use between checkpoints of one "
        "training, or of trainings that started from one run.",
    )
    parser.add_argument(
        "origins",
        nargs="+",
        type=Path,
        help="run folders, or files such as runs/latest/checkpoints/step_00001000.npz",
    )
    parser.add_argument("--output", type=Path, required=True, help="a folder that is not there yet")
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Write the mean."""
    from nmt.runs.averaging import average

    found = average(arguments.origins, arguments.output)
    console.print(f"mean of {len(arguments.origins)} models written to {found.path}")
