"""Translate: ``python -m nmt.translate "¿Dónde está la biblioteca?"``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nmt.arguments import above_zero, add_run, not_negative, positive, share
from nmt.errors import UserError, exit_on_user_error
from nmt.quiet import quiet_start
from nmt.run import RunFolder
from nmt.startup import start_translating

if TYPE_CHECKING:
    from nmt.inference.translator import Translation, Translator

ENGINES = ("keras", "ctranslate2", "ctranslate2_int8", "ctranslate2_float16")

_CHUNK = 1024  # lines translated together from a file or a pipe: memory stays constant


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nmt.translate",
        description="Translate sentences: arguments, a file, or standard input. One output line "
        "per input line, in order.",
    )
    parser.add_argument("sentences", nargs="*", help="none: read standard input")
    add_run(parser)
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="keras",
        help="what searches: the model itself, or an export of the run (%(default)s)",
    )
    files = parser.add_argument_group("files")
    files.add_argument("--file", type=Path, metavar="FILE", help="translate the lines of a file")
    files.add_argument(
        "--output", type=Path, metavar="FILE", help="write there, not to standard output"
    )
    files.add_argument(
        "--resume",
        action="store_true",
        help="go on behind the lines that --output holds from an interrupted run",
    )
    search = parser.add_argument_group("search")
    search.add_argument("--beam", type=positive, metavar="N", help="beam size; 1 is greedy")
    search.add_argument(
        "--length-penalty", type=not_negative, metavar="A", help="0 favours short translations"
    )
    search.add_argument(
        "--coverage-penalty",
        type=not_negative,
        default=0.0,
        metavar="B",
        help="above 0: against leaving out parts of the source (Wu et al. use 0.2)",
    )
    search.add_argument("--prefix", default="", help="what every translation begins with")
    search.add_argument(
        "--nbest", type=positive, default=1, metavar="N", help="print N translations per sentence"
    )
    search.add_argument(
        "--scores", action="store_true", help="print score and log-probability before the text"
    )
    drawing = parser.add_argument_group("sampling")
    drawing.add_argument(
        "--sample", action="store_true", help="draw --nbest translations instead of searching"
    )
    drawing.add_argument(
        "--mbr",
        type=positive,
        metavar="N",
        help="draw N translations and print those that agree best with the others, by chrF",
    )
    drawing.add_argument("--temperature", type=above_zero, default=1.0, metavar="T")
    drawing.add_argument(
        "--top-k", type=positive, metavar="K", help="draw from the K most probable pieces"
    )
    drawing.add_argument(
        "--top-p", type=share, default=1.0, metavar="P", help="... from those that make up P"
    )
    drawing.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument(
        "--attention",
        type=Path,
        metavar="OUT",
        help="show attention: OUT.html, interactive, with every sentence, kind, layer and head; "
        "OUT.png (or .svg, .pdf), cross-attention of one sentence in the last layer; or a folder "
        "for a picture of every sentence, kind and layer",
    )
    return parser


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


def formatted(candidates: Sequence[Translation], scores: bool) -> list[str]:
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
    if arguments.file and not arguments.file.is_file():
        raise UserError(f"there is no file {arguments.file}")
    if arguments.resume and not (arguments.file and arguments.output):
        raise UserError("--resume needs --file and --output")
    if arguments.resume and arguments.nbest > 1:
        raise UserError("--resume counts one line per sentence: leave --nbest out")
    if arguments.attention:
        from nmt.inspection import drawing

        drawing.check(arguments.attention, arguments.sentences)
    if arguments.sample and arguments.mbr:
        raise UserError("give --sample or --mbr, not both")
    if arguments.mbr and arguments.nbest > arguments.mbr:
        raise UserError(f"--nbest {arguments.nbest} needs as many samples: --mbr N")
    drawn = arguments.sample or arguments.mbr
    if drawn and (arguments.beam or arguments.coverage_penalty):
        raise UserError("--sample and --mbr draw, they do not search: leave --beam out")
    if arguments.engine != "keras" and (drawn or arguments.attention or arguments.coverage_penalty):
        raise UserError(
            f"--engine {arguments.engine} neither samples nor shows attention nor penalises "
            "missing coverage: leave it out"
        )
    altered = arguments.temperature != 1 or arguments.top_k or arguments.top_p < 1
    if altered and not drawn:
        raise UserError("--temperature, --top-k and --top-p need --sample or --mbr")


def run(arguments: argparse.Namespace) -> None:
    """Translate what the command line names."""
    check(arguments)
    folder = RunFolder.open(arguments.run)
    beam = arguments.beam or max(folder.config.decoding.beam_size, arguments.nbest)
    if beam < arguments.nbest:
        raise UserError(
            f"--nbest {arguments.nbest} needs a beam of at least {arguments.nbest}: "
            f"--beam {arguments.nbest}"
        )
    translator = loaded(folder, arguments.engine)

    def candidates(lines: list[str]) -> list[list[Translation]]:
        if not (arguments.sample or arguments.mbr):
            return translator.hypotheses(
                lines,
                beam_size=beam,
                length_penalty=arguments.length_penalty,
                coverage_penalty=arguments.coverage_penalty,
                n_best=arguments.nbest,
                prefix=arguments.prefix,
            )
        draw = translator.minimum_bayes_risk if arguments.mbr else translator.samples
        found = draw(
            lines,
            arguments.mbr or arguments.nbest,
            temperature=arguments.temperature,
            top_k=arguments.top_k or 0,
            top_p=arguments.top_p,
            seed=arguments.seed,
            prefix=arguments.prefix,
        )
        return [drawn[: arguments.nbest] for drawn in found]

    def translate(lines: list[str], out: TextIO) -> list[list[Translation]]:
        found = candidates(lines)
        for one in found:
            print("\n".join(formatted(one, arguments.scores)), file=out)
        out.flush()
        return found

    with opened(arguments.output, arguments.resume) as (out, done):
        if arguments.file:
            translate_file(
                arguments.file,
                done,
                lambda lines: translate(lines, out),
                shown=out is not sys.stdout or not sys.stdout.isatty(),
            )
        elif arguments.sentences:
            found = translate(arguments.sentences, out)
            if arguments.attention:
                best = [one[0] if one else None for one in found]
                show_attention(translator, arguments.sentences, best, arguments.attention)
        elif sys.stdin.isatty():
            for line in sys.stdin:
                translate([line.rstrip("\n")], out)
        else:
            for chunk in chunks(decoded(sys.stdin.buffer), _CHUNK):
                translate(chunk, out)


def loaded(folder: RunFolder, engine: str) -> Translator:
    """Load what translates.

    Raises:
        UserError: the run has no weights, or has not been exported for this engine.
    """
    if engine == "keras":
        with quiet_start():
            from nmt.inference.translator import Translator

            return Translator.load(folder.path)
    place = folder.path / "exports" / engine
    if not place.is_dir():
        name, _, quantization = engine.partition("_")
        more = f" --quantization {quantization}" if quantization else ""
        raise UserError(
            f"the run has no {place}; make it: python -m nmt.export --format {name}{more} "
            f"--run {folder.path}"
        )
    with quiet_start():
        from nmt.exporting.ctranslate2 import load

        return load(place)


@contextmanager
def opened(path: Path | None, resume: bool) -> Iterator[tuple[TextIO, int]]:
    """Open where translations go; yield it, and how many lines stand there already.

    Resuming cuts off a last line that was not finished.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        yield sys.stdout, 0
        return
    try:
        done = 0
        if resume and path.exists():
            whole = 0
            with path.open("rb+") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        done, whole = done + 1, whole + len(line)
                file.truncate(whole)
        out = path.open("a" if resume else "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    with out:
        yield out, done


def translate_file(
    path: Path, done: int, translate: Callable[[list[str]], object], *, shown: bool
) -> None:
    """Translate a file chunk by chunk, with a progress bar.

    Args:
        path: the file.
        done: lines at its beginning that are translated already.
        translate: translates and writes lines.
        shown: whether the bar is.

    Raises:
        UserError: the file has fewer lines than are said to be done.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[lines]:,} lines"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]} lines/s, left"),
        TimeRemainingColumn(),
    )
    hidden = not (shown and console.is_terminal)
    with (
        path.open("rb") as file,
        Progress(*columns, console=console, disable=hidden) as progress,
    ):
        for line in range(done):
            if not file.readline():
                raise UserError(
                    f"{path} has {line} lines, of which {done} are said to be translated: these "
                    "are not its translations"
                )
        begin = time.monotonic()
        lines = done
        task = progress.add_task(
            "", total=path.stat().st_size, completed=file.tell(), lines=lines, rate="–"
        )
        for chunk in chunks(decoded(file), _CHUNK):
            translate(chunk)
            lines += len(chunk)
            rate = f"{(lines - done) / (time.monotonic() - begin):,.0f}"
            progress.update(task, completed=file.tell(), lines=lines, rate=rate)


def show_attention(
    translator: Translator,
    sentences: Sequence[str],
    translations: Sequence[Translation | None],
    out: Path,
) -> None:
    """Draw attention, and name the files."""
    from nmt.inspection import drawing

    for path in drawing.draw(translator, sentences, translations, out):
        print(path, file=sys.stderr)


def main() -> None:
    """Run the command line."""
    start_translating()
    arguments = parser().parse_args()
    exit_on_user_error(lambda: run(arguments))


if __name__ == "__main__":
    main()
