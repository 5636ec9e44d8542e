"""Look inside a model: ``python -m nmt.inspect trace "Hoy hace frío."``."""

from __future__ import annotations

import argparse
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console

from nmt.arguments import not_negative, positive
from nmt.data.corpus import Pair, clean_text, read_parallel
from nmt.data.splitting import evenly
from nmt.errors import UserError, exit_on_user_error
from nmt.inspection.progress import tracked
from nmt.quiet import quiet_start
from nmt.run import RunFolder, write_json, write_text
from nmt.startup import start_translating

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.inference.translator import Translator
    from nmt.inspection.alignment import Method
    from nmt.inspection.listing import Listing

_Subcommands = Any  # argparse's own type is private

_BATCH = 32  # pairs whose attention is in memory at the same time
_JUDGED = 256  # pairs by which `align` chooses a head
_PAGE_WIDTH = 160  # characters of a line in an HTML page
_WIDTH = 150  # characters; tables are not squeezed into less


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(prog="python -m nmt.inspect", description="Look inside.")
    subcommands = parser.add_subparsers(dest="command", required=True)
    _add_summary(subcommands)
    _add_trace(subcommands)
    _add_attribute(subcommands)
    _add_project(subcommands)
    _add_weights(subcommands)
    _add_report(subcommands)
    _add_align(subcommands)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")


def _add_summary(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "summary",
        help="parameters by part, operations per token, memory of activations",
        description="Parameters by part against their closed form, floating-point operations per "
        "token, and what the backward pass keeps of a batch: of a run, or of a configuration "
        "that has not been trained.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        help="a configuration instead of a run, in the words of nmt.train: model=base "
        "tokenizer.vocabulary_size=32000 (taken whole, though a small corpus may support less)",
    )
    parser.add_argument("--run", type=Path, help="(runs/latest)")
    parser.add_argument(
        "--batch",
        type=_batch,
        action="append",
        metavar="ROWSxLENGTH",
        help="positions of a batch on each side, such as 64x64; may be repeated (default: those "
        "of the configuration)",
    )
    parser.set_defaults(run_command=summary)


def _batch(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not ROWSxLENGTH, such as 64x64")
    return int(found[1]), int(found[2])


def summary(arguments: argparse.Namespace, console: Console) -> None:
    """Print what a model is made of."""
    counted = None
    if arguments.overrides:
        if arguments.run is not None:
            raise UserError("give a configuration or --run, not both")
        from nmt.compose import composed

        config = composed(arguments.overrides)
        vocabulary_size = config.tokenizer.vocabulary_size
    else:
        folder = RunFolder.open(arguments.run or Path("runs/latest"))
        config = folder.config
        with quiet_start():
            from nmt.inspection.anatomy import parameters_by_part

            model = folder.load_model()
        counted, vocabulary_size = parameters_by_part(model), model.vocabulary_size
    from nmt.inspection import terminal
    from nmt.inspection.anatomy import closed_form, flops_per_token

    batches = arguments.batch or _batches(config)
    longest = max(length for _, length in batches)
    flops = flops_per_token(
        config.model, vocabulary_size, source_length=longest, target_length=longest
    )
    console.print(terminal.sizes_line(config.model, vocabulary_size))
    for table in (
        terminal.parameters_table(closed_form(config.model, vocabulary_size), counted),
        terminal.flops_table(flops, longest, longest),
        terminal.activations_table(config.model, vocabulary_size, batches),
    ):
        console.print()
        console.print(table, soft_wrap=False)


def _batches(config: Config) -> list[tuple[int, int]]:
    """Return (rows, length) of the micro-batches that a configuration trains on."""
    training = config.training
    return [(training.batch_tokens // length, length) for length in training.row_lengths]


def _add_trace(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "trace",
        help="what beam search saw: the tree of kept prefixes, the best pieces at each position",
        description="Search as nmt.translate does and show what the search saw: every prefix it "
        "kept, as a tree (dim: dropped later); the pieces that were most probable at each position "
        "of the best output; and where greedy search would have gone another way.",
    )
    parser.add_argument("sentences", nargs="+")
    _add_run(parser)
    parser.add_argument("--beam", type=positive, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument("--length-penalty", type=not_negative, metavar="A")
    parser.add_argument("--prefix", default="", help="what every output begins with")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="FILE.json: every number; FILE.html: what is printed here, in colour",
    )
    parser.set_defaults(run_command=trace)


def trace(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and write if asked, what the search saw for each sentence."""
    out = arguments.output
    if out is not None and out.suffix not in (".json", ".html"):
        raise UserError(f"{out}: a trace is written as .json or .html")
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.inference.translator import Translator
        from nmt.inspection.trace import parting, record
        from nmt.inspection.tree import report

        translator = Translator.load(folder.path)
    page = Console(record=True, file=io.StringIO(), width=_PAGE_WIDTH)
    traces = []
    for sentence in arguments.sentences:
        search = {"length_penalty": arguments.length_penalty, "prefix": arguments.prefix}
        with quiet_start():  # operations outside a graph print a note, see there
            beam = record(translator, sentence, beam_size=arguments.beam, **search)
            greedy = beam
            if beam.beam_size > 1:
                greedy = record(translator, sentence, beam_size=1, **search)
        parted = parting(greedy, beam)
        traces.append(
            {"sentence": sentence, **asdict(beam)} | {"parting": parted and asdict(parted)}
        )
        for shown in report(beam, parted):
            for target in (console, page):
                target.print(shown, soft_wrap=False)
    if out is None:
        return
    if out.suffix == ".json":
        write_json(out, {"run": folder.path.name, "traces": traces})
    else:
        write_text(out, page.export_html())
    console.print(f"written to {out}")


def _add_attribute(subcommands: _Subcommands) -> None:
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
    _add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="OUT", help="draw both matrices: OUT.png, .svg or .pdf"
    )
    parser.set_defaults(run_command=attribute)


def attribute(arguments: argparse.Namespace, console: Console) -> None:
    """Print, and draw if asked, what the best translation of a sentence owes to its source."""
    from nmt.inspection import heatmaps, terminal

    if arguments.output is not None:
        heatmaps.check_suffix(arguments.output)
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.inference.translator import Translator
        from nmt.inspection.attribution import attribute as attributed

        translator = Translator.load(folder.path)
        found = attributed(translator, arguments.sentence)
    console.print(terminal.attribution_table(found), soft_wrap=False)
    console.print(f"in common, on average: {found.overlap.mean():.2f}")
    if arguments.output is not None:
        figure = heatmaps.attention_figure(
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


def _add_project(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "project",
        help="write the embeddings for TensorBoard's projector",
        description="Write the run's embeddings, with a label for every piece, where TensorBoard's "
        "projector finds them.",
    )
    _add_run(parser)
    parser.add_argument(
        "--no-counts",
        action="store_true",
        help="leave out how often each piece stands on each side of the training split: the "
        "corpus is not needed then",
    )
    parser.set_defaults(run_command=project)


def project(arguments: argparse.Namespace, console: Console) -> None:
    """Write the run's embeddings beside its events."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt import prepare
        from nmt.data.encoded import load_encoded
        from nmt.inspection.projector import Counts, write_projector

        model, tokenizer = folder.load_model(), folder.load_tokenizer()
    counts = None
    if not arguments.no_counts:
        corpus = prepare.corpus_of_run(folder, console)
        data = folder.config.data
        counts = Counts.of(
            load_encoded(corpus.train, tokenizer, Path(folder.config.cache_dir)),
            tokenizer.vocabulary_size,
            (data.source_language, data.target_language),
        )
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    for path in write_projector(folder.logs, np.asarray(model.embedding.table), pieces, counts):
        console.print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")
    console.print(
        f"to see them: tensorboard --logdir {folder.path.parent}, started anew, and there Projector"
    )


def _add_weights(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "weights",
        help="pictures of positional encodings and of weight norms",
        description="Draw the positional encodings, how alike they are, and the norms of every "
        "matrix by layer and part.",
    )
    _add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="(default: inspection/ in the run's folder)"
    )
    parser.add_argument("--format", choices=("png", "svg", "pdf"), default="png")
    parser.set_defaults(run_command=weights)


def weights(arguments: argparse.Namespace, console: Console) -> None:
    """Draw pictures of a run's weights."""
    folder = RunFolder.open(arguments.run)
    with quiet_start():
        from nmt.inspection import weights as pictures
        from nmt.inspection.heatmaps import save_figure

        model = folder.load_model()
    out = arguments.output or folder.path / "inspection"
    table = pictures.position_table(model)
    figures = {
        "positions": pictures.positions_figure(table, folder.config.model.positions),
        "weight_norms": pictures.norms_figure(pictures.weight_norms(model)),
    }
    for name, figure in figures.items():
        path = out / f"{name}.{arguments.format}"
        save_figure(figure, path)
        console.print(path)


def _add_report(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "report",
        help="what each head attends to, and what it is worth",
        description="Statistics of every attention head on dev sentences; loss and BLEU without "
        "each head, and without the least important ones. Ctrl-C ends the measuring: what was "
        "measured is written.",
    )
    _add_run(parser)
    parser.add_argument(
        "--sentences",
        type=int,
        default=200,
        metavar="N",
        help="dev sentences for statistics and heads; pruning is measured on as many others "
        "(%(default)s)",
    )
    parser.add_argument(
        "--no-heads",
        action="store_true",
        help="take no heads away: statistics alone, in seconds",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where report.md, report.json and heads.png go (default: inspection/ in the run)",
    )
    parser.set_defaults(run_command=report)


def report(arguments: argparse.Namespace, console: Console) -> None:
    """Measure and describe the heads of a run."""
    if arguments.sentences < 1:
        raise UserError(f"--sentences {arguments.sentences} is not at least 1")
    folder = RunFolder.open(arguments.run)
    output = arguments.output or folder.path / "inspection"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output} cannot be made: {error.strerror}") from error
    with quiet_start():
        from nmt import prepare
        from nmt.inference.translator import Translator
        from nmt.inspection.head_report import HeadReport
        from nmt.inspection.heatmaps import save_figure
        from nmt.inspection.statistics import means, sums

        translator = Translator.load(folder.path)
    dev = prepare.corpus_of_run(folder, console).dev
    # As in training, without what is longer than its rows.
    lengths = translator.lengths(dev)
    short = [pair for pair, n in zip(dev, lengths, strict=True) if n <= translator.room + 1]
    if len(short) < 2:
        raise UserError(
            f"{folder.path} has {len(short)} usable dev sentences: train with data.dev=200"
        )
    chosen = evenly(short, 2 * arguments.sentences)
    pairs, others = chosen[::2], chosen[1::2]
    batches = (pairs[start : start + _BATCH] for start in range(0, len(pairs), _BATCH))
    attentions = (one for batch in batches for one in translator.attentions(batch))
    statistics = means(map(sums, tracked(attentions, len(pairs), "reading", console)))
    found = HeadReport(folder.path.name, len(pairs), statistics)
    if not arguments.no_heads:
        try:
            found.take_away(translator, pairs, others, console)
        except KeyboardInterrupt:
            console.print("interrupted: the report holds what was measured until now")
    console.print(f"{found.legend()}\n")
    show(found.listings(), console)
    write_json(output / "report.json", found.as_json())
    write_text(output / "report.md", found.markdown())
    save_figure(found.figure(), output / "heads.png")
    console.print(f"written to {output}: report.md, report.json, heads.png")


def _add_align(subcommands: _Subcommands) -> None:
    parser = subcommands.add_parser(
        "align",
        help="which word was translated into which",
        description="Word alignments from cross-attention, one line per pair in Pharaoh format: "
        "0-0 2-1 links source words 0 and 2 to target words 0 and 1. Words are set apart by white "
        "space, with punctuation marks as words of their own.",
    )
    parser.add_argument("sentences", nargs="*", help="the run translates them, and aligns both")
    _add_run(parser)
    parser.add_argument("--source", type=Path, metavar="FILE", help="align these lines ...")
    parser.add_argument(
        "--reference", type=Path, metavar="FILE", help="... with their translations, line by line"
    )
    parser.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="compare all methods with alignments made by hand: lines of source TAB target TAB "
        "links (0-1 sure, 0?1 possible), words set apart by spaces",
    )
    parser.add_argument("--words", action="store_true", help="print source ||| target ||| links")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write there, not to standard output; with --gold, as JSON too",
    )
    method = parser.add_argument_group(
        "method",
        "The mean of all layers and heads, unless one is named or chosen.",
    )
    method.add_argument("--layer", type=int, metavar="N", help="this layer, from 1")
    method.add_argument("--head", type=int, metavar="N", help="this head of it, from 1")
    method.add_argument(
        "--best-head",
        action="store_true",
        help="the head, of the layer or of all, that tells the source words best apart (mutual "
        f"information, on the first {_JUDGED} pairs)",
    )
    method.add_argument(
        "--shifted",
        action="store_true",
        help="read the position that reads a word, not the one that writes it (Chen et al. 2020)",
    )
    parser.set_defaults(run_command=align)


def align(arguments: argparse.Namespace, console: Console) -> None:
    """Align what the command line names."""
    check_align(arguments)
    folder = RunFolder.open(arguments.run)
    pairs = []
    if arguments.source is not None:
        pairs = read_parallel(arguments.source, arguments.reference)
    with quiet_start():
        from nmt.inference.translator import Translator
        from nmt.inspection.alignment import (
            Sentences,
            aligned,
            links,
            most_informative,
            pharaoh,
            select,
        )

        translator = Translator.load(folder.path)
    if arguments.gold is not None:
        judge(arguments, translator, console)
        return
    candidates = methods_wanted(arguments, translator)
    if arguments.sentences:
        outputs = translator.translate(arguments.sentences)
        pairs = [Pair(*both) for both in zip(arguments.sentences, outputs, strict=True)]
    texts = [Sentences.of(clean_text(pair.source), clean_text(pair.target)) for pair in pairs]
    notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    with opened(arguments.output) as out:
        # On one terminal, a bar would stand between the lines.
        shown = out is not sys.stdout or not out.isatty()
        steps = tracked(aligned(translator, texts), len(texts), "aligning", notes, shown=shown)
        first = list(islice(steps, _JUDGED))
        method = most_informative([one for one in first if one is not None], candidates)
        notes.print(f"links by {method}")
        without = 0
        for pair, one in zip(texts, chain(first, steps), strict=True):
            found = frozenset() if one is None else links(select(one, method))
            without += one is None and bool(pair.source_words and pair.target_words)
            line = pharaoh(found)
            if arguments.words:
                line = " ||| ".join([*map(" ".join, pair.words()), line])
            print(line, file=out)
    if without:
        warnings.warn(
            f"{without:,} pairs are longer than the {translator.engine.max_length} positions of "
            "the model: their lines have no links",
            stacklevel=1,
        )


def check_align(arguments: argparse.Namespace) -> None:
    """Check what the command line says against itself.

    Raises:
        UserError: there is nothing to align, or too much, or the method is not told apart.
    """
    given = [bool(arguments.sentences), arguments.source is not None, arguments.gold is not None]
    if sum(given) != 1:
        raise UserError("give sentences, or --source with --reference, or --gold")
    if (arguments.source is None) != (arguments.reference is None):
        raise UserError("--source and --reference go together")
    if arguments.head is not None and arguments.layer is None:
        raise UserError(f"--head {arguments.head} needs its --layer")
    if arguments.head is not None and arguments.best_head:
        raise UserError("give --head or --best-head, not both")
    chosen = arguments.layer is not None or arguments.best_head or arguments.shifted
    if arguments.gold is not None and (chosen or arguments.words):
        raise UserError(
            "--gold compares all methods: leave --layer, --head, --best-head, --shifted and "
            "--words out"
        )


def methods_wanted(arguments: argparse.Namespace, translator: Translator) -> list[Method]:
    """Return the methods that the command line leaves to choose from.

    Raises:
        UserError: the model has no such layer or head.
    """
    from nmt.inspection.alignment import methods

    model = translator.own_engine("attention").model
    layers, heads = len(model.decoder_blocks), model.num_heads
    wanted = (("--layer", arguments.layer, layers), ("--head", arguments.head, heads))
    for name, value, most in wanted:
        if value is not None and not 1 <= value <= most:
            raise UserError(f"{name} {value}: the run's cross-attention has 1 to {most}")
    return [
        method
        for method in methods(layers, heads, shifted=arguments.shifted)
        if (
            method.head is not None and arguments.layer in (None, method.layer)
            if arguments.best_head
            else (method.layer, method.head) == (arguments.layer, arguments.head)
        )
    ]


def judge(arguments: argparse.Namespace, translator: Translator, console: Console) -> None:
    """Print the error rates of every method on alignments made by hand.

    Raises:
        UserError: the file is no such file, holds one pair only, or one too long for the model.
    """
    from nmt.inspection.alignment import aligned
    from nmt.inspection.gold import Comparison, read_gold

    gold = read_gold(arguments.gold)
    if len(gold) < 2:
        raise UserError(f"{arguments.gold} holds one pair: choosing on one half needs two")
    weights = []
    for number, one in enumerate(aligned(translator, [pair.sentences for pair in gold]), start=1):
        if one is None:
            raise UserError(f"{arguments.gold}: pair {number} is too long for the model")
        weights.append(one)
    found = Comparison(gold, weights)
    show(found.listings(), console)
    if arguments.output is not None:
        write_json(arguments.output, found.as_json())


def show(listings: Sequence[Listing], console: Console) -> None:
    """Print tables, none squeezed: the terminal wraps what is too wide for it."""
    wide = Console(file=console.file, width=max(console.width, _WIDTH), markup=False)
    for listing in listings:
        wide.print(listing.for_console())
        wide.print()


@contextmanager
def opened(path: Path | None) -> Iterator[TextIO]:
    """Open where lines go: standard output without a path.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        yield sys.stdout
        return
    try:
        out = path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    with out:
        yield out


def main() -> None:
    """Run the command line."""
    start_translating()
    arguments = parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    exit_on_user_error(lambda: arguments.run_command(arguments, console))


if __name__ == "__main__":
    main()
