"""``nmt.inspect compare``: which of several translation systems is better, and where."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.analysis.tables import Listing, print_listings
from nmt.arguments import (
    SET_TERMINAL,
    Subcommands,
    add_beam,
    add_pairs,
    check_decoded,
    check_pairs,
)
from nmt.files import make_folder, write_json, write_text
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:
    from nmt.analysis.comparison.analysis import Analysis
    from nmt.analysis.comparison.systems import System

NAME = "comparison"


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "compare",
        help="translation systems side by side: which is better, and where",
        description="Compare systems on the same sentences, each with the first one: scores and "
        "kinds of sentences with tests of significance, words and n-grams, the largest wins and "
        "losses word by word, omissions and additions, confidence, speed, configurations, and the "
        "attention of one sentence. Written as one page (comparison.html, which needs no network), "
        "as Markdown and as JSON. With one system: its own analysis.",
    )
    parser.add_argument(
        "systems",
        nargs="+",
        type=Path,
        metavar="SYSTEM",
        help="a run; a folder of runs: all that have saved a checkpoint; a file in the checkpoints "
        "folder of a run; or a text file of translations, one per line",
    )
    add_pairs(parser, "compare on", help="... with its translations, line by line")
    add_beam(parser)
    parser.add_argument(
        "--noise",
        action="store_true",
        help="also translate the sources with typing errors, without accents and so on: four more "
        "translations of all sentences",
    )
    parser.add_argument(
        "--translate",
        action="store_true",
        help="translate again, also if an evaluation has stored the translations: measures the "
        "time",
    )
    parser.add_argument(
        "--sentence",
        help="whose attention is shown (default: the first one of --source, or the first probe of "
        "the first run)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"where the three files go (default: {NAME} beside the first system)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Compare systems, print the findings and write the report."""
    check_decoded([], {"--sentence": arguments.sentence}, SET_TERMINAL)
    check_pairs(arguments)
    with quiet_start():
        from nmt.analysis.comparison.analysis import analyze
        from nmt.analysis.comparison.report import as_json, describe
        from nmt.analysis.comparison.sections import list_sections
        from nmt.analysis.comparison.systems import DataReader, fill_outputs, open_systems

    with tempfile.TemporaryDirectory() as folder:
        systems = open_systems(arguments.systems, Path(folder))
        path = systems[0].path
        beside = path.parent.parent.parent if path.suffix == ".npz" else path.parent
        output = make_folder(arguments.output or beside / NAME)
        files = (arguments.source, arguments.reference) if arguments.source else None
        reader = DataReader(arguments.split, files, arguments.encoding, console.print)
        data = reader.read(systems)
        search = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
        reuse = not arguments.translate
        for system in systems:
            fill_outputs(system, data, reader, console, reuse=reuse, **search)
        analysis = analyze(systems, data, reader, console, noise=arguments.noise, search=search)
        sections = list_sections(analysis)
        for title, findings in describe(analysis).items():
            console.print(f"\n{title}")
            for number, sentence in enumerate(findings, 1):
                console.print(f"{number}. {sentence}")
        console.print()
        print_listings(sections[0].listings, console)
        # Probes of a run may be in another language than the files.
        shown = arguments.sentence or (data.sources[0] if arguments.source else None)
        extra = _describe_runs(systems, shown, data.sources[0])
    _write_pages(output, analysis, sections, extra)
    write_json(output / f"{NAME}.json", as_json(analysis))
    console.print(f"written to {output}: {NAME}.html, {NAME}.md, {NAME}.json")


def _describe_runs(
    systems: list[System], sentence: str | None, default: str
) -> tuple[list[Listing], list[tuple[str, str]]]:
    """Return tables of configurations and speed, and these with plot and attention as HTML.

    Args:
        systems: all systems.
        sentence: whose attention is shown; None: a probe or sample of the first run.
        default: sentence to show if it has neither.
    """
    from nmt.analysis.comparison.page import render_attention, render_figure, render_listing
    from nmt.analysis.comparison.plot import render_comparison
    from nmt.analysis.comparison.runs import choose_sentence, summarize_runs, translate_sentence
    from nmt.analysis.comparison.table import tabulate, tabulate_speed

    speed = tabulate_speed(systems)
    with_model = [system for system in systems if system.model is not None]
    if not with_model:
        return [speed], [("Speed", render_listing(speed, "Speed"))]
    models = [system.model for system in with_model if system.model is not None]
    runs = [system.run for system in with_model if system.run is not None]
    names = [system.name for system in with_model]
    are_checkpoints = [system.model is not system.run for system in with_model]
    sentence = sentence or choose_sentence(runs[0]) or default
    with quiet_start():
        summaries = summarize_runs(runs, names, are_checkpoints)
        results = [translate_sentence(model, sentence) for model in models]
    table = tabulate(summaries, results)
    plot = render_figure(
        render_comparison(summaries),
        "Dev BLEU against minutes of training, and quality against parameters: the numbers are in "
        "the table above.",
    )
    content = render_listing(speed) + render_listing(table) + plot
    sections = [("Speed, size and configuration", content)]
    sections.append(("Attention", render_attention(sentence, summaries, results)))
    return [speed, table], sections


def _write_pages(
    output: Path,
    analysis: Analysis,
    sections: list[Any],
    extra: tuple[list[Listing], list[tuple[str, str]]],
) -> None:
    from nmt.analysis.comparison.page import make_page, render_section
    from nmt.analysis.comparison.report import as_markdown, describe, make_title

    listings, rendered = extra
    content = [(section.title, render_section(section)) for section in sections]
    note = f"{len(analysis.data.pairs):,} sentences: {analysis.data.name}"
    page = make_page(make_title(analysis), note, describe(analysis), [*content, *rendered])
    write_text(output / f"{NAME}.html", page)
    write_text(output / f"{NAME}.md", as_markdown(analysis, sections, listings))
