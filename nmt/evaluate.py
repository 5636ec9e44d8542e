"""Score a run: ``python -m nmt.evaluate [--run RUN]`` on its test split or on any pair of files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.arguments import (
    Parser,
    add_beam,
    add_encoding,
    add_engine,
    add_runs,
    engine_options,
    non_negative_int,
    positive_int,
    run_folders,
)
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.lines import refuse_same_file
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:
    from nmt.inference.evaluation import Comparison, Evaluation, Forced


_NAMED = 10  # pairs that are too long, at most, in a message


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.evaluate",
        description="BLEU, chrF2++ and TER with 95%% confidence intervals, by sacreBLEU; or the "
        "probability of given translations.",
    )
    add_runs(parser)
    add_engine(parser)
    parser.add_argument(
        "--split", default="test", help="test, dev or one of data.tests (%(default)s)"
    )
    parser.add_argument("--source", type=Path, help="score on this file instead of a split ...")
    parser.add_argument("--reference", type=Path, help="... with its translations, line by line")
    add_encoding(parser)
    parser.add_argument(
        "--join",
        type=positive_int,
        default=1,
        metavar="N",
        help="score on texts of N sentences each",
    )
    parser.add_argument(
        "--compare", type=Path, metavar="RUN_B", help="paired bootstrap against another run"
    )
    add_beam(parser)
    parser.add_argument(
        "--worst",
        type=non_negative_int,
        default=0,
        metavar="N",
        help="show the N worst sentences, by chrF2++",
    )
    parser.add_argument(
        "--score",
        action="store_true",
        help="translate nothing: say how probable the model finds the references (forced decoding)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="where the JSON goes (default: in the run's folder, under a name that tells what was "
        "scored and how)",
    )
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Check what the command line says against itself, before any work.

    Raises:
        UserError: two options contradict each other.
    """
    if (arguments.source is None) != (arguments.reference is None):
        raise UserError("--source and --reference go together")
    if arguments.encoding and arguments.source is None:
        raise UserError("--encoding is that of --source and --reference: give them too")
    searched = arguments.beam is not None or arguments.length_penalty is not None
    if arguments.score and (arguments.compare or arguments.worst or searched):
        raise UserError(
            "--score translates nothing: leave --compare, --worst, --beam and --length-penalty out"
        )
    refuse_same_file(arguments.output, arguments.source, arguments.reference)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Score what the command line names."""
    check(arguments)
    runs = run_folders(arguments)
    folder = RunFolder.open(runs[0])
    other = None if arguments.compare is None else RunFolder.open(arguments.compare)
    # Heavy imports wait until the arguments are known to be right.
    with quiet_start():
        from nmt.data.evaluation_sets import join_pairs, read_parallel
        from nmt.files import write_json
        from nmt.inference.evaluation import compare, evaluate, force, name_of
        from nmt.inference.translator import Translator
        from nmt.runs.corpus import read_corpus
    if arguments.source is not None:
        what = f"file_{arguments.source.stem}"
        pairs = read_parallel(arguments.source, arguments.reference, arguments.encoding)
    else:
        what = f"split_{arguments.split}"
        pairs = read_corpus(folder, console.print).scored_pairs(arguments.split)
    how = ""
    if arguments.join > 1:
        pairs, how = join_pairs(pairs, arguments.join), f"_joined_{arguments.join}"
    engine = engine_options(arguments)
    translator = Translator.load(runs if runs[1:] else folder.path, **engine)
    how += "_whole" if arguments.whole else ""
    how += f"_with_{len(runs) - 1}_more" if len(runs) > 1 else ""
    search = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
    language = folder.config.data.languages[1]
    content: dict[str, Any] = {"scored": str(arguments.source or f"{arguments.split} split")}
    if arguments.score:
        name = f"scores_{what}{how}.json"
        forced = force(translator, pairs, console)
        print_forced(forced, console)
        content |= forced.as_json()
    else:
        name = f"evaluation_{what}_{name_of(translator.decoding, **search)}{how}.json"
        found = evaluate(translator, pairs, console, language=language, **search)
        print_evaluation(
            f"{folder.path.name}, {arguments.source or arguments.split}", found, console
        )
        print_worst(found, arguments.worst, console)
        content |= found.as_json()
        if other is not None:
            translator = Translator.load(other.path, **engine)
            theirs = evaluate(translator, pairs, console, language=language, **search)
            compared = compare(folder.path.name, found, other.path.name, theirs)
            print_comparison(compared, console)
            content |= compared.as_json()
    if arguments.output is None:
        path = folder.write_json(name, content)
    else:
        path = arguments.output
        write_json(path, content)
    console.print(f"written to {path}")


def print_evaluation(title: str, found: Evaluation, console: Console) -> None:
    """Print scores, and those of short and long sentences apart."""
    console.print(f"{title}, {len(found.pairs):,} sentences:")
    console.print("\n".join(found.lines()))
    for part in found.by_length:
        scores = "  ".join(f"{score.name} {score.value:6.2f}" for score in part.scores)
        console.print(f"{part.words:>8} words, {part.sentences:6,} sentences: {scores}")


def print_worst(found: Evaluation, wanted: int, console: Console) -> None:
    """Print the sentences with the lowest chrF2++."""
    for sentence in found.worst(wanted):
        console.print(
            f"chrF2++ {sentence.score:.1f}\n  source     {sentence.source}\n"
            f"  reference  {sentence.reference}\n  output     {sentence.output}"
        )


def print_comparison(compared: Comparison, console: Console) -> None:
    """Print the other run's scores, and what the paired bootstrap makes of the difference."""
    console.print(f"{compared.other}:")
    console.print("\n".join(compared.theirs.lines()))
    console.print(f"{compared.run} against {compared.other}, paired bootstrap:")
    for name, difference in compared.differences.items():
        console.print(f"{name:8}{difference.value:+6.2f}   p = {difference.p_value:.4f}")


def print_forced(forced: Forced, console: Console) -> None:
    """Print how probable each target is, and the perplexity of all."""
    for pair, score in zip(forced.pairs, forced.scores, strict=True):
        numbers = ("-", "-")
        if score is not None:
            per_piece = score.log_prob / len(score.pieces)
            numbers = (f"{score.log_prob:.4f}", f"{per_piece:.4f}")
        # The console itself would expand tabs.
        print(*numbers, pair.source, pair.target, sep="\t", file=console.file)
    too_long = forced.too_long
    if too_long:
        named = ", ".join(map(str, too_long[:_NAMED])) + (", …" if too_long[_NAMED:] else "")
        console.print(
            f"{len(too_long):,} pairs are longer than the model has positions for, and not scored: "
            f"{named}"
        )
    of_all = forced.perplexity
    console.print(
        f"{len(forced.pairs) - len(too_long):,} pairs, "
        f"{of_all.pieces:,} target pieces (end marks included): "
        f"{of_all.nats_per_piece:.4f} nats and perplexity {of_all.per_piece:.3f} per piece, "
        f"perplexity {of_all.per_word:.3f} per word"
    )


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
