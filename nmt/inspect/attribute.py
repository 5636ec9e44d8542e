"""``nmt.inspect attribute``: which source tokens an output depends on."""

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
        help="which source tokens an output depends on: gradients beside attention",
        description="Gradient times input of every output token's log-probability, as shares of "
        "the source, beside the cross-attention of the last layer. Attention says where a layer "
        "read, not which tokens the output depends on: other weights can give the same output "
        "(Jain & Wallace 2019). Whether weights are an explanation all the same depends on the "
        "definition of explanation (Wiegreffe & Pinter 2019). Gradients measure how the output "
        "depends on small changes.",
    )
    parser.add_argument("sentence")
    add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="OUT", help="draw both matrices: OUT.png, .svg or .pdf"
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and optionally draw, the attribution of a sentence's best translation."""
    from nmt.analysis.heads import terminal
    from nmt.analysis.pictures.files import check_suffix, save_figure
    from nmt.analysis.pictures.heatmaps import draw_heatmaps

    if arguments.output is not None:
        check_suffix(arguments.output)
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.heads.attribution import attribute
        from nmt.inference.translator import Translator

        translator = Translator.load(folder.path, engine="keras")
        attribution = attribute(translator, arguments.sentence)
    console.print(terminal.tabulate_attribution(attribution), soft_wrap=False)
    console.print(f"in common, on average: {attribution.overlap.mean():.2f}")
    if arguments.output is not None:
        figure = draw_heatmaps(
            np.stack([attribution.shares, attribution.attention]),
            rows=attribution.target,
            columns=attribution.source,
            title=f"Which tokens each token depends on, and attends to: {arguments.sentence}",
            row_label="target",
            column_label="source",
            names=["gradient x input", "cross-attention, last layer"],
            unit="share of the row",
        )
        save_figure(figure, arguments.output)
        console.print(f"written to {arguments.output}")
