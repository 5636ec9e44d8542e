"""Shared options of the commands, argument types, and parsing errors in one line."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nmt.config.decoding import ENGINES, QUANTIZATIONS, UNITS
from nmt.data.encodings import is_text_encoding
from nmt.data.splitting import TEST
from nmt.documents.formats import (
    LINES,
    NAMES,
    NAMING_ENCODING,
    UNKNOWN_EXTENSIONS,
    find_format,
)
from nmt.errors import UserError, fail

Subcommands = Any  # what `add_subparsers` returns: argparse's own type is private
SET_TERMINAL = "set the terminal to UTF-8"  # remedy of `check_decoded` for commands without --file


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an invalid command line in one line, as a `UserError`."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with status 2."""
        unknown = message.partition("unrecognized arguments: ")[2]
        takes_texts = any(action.dest == "sentences" for action in self._actions)
        if takes_texts and unknown.startswith("-") and not unknown.startswith("--"):
            message += f": if that is text, write -- {unknown}"
        fail(UserError(f"{message}; see {self.prog} --help"))


class StoreOnce(argparse.Action):
    """Stores a value, and refuses a second one."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """See `argparse.Action`."""
        first = getattr(namespace, self.dest)
        if first is not self.default:
            raise argparse.ArgumentError(self, f"takes one run, got {first} and {values}")
        setattr(namespace, self.dest, values)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add ``--run``, the command's run folder."""
    parser.add_argument(
        "--run", type=Path, default=Path("runs/latest"), action=StoreOnce, help="(%(default)s)"
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--run``, which may be repeated: the runs form an ensemble."""
    parser.add_argument(
        "--run",
        type=Path,
        action="append",
        dest="runs",
        help="may be repeated: runs that share a tokenizer form an ensemble (runs/latest)",
    )


def run_folders(arguments: argparse.Namespace) -> list[Path]:
    """Return the run folders that the command line names, by default the latest run."""
    return arguments.runs or [Path("runs/latest")]


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``, ``--quantization``, ``--whole`` and ``--verbose``: see `engine_options`."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="search engine: ctranslate2, the model in C++; keras, the Keras model, which supports "
        "every option; auto, the fastest that supports the request (%(default)s)",
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="number format of ctranslate2 (default: the run's decoding.quantization)",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="translate each text in one go, up to model.max_length: cut neither into sentences "
        "nor at the longest training row (training.row_lengths)",
    )
    parser.add_argument("--verbose", action="store_true", help="print the engine that is used")


def add_unit(parser: argparse._ActionsContainer, default: str) -> None:
    """Add ``--unit``: see `nmt.inference.translator.Translator.load`.

    Args:
        parser: the parser.
        default: the unit without the option, for the help.
    """
    parser.add_argument(
        "--unit",
        choices=UNITS,
        help="sentence: cut texts into sentences; line: cut only those that are too long "
        f"({default})",
    )


def check_unit(arguments: argparse.Namespace) -> None:
    """Check that ``--unit`` and ``--whole`` agree.

    Raises:
        UserError: they do not.
    """
    if arguments.whole and arguments.unit == "sentence":
        raise UserError("--whole translates lines in one go: leave --unit sentence out")


def add_beam_size(parser: argparse._ActionsContainer) -> None:
    """Add ``--beam``."""
    parser.add_argument(
        "--beam",
        type=positive_int,
        metavar="N",
        help="beam size; 1 is greedy (default: the run's)",
    )


def add_beam(parser: argparse._ActionsContainer) -> None:
    """Add ``--beam`` and ``--length-penalty``."""
    add_beam_size(parser)
    parser.add_argument(
        "--length-penalty",
        type=non_negative_float,
        metavar="A",
        help="0 favours short translations (default: the run's)",
    )


def add_encoding(parser: argparse._ActionsContainer) -> None:
    """Add ``--encoding``, the encoding of text that a command reads."""
    parser.add_argument(
        "--encoding",
        type=encoding,
        metavar="NAME",
        help="encoding of the input: latin-1, cp1252, utf-16 or another of Python's (utf-8)",
    )


def add_pairs(parser: argparse._ActionsContainer, verb: str, **references: Any) -> None:
    """Add ``--split``, ``--source``, ``--reference`` and ``--encoding``: see `check_pairs`.

    Args:
        parser: the parser.
        verb: what the command does with the pairs, for the help.
        references: options of ``--reference``.
    """
    parser.add_argument("--split", help="test, dev or one of data.tests (test)")
    parser.add_argument("--source", type=Path, help=f"{verb} this file instead of a split ...")
    parser.add_argument("--reference", type=Path, **references)
    add_encoding(parser)


def check_pairs(arguments: argparse.Namespace) -> None:
    """Check the options of `add_pairs`; set ``--split`` if no pairs are named.

    Raises:
        UserError: they contradict each other.
    """
    check_pair_files(arguments)
    if arguments.source is not None and arguments.split is not None:
        raise UserError("--split names pairs of the run: leave it or --source out")
    arguments.split = arguments.split or TEST


def check_pair_files(arguments: argparse.Namespace) -> None:
    """Check ``--source``, ``--reference`` and ``--encoding``.

    Raises:
        UserError: one needs another.
    """
    if (arguments.source is None) != (not arguments.reference):
        raise UserError("--source and --reference need each other: give both")
    if arguments.encoding and arguments.source is None:
        raise UserError("--encoding needs --source and --reference")


def add_format(parser: argparse._ActionsContainer) -> None:
    """Add the options of documents."""
    parser.add_argument(
        "--format",
        choices=NAMES,
        help="of --file: a document keeps its markup (default: by its name; else lines)",
    )
    parser.add_argument(
        "--columns",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="NAME,...",
        help="columns of a table to translate: names in its header, or numbers from 1",
    )


def input_format(arguments: argparse.Namespace) -> str:
    """Return the format of the input: one of `nmt.documents.formats.NAMES`."""
    if not arguments.file:
        return LINES
    return arguments.format or find_format(arguments.file)


def check_document(arguments: argparse.Namespace) -> None:
    """Check the options of documents, and those that are only for lines.

    Raises:
        UserError: an option does not fit the input.
    """
    if input_format(arguments) == LINES:
        if arguments.columns or (arguments.format and not arguments.file):
            option = "--columns" if arguments.columns else "--format"
            raise UserError(f"{option} is for a document: give it as --file")
        suffix = arguments.file.suffix.lower() if arguments.file else ""
        if suffix in UNKNOWN_EXTENSIONS and not arguments.format:
            raise UserError(
                f"{arguments.file} would be damaged as lines of text: convert it, or choose "
                f"--format from {', '.join(NAMES)}"
            )
        return
    if arguments.columns and input_format(arguments) != "table":
        raise UserError("--columns is for tables: leave it out, or set --format table")
    only_for_lines = {
        "--resume": arguments.resume,
        "--nbest": arguments.nbest > 1,
        "--scores": arguments.scores,
        "--sample": arguments.sample,
        "--mbr": arguments.mbr,
        "--prefix": arguments.prefix,
        "--quality": arguments.quality,
        "--attention": arguments.attention,
    }
    if arguments.encoding and input_format(arguments) in NAMING_ENCODING:
        raise UserError(
            f"--encoding cannot be given for {arguments.file}: its format names its encoding"
        )
    is_terminal = arguments.output is None and sys.stdout is not None and sys.stdout.isatty()
    if is_terminal and input_format(arguments) == "office":
        raise UserError(f"{arguments.file} becomes a binary file: give --output FILE")
    for option, value in only_for_lines.items():
        if value:
            raise UserError(
                f"{option} is for lines, and {arguments.file} is a document: leave it out, or "
                "give --format lines"
            )


def add_terms(parser: argparse._ActionsContainer) -> None:
    """Add the options of glossaries."""
    parser.add_argument(
        "--terms",
        type=Path,
        metavar="FILE",
        help="glossary: lines of source TAB target, or a CSV file; translations use the targets of "
        "its terms, and a term without target is not translated",
    )
    parser.add_argument(
        "--term-mode",
        choices=("hard", "soft"),
        default="hard",
        help="hard: use every term; soft: leave out terms that make a translation improbable "
        "(%(default)s)",
    )
    parser.add_argument(
        "--term-report",
        type=Path,
        metavar="FILE",
        help="write how often each term was found and used, as a table",
    )


def check_terms(arguments: argparse.Namespace) -> None:
    """Check the options of `add_terms`.

    Raises:
        UserError: they do not fit the other options.
    """
    if not arguments.terms and (arguments.term_report or arguments.term_mode != "hard"):
        option = "--term-report" if arguments.term_report else "--term-mode"
        raise UserError(f"{option} needs --terms FILE")
    if arguments.terms and (arguments.sample or arguments.mbr):
        raise UserError("--terms needs a search: leave --sample and --mbr out")
    if arguments.terms and len(run_folders(arguments)) > 1:
        raise UserError("--terms needs alignments, which an ensemble lacks: give --run once")


def check_decoded(
    sentences: Sequence[str],
    options: Mapping[str, str | None],
    remedy: str = "write it to a file, and give --file with --encoding NAME",
) -> None:
    """Check that Python could decode the texts of a command line.

    Args:
        sentences: the sentences given.
        options: other texts, by option; None: not given.
        remedy: what to do about undecodable bytes, for the message.

    Raises:
        UserError: one has undecodable bytes.
    """
    texts = {f"sentence {number}": text for number, text in enumerate(sentences, 1)}
    for name, text in (texts | dict(options)).items():
        if any("\ud800" <= character <= "\udfff" for character in text or ""):
            raise UserError(f"{name} is not {sys.getfilesystemencoding().upper()}: {remedy}")


def add_sampling(parser: argparse._ActionsContainer) -> None:
    """Add ``--temperature``, ``--top-k``, ``--top-p`` and ``--seed``: see `check_sampling`."""
    parser.add_argument("--temperature", type=positive_float, default=1.0, metavar="T")
    parser.add_argument(
        "--top-k", type=positive_int, metavar="K", help="sample from the K most probable tokens"
    )
    parser.add_argument(
        "--top-p",
        type=fraction,
        default=1.0,
        metavar="P",
        help="sample from the tokens that make up P",
    )
    parser.add_argument("--seed", type=non_negative_int, help="(1)")


def check_sampling(
    arguments: argparse.Namespace, *, is_sampling: bool, required: str, uses_seed: bool = False
) -> None:
    """Check that sampling options are given only with sampling; set ``--seed``.

    Args:
        arguments: parsed arguments, those of `add_sampling` included.
        is_sampling: whether the command samples.
        required: the options that select sampling, for the message.
        uses_seed: whether something else is drawn by the seed.

    Raises:
        UserError: a sampling option has no effect.
    """
    has_options = arguments.temperature != 1 or arguments.top_k or arguments.top_p < 1
    if has_options and not is_sampling:
        raise UserError(f"--temperature, --top-k and --top-p need {required}")
    if arguments.seed is not None and not (is_sampling or uses_seed):
        raise UserError(f"--seed {arguments.seed} needs {required}: nothing is drawn")
    arguments.seed = 1 if arguments.seed is None else arguments.seed


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the engine arguments of `nmt.inference.translator.Translator.load`."""

    def log(line: str) -> None:
        if arguments.verbose:
            print(line, file=sys.stderr)

    options = {name: getattr(arguments, name) for name in ("engine", "quantization", "whole")}
    return options | {"log": log}


def encoding(text: str) -> str:
    """Parse the name of a text encoding."""
    if not is_text_encoding(text):
        message = f"unknown encoding {text!r}: give a name such as utf-8, latin-1 or utf-16"
        raise argparse.ArgumentTypeError(message)
    return text


def _number(
    parse: Callable[[str], float], is_valid: Callable[[Any], bool], rule: str
) -> Callable[[str], Any]:
    """Return an argument type: a number that obeys a rule."""

    def convert(text: str) -> float:
        try:
            value = parse(text)
        except ValueError:
            value = math.nan
        if not is_valid(value):
            raise argparse.ArgumentTypeError(f"must be {rule}, got {text}")
        return value

    return convert


positive_int = _number(int, lambda value: value >= 1, "an integer of at least 1")
non_negative_int = _number(int, lambda value: value >= 0, "an integer of at least 0")
non_negative_float = _number(float, lambda value: 0 <= value < math.inf, "at least 0")
positive_float = _number(float, lambda value: 0 < value < math.inf, "above 0")
fraction = _number(float, lambda value: 0 < value <= 1, "above 0 and at most 1")
percentage = _number(float, lambda value: 0 < value <= 100, "above 0 and at most 100")
