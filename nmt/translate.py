"""Translate: ``python -m nmt.translate "¿Dónde está la biblioteca?"``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nmt.arguments import (
    Parser,
    add_beam,
    add_encoding,
    add_engine,
    add_format,
    add_runs,
    add_sampling,
    add_terms,
    add_unit,
    check_decoded,
    check_document,
    check_sampling,
    check_terms,
    check_unit,
    engine_options,
    input_format,
    non_negative_float,
    non_negative_int,
    positive_int,
    run_folders,
)
from nmt.data.encodings import UTF_8
from nmt.data.glossary_files import read_glossary
from nmt.documents.formats import LINES, DocumentOptions
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.lines import format_lines
from nmt.inference.quality_lines import LostSpans, QualityLines
from nmt.inference.rare_words import RareWords
from nmt.inference.resuming import count_done
from nmt.inference.streaming import translate_file, translate_pipe
from nmt.inference.term_report import TermReport
from nmt.inference.text_files import (
    check_encoding,
    check_not_input,
    check_outputs,
    check_readable,
    open_output,
    open_pipe,
)
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation
from nmt.text.terms import Glossary

if TYPE_CHECKING:
    from nmt.inference.contract import SearchRequest
    from nmt.inference.pipeline import Request
    from nmt.inference.results import Translation
    from nmt.inference.translator import Translator


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.translate",
        description="Translate texts, sentence by sentence: arguments, a file, or standard input. "
        "One output line per input line, in order; documents keep their format.",
    )
    parser.add_argument("sentences", nargs="*", help="none: read standard input")
    add_runs(parser)
    add_engine(parser)
    add_unit(parser, "the run's decoding.unit")
    files = parser.add_argument_group("files")
    files.add_argument(
        "--file", type=Path, metavar="FILE", help="translate the lines of a file, or a document"
    )
    add_format(files)
    add_encoding(files)
    files.add_argument(
        "--output", type=Path, metavar="FILE", help="write there, not to standard output"
    )
    files.add_argument(
        "--resume",
        action="store_true",
        help="continue after the lines that an interrupted run has written to --output",
    )
    _add_search(parser)
    _add_sampling(parser)
    add_terms(parser.add_argument_group("terms"))
    parser.add_argument(
        "--quality",
        type=Path,
        metavar="FILE",
        help="write how sure the model is as JSON Lines: confidence of each text and word, 0 to 1, "
        "the source words that each word comes from, and lost spans",
    )
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
    search.add_argument(
        "--no-repeat-ngram",
        type=non_negative_int,
        metavar="N",
        help="no sequence of N tokens occurs twice in a translation; 0: any may (default: the "
        "run's; if that is 0, translations that loop are searched again)",
    )
    search.add_argument(
        "--prefix", default="", help="text that every searched translation begins with"
    )
    search.add_argument(
        "--nbest",
        type=positive_int,
        default=1,
        metavar="N",
        help="print N translations per sentence; a line that has fewer repeats its last one",
    )
    search.add_argument(
        "--scores", action="store_true", help="print score and log-probability before the text"
    )


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument(
        "--sample", action="store_true", help="sample --nbest translations instead of searching"
    )
    sampling.add_argument(
        "--mbr",
        type=positive_int,
        metavar="N",
        help="sample N translations and print those that agree best with the others, by chrF",
    )
    add_sampling(sampling)


def check(arguments: argparse.Namespace) -> None:
    """Check the command line before any work.

    Raises:
        UserError: two options contradict each other, or a file is missing.
    """
    if arguments.file and arguments.sentences:
        raise UserError("give sentences or --file, not both")
    check_unit(arguments)
    if arguments.file:
        check_readable(arguments.file)
    check_document(arguments)
    if arguments.resume:
        _check_resumable(arguments)
    check_decoded(arguments.sentences, {"--prefix": arguments.prefix})
    if sys.stdin is None and not arguments.file and not arguments.sentences:
        raise UserError("standard input is closed: give sentences or --file")
    source = arguments.file or (None if arguments.sentences else sys.stdin.buffer)
    reports = {"--term-report": arguments.term_report, "--quality": arguments.quality}
    for path in (arguments.output, *reports.values()):
        check_not_input(path, source, arguments.terms)
    check_outputs({"--output": arguments.output} | reports)
    if arguments.quality:
        _check_quality(arguments)
    if arguments.attention:
        from nmt.analysis.pictures.attention_files import check_attention_output

        if len(run_folders(arguments)) > 1:
            raise UserError("--attention needs a single run: give --run once")
        check_attention_output(arguments.attention, arguments.sentences)
    _check_search(arguments)
    check_terms(arguments)


def _check_resumable(arguments: argparse.Namespace) -> None:
    if not (arguments.file and arguments.output):
        raise UserError("--resume needs --file and --output")
    if not arguments.file.is_file():
        raise UserError(f"--resume cannot read the pipe {arguments.file} again: save it as a file")
    if arguments.nbest > 1:
        raise UserError("--resume counts one line per sentence: leave --nbest out")
    if arguments.term_report:
        raise UserError("--term-report counts a whole file: leave --resume out")


def _check_quality(arguments: argparse.Namespace) -> None:
    if arguments.resume or arguments.sample or arguments.mbr:
        raise UserError(
            "--quality describes a whole search: leave --resume, --sample and --mbr out"
        )
    if len(run_folders(arguments)) > 1:
        raise UserError("--quality needs a single run: give --run once")


def _check_search(arguments: argparse.Namespace) -> None:
    nbest = arguments.nbest
    if arguments.beam and nbest > arguments.beam:
        raise UserError(f"--nbest {nbest} needs --beam {nbest} or more")
    if arguments.beam == 1 and arguments.coverage_penalty:
        raise UserError(f"--coverage-penalty {arguments.coverage_penalty} needs --beam 2 or more")
    if arguments.sample and arguments.mbr:
        raise UserError("give --sample or --mbr, not both")
    if arguments.mbr and nbest > arguments.mbr:
        raise UserError(f"--nbest {nbest} needs --mbr {nbest} or more")
    is_sampling = bool(arguments.sample or arguments.mbr)
    has_penalty = arguments.coverage_penalty or arguments.length_penalty is not None
    has_search = arguments.beam or has_penalty or arguments.no_repeat_ngram is not None
    if is_sampling and has_search:
        raise UserError(
            "--sample and --mbr do not search: leave --beam, --length-penalty, --coverage-penalty "
            "and --no-repeat-ngram out"
        )
    option = _keras_option(arguments)
    if arguments.quantization and option:
        raise UserError(
            f"--quantization {arguments.quantization} is for CTranslate2, and {option} needs "
            "Keras: leave one of them out"
        )
    if arguments.engine == "ctranslate2" and option:
        raise UserError(f"{option} needs --engine keras or auto, got {arguments.engine}")
    check_sampling(arguments, is_sampling=is_sampling, required="--sample or --mbr")


def _keras_option(arguments: argparse.Namespace) -> str:
    """Return the first given option that only the Keras engine supports; empty if none is."""
    options = {
        "--sample": arguments.sample,
        "--mbr": arguments.mbr,
        "--attention": arguments.attention,
        "--coverage-penalty": arguments.coverage_penalty,
    }
    return next((option for option, value in options.items() if value), "")


def run(arguments: argparse.Namespace) -> None:
    """Translate the input that the command line names."""
    check(arguments)
    # A missing run is reported before a large file is read.
    folders = [RunFolder.open(path) for path in run_folders(arguments)]
    languages = folders[0].config.data.languages
    glossary = read_glossary(arguments.terms, languages) if arguments.terms else None
    document, name = None, input_format(arguments)
    if name != LINES:
        from nmt.documents.files import read_document, write_translated

        options = DocumentOptions(*languages, arguments.columns, arguments.encoding)
        document = read_document(arguments.file, name, options)
    elif arguments.file and arguments.file.is_file():
        check_encoding(arguments.file, arguments.encoding or UTF_8)
    # Heavy imports, after the arguments are checked.
    from nmt.inference.translator import Translator

    engine = engine_options(arguments) | {"unit": arguments.unit}
    if _keras_option(arguments):  # convert nothing for an engine that cannot serve the request
        engine["engine"] = "keras"
    translator = Translator.load(folders, **engine)
    request = make_request(arguments, glossary)
    terms = TermReport(glossary)
    if document is None:
        translate(arguments, translator, request, terms)
    else:
        search = cast("SearchRequest", request)
        write_translated(document, arguments.output, translator, search, terms)
    terms.print_summary()
    if arguments.term_report:
        terms.write(arguments.term_report)


def make_request(arguments: argparse.Namespace, glossary: Glossary | None = None) -> Request:
    """Return the search or sampling that the command line asks for."""
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
        arguments.beam,
        arguments.length_penalty,
        arguments.coverage_penalty,
        arguments.beam or arguments.nbest if arguments.nbest > 1 else 1,  # some may be equal
        arguments.prefix,
        arguments.no_repeat_ngram,
        quality=arguments.quality is not None,
        glossary=glossary,
        forces_terms=arguments.term_mode == "hard",
    )


def translate(
    arguments: argparse.Namespace, translator: Translator, request: Request, terms: TermReport
) -> None:
    """Translate sentences, a file, a pipe or a terminal, and write the lines; count the terms.

    The text of an argument keeps its line breaks; every other line gives one line. At the end,
    warnings count the kept spans that the model left out, and words that it has not learned.
    """
    encoding = arguments.encoding or UTF_8
    lost_spans = LostSpans()
    rare_words = RareWords(translator.segmenter)

    def stream(chunks: Iterable[list[str]]) -> Generator[list[list[Translation]]]:
        return translator.stream(rare_words.watch(quality.watch(chunks)), request)

    done, begin = 0, None
    if arguments.resume and arguments.output.exists():
        done, begin = count_done(
            arguments.output,
            arguments.file,
            lambda lines: format_texts(arguments, translator.run(lines, request)),
            encoding,
            translator.begin_document(),
        )
    # Invalid options and encodings are refused before the output is opened, which empties it.
    translator.run([], request)
    has_text = arguments.sentences or (arguments.file and arguments.file.is_file())
    pipe = None if has_text else open_pipe(arguments.file, arguments.encoding)
    with contextlib.ExitStack() as files:
        out = files.enter_context(open_output(arguments.output, begin=begin))
        quality = QualityLines(arguments.quality, files)

        def write(translations: list[list[Translation]]) -> None:
            lost_spans.add(translations)
            quality.write(translations)
            for best in (hypotheses[0] for hypotheses in translations if hypotheses):
                terms.add(best.terms)
            print("\n".join(format_texts(arguments, translations)), file=out, flush=True)

        if pipe is not None:
            translate_pipe(pipe, stream, write, translator.begin_document())
        elif arguments.file:
            translate_file(
                arguments.file,
                done,
                stream,
                write,
                shows_progress=out is not sys.stdout or not sys.stdout.isatty(),
                encoding=encoding,
                previous=translator.begin_document(),
            )
        else:
            [translations] = stream([arguments.sentences])
            write(translations)
            if arguments.attention:
                draw_attention(arguments, translator, translations, terms.glossary)
    lost_spans.warn()
    rare_words.warn()


def format_texts(
    arguments: argparse.Namespace, translations: Sequence[Sequence[Translation]]
) -> list[str]:
    """Return the output of each text."""
    options = arguments.scores, bool(arguments.sentences), arguments.nbest, arguments.sample
    return ["\n".join(format_lines(hypotheses, *options)) for hypotheses in translations]


def draw_attention(
    arguments: argparse.Namespace,
    translator: Translator,
    translations: Sequence[Sequence[Translation]],
    glossary: Glossary | None,
) -> None:
    """Draw the attention of the best translations, and print the names of the files."""
    from nmt.analysis.pictures.attention_files import write_attention

    best = [hypotheses[0] if hypotheses else None for hypotheses in translations]
    paths = write_attention(translator, arguments.sentences, best, arguments.attention, glossary)
    print(*paths, sep="\n", file=sys.stderr)


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    exit_on_user_error(lambda: run(arguments))


if __name__ == "__main__":
    main()
