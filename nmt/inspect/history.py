"""``nmt.inspect history``: which dev sentences a run learned when, and which it forgot."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from nmt.analysis.tables import print_listings
from nmt.arguments import Subcommands, percentage
from nmt.files import make_folder, write_json, write_text
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

NAME = "history"


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        NAME,
        help="which dev sentences a run learned when, and which it forgot",
        description="Follow the dev sentences of one run over its evaluations: how many were "
        "right, learned and forgotten, which kinds of sentences were learned first, and examples "
        "with their outputs over time. history.html needs no network; history.json has all "
        "numbers. A run keeps these outputs while it trains; of an older run, its samples are "
        "read.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run")
    parser.add_argument(
        "--checkpoints",
        action="store_true",
        help="translate the whole dev split with the checkpoints that the run kept, instead of "
        "reading what it wrote",
    )
    parser.add_argument(
        "--right",
        type=percentage,
        default=80.0,
        metavar="S",
        help="a sentence is right if its chrF2++ is S or more, above 0 and up to 100 (%(default)g)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where the two files go (default: history/ in the run)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the history of a run, and write it."""
    folder = RunFolder.open(arguments.run)
    output = make_folder(arguments.output or folder.path / NAME)
    with quiet_start():
        from nmt.analysis.comparison import history_report as report
        from nmt.analysis.comparison.history import (
            list_progress,
            list_slices,
            read_history,
            slice_history,
            translate_history,
        )

    if arguments.checkpoints:
        with tempfile.TemporaryDirectory() as temporary:
            history = translate_history(folder, arguments.right, Path(temporary), console)
    else:
        history = read_history(folder, arguments.right)
    progress = list_progress(history)
    slices = list_slices(history, slice_history(folder, history, console.print))
    for number, sentence in enumerate(report.describe(history, progress, slices), 1):
        console.print(f"{number}. {sentence}")
    console.print()
    print_listings(report.list_tables(history, progress, slices), console)
    page = report.render_history(folder.path.name, history, progress, slices)
    write_text(output / f"{NAME}.html", page)
    write_json(output / f"{NAME}.json", report.as_json(history, progress, slices))
    console.print(f"written to {output}: {NAME}.html, {NAME}.json")
