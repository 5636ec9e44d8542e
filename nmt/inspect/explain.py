"""``nmt.inspect explain``: why a translation has the words it has."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.arguments import SET_TERMINAL, Subcommands, add_beam_size, add_run, check_decoded
from nmt.errors import UserError
from nmt.files import write_json, write_text
from nmt.runs.folder import RunFolder
from nmt.startup.quiet import quiet_start


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "explain",
        help="why a translation has a word and not another one",
        description="Why each word of a sentence's translation is there, and not its strongest "
        "rival: which words of the source and of the translation so far speak for it (by hiding "
        "them), how much the source contributes at all (ALTI+), what each decoder layer "
        "would write (the logit lens), and where the rival left the beam.",
    )
    parser.add_argument("sentence")
    add_run(parser)
    parser.add_argument(
        "--why", metavar="WORD", help="explain this word of the translation only, in detail"
    )
    parser.add_argument(
        "--not", dest="not_", metavar="OTHER", help="compare it with this word instead of its rival"
    )
    add_beam_size(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="FILE.html: a page with everything; FILE.json: every number",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and optionally write, the explanation of a sentence's best translation."""
    words = {"--why": arguments.why, "--not": arguments.not_}
    check_decoded([arguments.sentence], words, SET_TERMINAL)
    out = arguments.output
    if out is not None and out.suffix not in (".json", ".html"):
        raise UserError(f"{out}: the name of an explanation must end in .json or .html")
    if arguments.not_ is not None and arguments.why is None:
        raise UserError(f"--not {arguments.not_} needs --why WORD, the word that it stands in for")
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.analysis.explaining.explanation import explain
        from nmt.analysis.explaining.page import make_page
        from nmt.analysis.explaining.terminal import render
        from nmt.inference.translator import Translator

        translator = Translator.load(folder, engine="keras")
        explanation = explain(
            translator,
            arguments.sentence,
            why=arguments.why,
            not_=arguments.not_,
            beam_size=arguments.beam,
        )
    for renderable in render(explanation, in_detail=arguments.why is not None):
        console.print(renderable, soft_wrap=False)
    if out is None:
        return
    if out.suffix == ".json":
        write_json(out, {"run": folder.path.name, **explanation.as_json()})
    else:
        write_text(out, make_page(explanation))
    console.print(f"written to {out}")
