"""``nmt.inspect trace``: what beam search saw."""

from __future__ import annotations

import argparse
import io
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from nmt.arguments import Subcommands, add_run, non_negative_float, positive_int
from nmt.errors import UserError
from nmt.files import write_json, write_text
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start

_PAGE_WIDTH = 160  # characters of a line in an HTML page


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "trace",
        help="what beam search saw: the tree of kept prefixes, the best pieces at each position",
        description="Search as nmt.translate does and show what the search saw: every prefix it "
        "kept, as a tree (dim: dropped later); the pieces that were most probable at each position "
        "of the best output; and where greedy search would have gone another way.",
    )
    parser.add_argument("sentences", nargs="+")
    add_run(parser)
    parser.add_argument("--beam", type=positive_int, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument("--length-penalty", type=non_negative_float, metavar="A")
    parser.add_argument("--prefix", default="", help="what every output begins with")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="FILE.json: every number; FILE.html: what is printed here, in colour",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and write if asked, what the search saw for each sentence."""
    out = arguments.output
    if out is not None and out.suffix not in (".json", ".html"):
        raise UserError(f"{out}: a trace is written as .json or .html")
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.traces.trace import find_parting, record
        from nmt.analysis.traces.tree import render
        from nmt.inference.translator import Translator

        translator = Translator.load(folder.path, engine="keras")
    page = Console(record=True, file=io.StringIO(), width=_PAGE_WIDTH)
    traces = []
    for sentence in arguments.sentences:
        search = {"length_penalty": arguments.length_penalty, "prefix": arguments.prefix}
        with quiet_start():  # operations outside a graph print a note, see there
            beam = record(translator, sentence, beam_size=arguments.beam, **search)
            greedy = beam
            if beam.beam_size > 1:
                greedy = record(translator, sentence, beam_size=1, **search)
        parting = find_parting(greedy, beam)
        traces.append(
            {"sentence": sentence, **asdict(beam)} | {"parting": parting and asdict(parting)}
        )
        for shown in render(beam, parting):
            for target in (console, page):
                target.print(shown, soft_wrap=False)
    if out is None:
        return
    if out.suffix == ".json":
        write_json(out, {"run": folder.path.name, "traces": traces})
    else:
        write_text(out, page.export_html())
    console.print(f"written to {out}")
