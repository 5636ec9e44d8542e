"""Export a run: ``python -m nmt.export --format savedmodel``, or another format to deploy."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from nmt.arguments import Parser, add_beam, add_run
from nmt.errors import UserError, exit_on_user_error, read_backend
from nmt.formats.folder import check_output
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation
from nmt.startup.console import make_console
from nmt.startup.quiet import quiet_start

FORMATS = ("savedmodel", "ctranslate2", "tflite", "keras", "transformers")
_TENSORFLOW_FORMATS = ("savedmodel", "tflite")
_QUANTIZED_FORMATS = ("ctranslate2", "tflite")
_MISMATCH_STATUS = 1


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.export",
        description="Write a run in a deployable format, and check that it translates as the run.",
    )
    parser.add_argument("--format", required=True, choices=FORMATS)
    add_run(parser)
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="(exports/FORMAT in the run's folder)"
    )
    parser.add_argument(
        "--quantization",
        choices=("float32", "int8", "float16"),
        default="float32",
        help="of the weights; ctranslate2 and tflite only (%(default)s)",
    )
    add_beam(parser)
    return parser


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Export the run; return the exit status."""
    check(arguments)
    run_folder = RunFolder.open(arguments.run)
    is_quantized = arguments.quantization != "float32"
    name = arguments.format + (f"_{arguments.quantization}" if is_quantized else "")
    output = (arguments.output or run_folder.path / "exports" / name).absolute()
    check_output(output)
    # Heavy imports wait until the arguments are checked.
    with quiet_start():
        from nmt.formats.export import ExportMismatchError, export_run
    try:
        export_check = export_run(
            run_folder,
            output,
            arguments.format,
            quantization=arguments.quantization,
            beam_size=arguments.beam,
            length_penalty=arguments.length_penalty,
            log=console.print,
        )
    except ExportMismatchError as error:
        print(f"error: {error}", file=sys.stderr)
        return _MISMATCH_STATUS
    console.print(
        f"{export_check.equal} of {export_check.sentences} sample sentences are translated as the "
        "run does"
        if export_check.sentences
        else "no sample sentences: the export was not compared with the run"
    )
    console.print(f"written to {output}")
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check the arguments before anything is loaded.

    Raises:
        UserError: the format has no such quantization, or needs another backend.
    """
    if arguments.quantization != "float32" and arguments.format not in _QUANTIZED_FORMATS:
        formats = " or ".join(_QUANTIZED_FORMATS)
        raise UserError(f"--quantization {arguments.quantization} needs --format {formats}")
    backend = read_backend()
    if arguments.format in _TENSORFLOW_FORMATS and backend != "tensorflow":
        raise UserError(
            f"--format {arguments.format} needs TensorFlow: unset KERAS_BACKEND={backend}"
        )


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    console = make_console()
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
