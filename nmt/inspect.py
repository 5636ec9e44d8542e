"""Look inside a model: ``python -m nmt.inspect trace "Hoy hace frío."``."""

from __future__ import annotations

import argparse
import io
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from nmt.arguments import not_negative, positive
from nmt.errors import UserError, exit_on_user_error
from nmt.quiet import quiet_start
from nmt.run import RunFolder, write_json
from nmt.startup import start_translating

if TYPE_CHECKING:
    from nmt.config import Config

_PAGE_WIDTH = 160  # characters of a line in an HTML page

_Subcommands = Any  # argparse's own type is private


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(prog="python -m nmt.inspect", description="Look inside.")
    subcommands = parser.add_subparsers(dest="command", required=True)
    _add_summary(subcommands)
    _add_trace(subcommands)
    _add_attribute(subcommands)
    _add_project(subcommands)
    _add_weights(subcommands)
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
        try:
            out.write_text(page.export_html(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"{out} cannot be written: {error.strerror}") from error
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
        corpus = prepare.corpus_of(folder.config, console)
        if prepare.changed_since(folder, corpus):
            console.print("warning: the corpus has changed since this run was trained on it")
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


def main() -> None:
    """Run the command line."""
    start_translating()
    arguments = parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    exit_on_user_error(lambda: arguments.run_command(arguments, console))


if __name__ == "__main__":
    main()
