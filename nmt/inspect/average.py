"""``nmt.inspect average``: the mean of several models."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "average",
        help="the mean of several runs or checkpoints",
        description="Write a run whose weights are the mean of several runs or checkpoints with "
        "the same model and tokenizer. A mean is useful between checkpoints of one training, or of "
        "trainings that started from the same run.",
    )
    parser.add_argument(
        "origins",
        nargs="+",
        type=Path,
        help="run folders, or files such as runs/latest/checkpoints/step_00001000.npz",
    )
    parser.add_argument("--output", type=Path, required=True, help="a new folder")
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Write the mean of runs or checkpoints."""
    from nmt.runs.averaging import average

    folder = average(arguments.origins, arguments.output)
    console.print(f"mean of {len(arguments.origins)} models written to {folder.path}")
