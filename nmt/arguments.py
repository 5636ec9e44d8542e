"""What command lines share: errors in one line, ``--run``, and types of arguments."""

from __future__ import annotations

import argparse
import codecs
import math
import sys
from pathlib import Path
from typing import Any, NoReturn

from nmt.config.decoding import ENGINES, QUANTIZATIONS
from nmt.errors import UserError, fail

Subcommands = Any  # what `add_subparsers` returns: argparse's own type is private


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, as all errors of a user are said."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        fail(UserError(f"{message}; {self.prog} --help says what there is"))


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add ``--run``, the run folder that a command works on."""
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add ``--run``, which may be repeated: several runs translate together."""
    parser.add_argument(
        "--run",
        type=Path,
        action="append",
        dest="runs",
        help="may be repeated: runs of one tokenizer translate together (runs/latest)",
    )


def run_folders(arguments: argparse.Namespace) -> list[Path]:
    """Return the run folders that the command line names; there is at least one."""
    return arguments.runs or [Path("runs/latest")]


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add what `engine_options` reads: what searches, in how long texts, and whether to say."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="what searches: ctranslate2, the model in C++; keras, the model itself, for all that "
        "the former does not give; auto, the fastest that gives what is asked (%(default)s)",
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        help="of ctranslate2 (default: the run's decoding.quantization)",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="translate texts in one go that are longer than any of training, not in parts",
    )
    parser.add_argument("--verbose", action="store_true", help="say which engine it is")


def add_beam(parser: argparse._ActionsContainer) -> None:
    """Add ``--beam`` and ``--length-penalty``."""
    parser.add_argument("--beam", type=positive_int, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument(
        "--length-penalty",
        type=non_negative_float,
        metavar="A",
        help="0 favours short translations",
    )


def add_encoding(parser: argparse._ActionsContainer) -> None:
    """Add ``--encoding``, that of the text files that a command reads."""
    parser.add_argument(
        "--encoding",
        type=encoding,
        metavar="NAME",
        help="of the text that is read: latin-1, cp1252, utf-16 or another of Python's (utf-8)",
    )


def add_sampling(parser: argparse._ActionsContainer) -> None:
    """Add what tells one draw from another: see `check_sampling`."""
    parser.add_argument("--temperature", type=positive_float, default=1.0, metavar="T")
    parser.add_argument(
        "--top-k", type=positive_int, metavar="K", help="draw from the K most probable pieces"
    )
    parser.add_argument(
        "--top-p", type=fraction, default=1.0, metavar="P", help="... from those that make up P"
    )
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")


def check_sampling(arguments: argparse.Namespace, *, drawn: bool, needed: str) -> None:
    """Check that a draw is described only where there is one.

    Args:
        arguments: with those of `add_sampling`.
        drawn: whether there is a draw.
        needed: the options that ask for one.

    Raises:
        UserError: it is described, and there is none.
    """
    altered = arguments.temperature != 1 or arguments.top_k or arguments.top_p < 1
    if altered and not drawn:
        raise UserError(f"--temperature, --top-k and --top-p need {needed}")


def engine_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what `nmt.inference.translator.Translator.load` takes, as the command line says it."""

    def log(line: str) -> None:
        if arguments.verbose:
            print(line, file=sys.stderr)

    chosen = {name: getattr(arguments, name) for name in ("engine", "quantization", "whole")}
    return chosen | {"log": log}


def encoding(text: str) -> str:
    """Read the name of a text encoding."""
    try:
        codecs.getincrementaldecoder(text)
        b"a".decode(text, "replace")  # refuses codecs that do not give text
    except (LookupError, ValueError) as error:
        message = f"unknown encoding {text!r}: give a name such as utf-8, latin-1 or utf-16"
        raise argparse.ArgumentTypeError(message) from error
    return text


def positive_int(text: str) -> int:
    """Read an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def non_negative_int(text: str) -> int:
    """Read an integer of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0")
    return value


def non_negative_float(text: str) -> float:
    """Read a finite number of at least 0."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0")
    return value


def positive_float(text: str) -> float:
    """Read a finite number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def fraction(text: str) -> float:
    """Read a number above 0 and at most 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value
