"""``nmt.inspect compare``: runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands
from nmt.errors import UserError
from nmt.files import write_text
from nmt.startup.quiet import quiet_start

NAME = "comparison"


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "compare",
        help="runs side by side: a table, a plot, and the attention of one sentence",
        description="Compare runs. comparison.md: what differs between the configurations, scores, "
        "sizes and speed. comparison.png: dev BLEU against minutes of training, and quality "
        "against parameters. comparison.html: every model translates one sentence and shows its "
        "attention, without a network.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="a run, or a folder of runs: all that have saved a checkpoint",
    )
    parser.add_argument("--sentence", help="(default: the first probe of the first run)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"where the three files go (default: {NAME} beside the first run)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Compare runs and write all three files."""
    with quiet_start():
        from nmt.analysis.comparison.page import make_page
        from nmt.analysis.comparison.plot import draw_comparison
        from nmt.analysis.comparison.runs import (
            choose_sentence,
            find_runs,
            summarize_runs,
            translate_sentence,
        )
        from nmt.analysis.comparison.table import tabulate
        from nmt.analysis.pictures.files import save_figure

    folders = find_runs(arguments.runs)
    output = arguments.output or folders[0].path.parent / NAME
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output} cannot be created: {error.strerror}") from error
    sentence = arguments.sentence or choose_sentence(folders[0])
    with quiet_start():
        runs = summarize_runs(folders)
    results = []
    for summary in runs:
        console.print(f"{summary.name}: {summary.folder.path}")
        results.append(translate_sentence(summary.folder, sentence))
    listing = tabulate(runs, results)
    console.print(f"\n{listing.as_markdown()}")
    head = f"# {len(runs)} runs compared\n\n![Quality against minutes and size]({NAME}.png)\n\n"
    tail = f"\nThe attention of “{sentence}” in all of them: [{NAME}.html]({NAME}.html)\n"
    write_text(output / f"{NAME}.md", head + listing.as_markdown() + tail)
    save_figure(draw_comparison(runs), output / f"{NAME}.png")
    write_text(output / f"{NAME}.html", make_page(sentence, runs, results))
    console.print(f"written to {output}: {NAME}.md, {NAME}.png, {NAME}.html")
