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
from nmt.inference.text_files import check_encoding, check_not_input, check_readable
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation
from nmt.startup.console import make_console

if TYPE_CHECKING:
    from nmt.inference.pipeline import Request
    from nmt.inference.synthesis import Filters

KINDS = ("back", "forward")
_ROUND_TRIP = 30.0  # chrF2++: default of --min-round-trip


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.synthesize",
        description="Translate text by a run, filter the pairs, and write them as a table to "
        "train on: data.sources.NAME.kind=files data.sources.NAME.path=OUTPUT "
        "data.sources.NAME.split=train. Rejected pairs and a record of their origin are written "
        "beside it.",
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
    parser.add_argument("--resume", action="store_true", help="continue an interrupted output")
    add_runs(parser)
    add_engine(parser)
    translation = parser.add_argument_group("translation")
    add_beam(translation)
    translation.add_argument("--sample", action="store_true", help="sample instead of searching")
    add_sampling(translation)
    translation.add_argument(
        "--noise", action="store_true", help="drop and move words of translations, by --seed"
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
        metavar="C",
        help=f"chrF2++ of the text translated there and back against itself ({_ROUND_TRIP:g})",
    )
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Check the command line before any work.

    Raises:
        UserError: two options contradict each other, or a file is missing.
    """
    check_readable(arguments.file)
    if not arguments.file.is_file():
        raise UserError(
            f"{arguments.file} is a pipe, but is read more than once: save it as a file first"
        )
    check_not_input(arguments.output, arguments.file)
    if arguments.output.exists() and not arguments.resume:
        raise UserError(f"{arguments.output} already exists: add --resume to continue it")
    if arguments.min_round_trip is not None and not arguments.round_trip:
        raise UserError("--min-round-trip needs --round-trip RUN")
    if arguments.sample and (arguments.beam or arguments.length_penalty is not None):
        raise UserError("--sample does not search: leave --beam and --length-penalty out")
    check_sampling(
        arguments,
        is_sampling=arguments.sample,
        required="--sample",
        uses_seed=arguments.noise,
    )
    if arguments.sample and arguments.quantization:
        raise UserError(
            f"--quantization {arguments.quantization} is for CTranslate2, which cannot sample: "
            "leave it or --sample out"
        )
    if arguments.sample and arguments.engine == "ctranslate2":
        raise UserError("--sample needs --engine keras or auto, got ctranslate2")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Write the synthetic corpus that the command line describes."""
    check(arguments)
    runs = [RunFolder.open(path) for path in run_folders(arguments)]
    back = RunFolder.open(arguments.round_trip) if arguments.round_trip else None
    encoding = arguments.encoding or UTF_8
    check_encoding(arguments.file, encoding)
    # Heavy imports, after the arguments are checked.
    from nmt.inference.synthesis import Synthesizer
    from nmt.inference.synthetic_corpus import SyntheticCorpus, describe_origin, write_corpus
    from nmt.inference.translator import Translator

    options = engine_options(arguments)
    if arguments.sample:
        options["engine"] = "keras"
    synthesizer = Synthesizer(
        Translator.load(runs, **options),
        _make_request(arguments),
        _make_filters(arguments, runs[0]),
        adds_noise=arguments.noise,
        seed=arguments.seed,
        back_translator=Translator.load(back) if back else None,
    )
    origin = describe_origin(
        arguments.kind,
        [each.path for each in runs],
        arguments.file,
        synthesizer,
        encoding=encoding,
        back=back.path if back else None,
        quantization=arguments.quantization,
        whole=arguments.whole,
    )
    corpus = SyntheticCorpus(arguments.output, arguments.kind, origin)
    if arguments.resume:
        corpus.resume()
    else:
        corpus.start()
    write_corpus(arguments.file, corpus, synthesizer, shows_progress=True, encoding=encoding)
    console.print(f"{corpus.accepted:,} of {corpus.lines:,} lines became pairs: {corpus.output}")
    for reason, count in corpus.rejected.most_common():
        console.print(f"  {count:,} rejected: {reason}")


def _make_request(arguments: argparse.Namespace) -> Request:
    from nmt.inference.contract import SamplingRequest, SearchRequest

    if arguments.sample:
        top_k = arguments.top_k or 0
        return SamplingRequest(1, arguments.temperature, top_k, arguments.top_p, arguments.seed)
    return SearchRequest(arguments.beam, arguments.length_penalty)


def _make_filters(arguments: argparse.Namespace, folder: RunFolder) -> Filters:
    from nmt.inference.synthesis import default_filters

    length_ratios = folder.read_corpus_record().get("length_ratios", {})
    filters = default_filters(folder.config.data, length_ratios)
    least = _ROUND_TRIP if arguments.min_round_trip is None else arguments.min_round_trip
    return replace(
        filters,
        min_score=arguments.min_score,
        max_repeats=arguments.max_repeats or filters.max_repeats,
        max_length_ratio=arguments.max_length_ratio or filters.max_length_ratio,
        languages=folder.config.data.languages if arguments.language else None,
        min_round_trip=least if arguments.round_trip else None,
    )


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    console = make_console()
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
