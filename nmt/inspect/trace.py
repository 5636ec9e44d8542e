"""``nmt.inspect trace``: beam search step by step."""

from __future__ import annotations

import argparse
import io
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from nmt.arguments import SET_TERMINAL, Subcommands, add_beam, add_run, check_decoded
from nmt.errors import UserError
from nmt.files import write_json, write_text
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

_PAGE_WIDTH = 160  # characters of a line in an HTML page


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "trace",
        help="beam search step by step: the tree of prefixes, the best tokens at each position",
        description="Search as nmt.translate does, and show every prefix in the beam as a tree "
        "(dim: dropped later), the most probable tokens at each position of the best output, and "
        "where greedy search differs. nmt.translate also adds tags and brackets, and searches an "
        "output that loops once more.",
    )
    parser.add_argument("sentences", nargs="+")
    add_run(parser)
    add_beam(parser)
    parser.add_argument("--prefix", default="", help="text that every output begins with")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="FILE.json: every number; FILE.html: the printed output, in colour",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and optionally write, the trace of each sentence."""
    check_decoded(arguments.sentences, {"--prefix": arguments.prefix}, SET_TERMINAL)
    out = arguments.output
    if out is not None and out.suffix not in (".json", ".html"):
        raise UserError(f"{out}: the name of a trace must end in .json or .html")
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.traces.trace import find_parting, record
        from nmt.analysis.traces.tree import render
        from nmt.inference.translator import Translator

        translator = Translator.load(folder, engine="keras")
    page = Console(record=True, file=io.StringIO(), width=_PAGE_WIDTH)
    traces = []
    for sentence in arguments.sentences:
        search = {"length_penalty": arguments.length_penalty, "prefix": arguments.prefix}
        with quiet_start():  # hides notes about operations outside a graph
            beam = record(translator, sentence, beam_size=arguments.beam, **search)
            greedy = beam
            if beam.beam_size > 1:
                greedy = record(translator, sentence, beam_size=1, **search)
        parting = find_parting(greedy, beam)
        traces.append(
            {"sentence": sentence, **asdict(beam)} | {"parting": parting and asdict(parting)}
        )
        for renderable in render(beam, parting):
            for target in (console, page):
                target.print(renderable, soft_wrap=False)
    if out is None:
        return
    if out.suffix == ".json":
        write_json(out, {"run": folder.path.name, "traces": traces})
    else:
        write_text(out, page.export_html())
    console.print(f"written to {out}")
