"""Score a run: ``python -m nmt.evaluate [--run RUN]`` on its test split or on any pair of files."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from nmt.arguments import (
    Parser,
    add_beam,
    add_engine,
    add_pairs,
    add_runs,
    add_unit,
    check_pairs,
    check_unit,
    engine_options,
    non_negative_int,
    positive_int,
    run_folders,
)
from nmt.data.splitting import check_split
from nmt.errors import UserError, exit_on_user_error
from nmt.inference.text_files import check_not_input, check_outputs
from nmt.runs.folder import RunFolder
from nmt.startup.commands import set_up_translation
from nmt.startup.console import make_console
from nmt.startup.quiet import quiet_start

if TYPE_CHECKING:
    from nmt.data.splitting import Pair
    from nmt.inference.metrics import References
    from nmt.inference.translator import Translator


class _TestSet(NamedTuple):
    """Pairs to score on."""

    name: str  # for file names
    pairs: Sequence[Pair]
    groups: Sequence[str] = ()  # of each pair; empty: not asked for
    more_references: References = ()  # besides the targets of the pairs


def make_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = Parser(
        prog="python -m nmt.evaluate",
        description="BLEU, chrF2++ and TER with 95% confidence intervals, by sacreBLEU; or the "
        "probability of given translations.",
    )
    add_runs(parser)
    add_engine(parser)
    add_unit(parser, "line, so that the text of a pair is one segment")
    _add_data(parser)
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="RUN_B",
        help="test the differences from another run, by paired approximate randomization",
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
        help="score the references without translating (forced decoding)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="JSON file of the results (default: in the run's folder, named after data and search)",
    )
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    data = parser.add_argument_group("data")
    add_pairs(
        data,
        "score on",
        nargs="+",
        metavar="FILE",
        help="... with its translations, line by line; several files: all of them are references",
    )
    data.add_argument(
        "--all-references",
        action="store_true",
        help="translate a source that has several translations once, and score it against all",
    )
    data.add_argument(
        "--join",
        type=positive_int,
        default=1,
        metavar="N",
        help="score on texts of N sentences each",
    )
    data.add_argument(
        "--by-group",
        nargs="?",
        const=True,
        type=Path,
        metavar="FILE",
        help="also score each document or speaker: of the group_column of the run's data, or with "
        "--source, of FILE, an id a line",
    )


def check(arguments: argparse.Namespace) -> None:
    """Check the command line before any work.

    Raises:
        UserError: two options contradict each other.
    """
    check_pairs(arguments)
    references = arguments.reference or ()
    has_several = len(references) > 1
    if (has_several or arguments.all_references) and (arguments.join > 1 or arguments.score):
        raise UserError("--join and --score take one reference per source: leave the others out")
    if has_several and arguments.all_references:
        raise UserError("--all-references needs a single file of --reference")
    if arguments.by_group and (arguments.join > 1 or arguments.score):
        raise UserError("--by-group scores translated sentences: leave --join and --score out")
    if arguments.by_group and (arguments.by_group is True) != (arguments.source is None):
        raise UserError("--by-group needs FILE with --source, and none with a split of the run")
    check_unit(arguments)
    has_search = arguments.beam is not None or arguments.length_penalty is not None
    if arguments.score and (arguments.compare or arguments.worst or has_search or arguments.unit):
        raise UserError(
            "--score translates nothing: leave --compare, --worst, --beam, --length-penalty and "
            "--unit out"
        )
    groups_file = None if arguments.by_group is True else arguments.by_group
    check_not_input(arguments.output, arguments.source, *references, groups_file)
    check_outputs({"--output": arguments.output})


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Score the pairs that the command line names, and write the results."""
    check(arguments)
    folders = [RunFolder.open(path) for path in run_folders(arguments)]
    folder = folders[0]
    if arguments.source is None:
        check_split(arguments.split, folder.config.data.tests)
    other = None if arguments.compare is None else RunFolder.open(arguments.compare)
    # Heavy imports, after the arguments are checked.
    with quiet_start():
        from nmt.files import write_json
        from nmt.inference.evaluation import name_apart
        from nmt.inference.translator import Translator
    data = _read_pairs(arguments, folder, console)
    unit = arguments.unit or "line"
    translator = Translator.load(folders, unit=unit, **engine_options(arguments))
    content: dict[str, Any] = {
        "scored": _locate(arguments.source) if arguments.source else f"{arguments.split} split",
        "references": list(map(_locate, arguments.reference or ())),
    }
    if arguments.score:
        from nmt.inference.perplexity import score_with_progress
        from nmt.inference.printing import print_scores

        name = f"scores_{data.name}"
        scored = score_with_progress(translator, data.pairs, console)
        print_scores(scored, console)
        content |= scored.as_json()
    else:
        from nmt.inference.evaluation import name_search

        console.print(describe_unit(unit, translator.decoding.unit))
        content["unit"] = unit
        search = _search_options(arguments)
        name = f"evaluation_{data.name}_{name_search(translator.decoding, **search)}"
        content |= _evaluate(arguments, translator, data, folder, other, console)
    if arguments.join > 1:
        name += f"_joined_{arguments.join}"
    name += "_all_references" if arguments.all_references else ""
    name += "_by_group" if data.groups else ""
    name += "_by_sentence" if unit == "sentence" else ""
    name += "_whole" if arguments.whole else ""
    name += f"_with_{len(folders) - 1}_more" if len(folders) > 1 else ""
    name += f"_{arguments.quantization}" if arguments.quantization else ""
    if arguments.output is None:
        path = folder.write_json(name_apart(folder.path, name, data.name, content), content)
    else:
        path = arguments.output
        write_json(path, content)
    console.print(f"written to {path}")


def _locate(path: Path) -> str:
    return str(path.resolve())


def _read_pairs(arguments: argparse.Namespace, folder: RunFolder, console: Console) -> _TestSet:
    """Read what the command line names."""
    from nmt.config.data import list_tags
    from nmt.data.contexts import add_contexts_to_pairs
    from nmt.data.evaluation_sets import gather_references, join_pairs
    from nmt.runs.corpus import read_corpus

    groups: Sequence[str] = ()
    more_references: References = ()
    if arguments.source is not None:
        name, pairs, groups, more_references = _read_files(arguments)
    else:
        name = f"split_{arguments.split}"
        try:
            corpus = read_corpus(folder, console.print)
        except UserError as error:
            raise UserError(
                f"the corpus of {folder.path} cannot be read ({error}); restore it, or score files "
                "with --source and --reference"
            ) from error
        pairs = corpus.scored_pairs(arguments.split)
        if arguments.by_group:
            groups = corpus.groups.get(arguments.split, ())
            if not any(groups):
                raise UserError(
                    f"--by-group: no pair of {arguments.split} has a group, as no source of "
                    f"{folder.path} has a group_column: give --source, --reference and --by-group "
                    "FILE"
                )
    if arguments.join > 1:
        return _TestSet(name, join_pairs(pairs, arguments.join, list_tags(folder.config.data)))
    if arguments.source is not None:
        data = folder.config.data
        pairs = add_contexts_to_pairs(pairs, data.context, data.languages[0])
    if arguments.all_references:
        chosen, more_references = gather_references(pairs)
        pairs = [pairs[i] for i in chosen]
        groups = [groups[i] for i in chosen] if groups else ()
    return _TestSet(name, pairs, groups, more_references)


def _read_files(arguments: argparse.Namespace) -> _TestSet:
    """Read the files of ``--source``, ``--reference`` and ``--by-group``."""
    from nmt.data.evaluation_sets import read_groups, read_parallel

    source, encoding = arguments.source, arguments.encoding
    pairs, *others = (read_parallel(source, file, encoding) for file in arguments.reference)
    groups = read_groups(arguments.by_group, source, encoding) if arguments.by_group else ()
    more_references = [[pair.target or None for pair in each] for each in others]
    name = f"file_{source.stem}" + (f"_{1 + len(others)}_references" if others else "")
    return _TestSet(name, pairs, groups, more_references)


def describe_unit(unit: str, default: str) -> str:
    """Return a line that names the unit, and the one of `nmt.translate` if that differs.

    Args:
        unit: the unit that is scored.
        default: the run's ``decoding.unit``.
    """
    line = f"unit: {unit}"
    if unit != default:
        line += f" (nmt.translate translates by {default}; --unit {default} scores that)"
    return line


def _search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"beam_size": arguments.beam, "length_penalty": arguments.length_penalty}


def _evaluate(
    arguments: argparse.Namespace,
    translator: Translator,
    data: _TestSet,
    folder: RunFolder,
    other: RunFolder | None,
    console: Console,
) -> dict[str, Any]:
    """Evaluate and perhaps compare, print the results, and return them as JSON."""
    from nmt.data.evaluation_sets import group_by_target_language
    from nmt.inference.evaluation import compare, evaluate
    from nmt.inference.printing import print_comparison, print_evaluation, print_worst

    by_language = group_by_target_language(folder.config.data, [pair.source for pair in data.pairs])
    options: dict[str, Any] = {
        "language": next(iter(by_language)),
        "more_references": data.more_references,
        **_search_options(arguments),
    }
    inputs = other and _load_other(arguments, folder, other, translator, data.pairs)
    evaluation = replace(
        evaluate(translator, data.pairs, console, **options),
        groups=data.groups,
        indices_by_language=by_language,
    )
    title = f"{folder.path.name}, {arguments.source or arguments.split}"
    print_evaluation(title, evaluation, console)
    print_worst(evaluation, arguments.worst, console)
    content = evaluation.as_json()
    if other and inputs:
        other_evaluation = evaluate(*inputs, console, **options)
        comparison = compare(folder.path.name, evaluation, other.path.name, other_evaluation)
        print_comparison(comparison, console)
        content |= comparison.as_json()
    return content


def _load_other(
    arguments: argparse.Namespace,
    folder: RunFolder,
    other: RunFolder,
    translator: Translator,
    pairs: Sequence[Pair],
) -> tuple[Translator, Sequence[Pair]]:
    """Load the run of ``--compare``; return it with the pairs as it reads them.

    Raises:
        UserError: it has no weights, reads contexts that the pairs do not have, or does not know a
            tag of theirs.
    """
    from nmt.data.contexts import remove_contexts
    from nmt.inference.translator import Translator
    from nmt.text.context import split_tag

    if arguments.source is None and _has_other_splits(other, folder):
        warnings.warn(
            f"{other.path} has other data: if it was trained on sentences of this split, its "
            "scores are too high; compare on sentences that are new to both, with --source and "
            "--reference",
            stacklevel=1,
        )
    unit = translator.segmenter.unit
    other_translator = Translator.load(other, unit=unit, **engine_options(arguments))
    tags, context = translator.segmenter.tags, translator.segmenter.context
    other_context = other_translator.segmenter.context
    if other_context > context:
        raise UserError(
            f"{other.path} reads the sentences before each ({other_context}), and the first run "
            f"reads {context}: give it as --run, and the other as --compare"
        )
    unknown = {split_tag(pair.source, tags)[0].strip() for pair in pairs}
    unknown -= {"", *other_translator.segmenter.tags}
    if unknown:
        raise UserError(
            f"{other.path} does not know {min(unknown)}, with which sources begin: compare both on "
            "files without tags, with --source and --reference"
        )
    if context and not other_context:
        pairs = remove_contexts(pairs, tags)
    return other_translator, pairs


def _has_other_splits(first: RunFolder, second: RunFolder) -> bool:
    """Whether two runs may have other sentences in their splits."""
    keys = ("sources", "prepared", "dev", "test", "split_seed", "reverse")
    data = first.config.data, second.config.data
    return any(getattr(data[0], key) != getattr(data[1], key) for key in keys)


def main() -> None:
    """Run the command line."""
    set_up_translation()
    arguments = make_parser().parse_args()
    console = make_console()
    exit_on_user_error(lambda: run(arguments, console))


if __name__ == "__main__":
    main()
