"""``nmt.inspect attribute``: what an output owes to its source."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

from nmt.arguments import Subcommands, add_run
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "attribute",
        help="which source pieces an output depends on: gradients beside attention",
        description="Gradient times input of every output piece's log-probability, as shares of "
        "the source, beside the cross-attention of the last layer. Attention says where a layer "
        "read, not what the output depends on: other weights can give the same output (Jain & "
        "Wallace 2019), and whether weights explain it all the same depends on what is asked of "
        "an explanation (Wiegreffe & Pinter 2019). Gradients measure dependence, on small changes.",
    )
    parser.add_argument("sentence")
    add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="OUT", help="draw both matrices: OUT.png, .svg or .pdf"
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and draw if asked, what the best translation of a sentence owes to its source."""
    from nmt.analysis.heads import terminal
    from nmt.analysis.pictures import heatmaps

    if arguments.output is not None:
        heatmaps.check_suffix(arguments.output)
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.heads.attribution import attribute
        from nmt.inference.translator import Translator

        translator = Translator.load(folder.path, engine="keras")
        found = attribute(translator, arguments.sentence)
    console.print(terminal.tabulate_attribution(found), soft_wrap=False)
    console.print(f"in common, on average: {found.overlap.mean():.2f}")
    if arguments.output is not None:
        figure = heatmaps.draw_attention(
            np.stack([found.shares, found.attention]),
            rows=found.target,
            columns=found.source,
            title=f"What each piece depends on, and where it looks: {arguments.sentence}",
            row_label="target",
            column_label="source",
            names=["gradient x input", "cross-attention, last layer"],
            unit="share of the row",
        )
        heatmaps.save_figure(figure, arguments.output)
        console.print(f"written to {arguments.output}")
