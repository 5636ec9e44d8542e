"""Export a run: ``python -m nmt.export --format savedmodel``, or another format to deploy."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.arguments import add_run
from nmt.errors import UserError, exit_on_user_error
from nmt.exporting.folder import MANIFEST_FILE, check_place, replacing
from nmt.quiet import quiet_start
from nmt.run import RunFolder, write_json
from nmt.startup import start_translating

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.exporting.manifest import Check
    from nmt.inference.translator import Translator
    from nmt.model.transformer import Transformer

FORMATS = ("savedmodel", "ctranslate2", "tflite", "keras")
_NEED_TENSORFLOW = ("savedmodel", "tflite")
_QUANTIZE = ("ctranslate2", "tflite")

_WRONG_STATUS = 1


class WrongExportError(Exception):
    """What was written translates otherwise than the run."""


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nmt.export",
        description="Write a run in a format to deploy, and check that it translates as the run.",
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
    parser.add_argument("--beam", type=int, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument("--length-penalty", type=float, metavar="A")
    return parser


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Export what the command line names."""
    check_arguments(arguments)
    folder = RunFolder.open(arguments.run)
    config = searching(folder.config, arguments)
    quantized = arguments.quantization != "float32"
    name = arguments.format + (f"_{arguments.quantization}" if quantized else "")
    place = (arguments.output or folder.path / "exports" / name).absolute()
    check_place(place)
    # Heavy imports wait until the arguments are known to be right.
    with quiet_start():
        from nmt.exporting import manifest
        from nmt.inference.engine import KerasEngine
        from nmt.inference.translator import Translator

        model, tokenizer = folder.load_model(), folder.load_tokenizer()
    longest = max(config.training.row_lengths)
    translator = Translator(KerasEngine(model), tokenizer, config.decoding, longest=longest)
    sources = manifest.samples(folder.samples, config.training.probes, tokenizer, longest)
    scores = {name: score["value"] for name, score in folder.test_scores().items()}
    with replacing(place) as partial:
        details, check = exported(arguments, model, translator, config, sources, partial)
        for difference in check.different:
            console.print(str(difference))
        if check.wrong and not quantized:
            raise WrongExportError(
                f"{len(check.wrong)} of {check.sentences} sample sentences, such as "
                f"'{check.wrong[0].source}', are not translated as the run does; nothing is kept"
            )
        content = manifest.content(
            partial, folder.path.name, config, tokenizer, scores, check, details
        )
        write_json(partial / MANIFEST_FILE, content)
    equal = check.sentences - len(check.different)
    console.print(f"{equal} of {check.sentences} sample sentences are translated as the run does")
    console.print(f"written to {place}")


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raise a `UserError` for what can be known before anything is loaded."""
    if arguments.beam is not None and arguments.beam < 1:
        raise UserError(f"--beam {arguments.beam} is not at least 1")
    if arguments.length_penalty is not None and not arguments.length_penalty >= 0:
        raise UserError(f"--length-penalty {arguments.length_penalty} is not at least 0")
    if arguments.quantization != "float32" and arguments.format not in _QUANTIZE:
        formats = " or ".join(_QUANTIZE)
        raise UserError(f"--quantization {arguments.quantization} needs --format {formats}")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if arguments.format in _NEED_TENSORFLOW and backend != "tensorflow":
        raise UserError(
            f"--format {arguments.format} needs TensorFlow: unset KERAS_BACKEND={backend}"
        )
    if arguments.format == "ctranslate2" and importlib.util.find_spec("ctranslate2") is None:
        raise UserError("--format ctranslate2 needs a package: pip install ctranslate2")


def searching(config: Config, arguments: argparse.Namespace) -> Config:
    """Return the configuration with the search that the command line asks for."""
    asked = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
    given = {key: value for key, value in asked.items() if value is not None}
    return dataclasses.replace(config, decoding=dataclasses.replace(config.decoding, **given))


def exported(
    arguments: argparse.Namespace,
    model: Transformer,
    translator: Translator,
    config: Config,
    sources: list[str],
    folder: Path,
) -> tuple[dict[str, Any], Check]:
    """Write the export, load it as a user does, and compare it with the run.

    Returns:
        (what the format adds to the manifest, the comparison of ``sources``).
    """
    from nmt.exporting.manifest import compare

    details: dict[str, Any] = {"format": arguments.format, "quantization": arguments.quantization}
    tokenizer, rescore = translator.tokenizer, None
    if arguments.format == "savedmodel":
        from nmt.exporting import savedmodel

        savedmodel.write(model, tokenizer, config.decoding, folder)
        details["signature"] = savedmodel.signature(config.model.max_length)
        found = savedmodel.translations(folder, sources)
    elif arguments.format == "ctranslate2":
        from nmt.exporting import ctranslate2

        ctranslate2.write(model, tokenizer, config, folder, arguments.quantization)
        loaded = ctranslate2.load(folder)
        rescore = ctranslate2.rescoring(loaded)
        found = best(loaded, sources)
    elif arguments.format == "tflite":
        from nmt.exporting import tflite

        positions = max(config.training.row_lengths)
        tflite.write(
            model,
            tokenizer,
            config.decoding,
            folder,
            positions=positions,
            quantization=arguments.quantization,
        )
        details["signature"] = tflite.signature(positions)
        found = tflite.translations(folder, sources)
    else:
        from nmt.exporting import keras_file

        keras_file.write(model, tokenizer, config, folder)
        found = best(keras_file.load(folder), sources)
    return details, compare(sources, best(translator, sources), found, rescore)


def best(translator: Translator, sources: list[str]) -> list[Any]:
    """Return the best translation of each source."""
    return [hypotheses[0] for hypotheses in translator.hypotheses(sources)]


def main() -> None:
    """Run the command line."""
    start_translating()
    arguments = parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)

    def command() -> int:
        try:
            run(arguments, console)
        except WrongExportError as error:
            print(f"error: {error}", file=sys.stderr)
            return _WRONG_STATUS
        return 0

    exit_on_user_error(command)


if __name__ == "__main__":
    main()
