"""``nmt.inspect weights``: pictures of positional encodings and weight norms."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands, add_run
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

DRAWN_DISTANCE = 64  # tokens in either direction


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "weights",
        help="pictures of positional encodings and of weight norms",
        description="Draw the positional encodings, their similarity, and the norms of every "
        "matrix by layer and part.",
    )
    add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="(default: inspection/ in the run's folder)"
    )
    parser.add_argument("--format", choices=("png", "svg", "pdf"), default="png")
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Draw pictures of a run's weights."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.anatomy.norms import measure_norms
        from nmt.analysis.pictures import weights as pictures
        from nmt.analysis.pictures.files import save_figure

        model = folder.load_model()
    out = arguments.output or folder.path / "inspection"
    figures = {}
    table, distances = model.position_table(), model.distance_profiles(DRAWN_DISTANCE)
    if table is not None:
        figures["positions"] = pictures.draw_positions(table)
    elif distances:
        figures["positions"] = pictures.draw_distances(distances)
    figures["weight_norms"] = pictures.draw_norms(measure_norms(model))
    for name, figure in figures.items():
        path = out / f"{name}.{arguments.format}"
        save_figure(figure, path)
        console.print(path)
