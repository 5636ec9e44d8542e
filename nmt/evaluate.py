"""Score a run: ``python -m nmt.evaluate [--run RUN]`` on its test split or on any pair of files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.arguments import add_run
from nmt.data.corpus import Pair, read_parallel
from nmt.errors import UserError, exit_on_user_error
from nmt.quiet import quiet_start
from nmt.run import RunFolder, write_json
from nmt.startup import start_translating

if TYPE_CHECKING:
    from nmt.inference.translator import Translator


def parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m nmt.evaluate",
        description="BLEU, chrF2++ and TER with 95%% confidence intervals, by sacreBLEU; or the "
        "probability of given translations.",
    )
    add_run(parser)
    parser.add_argument("--split", choices=("test", "dev"), default="test")
    parser.add_argument("--source", type=Path, help="score on this file instead of a split ...")
    parser.add_argument("--reference", type=Path, help="... with its translations, line by line")
    parser.add_argument(
        "--compare", type=Path, metavar="RUN_B", help="paired bootstrap against another run"
    )
    parser.add_argument("--beam", type=int, metavar="N", help="beam size; 1 is greedy")
    parser.add_argument("--length-penalty", type=float, metavar="A")
    parser.add_argument(
        "--worst", type=int, default=0, metavar="N", help="show the N worst sentences, by chrF2++"
    )
    parser.add_argument(
        "--score",
        action="store_true",
        help="translate nothing: say how probable the model finds the references (forced decoding)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="where the JSON goes (default: evaluation_<what>.json in the run's folder)",
    )
    return parser


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Score what the command line names."""
    if (arguments.source is None) != (arguments.reference is None):
        raise UserError("--source and --reference go together")
    if arguments.beam is not None and arguments.beam < 1:
        raise UserError(f"--beam {arguments.beam} is not at least 1")
    if arguments.score and (arguments.compare or arguments.worst or arguments.beam):
        raise UserError("--score translates nothing: leave --compare, --worst and --beam out")
    if arguments.worst < 0:
        raise UserError(f"--worst {arguments.worst} is not at least 0")
    folder = RunFolder.open(arguments.run)
    other = None if arguments.compare is None else RunFolder.open(arguments.compare)
    pairs = None
    if arguments.source is not None:
        pairs = read_parallel(arguments.source, arguments.reference)
    # Heavy imports wait until the arguments are known to be right.
    with quiet_start():
        from nmt import prepare
        from nmt.inference.evaluation import evaluate
        from nmt.inference.metrics import paired_bootstrap
        from nmt.inference.translator import Translator

        translator = Translator.load(folder.path)
    what = arguments.split if arguments.source is None else arguments.source.stem
    if pairs is None:
        pairs = getattr(prepare.corpus_of_run(folder, console), arguments.split)
    if arguments.score:
        path = arguments.output or folder.path / f"scores_{what}.json"
        write_json(path, scored(translator, pairs, console))
        console.print(f"written to {path}")
        return
    search = {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}
    found = evaluate(translator, pairs, console, **search)
    console.print(f"{folder.path.name}, {what}, {len(pairs):,} sentences:")
    console.print("\n".join(found.lines()))
    content = found.as_json()
    for part in content["by_length"]:
        scores = "  ".join(f"{name} {part[name]:6.2f}" for name in ("BLEU", "chrF2++"))
        console.print(f"{part['words']:>8} words, {part['sentences']:6,} sentences: {scores}")
    for sentence in found.worst(arguments.worst):
        console.print(
            f"chrF2++ {sentence.score:.1f}\n  source     {sentence.source}\n"
            f"  reference  {sentence.reference}\n  output     {sentence.output}"
        )

    if other is not None:
        theirs = evaluate(Translator.load(other.path), pairs, console, **search)
        console.print(f"{other.path.name}:")
        console.print("\n".join(theirs.lines()))
        references = [pair.target for pair in pairs]
        compared = paired_bootstrap(theirs.outputs, found.outputs, references)
        console.print(f"{folder.path.name} against {other.path.name}, paired bootstrap:")
        content["compared_with"] = other.path.name
        content["compared"] = {}
        for name, (baseline, system, p_value) in compared.items():
            difference = system.value - baseline.value
            console.print(f"{name:8}{difference:+6.2f}   p = {p_value:.4f}")
            content["compared"][name] = {"difference": difference, "p_value": p_value}
    path = arguments.output or folder.path / f"evaluation_{what}.json"
    write_json(path, content)
    console.print(f"written to {path}")


def scored(translator: Translator, pairs: Sequence[Pair], console: Console) -> dict[str, Any]:
    """Print how probable each target is, and the perplexity of all; return it with every piece."""
    from nmt.inference.evaluation import force_with_progress, perplexity

    found = force_with_progress(translator, pairs, console)
    for pair, score in zip(pairs, found, strict=True):
        per_piece = score.log_prob / len(score.pieces)
        row = f"{score.log_prob:.4f}\t{per_piece:.4f}\t{pair.source}\t{pair.target}"
        print(row, file=console.file)  # the console itself would expand tabs
    of_all = perplexity(found)
    console.print(
        f"{len(pairs):,} pairs, {of_all.pieces:,} target pieces (end marks included): "
        f"{of_all.nats_per_piece:.4f} nats and perplexity {of_all.per_piece:.3f} per piece, "
        f"perplexity {of_all.per_word:.3f} per word"
    )
    return {
        "perplexity": asdict(of_all),
        "pairs": [
            {"source": pair.source, "target": pair.target, "log_prob": score.log_prob}
            | {"pieces": score.pieces, "log_probs": score.log_probs}
            for pair, score in zip(pairs, found, strict=True)
        ],
    }


def main() -> None:
    """Run the command line."""
    start_translating()
    arguments = parser().parse_args()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
