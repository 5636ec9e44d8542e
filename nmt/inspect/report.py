"""``nmt.inspect report``: where each head attends, and how much it matters."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from nmt.analysis.tables import print_listings
from nmt.arguments import Subcommands, add_run, positive_int
from nmt.data.splitting import sample_evenly
from nmt.errors import UserError
from nmt.files import make_folder, write_json, write_text
from nmt.runs.folder import RunFolder
from nmt.startup.progress import track
from nmt.startup.quiet import quiet_start

_BATCH = 32  # pairs whose attention is in memory at once


def add(subcommands: Subcommands) -> None:
    """Add the subcommand to the command line."""
    parser = subcommands.add_parser(
        "report",
        help="where each head attends, and how much it matters",
        description="Statistics of every attention head on dev sentences; loss and BLEU without "
        "each head, and without the least important heads. Ctrl-C stops measuring and writes the "
        "results so far.",
    )
    add_run(parser)
    parser.add_argument(
        "--sentences",
        type=positive_int,
        default=200,
        metavar="N",
        help="dev sentences for statistics and heads; pruning is measured on as many others "
        "(%(default)s)",
    )
    parser.add_argument(
        "--no-heads",
        action="store_true",
        help="only statistics, in seconds: remove no heads",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where report.md, report.json and heads.png go (default: inspection/ in the run)",
    )
    parser.set_defaults(run_command=run)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Measure and report the heads of a run."""
    folder = RunFolder.open(arguments.run)
    output = make_folder(arguments.output or folder.path / "inspection")
    with quiet_start():
        from nmt.analysis.heads.report import HeadReport
        from nmt.analysis.heads.statistics import average, sum_up
        from nmt.analysis.pictures.files import save_figure
        from nmt.data.evaluation_sets import find_target_language
        from nmt.inference.forced_decoding import count_pair_tokens
        from nmt.inference.translator import Translator
        from nmt.runs.corpus import read_corpus

        translator = Translator.load(folder, engine="keras", unit="line")
    dev = read_corpus(folder, console.print).dev
    # Like training, skip pairs that are longer than its rows.
    lengths = count_pair_tokens(translator.tokenizer, dev)
    short = [
        pair
        for pair, n in zip(dev, lengths, strict=True)
        if n <= translator.segmenter.max_tokens + 1
    ]
    if len(short) < 2:
        raise UserError(
            f"{folder.path} has {len(short)} usable dev sentences: train with data.dev=200"
        )
    selected = sample_evenly(short, 2 * arguments.sentences)
    pairs, others = selected[::2], selected[1::2]
    batches = (pairs[start : start + _BATCH] for start in range(0, len(pairs), _BATCH))
    attentions = (attention for batch in batches for attention in translator.attentions(batch))
    statistics = average(map(sum_up, track(attentions, len(pairs), "reading", console)))
    kinds = translator.keras_engine("head analysis").model.attention_kinds
    report = HeadReport(folder.path.name, len(pairs), kinds, statistics)
    if not arguments.no_heads:
        language = find_target_language(folder.config.data, [pair.source for pair in dev])
        try:
            report.measure_ablations(translator, pairs, others, language, console)
        except KeyboardInterrupt:
            console.print("interrupted: the report has the results so far")
    console.print(f"{report.explain()}\n")
    print_listings(report.tabulate(), console)
    write_json(output / "report.json", report.as_json())
    write_text(output / "report.md", report.as_markdown())
    save_figure(report.draw(), output / "heads.png")
    console.print(f"written to {output}: report.md, report.json, heads.png")
