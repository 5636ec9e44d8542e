"""Convert a MarianMT folder to a run: ``python -m nmt.convert opus-mt-es-en``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rich.console import Console

from nmt.arguments import Parser
from nmt.errors import exit_on_user_error
from nmt.startup.commands import warn_in_one_line
from nmt.startup.console import make_console
from nmt.startup.quiet import quiet_start


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.convert",
        description="Convert a MarianMT folder as published (config.json, model.safetensors or "
        "pytorch_model.bin, source.spm, target.spm, vocab.json) to a run, which translates, "
        "draws attention, is fine-tuned, served and exported like any other.",
    )
    parser.add_argument("folder", type=Path, help="MarianMT folder, such as OPUS-MT's")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="the run's folder (runs/NAME OF THE FOLDER)"
    )
    parser.add_argument(
        "--languages",
        type=languages,
        metavar="ES,EN",
        help="source and target, as BCP 47 tags (as the folder's tokenizer_config.json says)",
    )
    return parser


def languages(text: str) -> tuple[str, str]:
    """Parse ``es,en``."""
    match = re.fullmatch(r"([\w-]+),([\w-]+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a pair of languages such as es,en")
    return match[1], match[2]


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Convert the folder."""
    output = arguments.output or Path("runs") / arguments.folder.resolve().name
    with quiet_start():  # the backend is imported on the way
        from nmt.formats.marian.reading import convert

        run_folder = convert(arguments.folder, output, arguments.languages)
    console.print(f"written to {run_folder.path}")
    console.print(f'try it: python -m nmt.translate --run {output} "…"')


def main() -> None:
    """Run the command line."""
    warn_in_one_line()
    arguments = make_parser().parse_args()
    console = make_console()
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
