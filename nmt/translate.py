"""Translate: ``python -m nmt.translate "¿Dónde está la biblioteca?"``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from nmt.data.corpus import clean_text
from nmt.errors import UserError, exit_on_user_error
from nmt.memory import collect_rarely
from nmt.quiet import quiet_start
from nmt.run import RunFolder

if TYPE_CHECKING:
    from nmt.inference.translator import Translation, Translator

_CHUNK = 1024  # lines translated together from a file or a pipe: memory stays constant


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nmt.translate",
        description="Translate sentences: arguments, a file, or standard input. One output line "
        "per input line, in order.",
    )
    parser.add_argument("sentences", nargs="*", help="none: read standard input")
    parser.add_argument("--file", type=Path, metavar="FILE", help="translate the lines of a file")
    parser.add_argument("--run", type=Path, default=Path("runs/latest"), help="(%(default)s)")
    parser.add_argument("--beam", type=_positive, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument(
        "--length-penalty", type=_not_negative, metavar="A", help="0 favours short translations"
    )
    parser.add_argument(
        "--nbest", type=_positive, metavar="N", help="print N translations per sentence"
    )
    parser.add_argument(
        "--scores", action="store_true", help="print score and log-probability before the text"
    )
    parser.add_argument(
        "--attention",
        type=Path,
        metavar="OUT",
        help="draw cross-attention: OUT.png (or .svg, .pdf) for one sentence and the last layer, "
        "or a folder for every sentence, kind and layer",
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0")
    return value


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Group lines."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def decoded(lines: Iterable[bytes]) -> Iterator[str]:
    """Decode lines, split at line feeds only, whatever bytes they hold."""
    for line in lines:
        yield line.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


def formatted(candidates: Sequence[Translation], nbest: int, scores: bool) -> list[str]:
    """Return the output lines of one sentence; an empty sentence still has one."""
    if not candidates:
        return [""] if not scores else ["0.0000\t0.0000\t"]
    return [
        f"{candidate.score:.4f}\t{candidate.log_prob:.4f}\t{candidate.text}"
        if scores
        else candidate.text
        for candidate in candidates[:nbest]
    ]


def run(arguments: argparse.Namespace) -> None:
    """Translate what the command line names."""
    if arguments.file and arguments.sentences:
        raise UserError("give sentences or --file, not both")
    if arguments.file and not arguments.file.is_file():
        raise UserError(f"there is no file {arguments.file}")
    if arguments.attention:
        check_pictures(arguments.attention, arguments.sentences)
    folder = RunFolder.open(arguments.run)
    nbest = arguments.nbest or 1
    beam = arguments.beam or max(folder.config.decoding.beam_size, nbest)
    if beam < nbest:
        raise UserError(f"--nbest {nbest} needs a beam of at least {nbest}: --beam {nbest}")
    with quiet_start():
        from nmt.inference.translator import Translator

        translator = Translator.load(folder.path)

    def translate(lines: list[str]) -> list[list[Translation]]:
        found = translator.hypotheses(
            lines, beam_size=beam, length_penalty=arguments.length_penalty
        )
        for candidates in found:
            print("\n".join(formatted(candidates, nbest, arguments.scores)), flush=True)
        return found

    if arguments.sentences:
        found = translate(arguments.sentences)
        if arguments.attention:
            best = [candidates[0] if candidates else None for candidates in found]
            draw(translator, arguments.sentences, best, arguments.attention)
        return
    if arguments.file:
        translate_file(arguments.file, translate)
    elif sys.stdin.isatty():
        for line in sys.stdin:
            translate([line.rstrip("\n")])
    else:
        for chunk in chunks(decoded(sys.stdin.buffer), _CHUNK):
            translate(chunk)


def translate_file(path: Path, translate: Callable[[list[str]], object]) -> None:
    """Translate a file chunk by chunk, with a progress bar where standard output is elsewhere."""
    console = Console(stderr=True)
    shown = console.is_terminal and not sys.stdout.isatty()
    with path.open("rb") as file, Progress(console=console, disable=not shown) as progress:
        task = progress.add_task("translating", total=path.stat().st_size)
        for chunk in chunks(decoded(file), _CHUNK):
            translate(chunk)
            progress.update(task, completed=file.tell())


def check_pictures(out: Path, sentences: Sequence[str]) -> None:
    """Check before any work that every sentence can have its picture.

    Raises:
        UserError: there are no sentences, or an empty one, or several are to go into one picture,
            or the picture's format is unknown.
    """
    from nmt.inspection.heatmaps import check_suffix

    if not sentences:
        raise UserError("--attention needs its sentences as arguments")
    if out.suffix:
        check_suffix(out)
        if len(sentences) > 1:
            raise UserError(f"{out} holds one sentence; for {len(sentences)} name a folder")
    for number, sentence in enumerate(sentences, start=1):
        if not clean_text(sentence):
            raise UserError(f"sentence {number} is empty: there is nothing to draw")


def draw(
    translator: Translator,
    sentences: Sequence[str],
    translations: Sequence[Translation | None],
    out: Path,
) -> None:
    """Draw attention into one picture, or into a folder if ``out`` has no suffix.

    Raises:
        UserError: a sentence is too long to be drawn.
    """
    from nmt.inspection.heatmaps import attention_figure, save_figure
    from nmt.inspection.views import VIEWS, labelled

    for number, (sentence, translation) in enumerate(
        zip(sentences, translations, strict=True), start=1
    ):
        attention = None if translation is None else translator.attention(sentence, translation)
        if attention is None:
            raise UserError(f"sentence {number} is too long to be drawn")
        for view in VIEWS:
            layers = getattr(attention, view.kind)
            for layer, weights in enumerate(layers, start=1):
                path = out / f"sentence_{number}_{view.name}_layer_{layer}.png"
                if out.suffix:
                    if view.kind != "cross" or layer < len(layers):
                        continue
                    path = out
                figure = attention_figure(
                    weights, **labelled(attention, view), title=f"{view.title}, layer {layer}"
                )
                save_figure(figure, path)
                print(path, file=sys.stderr)


def main() -> None:
    """Run the command line."""
    collect_rarely()
    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    arguments = parser().parse_args()
    exit_on_user_error(lambda: run(arguments))


if __name__ == "__main__":
    main()
