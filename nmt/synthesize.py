"""Make pairs of text: ``python -m nmt.synthesize --kind back --file text.en --output F.tsv``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nmt.arguments import (
    Parser,
    add_beam,
    add_encoding,
    add_engine,
    add_runs,
    add_sampling,
    check_sampling,
    engine_options,
    non_negative_float,
    positive_float,
    positive_int,
    run_folders,
)
from nmt.data.encodings import UTF_8
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.lines import check_encoding, check_readable, refuse_same_file
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation

if TYPE_CHECKING:
    from nmt.inference.contract import SamplingRequest, SearchRequest
    from nmt.inference.synthesis import Filters

KINDS = ("back", "forward")


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.synthesize",
        description="Translate text by a run, and write what passes the filters as a table of "
        "pairs to train on: data.sources.NAME.kind=tsv data.sources.NAME.path=OUTPUT. What was "
        "rejected, and a record of where all comes from, stand beside it.",
    )
    parser.add_argument(
        "--kind",
        required=True,
        choices=KINDS,
        help="back: the text is in the language to translate into, and the run of the other "
        "direction; forward: the text is in the language to translate from",
    )
    parser.add_argument("--file", type=Path, required=True, help="text, one sentence per line")
    add_encoding(parser)
    parser.add_argument("--output", type=Path, required=True, help="table: source TAB target")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted output")
    add_runs(parser)
    add_engine(parser)
    making = parser.add_argument_group("translation")
    add_beam(making)
    making.add_argument("--sample", action="store_true", help="draw instead of searching")
    add_sampling(making)
    making.add_argument(
        "--noise", action="store_true", help="drop and move words of what is translated, by --seed"
    )
    filters = parser.add_argument_group("filters")
    filters.add_argument(
        "--min-score", type=float, metavar="S", help="mean log-probability of a token, such as -1"
    )
    filters.add_argument(
        "--max-repeats", type=positive_int, metavar="N", help="of a word or phrase in a row (3)"
    )
    filters.add_argument(
        "--max-length-ratio", type=positive_float, metavar="R", help="of characters (the run's)"
    )
    filters.add_argument(
        "--language", action="store_true", help="both sides are to be in their languages"
    )
    filters.add_argument(
        "--round-trip", type=Path, metavar="RUN", help="a run that translates back"
    )
    filters.add_argument(
        "--min-round-trip",
        type=non_negative_float,
        default=30.0,
        metavar="C",
        help="chrF2++ of the text against what comes back (%(default)s)",
    )
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Raise a `UserError` for what can be known before anything is loaded."""
    check_readable(arguments.file)
    if not arguments.file.is_file():
        raise UserError(f"{arguments.file} is read more than once, and it is a pipe: save it first")
    refuse_same_file(arguments.output, arguments.file)
    if arguments.output.exists() and not arguments.resume:
        raise UserError(f"{arguments.output} is there already: --resume goes on with it")
    if arguments.sample and arguments.beam:
        raise UserError("--sample draws, it does not search: leave --beam out")
    check_sampling(arguments, drawn=arguments.sample, needed="--sample")
    if arguments.sample and arguments.quantization:
        raise UserError(
            f"--quantization {arguments.quantization} is for CTranslate2, which does not draw: "
            "leave it or --sample out"
        )
    if arguments.sample and arguments.engine == "ctranslate2":
        raise UserError("--engine ctranslate2 does not draw: leave it out")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Make the pairs that the command line asks for."""
    check(arguments)
    runs = [RunFolder.open(path) for path in run_folders(arguments)]
    back = RunFolder.open(arguments.round_trip) if arguments.round_trip else None
    encoding = arguments.encoding or UTF_8
    check_encoding(arguments.file, encoding)
    # Heavy imports wait until the arguments are known to be right.
    from nmt.inference.synthesis import Synthesis
    from nmt.inference.synthetic_corpus import SyntheticCorpus, describe_origin, synthesize
    from nmt.inference.translator import Translator

    paths = [one.path for one in runs]
    engine = engine_options(arguments) | ({"engine": "keras"} if arguments.sample else {})
    synthesis = Synthesis(
        Translator.load(paths if paths[1:] else paths[0], **engine),
        _describe_search(arguments),
        _make_filters(arguments, runs[0]),
        noisy=arguments.noise,
        seed=arguments.seed,
        back=Translator.load(back.path) if back else None,
    )
    origin = describe_origin(arguments.kind, paths, arguments.file, synthesis, encoding)
    corpus = SyntheticCorpus(arguments.output, arguments.kind, origin)
    if arguments.resume:
        corpus.go_on()
    else:
        corpus.begin()
    synthesize(arguments.file, corpus, synthesis, shown=True, encoding=encoding)
    console.print(f"{corpus.kept:,} of {corpus.lines:,} lines became pairs: {corpus.output}")
    for reason, count in corpus.rejected.most_common():
        console.print(f"  {count:,} rejected: {reason}")


def _describe_search(arguments: argparse.Namespace) -> SearchRequest | SamplingRequest:
    from nmt.inference.contract import SamplingRequest, SearchRequest

    if arguments.sample:
        top_k = arguments.top_k or 0
        return SamplingRequest(1, arguments.temperature, top_k, arguments.top_p, arguments.seed)
    return SearchRequest(arguments.beam, arguments.length_penalty)


def _make_filters(arguments: argparse.Namespace, folder: RunFolder) -> Filters:
    from nmt.inference.synthesis import default_filters

    length_ratios = folder.read_corpus_record().get("length_ratios", {})
    filters = default_filters(folder.config.data, length_ratios)
    filters = replace(filters, min_score=arguments.min_score)
    if arguments.max_repeats:
        filters = replace(filters, max_repeats=arguments.max_repeats)
    if arguments.max_length_ratio:
        filters = replace(filters, max_length_ratio=arguments.max_length_ratio)
    if arguments.language:
        filters = replace(filters, languages=folder.config.data.languages)
    if arguments.round_trip:
        filters = replace(filters, min_round_trip=arguments.min_round_trip)
    return filters


def main() -> None:
    """Parse the command line and run."""
    arguments = make_parser().parse_args()
    set_up_translation()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
