"""Translate: ``python -m nmt.translate "¿Dónde está la biblioteca?"``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    positive_int,
    run_folders,
)
from nmt.data.encodings import UTF_8
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.lines import (
    check_encoding,
    check_readable,
    count_done,
    open_arriving,
    open_output,
    refuse_same_file,
    translate_arriving,
    translate_file,
)
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation

if TYPE_CHECKING:
    from nmt.inference.contract import SamplingRequest, SearchRequest
    from nmt.inference.pipeline import Request
    from nmt.inference.results import Translation
    from nmt.inference.translator import Translator


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.translate",
        description="Translate sentences: arguments, a file, or standard input. One output line "
        "per input line, in order.",
    )
    parser.add_argument("sentences", nargs="*", help="none: read standard input")
    add_runs(parser)
    add_engine(parser)
    files = parser.add_argument_group("files")
    files.add_argument("--file", type=Path, metavar="FILE", help="translate the lines of a file")
    add_encoding(files)
    files.add_argument(
        "--output", type=Path, metavar="FILE", help="write there, not to standard output"
    )
    files.add_argument(
        "--resume",
        action="store_true",
        help="go on behind the lines that --output holds from an interrupted run",
    )
    _add_search(parser)
    _add_sampling(parser)
    parser.add_argument(
        "--attention",
        type=Path,
        metavar="OUT",
        help="show attention: OUT.html, interactive, with every sentence, kind, layer and head; "
        "OUT.png (or .svg, .pdf), cross-attention of one sentence in the last layer; or a folder "
        "for a picture of every sentence, kind and layer",
    )
    return parser


def _add_search(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search")
    add_beam(search)
    search.add_argument(
        "--coverage-penalty",
        type=non_negative_float,
        default=0.0,
        metavar="B",
        help="above 0: against leaving out parts of the source (Wu et al. use 0.2)",
    )
    search.add_argument("--prefix", default="", help="what every translation begins with")
    search.add_argument(
        "--nbest",
        type=positive_int,
        default=1,
        metavar="N",
        help="print N translations per sentence",
    )
    search.add_argument(
        "--scores", action="store_true", help="print score and log-probability before the text"
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    drawing = parser.add_argument_group("sampling")
    drawing.add_argument(
        "--sample", action="store_true", help="draw --nbest translations instead of searching"
    )
    drawing.add_argument(
        "--mbr",
        type=positive_int,
        metavar="N",
        help="draw N translations and print those that agree best with the others, by chrF",
    )
    add_sampling(drawing)


def format_candidates(candidates: Sequence[Translation], scores: bool) -> list[str]:
    """Return the output lines of one sentence; an empty sentence still has one."""
    return [
        f"{candidate.score:.4f}\t{candidate.log_prob:.4f}\t{candidate.text}"
        if scores
        else candidate.text
        for candidate in candidates
    ]


def check(arguments: argparse.Namespace) -> None:
    """Check what the command line says against itself, before any work.

    Raises:
        UserError: two options contradict each other, or a file is not there.
    """
    if arguments.file and arguments.sentences:
        raise UserError("give sentences or --file, not both")
    if arguments.file:
        check_readable(arguments.file)
    if arguments.attention and len(run_folders(arguments)) > 1:
        raise UserError("--attention is that of one run, and several are given")
    if arguments.resume and not (arguments.file and arguments.output):
        raise UserError("--resume needs --file and --output")
    if arguments.resume and not arguments.file.is_file():
        raise UserError(
            f"--resume reads {arguments.file} from where it was interrupted, and it is a pipe: "
            "save it as a file"
        )
    if arguments.resume and arguments.nbest > 1:
        raise UserError("--resume counts one line per sentence: leave --nbest out")
    check_sentences(arguments.sentences, arguments.prefix)
    source = arguments.file or (None if arguments.sentences else sys.stdin.buffer)
    refuse_same_file(arguments.output, source)
    if arguments.attention:
        from nmt.analysis.pictures import drawing

        drawing.check(arguments.attention, arguments.sentences)
    if arguments.beam and arguments.nbest > arguments.beam:
        raise UserError(f"--nbest {arguments.nbest} needs --beam {arguments.nbest} or more")
    if arguments.sample and arguments.mbr:
        raise UserError("give --sample or --mbr, not both")
    if arguments.mbr and arguments.nbest > arguments.mbr:
        raise UserError(f"--nbest {arguments.nbest} needs as many samples: --mbr N")
    drawn = arguments.sample or arguments.mbr
    if drawn and (arguments.beam or arguments.coverage_penalty):
        raise UserError("--sample and --mbr draw, they do not search: leave --beam out")
    if arguments.quantization and own_reason(arguments):
        raise UserError(
            f"--quantization {arguments.quantization} is for CTranslate2, and "
            f"{own_reason(arguments)} needs the model itself: leave one of them out"
        )
    if arguments.engine == "ctranslate2" and own_reason(arguments):
        raise UserError(
            f"--engine {arguments.engine} neither samples nor shows attention nor penalises "
            "missing coverage: leave it out"
        )
    check_sampling(arguments, drawn=bool(drawn), needed="--sample or --mbr")


def check_sentences(sentences: Sequence[str], prefix: str) -> None:
    """Check that the terminal's encoding is the one that Python takes it for.

    Raises:
        UserError: it is not.
    """
    texts = {f"sentence {number}": text for number, text in enumerate(sentences, 1)}
    for name, text in (texts | {"--prefix": prefix}).items():
        if any("\ud800" <= sign <= "\udfff" for sign in text):  # stand for bytes
            raise UserError(
                f"{name} is not {sys.getfilesystemencoding().upper()}: write it to a file, and "
                "give --file with --encoding NAME"
            )


def own_reason(arguments: argparse.Namespace) -> str:
    """Return the option that only the model itself can follow; empty if there is none."""
    asked = {
        "--sample": arguments.sample,
        "--mbr": arguments.mbr,
        "--attention": arguments.attention,
        "--coverage-penalty": arguments.coverage_penalty,
    }
    return next((option for option, value in asked.items() if value), "")


def run(arguments: argparse.Namespace) -> None:
    """Translate what the command line names."""
    check(arguments)
    runs = run_folders(arguments)
    folder = RunFolder.open(runs[0])
    if arguments.file and arguments.file.is_file():
        check_encoding(arguments.file, arguments.encoding or UTF_8)
    # Heavy imports wait until the arguments are known to be right.
    from nmt.inference.translator import Translator

    beam = arguments.beam or max(folder.config.decoding.beam_size, arguments.nbest)
    own = {"engine": "keras"} if own_reason(arguments) else {}
    translator = Translator.load(
        runs if runs[1:] else folder.path, **engine_options(arguments) | own
    )
    translate(arguments, translator, describe_search(arguments, beam))


def translate(arguments: argparse.Namespace, translator: Translator, request: Request) -> None:
    """Translate sentences, a file, a pipe or a terminal, and write the lines."""
    encoding = arguments.encoding or UTF_8

    def formatted(found: list[list[Translation]]) -> list[str]:
        return [
            "\n".join(format_candidates(one[: arguments.nbest], arguments.scores)) for one in found
        ]

    def stream(chunks: Iterable[list[str]]) -> Generator[list[list[Translation]]]:
        return translator.stream(chunks, request)

    done, begin = 0, None
    if arguments.resume:
        done, begin = count_done(
            arguments.output,
            arguments.file,
            lambda lines: formatted(translator.run(lines, request)),
            encoding,
        )
        begin = begin if arguments.output.exists() else None
    arriving = None
    if not (arguments.sentences or (arguments.file and arguments.file.is_file())):
        # Before the output is opened: it stays as it is if this is in another encoding.
        arriving = open_arriving(arguments.file, arguments.encoding)
    with open_output(arguments.output, begin=begin) as out:

        def write(found: list[list[Translation]]) -> None:
            print("\n".join(formatted(found)), file=out, flush=True)

        if arriving is not None:
            translate_arriving(arriving, stream, write)
        elif arguments.file:
            shown = out is not sys.stdout or not sys.stdout.isatty()
            translate_file(arguments.file, done, stream, write, shown=shown, encoding=encoding)
        else:
            found = translator.run(arguments.sentences, request)
            write(found)
            if arguments.attention:
                best = [one[0] if one else None for one in found]
                show_attention(translator, arguments.sentences, best, arguments.attention)


def describe_search(arguments: argparse.Namespace, beam: int) -> SearchRequest | SamplingRequest:
    """Return the search or draw that the command line says."""
    from nmt.inference.contract import SamplingRequest, SearchRequest

    if arguments.sample or arguments.mbr:
        return SamplingRequest(
            arguments.mbr or arguments.nbest,
            arguments.temperature,
            arguments.top_k or 0,
            arguments.top_p,
            arguments.seed,
            arguments.prefix,
            rank_by_agreement=arguments.mbr is not None,
        )
    return SearchRequest(
        beam,
        arguments.length_penalty,
        arguments.coverage_penalty,
        arguments.nbest,
        arguments.prefix,
    )


def show_attention(
    translator: Translator,
    sentences: Sequence[str],
    translations: Sequence[Translation | None],
    out: Path,
) -> None:
    """Draw attention, and name the files."""
    from nmt.analysis.pictures import drawing

    for path in drawing.draw(translator, sentences, translations, out):
        print(path, file=sys.stderr)


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    exit_on_user_error(lambda: run(arguments))


if __name__ == "__main__":
    main()
